/** One HTTP request on its way: what it is, who sent it, and what its answer must carry. */
import type { Config, SurfaceName } from "../config/config.ts";
import { clientAddress } from "../lib/addresses.ts";
import type { Services } from "../services/services.ts";
import { ApiError } from "../wire/errors.ts";
import { largeBody, parseBody } from "../wire/parse.ts";
import type { Source } from "../wire/source.ts";

/** What is needed of Bun's server. */
export type ServerHandle = {
  requestIP(request: Request): { address: string } | null;
  timeout(request: Request, seconds: number): void;
};

/** Where answers that belong to neither surface are counted. */
export type Area = SurfaceName | "operations";

export class Exchange {
  readonly request: Request;
  readonly area: Area;
  /** The route's pattern, for metrics and logs. */
  readonly route: string;
  /** What tells it from all others, in every id that is made for it. */
  readonly uniqueId: string;
  /** In `x-request-id` and in every log line. */
  readonly id: string;
  /** A monotonic reading in milliseconds. */
  readonly startedAt: number;
  /** Set on the answer, whatever it will be. */
  readonly headers: Record<string, string>;
  /** A monotonic reading of when the request went upstream last. */
  sentAt: number | undefined;
  /** In large values that nobody needs when it is closed. */
  heldBytes = 0;
  /** Goes into the request's log line. */
  readonly note: Record<string, unknown> = {};
  readonly #server: ServerHandle | null;
  readonly #services: Services;

  constructor(services: Services, request: Request, server: ServerHandle | null, area: Area, route: string) {
    this.request = request;
    this.area = area;
    this.route = route;
    this.uniqueId = services.clock.newId();
    this.id = `req_${this.uniqueId}`;
    this.startedAt = services.clock.monotonic();
    this.headers = { "x-request-id": this.id };
    this.#server = server;
    this.#services = services;
  }

  get clientAddress(): string {
    const peer = this.#server?.requestIP(this.request)?.address;
    const forwardedFor = this.request.headers.get("x-forwarded-for");
    return clientAddress(peer, forwardedFor, this.#services.live.trustedProxies);
  }

  /**
   * Bun drops connections that are silent for long, which protects against half-sent requests. Once the request is
   * here, a model may think for as long as it likes.
   * @param seconds of silence still allowed; 0 is any
   */
  allowSilence(seconds: number): void {
    this.#server?.timeout(this.request, seconds);
  }

  /** Waits for the request's body. @throws ApiError request_timeout when it takes longer than it may */
  arrival<T>(body: Promise<T>): Promise<T> {
    const { clock, live } = this.#services;
    const seconds = live.config.limits.bodySeconds;
    return new Promise((resolve, reject) => {
      const callOff = clock.after(seconds * 1000, () => reject(ApiError.requestTimeout(seconds)));
      body.then(
        (value) => {
          callOff();
          resolve(value);
        },
        (error) => {
          callOff();
          reject(error);
        },
      );
    });
  }

  /** The path as it was sent, without the query. Bun gives relative URLs for HTTP/1.0 requests without a Host. */
  get path(): string {
    const { url } = this.request;
    const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("//") + 2);
    const query = url.indexOf("?", start);
    return url.slice(start, query < 0 ? undefined : query);
  }

  get query(): URLSearchParams {
    const at = this.request.url.indexOf("?");
    return new URLSearchParams(at < 0 ? "" : this.request.url.slice(at + 1));
  }
}

/**
 * The body, parsed.
 * @throws ApiError request_too_large, request_timeout, unsupported_media_type, or invalid_json
 */
export async function readJson(exchange: Exchange, { bodyBytes, jsonDepth }: Config["limits"]): Promise<Source> {
  const { request } = exchange;
  const type = request.headers.get("content-type");
  if (type && !/^\s*application\/(?:[\w.-]+\+)?json\b/i.test(type)) throw ApiError.unsupportedMediaType(type);
  const encoding = request.headers.get("content-encoding");
  if (encoding !== null && encoding !== "identity") throw ApiError.unsupportedMediaType(`${encoding}-encoded`);
  const declared = Number(request.headers.get("content-length") ?? "0");
  if (declared > bodyBytes) throw ApiError.requestTooLarge(bodyBytes);
  const arriving = declared > 0 ? request.bytes() : readCounting(request.body, bodyBytes);
  const bytes = (await exchange.arrival(arriving)) as Uint8Array<ArrayBuffer>;
  if (bytes.length > bodyBytes) throw ApiError.requestTooLarge(bodyBytes);
  if (bytes.length >= largeBody) exchange.heldBytes += bytes.length;
  return parseBody(bytes, jsonDepth);
}

/** A body of unknown length, given up as soon as it is too long. */
async function readCounting(body: ReadableStream<Uint8Array> | null, limitBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  if (body !== null) {
    for await (const part of body) {
      size += part.byteLength;
      if (size > limitBytes) throw ApiError.requestTooLarge(limitBytes);
      parts.push(part);
    }
  }
  return Bun.concatArrayBuffers(parts, size, true) as Uint8Array;
}
