/** The console: one page, its script and its style sheet, on the listeners that serve the admin API. */
import type { AnyElysia } from "elysia";
import type { Host } from "../../http/context.ts";
import { openRoutes } from "../../http/ops.ts";
import { answerPage, immutable, type Page, preparePage } from "../../http/pages.ts";
import type { ConsoleFiles } from "./bundle.ts";

/** Whether the files are inside; set when the executable is built. */
declare const TROUPE_CONSOLE: true | undefined;

const isEmbedded = typeof TROUPE_CONSOLE !== "undefined";
/** Reads the sources anew for each look at the page, which then reloads by itself. */
const isDevelopment = !isEmbedded && process.env["NODE_ENV"] === "development";

const loadFiles = async (): Promise<ConsoleFiles> =>
  isEmbedded ? (await import("./embedded.ts")).embeddedConsole() : (await import("./bundle.ts")).bundleConsole();

/** Scripts and styles are files of this server alone, and no text becomes markup but through the two named policies. */
export const consolePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "require-trusted-types-for 'script'",
  "trusted-types troupe dompurify",
].join("; ");

const pageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": consolePolicy,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

const icon =
  "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='4' fill='%23465fd1'/><path d='M4 5h8M8 5v7' stroke='white' stroke-width='2' stroke-linecap='round'/></svg>";

/** Addresses are relative, for proxies with a prefix, and change with the content. */
const html = (hash: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="troupe-console" content="${hash}"${isDevelopment ? ' data-development="true"' : ""}>
<title>Troupe</title>
<link rel="icon" href="data:image/svg+xml,${icon}">
<link rel="stylesheet" href="console/console.css?v=${hash}">
<script type="module" src="console/console.js?v=${hash}"></script>
</head>
<body>
<noscript>The console needs JavaScript. The admin API below /admin/v1 does without.</noscript>
</body>
</html>
`;

async function make(): Promise<Readonly<Record<"page" | "script" | "style", Awaited<ReturnType<typeof preparePage>>>>> {
  const { script, style } = await loadFiles();
  const hash = Bun.hash(script + style).toString(36);
  const file = (body: string, type: string): Page => ({
    body,
    headers: {
      "content-type": `${type}; charset=utf-8`,
      "cross-origin-resource-policy": "same-origin",
      ...immutable,
    },
  });
  const [page, scriptFile, styleFile] = await Promise.all([
    preparePage(Promise.resolve({ body: html(hash), headers: pageHeaders })),
    preparePage(Promise.resolve(file(script, "text/javascript"))),
    preparePage(Promise.resolve(file(style, "text/css"))),
  ]);
  return { page, script: scriptFile, style: styleFile };
}

/** Made at the first request for them, and then kept. */
export function consoleRoutes(host: Host): AnyElysia {
  let made: ReturnType<typeof make> | undefined;
  const answer =
    (name: "page" | "script" | "style") =>
    async ({ request }: { readonly request: Request }) => {
      if (made === undefined || (isDevelopment && name === "page")) made = make();
      // A fault in the sources is shown, and mended sources are read.
      made.catch(() => {
        made = undefined;
      });
      return answerPage((await made)[name], request);
    };
  return openRoutes(host)
    .get("/console", answer("page"))
    .get("/console/console.js", answer("script"))
    .get("/console/console.css", answer("style"));
}
