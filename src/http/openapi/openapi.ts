/** The API's description, made from the route tables, and a page that shows it without reaching outside. */
import { Elysia } from "elysia";
import stylePath from "swagger-ui-dist/swagger-ui.css" with { type: "file" };
import bundlePath from "swagger-ui-dist/swagger-ui-bundle.js" with { type: "file" };
import { buildInfo } from "../../build-info.ts";
import type { ServedSurface } from "../../config/config.ts";
import { keyHeaders } from "../../protocols/credentials.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import { showAnonymousLimit } from "../authenticate.ts";
import { homeRoute } from "../home.ts";
import { opsRoutes } from "../ops.ts";
import { pageHeaders, textAnswer } from "../respond.ts";
import type { Route } from "../routes.ts";
import { basePath, surfaceRoutes } from "../surface-routes.ts";

const keySchemes = Object.fromEntries(
  keyHeaders.map((name) => [name, { type: "apiKey", in: "header", name, description: "The same key." }]),
);

const documentation = {
  // 3.1 takes the JSON Schemas as TypeBox writes them.
  openapi: "3.1.0",
  info: {
    title: "Troupe",
    version: buildInfo.version,
    description: "A chat-completion gateway and persona orchestrator. Any client of the chat-completions format works.",
    license: { name: "MIT", identifier: "MIT" },
  },
  servers: [{ url: "/" }],
  tags: [
    { name: "Orchestrator", description: "Personas, listed and called as models." },
    { name: "Gateway", description: "Providers' models, by provider/model." },
    { name: "Admin", description: "Keys, budgets and what was done to them. For keys that have the admin surface." },
    { name: "Operations", description: "Open to everyone." },
  ],
  components: {
    securitySchemes: {
      apiKey: { type: "http", scheme: "bearer", description: "An API key of this server: trp_…" },
      ...keySchemes,
    },
    schemas: {
      Error: {
        type: "object",
        required: ["error"],
        properties: {
          error: {
            type: "object",
            required: ["message", "type", "param", "code"],
            properties: {
              message: { type: "string", description: "Human-readable." },
              type: { type: "string", examples: ["invalid_request_error"] },
              param: { type: "string", description: "The path of the field at fault, or empty." },
              code: { type: "string", examples: ["model_not_found"] },
            },
          },
        },
      },
    },
  },
} as const;

/** Stands for `{id}:` until the plugin has read the paths: to it the colon would be the beginning of a parameter. */
const named = "~id~";

/** An application that is only described, never listened with: the plugin reads its routes. */
async function describedApp(surfaces: readonly ServedSurface[], adminRoutes: readonly Route[]): Promise<Elysia> {
  // Only now: it brings much along, which no other answer should have to wait for.
  const { swagger } = await import("@elysiajs/swagger");
  const app = new Elysia().use(
    swagger({
      path: "/docs",
      provider: "swagger-ui",
      theme: "/docs/swagger-ui.css",
      autoDarkMode: false,
      swaggerOptions: { persistAuthorization: false },
      documentation: documentation as never,
    }),
  );
  const describe = (routes: readonly Route[], base: string) => {
    const describeOne = (method: string, path: string, detail: Record<string, unknown>) =>
      app.route(method as never, base + path, () => "", { parse: "json", detail });
    for (const { method, path, detail, endings } of routes) {
      if (endings === undefined) describeOne(method, path.replace(/\*$/, ":id"), detail);
      for (const ending in endings) describeOne(method, path.replace(/\*$/, named + ending), endings[ending]!);
    }
  };
  for (const surface of surfaces) {
    describe(surface === "admin" ? adminRoutes : surfaceRoutes[surface], basePath(surface, surfaces));
  }
  describe([homeRoute(surfaces), ...opsRoutes], "");
  await app.modules;
  return app as unknown as Elysia;
}

async function read(surfaces: readonly ServedSurface[], adminRoutes: readonly Route[], path: string): Promise<string> {
  const app = await describedApp(surfaces, adminRoutes);
  const text = await (await app.handle(new Request(`http://localhost${path}`))).text();
  return text.replaceAll(named, "{id}:");
}

/** @param surfaces of one listener: where both share it, the gateway stands below `/gateway` */
export async function openApiDocument(
  surfaces: readonly ServedSurface[] = ["orchestrator", "gateway"],
  adminRoutes: readonly Route[] = [],
): Promise<object> {
  return JSON.parse(await read(surfaces, adminRoutes, "/docs/json"));
}

/** The plugin's page loads its script from a public address; ours is inside the executable. */
async function page(surfaces: readonly ServedSurface[], adminRoutes: readonly Route[]): Promise<WholeAnswer> {
  const html = (await read(surfaces, adminRoutes, "/docs")).replace(
    /https:\/\/unpkg\.com\/swagger-ui-dist@[^/]*\/swagger-ui-bundle\.js/,
    "/docs/swagger-ui-bundle.js",
  );
  const inline = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
    ([, script]) => `'sha256-${new Bun.CryptoHasher("sha256").update(script!).digest("base64")}'`,
  );
  const policy = [
    "default-src 'none'",
    `script-src 'self' ${inline.join(" ")}`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
  const answer = textAnswer(html, 200, "text/html; charset=utf-8");
  return { ...answer, headers: { ...answer.headers, "content-security-policy": policy, ...pageHeaders } };
}

async function file(path: string, contentType: string): Promise<WholeAnswer> {
  const headers = { "content-type": contentType, "cache-control": "public, max-age=3600", ...pageHeaders };
  return { kind: "whole", status: 200, headers, body: await Bun.file(path).bytes() };
}

/** The page, its description and its files. Made at the first request for them, and then kept. */
export function docsRoutes(surfaces: readonly ServedSurface[], adminRoutes: readonly Route[] = []): Route[] {
  const route = (path: string, make: () => Promise<WholeAnswer>): Route => {
    let made: Promise<WholeAnswer> | undefined;
    return {
      method: "GET",
      path,
      area: "operations",
      detail: { hide: true },
      run: (services, context) => {
        showAnonymousLimit(services, context);
        made ??= make();
        return made;
      },
    };
  };
  return [
    route("/docs", () => page(surfaces, adminRoutes)),
    route("/docs/json", async () =>
      textAnswer(await read(surfaces, adminRoutes, "/docs/json"), 200, "application/json; charset=utf-8"),
    ),
    route("/docs/swagger-ui-bundle.js", () => file(bundlePath, "text/javascript; charset=utf-8")),
    route("/docs/swagger-ui.css", () => file(stylePath, "text/css; charset=utf-8")),
  ];
}
