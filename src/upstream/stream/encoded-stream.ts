/** Encodes a stream's chunks as events, in the turn of the event loop in which they arrive. */
import { Buffered, type Sink } from "../../lib/flow.ts";
import { downgradeChunk } from "../../protocols/chat/legacy-functions.ts";
import type { ChunkBody, Usage } from "../../protocols/chat/schema.ts";
import { ApiError, readingError, UpstreamFault } from "../../protocols/errors.ts";
import type { ErrorFields, EventEncoder, TextFrame } from "../../protocols/protocol.ts";
import type { EventSource, Events, LastEvents, StreamEnd } from "../answer.ts";
import { ClientDisconnected } from "../client.ts";
import type { CallObserver } from "../observer.ts";
import type { Target } from "../target.ts";
import type { ChunkSource } from "./decode.ts";
import { type NormalForm, Normaliser } from "./normaliser.ts";
import { type Chunks, FrameBytes, RepeatedText, readChunks } from "./passthrough.ts";

export type EncodingOptions = {
  readonly form: NormalForm;
  /** Makes the stream's encoder. Called once, and not for plain answers. */
  readonly encoder: () => EventEncoder;
  readonly observer: CallObserver;
  /** Maps a fault to the error fields that the client sees. */
  readonly renderFault: (fault: UpstreamFault | ApiError) => ErrorFields;
};

/** Whether an answer whose choices all ended survives this error: a broken connection is ignored, an invalid event is not. */
export function mayBreakOff(error: unknown): boolean {
  return error instanceof ApiError && error.code !== "upstream_invalid_response";
}

export class EncodedStream implements EventSource, Sink<Chunks, readonly ChunkBody[]> {
  readonly #chunks: ChunkSource;
  /** Not the target, which would hold the whole request in memory while the stream is open. */
  readonly #account: string;
  readonly #legacyFunctions: boolean;
  readonly #options: EncodingOptions;
  readonly #normaliser: Normaliser;
  readonly #encoder: EventEncoder;
  /** Buffers one piece until a reader is attached. */
  readonly #events: Buffered<Events, LastEvents>;
  /** Whether the latest chunk was encoded as one event. */
  #isOneEvent = false;
  #frame: FrameBytes | undefined;
  #opening: PromiseWithResolvers<void> | undefined;
  /** No more chunks are accepted: the end was sent, or waits for the observer to store the answer. */
  #isOver = false;

  constructor(chunks: ChunkSource, target: Target, options: EncodingOptions) {
    this.#chunks = chunks;
    this.#account = target.account.name;
    this.#legacyFunctions = target.legacyFunctions;
    this.#options = options;
    this.#normaliser = new Normaliser(options.form);
    this.#encoder = options.encoder();
    this.#events = new Buffered(chunks, 1);
  }

  /** Waits for the first events, which `flow` then delivers. @throws UpstreamFault, ApiError, ClientDisconnected */
  open(): Promise<void> {
    const opening = Promise.withResolvers<void>();
    this.#opening = opening;
    this.#chunks.flow(this);
    return opening.promise;
  }

  flow(sink: Sink<Events, LastEvents>): void {
    this.#events.flow(sink);
  }

  pause(): void {
    this.#events.pause();
  }

  resume(): void {
    this.#events.resume();
  }

  cancel(): void {
    if (!this.#isOver) this.#options.observer.abandoned(this.#counted);
    this.#isOver = true;
    this.#events.cancel();
  }

  push(chunks: Chunks): void {
    if (this.#isOver) return;
    const frame = chunks instanceof RepeatedText ? this.#textFrame : undefined;
    if (frame !== undefined) {
      if (this.#frame?.frame !== frame) this.#frame = new FrameBytes(frame);
      this.#options.observer.repeated(chunks as RepeatedText);
      this.#push((chunks as RepeatedText).events(this.#frame));
      return;
    }
    const events: string[] = [];
    try {
      this.#encode(readChunks(chunks), events);
    } catch (error) {
      this.#fail(readingError(error, this.#account), events);
      return;
    }
    if (events.length > 0) this.#push(events);
  }

  end(chunks: readonly ChunkBody[]): void {
    if (this.#isOver) return;
    const events: string[] = [];
    try {
      this.#encode(chunks, events);
      this.#close(events);
    } catch (error) {
      this.#fail(readingError(error, this.#account), events);
    }
  }

  fail(error: unknown): void {
    if (this.#isOver) return;
    if (this.#normaliser.complete && mayBreakOff(error)) this.#close([]);
    else this.#fail(error, []);
  }

  /** What the upstream has counted so far. */
  get #counted(): Usage | undefined {
    return this.#normaliser.usage ?? this.#chunks.counted;
  }

  #encode(chunks: readonly ChunkBody[], events: string[]): void {
    for (const chunk of chunks) {
      this.#options.observer.body(chunk);
      const normal = this.#normaliser.push(this.#legacyFunctions ? downgradeChunk(chunk) : chunk);
      for (const one of normal) this.#encoder.push(one, events);
      this.#isOneEvent = normal.length === 1 && chunk.choices.length === 1;
    }
  }

  /** The frame around the text of a chunk that differs in its text only; undefined where chunks have to be parsed. */
  get #textFrame(): TextFrame | undefined {
    const isRead = this.#legacyFunctions || this.#options.observer.wantsBodies;
    return !isRead && this.#isOneEvent ? this.#encoder.textFrame : undefined;
  }

  #close(events: string[]): void {
    if (!this.#normaliser.complete) {
      const message = `${this.#account} ended its stream before the answer was finished.`;
      this.#fail(ApiError.unavailable("upstream_invalid_response", message), events);
      return;
    }
    const { usage } = this.#normaliser;
    this.#isOver = true;
    const storing = this.#options.observer.completed({ usage, upstreamResponseId: this.#chunks.upstreamResponseId });
    if (storing === undefined) this.#complete(events);
    else void storing.then(() => this.#complete(events));
  }

  #complete(events: string[]): void {
    this.#encoder.push(this.#normaliser.end(), events);
    this.#encoder.end(events);
    this.#end("finished", events);
  }

  /** Before the first events the error rejects `open`; after them it becomes an error event. */
  #fail(error: unknown, events: string[]): void {
    this.#chunks.cancel();
    if (this.#opening !== undefined && events.length === 0) {
      this.#isOver = true;
      this.#opening.reject(error);
      return;
    }
    if (error instanceof ClientDisconnected) {
      this.#options.observer.abandoned(this.#counted);
      this.#end("cancelled", events);
      return;
    }
    const fault = error instanceof UpstreamFault || error instanceof ApiError ? error : ApiError.internal(error);
    this.#options.observer.faulted(fault, this.#counted);
    this.#encoder.fault(this.#options.renderFault(fault), events);
    this.#end("faulted", events);
  }

  #push(events: Events): void {
    this.#events.push(events);
    this.#opened();
  }

  #end(how: StreamEnd, events: readonly string[]): void {
    this.#isOver = true;
    this.#events.end({ how, events });
    this.#opened();
  }

  #opened(): void {
    this.#opening?.resolve();
    this.#opening = undefined;
  }
}
