/** The context of one HTTP request: the request, its client, its log fields, and the headers of its answer. */
import type { ServedSurface } from "../config/config.ts";
import { clientAddress } from "../lib/http/addresses.ts";
import { endSending } from "../lib/linux/half-close.ts";
import { freeBuffer, minReported, reportGarbage } from "../lib/process/garbage-collection.ts";
import type { Telemetry } from "../observability/otlp/telemetry.ts";
import type { RequestTrace } from "../observability/otlp/trace.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type { StreamEnd } from "../upstream/answer.ts";
import type { AnsweringPersona, AttemptVariant } from "../usage/attempt.ts";
import { type Labels, noLabels } from "../usage/ledger/labels.ts";
import type { LogFieldName, RequestLogFields } from "./log-fields.ts";
import type { BodyContext } from "./read/request-body.ts";
import { sessionOf } from "./read/session.ts";
import type { Services } from "./services.ts";
import { RouteSeries } from "./settle/metrics.ts";

/** The part of Bun's server that is used. */
export type ServerHandle = {
  requestIP(request: Request): { address: string; port?: number } | null;
  readonly port?: number | undefined;
  /** The answer goes on to this process itself, which takes its stream apart. */
  readonly isInner?: boolean;
  timeout(request: Request, seconds: number): void;
};

/** In place of a server, for a request that this process makes of itself for a client. */
export const innerHandle = (address: string | undefined): ServerHandle => ({
  requestIP: () => (address === undefined ? null : { address }),
  timeout: () => {},
  isInner: true,
});

/** A surface, or the endpoints that belong to none. */
export type Area = ServedSurface | "operations";

/** @throws ApiError invalid_value that names the parameter */
export type QueryCheck = (query: URLSearchParams) => void;

/** The listener that an application answers for. */
export type Host = {
  readonly services: Services;
  /** Absent: nothing is exported. */
  readonly telemetry: Telemetry | undefined;
  /** True where `Host` must be an allowed name. */
  readonly checksNames: boolean;
  /** True where connections close after their next answer. */
  readonly draining: boolean;
  /** Bun's, once it listens. Handlers do not name the framework's, which makes three more objects for each request where any does. */
  readonly server: ServerHandle | null;
  readonly surfaces: readonly ServedSurface[];
  /** Its open WebSockets. */
  readonly sockets: Set<{ readonly keyId: string; goAway(): void }>;
};

/** The parts of a request's answer that are known before it has a handler. */
export type ServedRoute = {
  readonly area: Area;
  /** The pattern, with its base. */
  readonly path: string;
  readonly protocol: Protocol;
  /** The name of the client format, for metrics, logs and traces; "none" where the route has none. */
  readonly format?: string;
  /** Refuses what the route's description does not have; absent: it takes no query. */
  readonly queryCheck?: QueryCheck | undefined;
  /** Its metrics, from its first request on. */
  series?: RouteSeries;
};

/** The time in which a client has to close a connection that ended on this side. */
const brokenOffSeconds = 60;

const noTags: readonly string[] = [];

export class RequestContext {
  readonly request: Request;
  readonly area: Area;
  /** The route's pattern, for metrics and logs. */
  readonly route: string;
  /** The client's format: the form of its key and of errors. */
  readonly protocol: Protocol;
  /** The name of the client format; "none" where the route has none. */
  readonly format: string;
  readonly series: RouteSeries;
  /** Part of every id that is made for this request. */
  readonly uniqueId: string;
  /** In `x-request-id` and in every log line. */
  readonly id: string;
  /** A monotonic reading in milliseconds. */
  readonly startedAt: number;
  /** Headers of the answer, also if it is an error. */
  readonly headers: Record<string, string>;
  /** The number of attempts to answer it. */
  attempts = 0;
  /** Names that its use is accounted under, beside its key's id. */
  tags: readonly string[] = noTags;
  /** The persona that answers it, once that is known. */
  persona: AnsweringPersona | undefined;
  /** The variant of a persona that answers it, once that is chosen. */
  variant: AttemptVariant | undefined;
  /** Names that it gives of its user and client, once it is parsed. */
  labels: Labels = noLabels;
  readonly queryCheck: QueryCheck | undefined;
  /** Its spans; absent where it is not traced. */
  readonly trace: RequestTrace | undefined;
  /** Fields of the request's log line. */
  readonly logFields: RequestLogFields;
  readonly #server: ServerHandle | null;
  readonly #services: Services;
  /** A large body, while it is in memory. */
  body: BodyContext["body"];
  /** Bytes of the body that count as in memory. */
  #heldBytes = 0;
  /** The number of those that need the body even when the request is over. */
  #retained = 0;
  #isClosed = false;
  /** True where its connection has another idle timeout than connections without a request. */
  #hasOwnIdleTimeout = false;

  constructor(host: Host, request: Request, server: ServerHandle | null, route: ServedRoute) {
    const { services } = host;
    this.request = request;
    this.area = route.area;
    this.route = route.path;
    this.protocol = route.protocol;
    this.format = route.format ?? "none";
    this.queryCheck = route.queryCheck;
    route.series ??= new RouteSeries(services.httpMetrics, route.area, route.path, this.format);
    this.series = route.series;
    this.uniqueId = services.clock.newId();
    this.id = `req_${this.uniqueId}`;
    this.startedAt = services.clock.monotonic();
    this.trace =
      host.telemetry === undefined || route.area === "operations"
        ? undefined
        : host.telemetry.trace({
            id: this.uniqueId,
            answerId: route.protocol.answerIdPrefix + this.uniqueId,
            traceparent: request.headers.get("traceparent"),
            route: route.path,
            conversation: sessionOf(request),
          });
    this.headers = { "x-request-id": this.id, ...route.protocol.responseHeaders?.(this.id) };
    this.#server = server;
    this.#services = services;
    // Fields that are known last have their place before those that come in between.
    this.logFields = {
      request_id: this.id,
      method: request.method,
      route: route.path,
      status: undefined,
      duration_ms: undefined,
    };
  }

  /** Ends the request: drops its body, counts it, and writes its log line. @param end of its stream */
  finish(status: number, end?: StreamEnd): void {
    const { clock, live, log, logSampler } = this.#services;
    this.#services.running -= 1;
    // Whoever retains the body drops it later.
    this.#isClosed = true;
    if (this.#retained === 0) this.release();
    // A connection keeps what was set for one request: without this it would never end, or with the next request.
    if (this.#hasOwnIdleTimeout) this.#server?.timeout(this.request, live.config.limits.idleConnectionSeconds);
    const milliseconds = clock.monotonic() - this.startedAt;
    const { logFields, area, request } = this;
    logFields["status"] = status;
    logFields["duration_ms"] = Math.round(milliseconds * 100) / 100;
    if (end !== undefined) logFields["stream_end"] = end;
    this.series.request(request.method, status, milliseconds / 1000);
    if (this.trace !== undefined) {
      const { id, route } = this;
      const scheme = request.url.startsWith("https:") ? "https" : "http";
      this.trace.finish({
        ...{ id, method: request.method, scheme, route, surface: area, status },
        ...{ endedAt: clock.now(), milliseconds, logFields },
      });
    }
    const { sample, omit } = live.config.log;
    if (status < 400 && sample < 1 && !logSampler.takes(sample)) return;
    const level = area === "operations" ? "debug" : status >= 500 ? "error" : "info";
    for (const name of omit) delete logFields[name as LogFieldName];
    log[level]("request", logFields);
  }

  /** True where the connection's other end is a proxy that the operator trusts. */
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
   * Sets the connection's idle timeout until the request ends. The usual one protects against half-sent requests; once the request
   * has arrived, a model may take longer than that.
   * @param seconds 0: no timeout
   */
  setIdleTimeout(seconds: number): void {
    this.#hasOwnIdleTimeout = true;
    this.#server?.timeout(this.request, seconds);
  }

  /** True where the answer has a connection of its own. */
  get hasConnection(): boolean {
    return this.#server !== null && this.#server.isInner !== true;
  }

  /**
   * Ends the connection behind what was sent of the answer, without the end of the answer's framing: clients, and proxies between, know by
   * that alone that something is lacking. @returns false where that can't be done
   */
  async endConnection(): Promise<boolean> {
    const peer = this.#server?.requestIP(this.request);
    if (peer?.port === undefined) return false;
    this.setIdleTimeout(brokenOffSeconds);
    return endSending({ address: peer.address, port: peer.port, localPort: this.#server?.port });
  }

  /** Waits for the request's body. @throws ApiError request_timeout when it takes longer than it may */
  async arrival<T>(body: Promise<T>): Promise<T> {
    const { bodyDeadlines, live } = this.#services;
    const seconds = live.config.limits.bodySeconds;
    const deadlines = bodyDeadlines.of(seconds * 1000);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const waiting = { expire: () => reject(ApiError.requestTimeout(seconds)), timeout: undefined };
    deadlines.add(waiting);
    body.then(resolve, reject);
    try {
      return await promise;
    } finally {
      deadlines.delete(waiting);
    }
  }

  /** @throws ApiError overloaded where other requests' bodies leave no room for so many more bytes */
  checkRoom(bytes: number): void {
    const { bodyMemory } = this.#services;
    bodyMemory.check(bytes, this.#heldBytes);
  }

  /** Counts bytes of the body as in memory. @throws ApiError overloaded where there is no room for them */
  hold(bytes: number): void {
    if (this.#isClosed) throw new Error("a body arrived after its request ended");
    const { bodyMemory } = this.#services;
    bodyMemory.check(bytes, this.#heldBytes);
    this.#heldBytes += bytes;
    bodyMemory.add(bytes);
  }

  /** Frees the body's bytes, which nobody may read any more. */
  forgetBody(): void {
    const { body } = this;
    if (body !== undefined) for (const part of body.parts) freeBuffer(part);
    this.release(body?.large?.restoredBytes);
  }

  /** Drops the body, which becomes garbage at the end of this turn of the event loop. @param garbage bytes that are left to be collected */
  release(garbage = this.#heldBytes): void {
    const bytes = this.#heldBytes;
    if (bytes === 0) return;
    this.#heldBytes = 0;
    this.body = undefined;
    this.#services.bodyMemory.release(bytes);
    if (garbage >= minReported) reportGarbage(garbage);
  }

  /** Keeps the body for as long as the work takes, be it beyond the request's end. */
  async retainWhile<T>(work: () => Promise<T>): Promise<T> {
    const release = this.retain();
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Keeps the body, and what it counts for, beyond the request's end. @returns ends that, once */
  retain(): () => void {
    let isRetained = true;
    this.#retained += 1;
    return () => {
      if (!isRetained) return;
      isRetained = false;
      this.#retained -= 1;
      if (this.#isClosed && this.#retained === 0) this.release();
    };
  }

  /** The path, without the query, its dot segments resolved. */
  get path(): string {
    return pathOf(this.request.url);
  }

  get query(): URLSearchParams {
    const at = this.request.url.indexOf("?");
    return new URLSearchParams(at < 0 ? "" : this.request.url.slice(at + 1));
  }
}

/**
 * The path of a request's URL, without the query. Bun gives relative URLs for HTTP/1.0 requests without a Host, and for CONNECT such
 * without a path.
 */
export function pathOf(url: string): string {
  const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return url;
  const query = url.indexOf("?", start);
  return url.slice(start, query < 0 ? undefined : query);
}
