/** Sends one request to an upstream and reads its answer, with deadlines and cancellation. No other file does. */
import type { Timeouts } from "../config/config.ts";
import { HttpClient, type HttpRequest, type Transport } from "../lib/http/client.ts";
import type { CallReceiver } from "../lib/http/connection.ts";
import { type Decompressor, decompressor } from "../lib/http/decompress.ts";
import { type HeaderFields, HttpFault } from "../lib/http/parser.ts";
import { parseJson } from "../lib/json/json.ts";
import { minReported, reportGarbage } from "../lib/process/garbage-collection.ts";
import { Buffered, type Flow, folded, type Sink, type Source } from "../lib/streams/flow.ts";
import type { Clock } from "../lib/time/clock.ts";
import { DeadlineLists, type Deadlines, type Expiring } from "../lib/time/deadlines.ts";
import { IdleTimer } from "../lib/time/idle-timer.ts";
import { ApiError } from "../protocols/errors.ts";
import type { UpstreamRequest } from "../providers/provider.ts";
import type { BoundAccount } from "./accounts.ts";
import type { Credentials } from "./credentials/credentials.ts";
import { networkFault } from "./network-fault.ts";

/** The client disconnected, so no response is sent. */
export class ClientDisconnected extends Error {
  constructor() {
    super("the client disconnected");
    this.name = "ClientDisconnected";
  }
}

/** Errors of requests of which the upstream can't have got the whole. */
const unsent = new WeakSet<Error>();

/** True if the upstream can't have got the whole request, and so can't have answered or billed it. */
export const wasUnsent = (error: unknown): boolean => error instanceof Error && unsent.has(error);

/** Maximum bytes of a plain answer; no valid answer is as large. */
const maxBody = 256 * 1024 * 1024;
/** The time to wait for the end of a body after its terminal event. */
const drainMs = 1000;

/** A request that is passed on: its body may be streamed. */
export type PassedRequest = Omit<UpstreamRequest, "body"> & {
  readonly body?: HttpRequest["body"];
  /** True if nothing is added to its headers but the key and what the operator configured. */
  readonly isBare?: boolean;
};

/** On whose account a request is sent. */
type Sender = Pick<BoundAccount, "account" | "credentials" | "timeouts">;

export class Upstream {
  readonly #clock: Clock;
  readonly #transport: Transport;
  /** Of the first bytes of answers. */
  readonly #deadlines: DeadlineLists;

  /** @param transport default: pooled connections; `FetchTransport` behind a forward proxy */
  constructor(clock: Clock, transport: Transport = new HttpClient(clock)) {
    this.#clock = clock;
    this.#transport = transport;
    this.#deadlines = new DeadlineLists(clock);
  }

  /**
   * Sends one request and resolves with the answer's headers.
   * @param onSent called once the whole request is sent and nothing of it is held here
   * @throws ApiError upstream_unreachable, upstream_timeout, or upstream_unavailable without credentials; ClientDisconnected when `signal` aborts
   */
  send(
    request: PassedRequest,
    { account, credentials, timeouts }: Sender,
    signal: AbortSignal,
    onSent?: () => void,
  ): Promise<UpstreamAnswer> {
    if (signal.aborted) return Promise.reject(new ClientDisconnected());
    const { promise, resolve, reject } = Promise.withResolvers<UpstreamAnswer>();
    const deadlines = this.#deadlines.of(timeouts.firstByteSeconds * 1000);
    const opened = { resolve, reject, onSent, credentials, deadlines };
    const answer = new UpstreamAnswer(account.name, timeouts, this.#clock, signal, opened);
    const usual = request.isBare === true ? noHeaders : usualHeaders;
    const unsigned = {
      method: request.method ?? "POST",
      url: request.url,
      // The same object where there are no others, which `Credentials` knows again.
      headers: request.headers === undefined ? usual : { ...usual, ...request.headers },
      body: request.body,
    };
    const keyed = credentials.keyed(unsigned, request.keyPlace);
    const { signer } = credentials;
    if (signer === undefined) answer.begin(this.#transport, keyed);
    else void answer.beginSigned(this.#transport, signer.sign(keyed));
    return promise;
  }

  /** Closes the idle connections, and the others after their calls. */
  close(): void {
    this.#transport.close();
  }
}

const usualHeaders = {
  "content-type": "application/json",
  accept: "*/*",
  "accept-encoding": "identity",
  "user-agent": "troupe",
};
const noHeaders = {};

/** Maximum pieces buffered before a reader is attached; then the socket is paused. */
const maxAhead = 4;
const spaces = new Set([9, 10, 13, 32]);
/** Its first byte. */
const byteOrderMark = 0xef;
/** White space, and what a byte-order mark is made of. */
const blanks = new Set([...spaces, byteOrderMark, 0xbb, 0xbf]);

/** @returns the first byte that is none of these */
function firstBeside(skipped: ReadonlySet<number>, bytes: Buffer): number | undefined {
  let at = 0;
  while (at < bytes.length && skipped.has(bytes[at]!)) at += 1;
  return bytes[at];
}

type Opened = {
  resolve(answer: UpstreamAnswer): void;
  reject(error: Error): void;
  readonly onSent: (() => void) | undefined;
  readonly credentials: Credentials;
  readonly deadlines: Deadlines;
};

/** An upstream's answer: headers, and a body that is read whole or streamed. */
export class UpstreamAnswer implements CallReceiver, Expiring, EventListenerObject, Source<Buffer> {
  status = 0;
  headers!: HeaderFields;
  timeout: Expiring["timeout"];
  /** Of the signed request. */
  #requestHeaders: HttpRequest["headers"] | undefined;
  readonly #name: string;
  readonly #timeouts: Timeouts;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #opened: Opened;
  /** The transfer, or the decompressor in front of it. */
  #transfer: Flow | undefined;
  #decompressor: Decompressor | undefined;
  #body: Buffered<Buffer> | undefined;
  /** Bytes whose part is the whole body, until it is read; `#body` is empty meanwhile. */
  #whole: Buffer | undefined;
  #wholeFrom = 0;
  #wholeEnd = 0;
  /** Of the drain. */
  #cancelTimer: (() => void) | undefined;
  /** Does not fire while the client applies back-pressure: that is no silence of the upstream. */
  #idleTimer: IdleTimer | undefined;
  /** The body has ended, failed or been cancelled. */
  #isOver = false;
  /** True if the framing proves that the body is complete. */
  #isProven = true;
  #fault: Error | undefined;
  #isDraining = false;
  #isClosing = false;
  #isUploading = false;
  #onArrival: (() => void) | undefined;

  constructor(name: string, timeouts: Timeouts, clock: Clock, signal: AbortSignal, opened: Opened) {
    this.#name = name;
    this.#timeouts = timeouts;
    this.#clock = clock;
    this.#signal = signal;
    this.#opened = opened;
    // It aborts once: to say so too costs as much again.
    signal.addEventListener("abort", this);
    opened.deadlines.add(this);
  }

  /** The client is gone. */
  handleEvent(): void {
    this.#break(new ClientDisconnected());
  }

  /** The answer did not begin in time. */
  expire(): void {
    const { firstByteSeconds } = this.#timeouts;
    this.#break(ApiError.upstreamTimeout(`${this.#name} sent no answer within ${firstByteSeconds} s.`));
  }

  #startIdleTimer(): void {
    const { idleSeconds } = this.#timeouts;
    this.#idleTimer ??= new IdleTimer(this.#clock, idleSeconds * 1000, () => {
      if (this.#body?.isPaused !== true)
        this.#break(ApiError.upstreamTimeout(`${this.#name} fell silent for ${idleSeconds} s.`));
    });
    this.#idleTimer.start();
  }

  /** Begins once the request is signed. The deadline of the answer runs meanwhile, and the call may end. */
  async beginSigned(transport: Transport, signing: Promise<HttpRequest>): Promise<void> {
    try {
      const signed = await signing;
      if (!this.#isOver) this.begin(transport, signed);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  begin(transport: Transport, request: HttpRequest): void {
    this.#requestHeaders = request.headers;
    const { body } = request;
    // Until a streamed body is sent the client, who sends it, decides how long that takes.
    this.#isUploading = typeof body === "object" && "source" in body;
    if (this.#isUploading) this.#opened.deadlines.delete(this);
    try {
      this.#transfer = transport.send(request, this, this.#timeouts.connectSeconds * 1000);
    } catch (error) {
      this.fail(error as Error, false);
    }
  }

  /** The account's name in the configuration. */
  get name(): string {
    return this.#name;
  }

  /** After the end: whether the framing proves that the body is complete. */
  get isProven(): boolean {
    return this.#isProven;
  }

  get isEventStream(): boolean {
    return this.headers.get("content-type")?.includes("text/event-stream") ?? false;
  }

  /** Peeks at the body's first byte that is not white space; undefined where there is none. @throws as `bytes` does */
  async firstByte(): Promise<number | undefined> {
    const body = this.#pieces();
    for (;;) {
      // Some upstreams send line feeds while they think: drop them, as the buffer is bounded.
      body.filterHeld((part) => firstBeside(spaces, part) !== undefined);
      for (const part of body.held) {
        const found = firstBeside(blanks, part);
        if (found !== undefined) return found;
      }
      if (this.#fault !== undefined) throw this.#fault;
      if (this.#isOver) return undefined;
      this.#startIdleTimer();
      this.#transfer?.resume();
      await new Promise<void>((resolve) => {
        this.#onArrival = resolve;
      });
    }
  }

  /** Streams the body. Fails with what `bytes` throws. */
  flow(sink: Sink<Buffer>): void {
    if (!this.#isOver && !this.#isClosing) this.#startIdleTimer();
    this.#pieces().flow(sink);
  }

  pause(): void {
    this.#body?.pause();
  }

  resume(): void {
    if (this.#body?.isPaused !== true) return;
    this.#idleTimer?.touch();
    this.#body.resume();
  }

  /**
   * Reads the whole body.
   * @throws ApiError upstream_unreachable on a broken connection, upstream_timeout on silence; ClientDisconnected
   */
  bytes(): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array[] = [];
    let size = 0;
    return folded(this, {
      push: (bytes) => {
        parts.push(bytes);
        size += bytes.byteLength;
        if (size <= maxBody) return;
        throw ApiError.unavailable("upstream_invalid_response", `${this.#name} sent an answer too large to hold.`);
      },
      end: () => {
        // Its parts, its bytes and its text are garbage once it is read, which is in this turn of the event loop.
        if (size >= minReported) reportGarbage(3 * size);
        const body = (parts.length === 1 ? parts[0]! : Buffer.concat(parts, size)) as Uint8Array<ArrayBuffer>;
        if (this.#isProven || isWholeJson(body)) return body;
        throw networkFault(new HttpFault("the end of the body is not certain"), this.#name, this.#timeouts);
      },
    });
  }

  /** Takes the body where all of it came with the head; undefined else, and then it is still to be read. */
  arrived(): Buffer | undefined {
    const whole = this.#whole;
    this.#whole = undefined;
    return whole?.subarray(this.#wholeFrom, this.#wholeEnd);
  }

  /** Reads the whole body as text. @throws as `bytes` does */
  async text(): Promise<string> {
    const whole = this.#whole;
    // It reads as the decoder does, but for a byte-order mark.
    if (whole !== undefined && whole[this.#wholeFrom] !== byteOrderMark)
      return whole.toString("utf8", this.#wholeFrom, this.#wholeEnd);
    return utf8.decode(await this.bytes());
  }

  /** Ends the call at once, unless its body has ended or is being drained. */
  cancel(): void {
    if (this.#isDraining) return;
    this.#whole = undefined;
    this.#body?.cancel();
    this.#end();
  }

  /** Discards the rest of the body, for at most `drainMs`, so that the connection can be reused. */
  drain(): void {
    if (this.#isOver || this.#isDraining) return;
    this.#isDraining = true;
    this.#body = undefined;
    this.#transfer?.resume();
    this.#endWithin(() => this.#end());
  }

  /** After the terminal event: passes on what follows for at most `drainMs`, then ends the body. */
  endSoon(): void {
    if (this.#isOver || this.#isClosing) return;
    this.#isClosing = true;
    this.#endWithin(() => {
      this.#finish();
      this.#transfer?.cancel();
    });
  }

  connected(): void {}

  sent(): void {
    if (this.#isUploading && !this.#isOver && this.status === 0) this.#opened.deadlines.add(this);
    this.#opened.onSent?.();
  }

  head(status: number, headers: HeaderFields): void {
    this.status = status;
    this.headers = headers;
    if (status === 401 || status === 403) this.#opened.credentials.refused(this.#requestHeaders!);
    this.#opened.deadlines.delete(this);
    this.#idleTimer?.touch();
    const coding = headers.get("content-encoding");
    if (coding !== null) {
      this.#decompressor = decompressor(coding, this.#transfer, {
        push: (bytes) => this.#take(bytes),
        end: () => this.#finish(),
        fail: (error) => this.fail(error as Error),
      });
      this.#transfer = this.#decompressor ?? this.#transfer;
    }
    this.#opened.resolve(this);
  }

  whole(bytes: Buffer, from: number, end: number): boolean {
    if (this.#isOver || this.#decompressor !== undefined) return false;
    this.#whole = bytes;
    this.#wholeFrom = from;
    this.#wholeEnd = end;
    this.#isOver = true;
    this.#release();
    return true;
  }

  /** The body, as it comes. */
  #pieces(): Buffered<Buffer> {
    if (this.#body !== undefined) return this.#body;
    const body = new Buffered<Buffer>(this.#transfer!, maxAhead);
    this.#body = body;
    const whole = this.arrived();
    if (whole !== undefined) body.push(whole);
    if (this.#fault !== undefined) body.fail(this.#fault);
    else if (this.#isOver) body.end();
    return body;
  }

  push(bytes: Buffer): void {
    if (this.#decompressor === undefined) this.#take(bytes);
    else this.#decompressor.push(bytes);
  }

  end(isProven: boolean): void {
    this.#isProven = isProven;
    if (this.#decompressor === undefined) this.#finish();
    else this.#decompressor.end();
  }

  fail(error: Error, wasSent = true): void {
    const fault = networkFault(error, this.#name, this.#timeouts);
    if (!wasSent) unsent.add(fault);
    this.#break(fault);
  }

  #take(bytes: Buffer): void {
    if (this.#isOver) return;
    this.#idleTimer?.touch();
    if (!this.#isDraining) this.#pieces().push(bytes);
    this.#onArrival?.();
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#release();
    this.#body?.end();
    this.#onArrival?.();
  }

  /** Ends the call with an error, which the reader gets after the pieces before it. */
  #break(fault: Error): void {
    if (this.#isOver) return;
    if (this.#isClosing && !(fault instanceof ClientDisconnected)) {
      this.#finish();
      return;
    }
    this.#fault = fault;
    this.#end();
    this.#opened.reject(fault);
    this.#body?.fail(fault);
    this.#onArrival?.();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#release();
    this.#transfer?.cancel();
  }

  #endWithin(run: () => void): void {
    this.#idleTimer?.stop();
    this.#cancelTimer?.();
    this.#cancelTimer = this.#clock.setTimer(drainMs, run);
  }

  #release(): void {
    this.#idleTimer?.stop();
    this.#cancelTimer?.();
    if (this.status === 0) this.#opened.deadlines.delete(this);
    this.#signal.removeEventListener("abort", this);
  }
}

const utf8 = new TextDecoder();
/** True if it is a complete JSON object or array. Other values don't count: half a number is a number too. */
const isWholeJson = (body: Uint8Array): boolean => typeof parseJson(utf8.decode(body)) === "object";
