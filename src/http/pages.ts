/** Pages and files that are made at the first request for them, then kept: compressed, and with the tag by which a browser asks for a newer one. */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { WholeAnswer } from "../upstream/answer.ts";
import { pageHeaders } from "./respond.ts";

export type Page = { readonly body: string | Uint8Array; readonly headers: Readonly<Record<string, string>> };

/** For files whose address changes with their content. */
export const immutable = { "cache-control": "public, max-age=31536000, immutable" } as const;

/** A page as it is sent. */
type Prepared = { readonly page: Page; readonly gzipped: Uint8Array; readonly tag: string };

export async function preparePage(making: Promise<Page>): Promise<Prepared> {
  const page = await making;
  // Not on this thread: a megabyte takes as long as hundreds of calls.
  const gzipped = await promisify(gzip)(page.body);
  return { page, gzipped, tag: `"${Bun.hash(page.body).toString(36)}"` };
}

export function answerPage({ page, gzipped, tag }: Prepared, { headers: asked }: Request): WholeAnswer {
  const headers = { "cache-control": "no-cache", ...page.headers, ...pageHeaders, etag: tag, vary: "accept-encoding" };
  // A tag may come back as a weak one, and with others: https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2
  if (asked.get("if-none-match")?.includes(tag) === true) return { kind: "whole", status: 304, headers, body: "" };
  if (!/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(asked.get("accept-encoding") ?? ""))
    return { kind: "whole", status: 200, headers, body: page.body };
  return { kind: "whole", status: 200, headers: { ...headers, "content-encoding": "gzip" }, body: gzipped };
}

/** @returns the handler of a page that is made once */
export function pageAnswer(make: () => Promise<Page>) {
  let made: Promise<Prepared> | undefined;
  return async ({ request }: { readonly request: Request }) => {
    made ??= preparePage(make());
    return answerPage(await made, request);
  };
}
