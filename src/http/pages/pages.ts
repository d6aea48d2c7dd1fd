/** Pages and files that are made at the first request for them, then kept: compressed, and with the tag by which a browser asks for a newer one. */
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { namesTag, pageHeaders } from "../../call/relay/relay.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";

/** A text, and what it is sent as where it was compressed beforehand. */
export type CompressedText = { readonly body: string; readonly encoded?: Encoded };
type Encoded = Readonly<Record<"br" | "gzip", Uint8Array>>;

export type ServedPage = Omit<CompressedText, "body"> & {
  readonly body: string | Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
};

/** For files whose address changes with their content. */
export const immutable = { "cache-control": "public, max-age=31536000, immutable" } as const;

/** A page as it is sent. */
type Prepared = ServedPage & { readonly encoded: Encoded; readonly tag: string };

/** Brotli's best takes half a second for the console's script, this some 20 ms. */
const quickQuality = 9;

/** Compresses on another thread, where a megabyte takes as long as hundreds of calls. */
async function compress(body: ServedPage["body"]): Promise<Encoded> {
  const [br, gzipped] = await Promise.all([brotli(body, quickQuality), promisify(gzip)(body)]);
  return { br, gzip: gzipped };
}

const brotli = (body: ServedPage["body"], quality: number) =>
  promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } });

/** As small as can be, however long it takes: libdeflate's best is a twenty-fifth smaller than zlib's. */
export const compressBest = async (text: string): Promise<Encoded> => ({
  br: await brotli(text, constants.BROTLI_MAX_QUALITY),
  gzip: Bun.gzipSync(text, { library: "libdeflate", level: 12 }),
});

export async function preparePage(page: ServedPage): Promise<Prepared> {
  const encoded = page.encoded ?? (await compress(page.body));
  return { ...page, encoded, tag: `"${Bun.hash(page.body).toString(36)}"` };
}

export function answerPage(page: Prepared, { headers: asked }: Request): WholeAnswer {
  const { body, encoded, tag } = page;
  const headers = { "cache-control": "no-cache", vary: "accept-encoding", ...page.headers, ...pageHeaders, etag: tag };
  if (namesTag(asked, tag)) return { kind: "whole", status: 304, headers, body: "" };
  const accepted = asked.get("accept-encoding") ?? "";
  const coding = (["br", "gzip"] as const).find((one) => accepts(accepted, one));
  if (coding === undefined) return { kind: "whole", status: 200, headers, body };
  return { kind: "whole", status: 200, headers: { ...headers, "content-encoding": coding }, body: encoded[coding] };
}

/** Whether a field of accepted codings names one, and not as unwanted. Source: https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3 */
const accepts = (field: string, coding: string): boolean =>
  new RegExp(`(?:^|[,\\s])${coding}(?![\\w-])(?!\\s*;\\s*q=0(?:\\.0*)?\\s*(?:,|$))`, "i").test(field);

/** @returns the handler of a page that is made once */
export function pageAnswer(make: () => Promise<ServedPage>) {
  let made: Promise<Prepared> | undefined;
  return async ({ request }: { readonly request: Request }) => {
    made ??= make().then(preparePage);
    return answerPage(await made, request);
  };
}
