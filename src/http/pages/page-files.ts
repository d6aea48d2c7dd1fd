/** Script and style sheet of a page that browsers run, at addresses that change with their content. */

import type { RequestContext } from "../../call/context.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import { nothingAt } from "../routes.ts";
import type { BrowserPage } from "./page-bundle.ts";
import { answerPage, type CompressedText, immutable, preparePage } from "./pages.ts";

/** Whether the files are inside; set when the executable is built. */
declare const TROUPE_CONSOLE: true | undefined;

const isEmbedded = typeof TROUPE_CONSOLE !== "undefined";
/** Reads the sources anew for each look at the page, which then reloads by itself. */
export const isDevelopment = !isEmbedded && process.env["NODE_ENV"] === "development";

/** The policy of a page whose scripts and styles are files of this server alone, and in which no text becomes markup. @param images where pictures may be from */
export const pagePolicy = (images: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `img-src ${images}`,
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");

/** @param vary by which of a request's headers the page differs */
export const htmlHeaders = (policy: string, vary: string) => ({
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": policy,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  vary,
});

type Prepared = Awaited<ReturnType<typeof preparePage>>;
export type PageFiles = Readonly<Record<"script" | "style", Prepared>> & {
  /** Of script and style, as their addresses have it. */
  readonly hash: string;
};

async function load(page: BrowserPage): Promise<Readonly<Record<"script" | "style", CompressedText>>> {
  if (isEmbedded) return (await import("./page-embedded.ts")).embeddedPage(page);
  const { script, style } = await (await import("./page-bundle.ts")).bundlePage(page);
  return { script: { body: script }, style: { body: style } };
}

/** Rejects where the sources have faults. */
export async function preparedFiles(page: BrowserPage): Promise<PageFiles> {
  const { script, style } = await load(page);
  const file = (one: CompressedText, type: string) =>
    preparePage({
      ...one,
      headers: {
        "content-type": `${type}; charset=utf-8`,
        "cross-origin-resource-policy": "same-origin",
        ...immutable,
      },
    });
  const [scriptFile, styleFile] = await Promise.all([file(script, "text/javascript"), file(style, "text/css")]);
  return { script: scriptFile, style: styleFile, hash: Bun.hash(script.body + style.body).toString(36) };
}

/** @throws ApiError not_found for the script or style of another build: whoever kept it for a year would have the wrong one */
export function pageFile(context: RequestContext, files: PageFiles, name: "script" | "style"): WholeAnswer {
  if (context.query.get("v") !== files.hash) throw nothingAt(context);
  return answerPage(files[name], context.request);
}

/** Makes something at the first request for it and keeps it; a fault is shown, and what was mended is made anew. */
export function keptOnce<T>(make: () => Promise<T>): (isAnew?: boolean) => Promise<T> {
  let made: Promise<T> | undefined;
  return (isAnew = false) => {
    if (made === undefined || isAnew) made = make();
    made.catch(() => {
      made = undefined;
    });
    return made;
  };
}
