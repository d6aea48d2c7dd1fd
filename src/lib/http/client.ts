/**
 * An HTTP/1.1 client with keep-alive connection pools. It passes data on in the turn of the event loop in which it arrives,
 * without threads or promises. Redirects, compression and cookies are left to the caller.
 */

import type { Flow } from "../streams/flow.ts";
import type { Clock } from "../time/clock.ts";
import { type Address, type CallReceiver, Connection, type ConnectionOwner } from "./connection.ts";
import type { HeaderFields } from "./parser.ts";
import type { BodyPieces, StreamedBody } from "./upload.ts";

export type HttpRequest = {
  readonly method: string;
  /** Absolute, http or https. */
  readonly url: string;
  /** By lower-case names. Framing headers are always set by the client, `host` if it is absent. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | BodyPieces | StreamedBody | undefined;
};

/** A transport for HTTP requests. */
export interface Transport {
  /**
   * Sends a request. Pausing the flow applies back-pressure to the server; cancelling it closes the connection.
   * @param receiver receives the response, after this returned
   * @param connectMs connect timeout
   * @throws TypeError for a header or URL that can't be sent
   */
  send(request: HttpRequest, receiver: CallReceiver, connectMs: number): Flow;
  /** Closes idle connections now, and each of the others when its call ends. */
  close(): void;
}

/** No connection was made within the connect timeout. */
export class ConnectTimeout extends Error {
  override readonly name = "ConnectTimeout";
}

/**
 * Maximum idle seconds of a pooled connection where the server sends no `Keep-Alive: timeout`. Less than the server's own idle
 * timeout, so that it seldom closes a connection while a request is sent. Load balancers of providers have 60 s or more: AWS 60,
 * nginx 75, Cloudflare 400, Google 600. Local servers, called without TLS, may have 5 s and not say so: Uvicorn, and vLLM on it.
 * Sources: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html,
 * https://nginx.org/en/docs/http/ngx_http_core_module.html#keepalive_timeout,
 * https://developers.cloudflare.com/fundamentals/reference/connection-limits/,
 * https://cloud.google.com/load-balancing/docs/https#timeouts_and_retries,
 * https://www.uvicorn.org/settings/#timeouts
 */
const maxIdleSeconds = { secure: 45, plain: 4 };
/** Subtracted from the server's idle timeout, as its FIN needs time to arrive. */
const marginSeconds = 1;
const sweepEveryMs = 5_000;
/** Maximum idle connections to one address. */
const maxIdle = 512;

export class HttpClient implements Transport {
  readonly #clock: Clock;
  /** By origin. Origins come from the configuration alone, so there are few. */
  readonly #pools = new Map<string, Pool>();
  /** Where the last request went, as most have the URL of the one before. */
  #last: Destination | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  send(request: HttpRequest, receiver: CallReceiver, connectMs: number): Flow {
    const { pool, path } = this.#last?.url === request.url ? this.#last : this.#resolve(request.url);
    const pieces = messageOf(request, path, pool.heads);
    return new PooledTransfer(pool, pieces, request, receiver, connectMs, this.#clock);
  }

  #resolve(url: string): Destination {
    const slash = url.indexOf("/", url.indexOf("//") + 2);
    const origin = slash < 0 ? url : url.slice(0, slash);
    let pool = this.#pools.get(origin);
    if (pool === undefined) {
      pool = new Pool(new URL(origin), this.#clock);
      this.#pools.set(origin, pool);
    }
    this.#last = { url, pool, path: sendablePath(url, slash < 0 ? "/" : url.slice(slash)) };
    return this.#last;
  }

  close(): void {
    for (const pool of this.#pools.values()) pool.close();
  }
}

type Destination = { readonly url: string; readonly pool: Pool; readonly path: string };

class Pool implements ConnectionOwner {
  readonly heads: HeadWriter;
  readonly #address: Address;
  readonly #maxIdleSeconds: number;
  readonly #clock: Clock;
  /** The longest idle first. */
  #idle: Connection[] = [];
  #cancelSweep: (() => void) | undefined;
  #isClosed = false;

  constructor({ protocol, host, hostname, port }: URL, clock: Clock) {
    const tls = protocol === "https:";
    if (!tls && protocol !== "http:") throw new TypeError(`${protocol} is neither http nor https`);
    this.heads = new HeadWriter(host);
    this.#address = { hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || (tls ? 443 : 80), tls };
    this.#maxIdleSeconds = tls ? maxIdleSeconds.secure : maxIdleSeconds.plain;
    this.#clock = clock;
  }

  /** Takes the most recently used connection, the least likely to have been closed. Skips those with unsolicited bytes. */
  take(now: number): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || (now < connection.staleAt && connection.isReusable)) return connection;
      connection.destroy();
    }
  }

  connect(): Connection {
    return new Connection(this.#address, this);
  }

  freed(connection: Connection): void {
    if (this.#isClosed) {
      connection.destroy();
      return;
    }
    const { idleSeconds = Number.POSITIVE_INFINITY } = connection;
    const seconds = Math.min(this.#maxIdleSeconds, idleSeconds - marginSeconds);
    connection.staleAt = this.#clock.monotonic() + seconds * 1000;
    this.#idle.push(connection);
    if (this.#idle.length > maxIdle) this.#idle[0]!.destroy();
    this.#cancelSweep ??= this.#clock.setTimer(sweepEveryMs, () => this.#sweep());
  }

  closed(connection: Connection): void {
    const at = this.#idle.lastIndexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelSweep?.();
    this.#cancelSweep = undefined;
    for (const connection of [...this.#idle]) connection.destroy();
  }

  #sweep(): void {
    this.#cancelSweep = undefined;
    const now = this.#clock.monotonic();
    for (const connection of [...this.#idle]) if (now >= connection.staleAt) connection.destroy();
    if (this.#idle.length > 0) this.#cancelSweep = this.#clock.setTimer(sweepEveryMs, () => this.#sweep());
  }
}

/**
 * One request, on a pooled connection if there is one. The server may close a pooled connection while the request is written.
 * The request is then sent again on a new connection, but only where the close can't be a reaction to it: the kernel took no
 * byte of it, or the close arrived sooner after the write than the minimum round trip of this connection. Otherwise the server
 * may have processed the request, and the caller decides whether to retry. A streamed body can't be sent again, and so always
 * gets a new connection
 * (https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2, https://www.rfc-editor.org/rfc/rfc9112#section-9.3.1).
 */
class PooledTransfer implements CallReceiver, Flow {
  readonly #pool: Pool;
  /** The head, and the body unless it is streamed. Held for a second attempt; freed where there can't be one, and at the response's head at the latest. */
  #pieces: BodyPieces;
  readonly #streamed: StreamedBody | undefined;
  readonly #hasAnswerBody: boolean;
  /** True if the kernel took the whole request. */
  #isSent = false;
  readonly #receiver: CallReceiver;
  readonly #connectMs: number;
  readonly #clock: Clock;
  /** Undefined once the call is over, as the connection may then carry another. */
  #connection: Connection | undefined;
  #writtenAt = 0;
  #cancelConnecting: (() => void) | undefined;

  constructor(
    pool: Pool,
    pieces: BodyPieces,
    { method, body }: HttpRequest,
    receiver: CallReceiver,
    connectMs: number,
    clock: Clock,
  ) {
    this.#pool = pool;
    this.#pieces = pieces;
    this.#streamed = typeof body === "object" && "source" in body ? body : undefined;
    this.#hasAnswerBody = method !== "HEAD";
    this.#receiver = receiver;
    this.#connectMs = connectMs;
    this.#clock = clock;
    this.#writtenAt = clock.monotonic();
    const reused = this.#streamed === undefined ? pool.take(this.#writtenAt) : undefined;
    this.#connection = reused ?? this.#connect();
    if (reused !== undefined) reused.send(pieces, this, this.#hasAnswerBody);
  }

  pause(): void {
    this.#connection?.pause();
  }

  resume(): void {
    this.#connection?.resume();
  }

  cancel(): void {
    this.#detach()?.destroy();
  }

  connected(): void {
    this.#cancelConnecting?.();
    this.#receiver.connected();
  }

  sent(): void {
    this.#isSent = true;
    let size = 0;
    for (const { length } of this.#pieces) size += length;
    if (size > 0 && size <= maxRepeated) return;
    this.#pieces = nothing;
    this.#receiver.sent?.();
  }

  head(status: number, headers: HeaderFields): void {
    const isHeld = this.#pieces.length > 0;
    this.#pieces = nothing;
    if (this.#isSent && isHeld) this.#receiver.sent?.();
    this.#receiver.head(status, headers);
  }

  whole(bytes: Buffer, from: number, end: number): boolean {
    const isTaken = this.#receiver.whole?.(bytes, from, end) === true;
    if (isTaken) this.#detach();
    return isTaken;
  }

  push(bytes: Buffer): void {
    this.#receiver.push(bytes);
  }

  end(isProven: boolean): void {
    this.#detach();
    this.#receiver.end(isProven);
  }

  fail(error: Error): void {
    const connection = this.#detach();
    // The receiver threw in `end`, after the whole response: there is no call to fail.
    if (connection === undefined) reportError(error);
    else if (this.#wasNotTaken(connection)) this.#connection = this.#connect();
    else this.#receiver.fail(error, this.#isSent);
  }

  /** Ends the use of the connection. @returns it */
  #detach(): Connection | undefined {
    this.#cancelConnecting?.();
    const connection = this.#connection;
    this.#connection = undefined;
    return connection;
  }

  #connect(): Connection {
    const connection = this.#pool.connect();
    this.#isSent = false;
    connection.send(this.#pieces, this, this.#hasAnswerBody, this.#streamed);
    this.#pieces = nothing;
    this.#cancelConnecting = this.#clock.setTimer(this.#connectMs, () => {
      this.cancel();
      this.#receiver.fail(new ConnectTimeout(`no connection within ${this.#connectMs} ms`), false);
    });
    return connection;
  }

  #wasNotTaken({ isUsed, isAnswering, reactionMs }: Connection): boolean {
    if (this.#pieces.length === 0) return false;
    return isUsed && !isAnswering && this.#clock.monotonic() - this.#writtenAt < reactionMs;
  }
}

/**
 * Maximum bytes of a request held for a second attempt once the kernel took all of it: a body that streams gets a new connection
 * each time, so that a shorter one is better read first. For a larger one the server must have
 * acknowledged some packets already, so it is not held until the response.
 */
export const maxRepeated = 256 * 1024;
const nothing: BodyPieces = [];

const framing = new Set(["content-length", "transfer-encoding"]);
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]*$/;
const isAscii = /^[\0-\x7f]*$/;
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Maximum characters of a body that is sent in one piece with its head. */
const maxJoined = 64 * 1024;

/** The bytes of a request as they go out: its head and its body. @throws TypeError as `send` does */
export function wireBytes(request: HttpRequest): Buffer {
  const { url } = request;
  const { host, origin } = new URL(url);
  const pieces = messageOf(request, sendablePath(url, url.slice(origin.length) || "/"), new HeadWriter(host));
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece as string)));
}

/**
 * Writes the heads of requests to one host, but for the framing of their bodies. Nearly all have the line and the fields of the one
 * before, and so its text: to compare them costs a fifth of checking and writing them again.
 */
class HeadWriter {
  readonly #host: string;
  #method = "";
  #path = "";
  #names: readonly string[] = [];
  #values: readonly string[] = [];
  #text = "";
  /** True if the last text is the same as UTF-8 and as Latin-1. Set by the writer alone. */
  isAscii = true;

  /** @param host the `host` header */
  constructor(host: string) {
    this.#host = host;
  }

  /** @throws TypeError naming the header that can't be sent */
  write({ method, headers }: HttpRequest, path: string): string {
    if (method !== this.#method || path !== this.#path) return this.#writeAnew(method, path, headers);
    const names = this.#names;
    const values = this.#values;
    let at = 0;
    for (const name in headers) {
      if (name !== names[at] || headers[name] !== values[at]) return this.#writeAnew(method, path, headers);
      at += 1;
    }
    return at === names.length ? this.#text : this.#writeAnew(method, path, headers);
  }

  #writeAnew(method: string, path: string, headers: HttpRequest["headers"]): string {
    // No request is the same as one that was refused.
    this.#method = "";
    const sent = Object.entries(headers).filter(([name]) => !framing.has(name));
    const values = sent.map(([, value]) => value).join("");
    // One check of all of them costs a fraction of a check of each.
    if (!token.test(sent.map(([name]) => name).join("")) || !fieldValue.test(values)) refuse(headers);
    let text = `${method} ${path} HTTP/1.1\r\n`;
    if (headers["host"] === undefined) text += `host: ${this.#host}\r\n`;
    for (const [name, value] of sent) text += `${name}: ${value}\r\n`;
    this.#names = Object.keys(headers);
    this.#values = Object.values(headers);
    this.isAscii = isAscii.test(values);
    this.#text = text;
    this.#method = method;
    this.#path = path;
    return text;
  }
}

function messageOf(request: HttpRequest, path: string, heads: HeadWriter): BodyPieces {
  const { method, body = nothing } = request;
  let head = heads.write(request, path);
  // Most are one short text.
  if (typeof body === "string" && body !== "" && body.length <= maxJoined && heads.isAscii)
    return [`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`];
  let pieces = nothing;
  let length: number | undefined;
  if (typeof body === "object" && "source" in body) length = body.length;
  else {
    pieces = typeof body === "string" || body instanceof Uint8Array ? [body] : body;
    length = sizeInBytes(pieces);
  }
  if (length === undefined) head += "transfer-encoding: chunked\r\n\r\n";
  else if (length > 0 || bodyMethods.has(method)) head += `content-length: ${length}\r\n\r\n`;
  else head += "\r\n";
  // Strings go out as UTF-8, header fields as they are.
  return gathered([heads.isAscii ? head : Buffer.from(head, "latin1"), ...pieces]);
}

/** Pieces up to this length go with their neighbours. */
const maxGathered = 4096;

/** Each piece is a call to the kernel and a packet of its own, and wakes the upstream. */
function gathered(pieces: BodyPieces): BodyPieces {
  if (pieces.length < 2) return pieces;
  const sizes = pieces.map(sizeOf);
  if (sizes.reduce((sum, size) => sum + size) <= maxJoined) return [joined(pieces, sizes, 0, pieces.length)];
  const sent: (string | Uint8Array)[] = [];
  for (let from = 0; from < pieces.length; ) {
    let to = from;
    while (to < pieces.length && sizes[to]! <= maxGathered) to += 1;
    if (to > from) sent.push(joined(pieces, sizes, from, to));
    if (to < pieces.length) sent.push(pieces[to]!);
    from = to + 1;
  }
  return sent;
}

function joined(pieces: BodyPieces, sizes: readonly number[], from: number, to: number): Uint8Array {
  let size = 0;
  for (let index = from; index < to; index += 1) size += sizes[index]!;
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (let index = from; index < to; index += 1) {
    const piece = pieces[index]!;
    if (typeof piece === "string") bytes.write(piece, at);
    else bytes.set(piece, at);
    at += sizes[index]!;
  }
  return bytes;
}

/** Methods whose body is expected, and so said to be empty: https://www.rfc-editor.org/rfc/rfc9110#section-8.6 */
const bodyMethods = new Set(["POST", "PUT", "PATCH"]);

function sizeInBytes(pieces: BodyPieces): number {
  let length = 0;
  for (const piece of pieces) length += sizeOf(piece);
  return length;
}

const sizeOf = (piece: string | Uint8Array) =>
  typeof piece === "string" ? Buffer.byteLength(piece) : piece.byteLength;

/** @throws TypeError naming the header that can't be sent */
function refuse(headers: HttpRequest["headers"]): void {
  for (const name in headers) {
    if (!token.test(name)) throw new TypeError(`${JSON.stringify(name)} is no header's name`);
    if (!fieldValue.test(headers[name]!)) throw new TypeError(`the value of the header ${name} can't be sent`);
  }
}

/** The path and query of a URL as they can stand in a request line. @param path as they are in it */
function sendablePath(url: string, path: string): string {
  if (/^[!-"$-~]+$/.test(path)) return path;
  const { pathname, search } = new URL(url);
  return pathname + search;
}
