/** A request's body: read, counted and bounded as it arrives, and parsed. */
import type { Config } from "../config/config.ts";
import { nextSlice } from "../lib/cooperative-scheduling.ts";
import { freeBuffer } from "../lib/garbage-collection.ts";
import { JsonScan } from "../lib/json/scan.ts";
import { checkBounds, hugeBody, largeBody, parseBody, parseBounded, parseInTurns } from "../protocols/chat/request.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Source } from "../protocols/source.ts";
import type { RequestContext } from "./context.ts";

type Limits = Config["limits"];

/**
 * The body, parsed. Its bytes count as held by the request until they are released.
 * @throws ApiError request_too_large, request_timeout, unsupported_media_type, overloaded, or invalid_json
 */
export async function readJson(context: RequestContext, limits: Limits): Promise<Source> {
  const { request } = context;
  checkType(request.headers);
  const declared = Number(request.headers.get("content-length") ?? "0");
  if (declared > limits.bodyBytes) throw ApiError.requestTooLarge(limits.bodyBytes);
  if (declared > 0 && declared < largeBody) {
    context.checkRoom(declared);
    const bytes = (await context.arrival(request.bytes())) as Uint8Array<ArrayBuffer>;
    context.hold(bytes.length);
    return parseBody(bytes, limits);
  }
  const bytes = await context.arrival(new BodyReader(context, limits).read(declared));
  context.body = bytes;
  return bytes.length < hugeBody ? parseBounded(bytes) : parseInTurns(bytes);
}

function checkType(headers: Headers): void {
  const type = headers.get("content-type");
  if (type && !/^\s*application\/(?:[\w.-]+\+)?json\b/i.test(type)) throw ApiError.unsupportedMediaType(type);
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding !== "identity") throw ApiError.unsupportedMediaType(`${encoding}-encoded`);
}

/** Bytes that are looked through in one turn: some 2 ms. */
const maxScanned = 1024 * 1024;

/** Reads a body that is large, or of unknown length. */
class BodyReader {
  readonly #context: RequestContext;
  readonly #limits: Limits;
  readonly #scan: JsonScan;
  /** As long as the body is said to be: its memory is taken as it is filled. */
  #whole: Uint8Array<ArrayBuffer> | undefined;
  /** Of a body of unknown length. */
  #parts: Uint8Array[] = [];
  #size = 0;

  constructor(context: RequestContext, limits: Limits) {
    this.#context = context;
    this.#limits = limits;
    this.#scan = new JsonScan(limits);
  }

  async read(declared: number): Promise<Uint8Array<ArrayBuffer>> {
    const { body } = this.#context.request;
    this.#context.checkRoom(declared);
    if (declared > 0) this.#whole = Buffer.allocUnsafeSlow(declared);
    let refusal: unknown;
    for await (const part of body ?? []) {
      this.#size += part.length;
      if (this.#size > this.#limits.bodyBytes) throw ApiError.requestTooLarge(this.#limits.bodyBytes);
      // What is refused is read to its end all the same, and forgotten: who still writes does not see an answer.
      if (refusal !== undefined) continue;
      try {
        await this.#take(part);
      } catch (error) {
        refusal = error;
        this.#whole = undefined;
        this.#parts = [];
        this.#context.release();
      }
    }
    if (refusal !== undefined) throw refusal;
    return this.#join();
  }

  /** @throws ApiError overloaded or invalid_json */
  async #take(part: Uint8Array): Promise<void> {
    this.#context.checkRoom(part.length);
    this.#context.hold(part.length);
    for (let at = 0; at < part.length; at += maxScanned) {
      if (part.length > maxScanned) await nextSlice();
      checkBounds(this.#scan, part.subarray(at, at + maxScanned), this.#limits);
    }
    if (this.#whole === undefined) this.#parts.push(part);
    else this.#put(part, this.#size - part.length);
  }

  #join(): Uint8Array<ArrayBuffer> {
    if (this.#whole !== undefined) return this.#whole.subarray(0, this.#size);
    if (this.#parts.length === 1) return this.#parts[0] as Uint8Array<ArrayBuffer>;
    this.#whole = Buffer.allocUnsafeSlow(this.#size);
    let at = 0;
    for (const part of this.#parts.splice(0)) at = this.#put(part, at);
    return this.#whole;
  }

  /** @returns where the next part goes; of this one nothing is left, so that the body is never there twice */
  #put(part: Uint8Array, at: number): number {
    this.#whole!.set(part, at);
    const end = at + part.length;
    freeBuffer(part);
    return end;
  }
}
