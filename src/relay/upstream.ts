/** The only file that talks to an upstream: one request out, one answer back, with deadlines and cancellation. */
import type { Timeouts } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import type { Account, UpstreamRequest } from "../providers/provider.ts";
import { ApiError } from "../wire/errors.ts";

/** The caller left: nobody is there to be told. */
export class ClientGone extends Error {
  constructor() {
    super("the client is gone");
    this.name = "ClientGone";
  }
}

export type Fetch = (url: string, init: BunFetchRequestInit) => Promise<Response>;

/** More than any answer in this format; a body beyond it is a broken upstream. */
const largestBody = 256 * 1024 * 1024;

/**
 * A body whose length is told and no greater is read in one go, which costs a tenth of a call less; nothing is seen of it
 * on the way, so it has to be there in full within the silence that is allowed.
 */
const smallBody = 64 * 1024;

/** How long a slow first byte is simply waited for before the connection itself is looked into. */
const probeAfterMs = 1000;
/** How long the end of a body is waited for once all that matters was read. */
const settleMs = 1000;
/** An origin that answered this recently can be connected to. */
const reachableForMs = 60_000;

/**
 * Seconds that a connection without a call is kept: less than the 60 after which common load balancers close it
 * (https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html), Bun's steps of
 * 4 seconds included. A call that meets its closing breaks before any answer, and is not made a second time: `fetch` does
 * not tell whether the connection was a used one, nor whether the upstream had read the call, so a second one might be
 * billed twice. The caller, who is told `upstream_unreachable`, decides; with a service-request-id it may do so safely.
 */
const keptIdleSeconds = 40;

export class Upstream {
  readonly #clock: Clock;
  readonly #fetch: Fetch;
  readonly #connects: Connects | null;
  /** When each origin last answered. Origins come from the configuration alone, so the map stays small. */
  readonly #answeredAt = new Map<string, number>();

  /** @param options.connects finds out whether an address takes connections; null behind a forward proxy */
  constructor(clock: Clock, options: { connects?: Connects | null; fetch?: Fetch } = {}) {
    this.#clock = clock;
    this.#connects = options.connects === undefined ? connectsTo : options.connects;
    this.#fetch = options.fetch ?? new Bun.FetchSession({ keepAlive: { idleTimeout: keptIdleSeconds } }).fetch;
  }

  /**
   * Sends one request and resolves when the answer's headers are there.
   * @throws ApiError upstream_unreachable or upstream_timeout; ClientGone when `signal` aborts
   */
  async send(
    request: UpstreamRequest,
    account: Account,
    timeouts: Timeouts,
    signal: AbortSignal,
  ): Promise<UpstreamAnswer> {
    if (signal.aborted) throw new ClientGone();
    const call = new AbortController();
    const leave = () => call.abort(new ClientGone());
    signal.addEventListener("abort", leave, { once: true });
    const release = () => signal.removeEventListener("abort", leave);
    const name = account.name;
    const offFirstByte = this.#clock.after(timeouts.firstByteSeconds * 1000, () =>
      call.abort(ApiError.upstreamTimeout(`${name} sent no answer within ${timeouts.firstByteSeconds} s.`)),
    );
    const offProbe = this.#watchConnecting(request.url, name, timeouts, call);
    try {
      const response = await this.#fetch(request.url, {
        method: request.method ?? "POST",
        headers: headersOf(request, account),
        ...(request.body === undefined ? {} : { body: request.body }),
        signal: call.signal,
        redirect: "manual",
        // Bun's own timer is coarse; the deadlines here are exact.
        timeout: false,
      } as BunFetchRequestInit);
      this.#answeredAt.set(originOf(request.url), this.#clock.monotonic());
      return new UpstreamAnswer(response, name, call, this.#clock, timeouts.idleSeconds, release);
    } catch (error) {
      release();
      throw networkFault(error, call.signal, name);
    } finally {
      offFirstByte();
      offProbe();
    }
  }

  /** `fetch` says nothing of its connecting phase, so a call that stays silent has its address tried on the side. */
  #watchConnecting(url: string, name: string, timeouts: Timeouts, call: AbortController): () => void {
    const connects = this.#connects;
    const answeredAt = this.#answeredAt.get(originOf(url));
    const known = answeredAt !== undefined && this.#clock.monotonic() - answeredAt < reachableForMs;
    if (connects === null || known) return () => {};
    const limitMs = timeouts.connectSeconds * 1000;
    const delay = Math.min(probeAfterMs, limitMs / 2);
    let done = false;
    const off = this.#clock.after(delay, async () => {
      const reachable = await connects(url, limitMs - delay, this.#clock);
      if (done || reachable) return;
      call.abort(ApiError.upstreamTimeout(`${name} took no connection within ${timeouts.connectSeconds} s.`));
    });
    return () => {
      done = true;
      off();
    };
  }
}

/** The operator's headers go before an adapter's; lists are joined. */
function headersOf({ headers, listHeaders = [] }: UpstreamRequest, account: Account): Record<string, string> {
  const sent: Record<string, string> = {
    "content-type": "application/json",
    "accept-encoding": "identity",
    ...headers,
    ...account.headers,
  };
  for (const name of listHeaders) {
    if (headers[name] && account.headers[name]) sent[name] = `${headers[name]},${account.headers[name]}`;
  }
  return sent;
}

/** White space, and what a byte-order mark is made of. */
const blanks = new Set([9, 10, 13, 32, 0xef, 0xbb, 0xbf]);

/** An answer whose headers are there and whose body is still to be read. */
export class UpstreamAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly #name: string;
  readonly #call: AbortController;
  readonly #release: () => void;
  readonly #response: Response;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** Read, and not yet given out. */
  readonly #ahead: Uint8Array[] = [];
  readonly #clock: Clock;
  readonly #idleMs: number;
  /** When the pending read began: a slow client that asks for nothing is no silence of the upstream. */
  #waitingSince: number | undefined;
  #offIdle: () => void = () => {};
  #closed = false;
  #settling = false;

  constructor(
    response: Response,
    name: string,
    call: AbortController,
    clock: Clock,
    idleSeconds: number,
    release: () => void,
  ) {
    this.status = response.status;
    this.headers = response.headers;
    this.#name = name;
    this.#call = call;
    this.#release = release;
    this.#response = response;
    this.#clock = clock;
    this.#idleMs = idleSeconds * 1000;
    if (this.#idleMs > 0) this.#watchSilence(this.#idleMs);
  }

  get isEventStream(): boolean {
    return this.headers.get("content-type")?.includes("text/event-stream") ?? false;
  }

  /** The body's first byte that is no white space; undefined where there is none. It is still to be read. @throws as `read` does */
  async firstByte(): Promise<number | undefined> {
    const ahead: Uint8Array[] = [];
    let found: number | undefined;
    while (found === undefined) {
      const part = await this.read();
      if (part === undefined) break;
      ahead.push(part);
      found = part.find((byte) => !blanks.has(byte));
    }
    this.#ahead.push(...ahead);
    return found;
  }

  /**
   * The next bytes; undefined at the end.
   * @throws ApiError upstream_unreachable on a broken connection, upstream_timeout on silence; ClientGone
   */
  async read(): Promise<Uint8Array | undefined> {
    if (this.#ahead.length > 0) return this.#ahead.shift();
    this.#waitingSince = this.#clock.monotonic();
    try {
      this.#reader ??= this.#response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined;
      const part = await this.#reader?.read();
      this.#waitingSince = undefined;
      if (part !== undefined && !part.done) return part.value;
      this.#close();
      return undefined;
    } catch (error) {
      throw this.#broken(error);
    }
  }

  /** The whole body, as text. @throws as `read` does */
  async text(): Promise<string> {
    const length = this.headers.get("content-length");
    if (length === null || Number(length) > smallBody || this.#reader !== undefined)
      return utf8.decode(await this.bytes());
    this.#waitingSince = this.#clock.monotonic();
    try {
      const text = await this.#response.text();
      this.#close();
      return text;
    } catch (error) {
      throw this.#broken(error);
    }
  }

  /** The whole body. @throws as `read` does */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array[] = [];
    let size = 0;
    for (let part = await this.read(); part !== undefined; part = await this.read()) {
      parts.push(part);
      size += part.byteLength;
      if (size <= largestBody) continue;
      this.cancel();
      throw ApiError.unavailable("upstream_invalid_response", `${this.#name} sent an answer too large to hold.`);
    }
    if (parts.length === 1) return parts[0]! as Uint8Array<ArrayBuffer>;
    return Bun.concatArrayBuffers(parts, size, true) as Uint8Array<ArrayBuffer>;
  }

  #broken(error: unknown): Error {
    this.#close();
    return networkFault(error, this.#call.signal, this.#name);
  }

  /** Ends the call at once if its body has not ended yet, and is not being settled. */
  cancel(): void {
    if (!this.#closed && !this.#settling) this.#abort();
  }

  #abort(): void {
    this.#close();
    this.#call.abort(new ClientGone());
  }

  /** What is left of the body does not matter: it is read for a moment, so that the connection can serve again. */
  settle(): void {
    if (this.#closed || this.#settling) return;
    this.#settling = true;
    const off = this.#clock.after(settleMs, () => this.#abort());
    const drain = async () => {
      while ((await this.read()) !== undefined);
    };
    drain()
      .catch(() => {})
      .finally(off);
  }

  #close(): void {
    this.#closed = true;
    this.#offIdle();
    this.#release();
  }

  /** One timer for the whole stream, set anew only when it falls due: reads cost a clock reading and no more. */
  #watchSilence(waitMs: number): void {
    this.#offIdle = this.#clock.after(waitMs, () => {
      const now = this.#clock.monotonic();
      const left = (this.#waitingSince ?? now) + this.#idleMs - now;
      if (left > 1) return this.#watchSilence(left);
      this.#call.abort(ApiError.upstreamTimeout(`${this.#name} fell silent for ${this.#idleMs / 1000} s.`));
    });
  }
}

const utf8 = new TextDecoder();

function networkFault(error: unknown, signal: AbortSignal, name: string): Error {
  const reason = signal.aborted ? signal.reason : error;
  if (reason instanceof ClientGone || reason instanceof ApiError) return reason;
  return ApiError.unavailable("upstream_unreachable", `${name} could not be reached, or broke the connection.`, {
    cause: reason,
  });
}

function originOf(url: string): string {
  const slash = url.indexOf("/", url.indexOf("//") + 2);
  return slash < 0 ? url : url.slice(0, slash);
}

/** Whether a connection (with TLS where the scheme asks for it) opens within the time. */
export type Connects = (url: string, limitMs: number, clock: Clock) => Promise<boolean>;

const connectsTo: Connects = (url, limitMs, clock) => {
  const { protocol, hostname, port } = new URL(url);
  const tls = protocol === "https:";
  return new Promise((resolve) => {
    const off = clock.after(limitMs, () => resolve(false));
    const settle = (reachable: boolean) => {
      off();
      resolve(reachable);
    };
    Bun.connect({
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port) || (tls ? 443 : 80),
      tls,
      socket: {
        open: (socket) => {
          if (!tls) settle(true);
          if (!tls) socket.end();
        },
        handshake: (socket) => {
          settle(true);
          socket.end();
        },
        // A refusal or a reset is an answer: the call itself will meet it and say so.
        connectError: () => settle(true),
        error: () => settle(true),
        close: () => settle(true),
        data: () => {},
      },
    }).catch(() => settle(true));
  });
};
