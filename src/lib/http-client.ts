/**
 * HTTP/1.1 calls over kept connections, without a thread or a promise in between: what arrives is handed on in the turn in
 * which it arrived. Redirects, compression and cookies are the caller's business.
 */
import type { Clock } from "./clock.ts";
import { type Address, type CallReceiver, Connection, type ConnectionOwner, type Pieces } from "./http-connection.ts";
import type { HeaderFields } from "./http-parser.ts";

export type HttpRequest = {
  readonly method: string;
  /** Absolute, http or https. */
  readonly url: string;
  /** Without those that frame the message: these are set here. */
  readonly headers: Readonly<Record<string, string>>;
  /** Absent: none. */
  readonly body?: string | Uint8Array | Pieces;
};

/** A call under way. */
export interface Transfer {
  /** Lets the other side wait: at most what was read already is still handed on. */
  pause(): void;
  resume(): void;
  /** Ends it; the receiver hears nothing more. */
  cancel(): void;
}

/** Whatever carries calls. */
export interface Transport {
  /**
   * @param connectMs how long making a connection may take
   * @throws TypeError for a header or URL that can't be sent
   */
  send(request: HttpRequest, receiver: CallReceiver, connectMs: number): Transfer;
  /** Ends the connections that carry no call. */
  close(): void;
}

/** No connection within the time. */
export class ConnectTimeout extends Error {
  override readonly name = "ConnectTimeout";
}

/**
 * Seconds that a connection without a call is kept: less than the 60 after which common load balancers close it
 * (https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html).
 */
const keptIdleSeconds = 45;
/** Before the other side's own time is over, since its closing needs time to arrive. */
const marginSeconds = 1;
const sweepEveryMs = 5_000;
/** Idle connections to one address; more are closed. */
const mostIdle = 512;

/**
 * A kept connection that the other side closes at this very moment takes a call and never reads it. It ends within a round
 * trip then: its end was on its way before the call arrived. Whoever had read the call, and begun to work for it, would
 * not have given up within this time. A round trip is no longer than connecting took.
 */
const leastStaleMs = 20;

export class HttpClient implements Transport {
  readonly #clock: Clock;
  /** By origin. Origins come from the configuration alone, so there are few. */
  readonly #pools = new Map<string, Pool>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  send(request: HttpRequest, receiver: CallReceiver, connectMs: number): Transfer {
    const { url } = request;
    const slash = url.indexOf("/", url.indexOf("//") + 2);
    const origin = slash < 0 ? url : url.slice(0, slash);
    let pool = this.#pools.get(origin);
    if (pool === undefined) {
      pool = new Pool(new URL(origin), this.#clock);
      this.#pools.set(origin, pool);
    }
    const path = slash < 0 ? "/" : url.slice(slash);
    const pieces = messageOf(request, pool.host, isSendable(path) ? path : normalised(url));
    return new PooledTransfer(pool, pieces, receiver, connectMs, this.#clock);
  }

  close(): void {
    for (const pool of this.#pools.values()) pool.close();
  }
}

class Pool implements ConnectionOwner {
  /** As the `host` header says it. */
  readonly host: string;
  readonly #address: Address;
  readonly #clock: Clock;
  /** The longest idle first. */
  #idle: Connection[] = [];
  #callOffSweep: (() => void) | undefined;

  constructor({ protocol, host, hostname, port }: URL, clock: Clock) {
    const tls = protocol === "https:";
    if (!tls && protocol !== "http:") throw new TypeError(`${protocol} is neither http nor https`);
    this.host = host;
    this.#address = { hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || (tls ? 443 : 80), tls };
    this.#clock = clock;
  }

  /** How long the other side's word takes at most to get here, as far as is known. */
  roundTripMs = leastStaleMs;

  /** The one that was used last, as it is the least likely to be closed. */
  take(): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || !this.#isStale(connection)) return connection;
      connection.destroy();
    }
  }

  connect(): Connection {
    return new Connection(this.#address, this);
  }

  connectedWithin(ms: number): void {
    this.roundTripMs = Math.max(leastStaleMs, ms);
  }

  freed(connection: Connection): void {
    connection.idleSince = this.#clock.monotonic();
    this.#idle.push(connection);
    if (this.#idle.length > mostIdle) this.#idle[0]!.destroy();
    this.#callOffSweep ??= this.#clock.after(sweepEveryMs, () => this.#sweep());
  }

  gone(connection: Connection): void {
    const at = this.#idle.lastIndexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  close(): void {
    this.#callOffSweep?.();
    this.#callOffSweep = undefined;
    for (const connection of [...this.#idle]) connection.destroy();
  }

  #isStale({ idleSince, idleSeconds = Number.POSITIVE_INFINITY }: Connection): boolean {
    const seconds = Math.min(keptIdleSeconds, idleSeconds - marginSeconds);
    return this.#clock.monotonic() - idleSince >= seconds * 1000;
  }

  #sweep(): void {
    this.#callOffSweep = undefined;
    for (const connection of [...this.#idle]) if (this.#isStale(connection)) connection.destroy();
    if (this.#idle.length > 0) this.#callOffSweep = this.#clock.after(sweepEveryMs, () => this.#sweep());
  }
}

/** One call, on a kept connection if there is one, and once more on a new one if that turns out to be closed. */
class PooledTransfer implements CallReceiver, Transfer {
  readonly #pool: Pool;
  readonly #pieces: Pieces;
  readonly #receiver: CallReceiver;
  readonly #connectMs: number;
  readonly #clock: Clock;
  #connection: Connection;
  #startedAt = 0;
  #callOffConnecting: (() => void) | undefined;

  constructor(pool: Pool, pieces: Pieces, receiver: CallReceiver, connectMs: number, clock: Clock) {
    this.#pool = pool;
    this.#pieces = pieces;
    this.#receiver = receiver;
    this.#connectMs = connectMs;
    this.#clock = clock;
    const kept = pool.take();
    this.#connection = kept ?? this.#connect();
    if (kept !== undefined) {
      this.#startedAt = clock.monotonic();
      kept.send(pieces, this);
    }
  }

  pause(): void {
    this.#connection.pause();
  }

  resume(): void {
    this.#connection.resume();
  }

  cancel(): void {
    this.#callOffConnecting?.();
    this.#connection.destroy();
  }

  connected(): void {
    this.#callOffConnecting?.();
    this.#pool.connectedWithin(this.#clock.monotonic() - this.#startedAt);
    this.#receiver.connected();
  }

  head(status: number, headers: HeaderFields): void {
    this.#receiver.head(status, headers);
  }

  data(bytes: Uint8Array): void {
    this.#receiver.data(bytes);
  }

  end(): void {
    this.#receiver.end();
  }

  fail(error: Error): void {
    this.#callOffConnecting?.();
    if (this.#wasStale()) this.#connection = this.#connect();
    else this.#receiver.fail(error);
  }

  #connect(): Connection {
    this.#startedAt = this.#clock.monotonic();
    const connection = this.#pool.connect();
    connection.send(this.#pieces, this);
    this.#callOffConnecting = this.#clock.after(this.#connectMs, () => {
      connection.destroy();
      this.#receiver.fail(new ConnectTimeout(`no connection within ${this.#connectMs} ms`));
    });
    return connection;
  }

  #wasStale(): boolean {
    const { isUsed, isAnswering } = this.#connection;
    return isUsed && !isAnswering && this.#clock.monotonic() - this.#startedAt <= this.#pool.roundTripMs;
  }
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const isAscii = /^[\0-\x7f]*$/;
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Bodies up to this many characters go out in one piece with their head. */
const mostJoined = 64 * 1024;

function messageOf({ method, headers, body = [] }: HttpRequest, host: string, path: string): Pieces {
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n`;
  for (const name in headers) {
    const value = headers[name]!;
    if (!token.test(name)) throw new TypeError(`${JSON.stringify(name)} is no header's name`);
    if (!fieldValue.test(value)) throw new TypeError(`the value of the header ${name} can't be sent`);
    head += `${name}: ${value}\r\n`;
  }
  const pieces = typeof body === "string" || body instanceof Uint8Array ? [body] : body;
  let length = 0;
  for (const piece of pieces) length += typeof piece === "string" ? Buffer.byteLength(piece) : piece.byteLength;
  if (length > 0 || method === "POST") head += `content-length: ${length}\r\n`;
  head += "\r\n";
  // Strings go out as UTF-8, header fields as they are.
  if (!isAscii.test(head)) return [Buffer.from(head, "latin1"), ...pieces];
  return typeof body === "string" && body.length <= mostJoined ? [head + body] : [head, ...pieces];
}

/** Whether a path and query can stand in a request line as they are. */
function isSendable(path: string): boolean {
  return /^[!-"$-~]+$/.test(path);
}

function normalised(url: string): string {
  const { pathname, search } = new URL(url);
  return pathname + search;
}
