/** The console: one page, its script and its style sheet, on the listeners that serve the admin API. */
import type { AnyElysia } from "elysia";
import type { Host } from "../../call/context.ts";
import { brandIcon, pageGroups, pageTitles } from "../../console/page-titles.ts";
import { openRoutes } from "../../http/ops.ts";
import {
  htmlHeaders,
  isDevelopment,
  keptOnce,
  type PageFiles,
  pageFile,
  pagePolicy,
  preparedFiles,
} from "../../http/pages/page-files.ts";
import { answerPage, preparePage } from "../../http/pages/pages.ts";
import { isSignedOut } from "../act.ts";

export const consolePolicy = pagePolicy("'self' data: blob:");

const pageHeaders = htmlHeaders(consolePolicy, "accept-encoding, cookie");

const icon =
  "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='4' fill='%23465fd1'/><path d='M4 5h8M8 5v7' stroke='white' stroke-width='2' stroke-linecap='round'/></svg>";

const themes = ["", "light", "dark"] as const;
type Theme = (typeof themes)[number];

/** "none": the page asks for a key at once. */
const sessions = ["", "none"] as const;
type Session = (typeof sessions)[number];

const icons = (path: string) =>
  `<svg class="icon" viewBox="0 0 16 16" width="16" height="16"><path d="${path}"/></svg>`;
const mark = `<svg class="mark" viewBox="0 0 16 16" width="20" height="20"><rect width="16" height="16" rx="4"/><path d="${brandIcon}"/></svg>`;
const groups = pageGroups
  .map(({ title, pages }) => {
    const links = pageTitles
      .filter(({ name }) => pages.includes(name))
      .map((page) => `<li><a href="#/${page.name}">${icons(page.icon)}${page.title}</a></li>`);
    return `<section><p class="muted">${title}</p><ul>${links.join("")}</ul></section>`;
  })
  .join("");

/**
 * Addresses are relative, for proxies with a prefix, and change with the content. The navigation is painted before the script runs, which takes it over: it
 * stands as `src/console/shell.tsx` writes it.
 */
const html = (hash: string, theme: Theme, session: Session) => `<!doctype html>
<html lang="en" data-theme="${theme}" data-session="${session}">
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
<button type="button" class="skip">Skip to the page</button>
<nav class="side" aria-label="Pages"><a class="brand" href="#/">${mark}Troupe</a><div class="side-body">${groups}</div></nav>
<main><noscript>The console needs JavaScript. The admin API below /admin/v1 does without.</noscript><p class="late">The console’s script has not come. Reload the page, or look whether the server answers.</p></main>
</body>
</html>
`;

type Files = PageFiles & { readonly pages: ReadonlyMap<string, Awaited<ReturnType<typeof preparePage>>> };

async function make(): Promise<Files> {
  const files = await preparedFiles("console");
  const page = async (theme: Theme, session: Session) =>
    [
      `${theme} ${session}`,
      await preparePage({ body: html(files.hash, theme, session), headers: pageHeaders }),
    ] as const;
  const pages = themes.flatMap((theme) => sessions.map((session) => page(theme, session)));
  return { ...files, pages: new Map(await Promise.all(pages)) };
}

/** The theme that the page's reader chose there, which the page keeps in a cookie; empty: the system's. */
const themeOf = (request: Request): Theme => {
  const [, chosen] = /(?:^|;)\s*troupe_theme=(\w+)/.exec(request.headers.get("cookie") ?? "") ?? [];
  return themes.find((one) => one === chosen) ?? "";
};

/** Made at the first request for them, and then kept. */
export function consoleRoutes(host: Host): AnyElysia {
  const files = keptOnce(make);
  return openRoutes(host)
    .get("/console", async ({ request, services, context }) => {
      const session: Session = (await isSignedOut(services, context)) ? "none" : "";
      const { pages } = await files(isDevelopment);
      return answerPage(pages.get(`${themeOf(request)} ${session}`)!, request);
    })
    .get("/console/console.js", async ({ context }) => pageFile(context, await files(), "script"))
    .get("/console/console.css", async ({ context }) => pageFile(context, await files(), "style"));
}
