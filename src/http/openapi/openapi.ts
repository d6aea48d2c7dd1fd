/** The API's description, made from the route tables, and a page that shows it without reaching outside. */
import { type AnyElysia, Elysia } from "elysia";
import swaggerUi from "swagger-ui-dist/package.json";
import { buildInfo } from "../../build-info.ts";
import type { Host } from "../../call/context.ts";
import { packagedFile } from "../../lib/files/packaged-file.ts";
import { keyHeaders } from "../../protocols/credentials.ts";
import { openRoutes } from "../ops.ts";
import { immutable, pageAnswer, type ServedPage } from "../pages/pages.ts";
import { basePath, type Description } from "../routes.ts";
import { surfaceRoutes, vendorFolder } from "../surface-routes.ts";
import { withComponents } from "./components.ts";
import { anyKey } from "./describe.ts";

const keySchemes = Object.fromEntries(
  keyHeaders.map((name) => [name, { type: "apiKey", in: "header", name, description: "The same key." }]),
);

const documentation = {
  // 3.1 takes the JSON Schemas as TypeBox writes them.
  openapi: "3.1.0",
  info: {
    title: "Troupe",
    version: buildInfo.version,
    description:
      "A chat-completion gateway and persona orchestrator, for clients of four formats: OpenAI's chat completions and Responses, Anthropic's Messages and Google's Gemini API.",
    license: { name: "MIT", identifier: "MIT" },
  },
  servers: [{ url: "/" }],
  security: anyKey,
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

/** A listener's surfaces, and the application that holds their routes. */
export type Described = { readonly app: AnyElysia; readonly surfaces: Host["surfaces"] };

/** Paths that end in whatever follows: OpenAPI has parameters alone, so these are described by hand. */
function wildcards({ surfaces }: Described) {
  const paths: Record<string, Record<string, unknown>> = {};
  const add = (path: string, method: string, operation: Description) => {
    if (operation["hide"] !== true) paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
  };
  for (const surface of surfaces) {
    const base = basePath(surface, surfaces);
    for (const { method, path, describe, endings } of surface === "admin" ? [] : surfaceRoutes[surface]) {
      if (!path.endsWith("*")) continue;
      const place = `${base}${path.slice(0, -1)}{id}`.replaceAll(/:(\w+)/g, "{$1}");
      if (endings === undefined) add(place, method, describe());
      else for (const [ending, operation] of Object.entries(endings())) add(`${place}:${ending}`, method, operation);
    }
  }
  return paths;
}

/** Reads a page of the plugin, which reads the routes of the application that listens. */
export async function readDescription(described: Described, path: string): Promise<string> {
  // Only now: it brings much along, which no other answer should have to wait for.
  const { swagger } = await import("@elysiajs/swagger");
  const docs = new Elysia().use(described.app);
  // The plugin knows no examples, and calls every body required: what a route's `detail` writes has all of it.
  const { history } = docs["router"];
  for (const route of history) {
    // The same once more.
    const described = route.path.includes(`${vendorFolder}/v1/`) ? undefined : route.hooks.detail?.describe?.();
    route.hooks = { detail: described ?? { hide: true } };
  }
  docs.use(
    swagger({
      path: "/docs",
      provider: "swagger-ui",
      theme: "/docs/swagger-ui.css",
      autoDarkMode: false,
      swaggerOptions: { persistAuthorization: false, docExpansion: "none" },
      documentation: {
        ...documentation,
        paths: wildcards(described),
      } as never,
      exclude: [/\*/, /^\/docs/],
    }),
  );
  await docs.modules;
  const text = await (await docs.handle(new Request(`http://localhost${path}`))).text();
  return path === "/docs/json" ? JSON.stringify(withComponents(JSON.parse(text))) : text;
}

/** The plugin's page loads its script from a public address; ours is inside the executable. All addresses are relative, for proxies with a prefix. */
async function page(described: Described): Promise<ServedPage> {
  const html = (await readDescription(described, "/docs"))
    .replace(
      /https:\/\/unpkg\.com\/swagger-ui-dist@[^/]*\/swagger-ui-bundle\.js/,
      `/docs/swagger-ui-bundle.js?${assetVersion}`,
    )
    .replace("/docs/swagger-ui.css", `/docs/swagger-ui.css?${assetVersion}`)
    .replaceAll('"/docs/', '"docs/');
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
  return { body: html, headers: { "content-type": "text/html; charset=utf-8", "content-security-policy": policy } };
}

/** In the addresses of files that never change under one address. */
const assetVersion = `v=${swaggerUi.version}`;

const file = (name: string, contentType: string): ServedPage => ({
  headers: { "content-type": `${contentType}; charset=utf-8`, ...immutable },
  body: packagedFile(`swagger-ui-dist/${name}`),
});

/** The page, its description and its files. Made at the first request for them, and then kept. */
export function docsRoutes(host: Host, described: Described) {
  const plugin = openRoutes(host);
  const add = (path: string, make: () => Promise<ServedPage>) => plugin.get(path, pageAnswer(make));
  add("/docs", () => page(described));
  add("/docs/json", async () => ({
    body: await readDescription(described, "/docs/json"),
    headers: { "content-type": "application/json; charset=utf-8" },
  }));
  add("/docs/swagger-ui-bundle.js", async () => file("swagger-ui-bundle.js", "text/javascript"));
  add("/docs/swagger-ui.css", async () => file("swagger-ui.css", "text/css"));
  return plugin;
}
