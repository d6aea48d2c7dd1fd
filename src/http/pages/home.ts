/** The root: links to the other endpoints, as a page for browsers and as JSON for programs. */
import { Type } from "@sinclair/typebox";
import type { BuildInfo } from "../../build-info.ts";
import type { Host } from "../../call/context.ts";
import { pageHeaders, textAnswer } from "../../call/relay/relay.ts";
import type { ServedSurface } from "../../config/config.ts";
import { openOperation, openRoutes } from "../ops.ts";
import { basePath } from "../routes.ts";

const homeSchema = Type.Object({
  name: Type.String(),
  version: Type.String(),
  links: Type.Record(Type.String(), Type.String()),
});

type Link = { readonly name: string; readonly path: string; readonly title: string };

const open: readonly Link[] = [
  { name: "docs", path: "/docs", title: "The API, to read and to try" },
  { name: "openapi", path: "/docs/json", title: "The same for programs (OpenAPI)" },
  { name: "health", path: "/health", title: "Health, with its checks" },
  { name: "version", path: "/version", title: "Version" },
  { name: "metrics", path: "/metrics", title: "Metrics (Prometheus)" },
];
const consoleLink: Link = { name: "console", path: "/console", title: "The console: see and run everything" };

const accountLink: Link = {
  name: "account",
  path: "/account",
  title: "Your account: what your key used, and may call",
};

const linksOf = (surfaces: readonly ServedSurface[], hasAccounts: boolean): readonly Link[] => [
  ...(surfaces.includes("admin") ? [consoleLink] : []),
  ...(hasAccounts && surfaces.some((name) => name !== "admin") ? [accountLink] : []),
  ...open,
];
const titles: Record<ServedSurface, string> = {
  orchestrator: "Base address for clients: personas",
  gateway: "Base address for clients: providers' models",
  admin: "Base address of the admin API",
};

/** Base URLs for clients; not links, since everything below them needs a key. */
const basesOf = (surfaces: readonly ServedSurface[]): Link[] =>
  surfaces.map((name) => ({ name, path: `${basePath(name, surfaces)}/v1`, title: titles[name] }));

const style =
  "body{font:16px/1.6 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color:#222;background:#fff}" +
  "h1{font-size:1.5rem}small{color:#666}@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}a{color:#8ab4f8}}";
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${new Bun.CryptoHasher("sha256").update(style).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Relative, since a proxy may mount the server below a path. */
const relative = ({ path }: Link) => path.slice(1);

function page({ version }: BuildInfo, surfaces: readonly ServedSurface[], shown: readonly Link[]): string {
  const links = shown.map((link) => `<li><a href="${relative(link)}">${link.title}</a></li>`);
  const bases = basesOf(surfaces).map(({ path, title }) => `<li>${title}: <code>${path}</code></li>`);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Troupe</title>
<style>${style}</style>
<h1>Troupe <small>${version}</small></h1>
<p>A chat-completion gateway and persona orchestrator.</p>
<ul>${bases.join("")}${links.join("")}</ul>
</html>
`;
}

export function homeRoutes(host: Host) {
  const { surfaces } = host;
  return openRoutes(host).get(
    "/",
    ({ services, context: { headers }, request }) => {
      headers["vary"] = headers["vary"] === undefined ? "accept" : `${headers["vary"]}, accept`;
      const { name, version } = services.build;
      const shown = linksOf(surfaces, services.live.config.account.enabled);
      const links = Object.fromEntries([...basesOf(surfaces), ...shown].map(({ name, path }) => [name, path]));
      if (!/\btext\/html\b/i.test(request.headers.get("accept") ?? "")) return { name, version, links };
      const answer = textAnswer(page(services.build, surfaces, shown), 200, "text/html; charset=utf-8");
      return { ...answer, headers: { ...answer.headers, "content-security-policy": policy, ...pageHeaders } };
    },
    openOperation({
      operationId: "home",
      summary: "Where to go from here: a page for browsers, JSON for programs",
      response: homeSchema,
      also: { "text/html": { schema: { type: "string" } } },
    }),
  );
}
