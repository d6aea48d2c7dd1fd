/** The only file that talks to an upstream: one request out, one answer back, with deadlines and cancellation. */
import type { Timeouts } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import { dropLarge } from "../lib/collection.ts";
import { ConnectTimeout, HttpClient, type Transfer, type Transport } from "../lib/http/client.ts";
import type { CallReceiver } from "../lib/http/connection.ts";
import { type ByteReceiver, type Inflater, inflating } from "../lib/http/decompress.ts";
import { type HeaderFields, HttpFault } from "../lib/http/parser.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Account, UpstreamRequest } from "../providers/provider.ts";

/** The caller left: nobody is there to be told. */
export class ClientDisconnected extends Error {
  constructor() {
    super("the client is gone");
    this.name = "ClientDisconnected";
  }
}

/** More than any answer in this format; a body beyond it is a broken upstream. */
const maxBody = 256 * 1024 * 1024;

/** Bytes from which on what an answer leaves behind is worth collecting. */
const largeAnswer = 64 * 1024;

/** How long the end of a body is waited for once all that matters was read. */
const settleMs = 1000;

export class Upstream {
  readonly #clock: Clock;
  readonly #transport: Transport;

  /** @param transport default: own connections; behind a forward proxy, what knows the way through it */
  constructor(clock: Clock, transport: Transport = new HttpClient(clock)) {
    this.#clock = clock;
    this.#transport = transport;
  }

  /**
   * Sends one request and resolves when the answer's headers are there.
   * @param onSent told once the whole request is out, and nothing of it is held here
   * @throws ApiError upstream_unreachable or upstream_timeout; ClientDisconnected when `signal` aborts
   */
  send(
    request: UpstreamRequest,
    account: Account,
    timeouts: Timeouts,
    signal: AbortSignal,
    onSent?: () => void,
  ): Promise<UpstreamAnswer> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) throw new ClientDisconnected();
      const answer = new UpstreamAnswer(account.name, timeouts, this.#clock, signal, { resolve, reject, onSent });
      answer.begin(this.#transport, {
        method: request.method ?? "POST",
        url: request.url,
        headers: headersOf(request, account),
        ...(request.body === undefined ? {} : { body: request.body }),
      });
    });
  }

  /** Lets go of the connections that carry no call. */
  close(): void {
    this.#transport.close();
  }
}

/** The operator's headers go before an adapter's; lists are joined. */
function headersOf({ headers, listHeaders = [] }: UpstreamRequest, account: Account): Record<string, string> {
  const sent: Record<string, string> = {
    "content-type": "application/json",
    accept: "*/*",
    "accept-encoding": "identity",
    "user-agent": "troupe",
    ...headers,
    ...account.headers,
  };
  for (const name of listHeaders) {
    if (headers[name] && account.headers[name]) sent[name] = `${headers[name]},${account.headers[name]}`;
  }
  return sent;
}

/** Pieces that wait for a reader who has not come yet; the next ones wait at the other side. */
const maxAhead = 4;

const spaces = new Set([9, 10, 13, 32]);
/** White space, and what a byte-order mark is made of. */
const blanks = new Set([...spaces, 0xef, 0xbb, 0xbf]);

type Opened = {
  resolve(answer: UpstreamAnswer): void;
  reject(error: Error): void;
  readonly onSent: (() => void) | undefined;
};

/** An answer whose headers are there and whose body is still to be taken, at once or as it comes. */
export class UpstreamAnswer implements CallReceiver {
  status = 0;
  headers!: HeaderFields;
  readonly #name: string;
  readonly #timeouts: Timeouts;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #leave = () => this.#break(new ClientDisconnected());
  readonly #opened: Opened;
  #transfer: Transfer | undefined;
  #inflater: Inflater | undefined;
  #cancelTimer: () => void;
  #reader: ByteReceiver | undefined;
  /** Arrived, and not yet given out. */
  #ahead: Buffer[] = [];
  #isPaused = false;
  /** When something came last, or was wanted again: a slow client that wants nothing is no silence of the upstream. */
  #heardAt = 0;
  /** Nothing more will come. */
  #isOver = false;
  /** Whether the body's end is certain without a look at its form. */
  #isProven = true;
  #fault: Error | undefined;
  #isSettling = false;
  #isClosing = false;
  #arrival: (() => void) | undefined;

  constructor(name: string, timeouts: Timeouts, clock: Clock, signal: AbortSignal, opened: Opened) {
    this.#name = name;
    this.#timeouts = timeouts;
    this.#clock = clock;
    this.#signal = signal;
    this.#opened = opened;
    signal.addEventListener("abort", this.#leave, { once: true });
    const { firstByteSeconds } = timeouts;
    this.#cancelTimer = clock.setTimer(firstByteSeconds * 1000, () =>
      this.#break(ApiError.upstreamTimeout(`${name} sent no answer within ${firstByteSeconds} s.`)),
    );
  }

  begin(transport: Transport, request: Parameters<Transport["send"]>[0]): void {
    try {
      this.#transfer = transport.send(request, this, this.#timeouts.connectSeconds * 1000);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** The upstream's, as the configuration has it. */
  get name(): string {
    return this.#name;
  }

  get isEventStream(): boolean {
    return this.headers.get("content-type")?.includes("text/event-stream") ?? false;
  }

  /** The body's first byte that is no white space; undefined where there is none. It is still to be taken. @throws as `bytes` does */
  async firstByte(): Promise<number | undefined> {
    for (;;) {
      // Some upstreams send line feeds while they think: those must not take up the room of what follows.
      this.#ahead = this.#ahead.filter((part) => part.some((byte) => !spaces.has(byte)));
      for (const part of this.#ahead) {
        const found = part.find((byte) => !blanks.has(byte));
        if (found !== undefined) return found;
      }
      if (this.#fault !== undefined) throw this.#fault;
      if (this.#isOver) return undefined;
      this.#watchSilence();
      this.#transfer?.resume();
      await new Promise<void>((resolve) => {
        this.#arrival = resolve;
      });
    }
  }

  /** Once: gives the body to the reader, beginning before this returns with what is there. Its `fail` gets what `bytes` throws. */
  flow(reader: ByteReceiver): void {
    this.#reader = reader;
    this.#give();
    if (this.#isOver) return;
    this.#watchSilence();
    if (!this.#isPaused) this.#transfer?.resume();
  }

  /** The reader wants nothing for now. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#heardAt = this.#clock.monotonic();
    this.#give();
    if (!this.#isPaused) this.#transfer?.resume();
  }

  /**
   * The whole body.
   * @throws ApiError upstream_unreachable on a broken connection, upstream_timeout on silence; ClientDisconnected
   */
  bytes(): Promise<Uint8Array<ArrayBuffer>> {
    return new Promise((resolve, reject) => {
      const parts: Uint8Array[] = [];
      let size = 0;
      this.flow({
        data: (bytes) => {
          parts.push(bytes);
          size += bytes.byteLength;
          if (size <= maxBody) return;
          this.cancel();
          reject(ApiError.unavailable("upstream_invalid_response", `${this.#name} sent an answer too large to hold.`));
        },
        end: () => {
          // Its parts, its bytes and its text are garbage once it is read, which is in this turn of the event loop.
          if (size >= largeAnswer) dropLarge(3 * size);
          const body = (parts.length === 1 ? parts[0]! : Buffer.concat(parts, size)) as Uint8Array<ArrayBuffer>;
          if (this.#isProven || isWholeJson(body)) resolve(body);
          else reject(networkFault(new HttpFault("nothing tells the end of the body"), this.#name, this.#timeouts));
        },
        fail: reject,
      });
    });
  }

  /** The whole body, as text; at once where it is all there. @throws as `bytes` does */
  text(): string | Promise<string> {
    if (this.#isOver && this.#isProven && this.#fault === undefined && this.#ahead.length === 1)
      return utf8.decode(this.#ahead.pop());
    return this.bytes().then((bytes) => utf8.decode(bytes));
  }

  /** Ends the call at once if its body has not ended yet, and is not being settled. */
  cancel(): void {
    if (this.#isSettling) return;
    this.#end();
    this.#reader = undefined;
  }

  /** What is left of the body does not matter: it is waited for a moment, so that the connection can serve again. */
  settle(): void {
    if (this.#isOver || this.#isSettling) return;
    this.#isSettling = true;
    this.#reader = ignoring;
    this.#ahead = [];
    this.#isPaused = false;
    this.#transfer?.resume();
    this.#cancelTimer();
    this.#cancelTimer = this.#clock.setTimer(settleMs, () => this.#end());
  }

  /** The upstream said that it ended: what else comes is given for a moment more, and then the body counts as ended, however. */
  finishSoon(): void {
    if (this.#isOver || this.#isClosing) return;
    this.#isClosing = true;
    this.#cancelTimer();
    this.#cancelTimer = this.#clock.setTimer(settleMs, () => {
      this.#finish();
      this.#transfer?.cancel();
    });
  }

  connected(): void {}

  sent(): void {
    this.#opened.onSent?.();
  }

  head(status: number, headers: HeaderFields): void {
    this.status = status;
    this.headers = headers;
    this.#cancelTimer();
    this.#heardAt = this.#clock.monotonic();
    this.#inflater = inflating(headers.get("content-encoding"), this.#transfer, {
      data: (bytes) => this.#take(bytes),
      end: () => this.#finish(),
      fail: (error) => this.fail(error),
    });
    this.#transfer = this.#inflater ?? this.#transfer;
    this.#opened.resolve(this);
  }

  data(bytes: Buffer): void {
    if (this.#inflater === undefined) this.#take(bytes);
    else this.#inflater.data(bytes);
  }

  end(isProven: boolean): void {
    this.#isProven = isProven;
    if (this.#inflater === undefined) this.#finish();
    else this.#inflater.end();
  }

  fail(error: Error): void {
    this.#break(networkFault(error, this.#name, this.#timeouts));
  }

  #take(bytes: Buffer): void {
    if (this.#isOver) return;
    this.#heardAt = this.#clock.monotonic();
    if (this.#reader !== undefined && !this.#isPaused) {
      this.#reader.data(bytes);
      return;
    }
    this.#ahead.push(bytes);
    if (this.#isPaused || this.#ahead.length >= maxAhead) this.#transfer?.pause();
    this.#arrival?.();
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#release();
    this.#give();
    this.#arrival?.();
  }

  /** Ends the call with an error that its reader is told of, behind what came before. */
  #break(fault: Error): void {
    if (this.#isOver) return;
    if (this.#isClosing && !(fault instanceof ClientDisconnected)) {
      this.#finish();
      return;
    }
    this.#fault = fault;
    this.#end();
    this.#opened.reject(fault);
    this.#give();
    this.#arrival?.();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#release();
    this.#transfer?.cancel();
  }

  #release(): void {
    this.#cancelTimer();
    this.#signal.removeEventListener("abort", this.#leave);
  }

  /** Gives out what is there, the end included. */
  #give(): void {
    while (this.#reader !== undefined && !this.#isPaused) {
      const next = this.#ahead.shift();
      if (next !== undefined) {
        this.#reader.data(next);
        continue;
      }
      const reader = this.#reader;
      if (!this.#isOver) return;
      this.#reader = undefined;
      if (this.#fault === undefined) reader.end();
      else reader.fail(this.#fault);
    }
  }

  /** One timer for the whole stream, set anew only when it falls due: an arrival costs a clock reading and no more. */
  #watchSilence(waitMs = this.#timeouts.idleSeconds * 1000): void {
    const idleMs = this.#timeouts.idleSeconds * 1000;
    if (idleMs <= 0 || this.#isClosing) return;
    this.#cancelTimer();
    this.#cancelTimer = this.#clock.setTimer(waitMs, () => {
      const now = this.#clock.monotonic();
      const left = (this.#isPaused ? now : this.#heardAt) + idleMs - now;
      if (left > 1) this.#watchSilence(left);
      else this.#break(ApiError.upstreamTimeout(`${this.#name} fell silent for ${idleMs / 1000} s.`));
    });
  }
}

const ignoring: ByteReceiver = { data() {}, end() {}, fail() {} };

const utf8 = new TextDecoder();

/** Whether it is an object or a list from its first bracket to its last: half a number is a number too. */
function isWholeJson(body: Uint8Array): boolean {
  try {
    return typeof JSON.parse(utf8.decode(body)) === "object";
  } catch {
    return false;
  }
}

function networkFault(error: Error, name: string, { connectSeconds }: Timeouts): Error {
  if (error instanceof ConnectTimeout) {
    return ApiError.upstreamTimeout(`${name} took no connection within ${connectSeconds} s.`);
  }
  return ApiError.upstreamUnreachable(`${name} could not be reached, or broke the connection.`, error);
}
