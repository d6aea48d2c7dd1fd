/** One HTTP request on its way: what it is, who sent it, and what its answer must carry. */
import type { SurfaceName } from "../config/config.ts";
import { clientAddress } from "../lib/addresses.ts";
import { freeBuffer, reportGarbage } from "../lib/garbage-collection.ts";
import { largeBody } from "../protocols/chat/request.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Services } from "./services.ts";

/** What is needed of Bun's server. */
export type ServerHandle = {
  requestIP(request: Request): { address: string } | null;
  timeout(request: Request, seconds: number): void;
};

/** Where answers that belong to neither surface are counted. */
export type Area = SurfaceName | "operations";

export class RequestContext {
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
  /** Goes into the request's log line. */
  readonly logFields: Record<string, unknown> = {};
  readonly #server: ServerHandle | null;
  readonly #services: Services;
  /** A large one, as it came, as long as it is held. */
  body: Uint8Array | undefined;
  /** Of the request's body, still in memory. */
  #heldBytes = 0;
  #isClosed = false;

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

  /** Whether the connection's other end is a proxy that the operator trusts. */
  get isFromTrustedProxy(): boolean {
    const peer = this.#peer;
    return peer !== undefined && this.#services.live.trustedProxies.has(peer);
  }

  get #peer(): string | undefined {
    return this.#server?.requestIP(this.request)?.address;
  }

  get clientAddress(): string {
    const peer = this.#peer;
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
      const cancelTimer = clock.setTimer(seconds * 1000, () => reject(ApiError.requestTimeout(seconds)));
      body.then(
        (value) => {
          cancelTimer();
          resolve(value);
        },
        (error) => {
          cancelTimer();
          reject(error);
        },
      );
    });
  }

  /** @throws ApiError overloaded where the bodies under way leave no room for so many more bytes */
  checkRoom(bytes: number): void {
    const { bodyMemory } = this.#services;
    bodyMemory.check(bytes, this.#heldBytes);
  }

  /** Says that so many bytes of the body are in memory. */
  hold(bytes: number): void {
    if (this.#isClosed) throw new Error("a body arrives whose request is over");
    this.#heldBytes += bytes;
    this.#services.bodyMemory.add(bytes);
  }

  /** Says that nobody has anything of the body any more. */
  forgetBody(): void {
    if (this.body !== undefined) freeBuffer(this.body);
    this.release();
  }

  /** Says that nothing of the body is needed once this turn of the event loop has ended. */
  release(): void {
    const bytes = this.#heldBytes;
    if (bytes === 0) return;
    this.#heldBytes = 0;
    this.body = undefined;
    this.#services.bodyMemory.release(bytes);
    if (bytes >= largeBody) reportGarbage(bytes);
  }

  /** Nothing more is held from now on. */
  close(): void {
    this.#isClosed = true;
    this.release();
  }

  /**
   * The path, without the query, its dot segments resolved. Bun gives relative URLs for HTTP/1.0 requests without a Host, and
   * for CONNECT such without a path.
   */
  get path(): string {
    const { url } = this.request;
    const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("//") + 2);
    if (start < 0) return url;
    const query = url.indexOf("?", start);
    return url.slice(start, query < 0 ? undefined : query);
  }

  get query(): URLSearchParams {
    const at = this.request.url.indexOf("?");
    return new URLSearchParams(at < 0 ? "" : this.request.url.slice(at + 1));
  }
}
