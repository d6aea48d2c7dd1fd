/** Pages and files that are made at the first request for them, then kept: compressed, and with the tag by which a browser asks for a newer one. */
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { WholeAnswer } from "../upstream/answer.ts";
import { pageHeaders } from "./respond.ts";

export type Page = { readonly body: string | Uint8Array; readonly headers: Readonly<Record<string, string>> };

/** For files whose address changes with their content. */
export const immutable = { "cache-control": "public, max-age=31536000, immutable" } as const;

/** A page as it is sent. */
type Prepared = {
  readonly page: Page;
  readonly encoded: readonly (readonly [name: string, body: Uint8Array])[];
  readonly tag: string;
};

/** Its best takes half a second for the console's script, this some 20 ms. */
const brotliParams = { [constants.BROTLI_PARAM_QUALITY]: 9 };

export async function preparePage(making: Promise<Page>): Promise<Prepared> {
  const page = await making;
  // Not on this thread: a megabyte takes as long as hundreds of calls.
  const [br, gzipped] = await Promise.all([
    promisify(brotliCompress)(page.body, { params: brotliParams }),
    promisify(gzip)(page.body),
  ]);
  const encoded = [
    ["br", br],
    ["gzip", gzipped],
  ] as const;
  return { page, encoded, tag: `"${Bun.hash(page.body).toString(36)}"` };
}

export function answerPage({ page, encoded, tag }: Prepared, { headers: asked }: Request): WholeAnswer {
  const headers = { "cache-control": "no-cache", ...page.headers, ...pageHeaders, etag: tag, vary: "accept-encoding" };
  // A tag may come back as a weak one, and with others: https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2
  if (asked.get("if-none-match")?.includes(tag) === true) return { kind: "whole", status: 304, headers, body: "" };
  const accepted = asked.get("accept-encoding") ?? "";
  const [name, body] = encoded.find(([name]) => accepts(accepted, name)) ?? [];
  if (name === undefined || body === undefined) return { kind: "whole", status: 200, headers, body: page.body };
  return { kind: "whole", status: 200, headers: { ...headers, "content-encoding": name }, body };
}

/** Whether a field of accepted codings names one, and not as unwanted. Source: https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3 */
const accepts = (field: string, coding: string): boolean =>
  new RegExp(`(?:^|[,\\s])${coding}(?![\\w-])(?!\\s*;\\s*q=0(?:\\.0*)?\\s*(?:,|$))`, "i").test(field);

/** @returns the handler of a page that is made once */
export function pageAnswer(make: () => Promise<Page>) {
  let made: Promise<Prepared> | undefined;
  return async ({ request }: { readonly request: Request }) => {
    made ??= preparePage(make());
    return answerPage(await made, request);
  };
}
