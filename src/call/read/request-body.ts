/** A request's body: read, counted and bounded as it arrives, and parsed. */
import type { Config } from "../../config/config.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import type { LargeRanges } from "../../lib/json/large-ranges.ts";
import { type Bytes, LargeStrings, minLargeString } from "../../lib/json/large-strings.ts";
import { JsonScan } from "../../lib/json/scan.ts";
import { freeBuffer } from "../../lib/process/garbage-collection.ts";
import { nextSlice } from "../../lib/time/cooperative-scheduling.ts";
import { turnEnd } from "../../lib/time/turn-end.ts";
import {
  byteBody,
  checkBounds,
  hugeBody,
  invalidJson,
  invalidUtf8,
  largeBody,
  parseBody,
  parseBounded,
  parseInTurns,
  scanned,
} from "../../protocols/body/body.ts";
import { refuseDoubledNames } from "../../protocols/body/doubled-names.ts";
import { restoreLarge, type Source } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Protocol } from "../../protocols/protocol.ts";

type Limits = Config["limits"];

/** The part of a request's context that its body is read with. */
export type BodyContext = {
  readonly request: Request;
  readonly protocol: Protocol;
  /** A large body, while it is in memory. */
  body: { readonly parts: readonly Uint8Array[]; readonly large: LargeStrings | undefined } | undefined;
  arrival<T>(body: Promise<T>): Promise<T>;
  checkRoom(bytes: number): void;
  hold(bytes: number): void;
  release(): void;
};

/**
 * The body, parsed. Its bytes count as held by the request until they are released.
 * @throws ApiError request_too_large, request_timeout, unsupported_media_type, overloaded, or invalid_json
 */
export async function readJson(context: BodyContext, limits: Limits): Promise<Source> {
  const { request } = context;
  checkType(request.headers);
  const declared = contentLength(request.headers) ?? 0;
  if (declared > limits.bodyBytes) throw ApiError.requestTooLarge(limits.bodyBytes);
  if (declared === 0 || declared > maxScanned) return readInParts(context, limits, declared);
  // Set aside before it comes, as nobody counts what has come of it.
  context.hold(declared);
  const bytes = (await context.arrival(request.bytes())) as Bytes;
  await turnEnd();
  if (bytes.length < byteBody) return parseBody(bytes, limits);
  const isLarge = bytes.length >= largeBody;
  // A fingerprint is made of all of the text.
  if (bytes.length < minDivided || (!isLarge && request.headers.has("service-request-id"))) {
    context.body = { parts: [bytes], large: undefined };
    return parseBody(bytes, limits);
  }
  const scan = new JsonScan(limits, minLargeString);
  checkBounds(scan, bytes, limits);
  const source = parseScanned(context, scan, [bytes]);
  return isLarge ? source : source.catch((error) => locateFault(bytes, limits, error));
}

/** Bytes from which on strings are left out: shorter bodies are parsed as soon. */
const minDivided = 16 * 1024;

/** The same, with all of its texts. */
export async function readWhole(context: BodyContext, limits: Limits): Promise<Source> {
  const source = await readJson(context, limits);
  await restoreLarge(source);
  return source;
}

async function readInParts(context: BodyContext, limits: Limits, declared: number): Promise<Source> {
  context.checkRoom(declared);
  const { parts, scan } = await context.arrival(new BodyReader(context, limits).read());
  return parseScanned(context, scan, parts);
}

/** Parses all of a body in which something is wrong, as that names the place. */
function locateFault(bytes: Bytes, limits: Limits, error: unknown): never {
  parseBody(bytes, limits);
  throw error;
}

async function parseScanned(context: BodyContext, scan: JsonScan, parts: Bytes[]): Promise<Source> {
  const strings = scan.largeStrings;
  if (!isWorthLeavingOut(strings, parts)) return parseLarge(context, scan, [join(parts)]);
  const large = new LargeStrings(parts, strings);
  const fault = await large.check();
  if (fault !== undefined) throw fault === "utf8" ? invalidUtf8() : invalidJson();
  return parseLarge(context, scan, parts, large);
}

/** Checks whether large strings are much of what a parser would have to do. */
const isWorthLeavingOut = ({ bytes }: LargeRanges, parts: readonly Bytes[]): boolean =>
  bytes > 0 && 4 * bytes >= parts.reduce((sum, part) => sum + part.length, 0);

/** @param scan that went through it @param parts the body, in one part where no large string is left out of it */
async function parseLarge(
  context: BodyContext,
  scan: JsonScan,
  parts: readonly Bytes[],
  large?: LargeStrings,
): Promise<Source> {
  context.body = { parts, large };
  // What is left to be parsed may be little, but who comes at once with others has to leave them their turns.
  if (large !== undefined && large.size >= hugeBody) await nextSlice();
  const bytes = large?.skeleton() ?? parts[0]!;
  const parse = bytes.length < hugeBody ? parseBounded : parseInTurns;
  const source = await parse(bytes, scan.hasOddNumbers);
  refuseDoubledNames(bytes, scan.outerKeys, source.parsed);
  const passed = large && (await restoreRead(large, context.protocol, source.parsed));
  return { ...source, ...scanned(scan, parts[0]!), large, passed };
}

const noStrings = { everywhere: [], natively: [] };

/** Puts back what is read in any case. @returns what is read nowhere */
async function restoreRead(large: LargeStrings, protocol: Protocol, parsed: JsonObject): Promise<readonly string[]> {
  const { everywhere, natively } = protocol.omittableTexts?.(parsed) ?? noStrings;
  await large.restore([parsed], [...everywhere, ...natively]);
  return everywhere;
}

function checkType(headers: Headers): void {
  const type = headers.get("content-type");
  if (type && !/^\s*application\/(?:[\w.-]+\+)?json\b/i.test(type)) throw ApiError.unsupportedMediaType(type);
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding !== "identity") throw ApiError.unsupportedMediaType(`${encoding}-encoded`);
}

/** Bytes that are looked through in one turn: some 2 ms. */
const maxScanned = 1024 * 1024;

/** Parts that are shorter are gathered in blocks of this size: each is written to the upstream by a call of its own. */
const blockBytes = 128 * 1024;

/** Reads a body of more than can be looked through at once, or of unknown length. */
class BodyReader {
  readonly #context: BodyContext;
  readonly #limits: Limits;
  readonly #scan: JsonScan;
  #parts: Bytes[] = [];
  #size = 0;
  /** The filled bytes of the last part, where it is a block. */
  #filled = blockBytes;

  constructor(context: BodyContext, limits: Limits) {
    this.#context = context;
    this.#limits = limits;
    this.#scan = new JsonScan(limits, minLargeString);
  }

  /** @returns the body's parts, and what noted where its large strings stand */
  async read(): Promise<{ parts: Bytes[]; scan: JsonScan }> {
    let refusal: unknown;
    for await (const part of this.#context.request.body ?? []) {
      this.#size += part.length;
      if (this.#size > this.#limits.bodyBytes) throw ApiError.requestTooLarge(this.#limits.bodyBytes);
      // A refused body is read to its end all the same, and forgotten: who still writes does not see an answer.
      if (refusal !== undefined) continue;
      try {
        await this.#take(part);
      } catch (error) {
        refusal = error;
        this.#parts = [];
        this.#context.release();
      }
    }
    if (refusal !== undefined) throw refusal;
    this.#endBlock();
    return { parts: this.#parts, scan: this.#scan };
  }

  /** @throws ApiError overloaded or invalid_json */
  async #take(part: Bytes): Promise<void> {
    this.#context.hold(part.length);
    for (let at = 0; at < part.length; at += maxScanned) {
      if (part.length > maxScanned) await nextSlice();
      checkBounds(this.#scan, part.subarray(at, at + maxScanned), this.#limits);
    }
    if (part.length < blockBytes / 2) this.#gather(part);
    else {
      this.#endBlock();
      this.#parts.push(part);
    }
  }

  #gather(part: Bytes): void {
    if (this.#filled + part.length > blockBytes) {
      this.#endBlock();
      this.#parts.push(Buffer.allocUnsafeSlow(blockBytes));
      this.#filled = 0;
    }
    this.#parts.at(-1)!.set(part, this.#filled);
    this.#filled += part.length;
    freeBuffer(part);
  }

  #endBlock(): void {
    const block = this.#filled < blockBytes ? this.#parts.pop() : undefined;
    if (block !== undefined) this.#parts.push(block.subarray(0, this.#filled));
    this.#filled = blockBytes;
  }
}

/** Nothing is left of the parts, so that the body is never there twice. */
function join(parts: Bytes[]): Bytes {
  if (parts.length === 1) return parts[0]!;
  let size = 0;
  for (const part of parts) size += part.length;
  const whole = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
    freeBuffer(part);
  }
  return whole;
}

/**
 * The bytes that a message says its body has.
 * Source: https://www.rfc-editor.org/rfc/rfc9110#section-8.6
 * @returns undefined where it does not say, or says it twice, which some servers let pass where both are the same
 */
export function contentLength(headers: Headers): number | undefined {
  const said = Number(headers.get("content-length") ?? Number.NaN);
  return Number.isSafeInteger(said) && said >= 0 ? said : undefined;
}
