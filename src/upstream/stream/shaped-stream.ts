/** A stream's bodies in, the texts of its events out, one batch for each piece that the upstream sent. */
import { downgradeChunk } from "../../protocols/chat/legacy-functions.ts";
import type { ChunkBody } from "../../protocols/chat/schema.ts";
import { ApiError, UpstreamFault } from "../../protocols/errors.ts";
import type { EventEncoder, TextFrame } from "../../protocols/protocol.ts";
import type { FragmentTemplate } from "../../providers/openai-compatible/fragment-template.ts";
import type { CallOptions, StreamEnd } from "../call.ts";
import { ClientDisconnected } from "../client.ts";
import type { Target } from "../target.ts";
import { Normaliser } from "./normaliser.ts";
import { FragmentCopy } from "./passthrough.ts";

/** Takes a stream's bodies as they are decoded. */
export interface BodySink {
  body(body: ChunkBody): void;
  /**
   * A body that is like the one before but for its text.
   * @param json the text as JSON writes it, as `JSON.stringify` would
   * @returns false when it is not taken in this form
   */
  sameBut(json: string): boolean;
  /**
   * Events like the last one but for their texts, as they came.
   * @param piece begins with an event
   * @returns how many of its bytes were taken in this form; the others have to be read
   */
  copied(piece: Buffer, template: FragmentTemplate): number;
}

/** Takes what a stream's source gives. */
export interface BodyReader extends BodySink {
  /** All bodies of one piece were given. @param more whether others may follow */
  taken(more: boolean): void;
  /** What came instead of more: UpstreamFault, ApiError or ClientDisconnected. Nothing follows. */
  broken(error: unknown): void;
}

/** Where a stream's bodies come from. */
export interface Bodies {
  /** Once: gives the bodies, beginning before this returns with what is there. */
  flow(reader: BodyReader): void;
  /** The reader wants nothing for now. */
  pause(): void;
  resume(): void;
  readonly upstreamResponseId: string | undefined;
  /** Ends the upstream call if it still runs. */
  cancel(): void;
  /** All that matters was read: what is left is only waited for so that the connection can serve again. */
  settle(): void;
}

/** Takes a stream's events. */
export interface EventReader {
  /** Whole texts of consecutive events; never empty. */
  batch(events: string[]): void;
  /** Instead of a batch, where the reader has it. */
  bytes?(events: Uint8Array): void;
  /** @param events the last ones, the format's terminal event among them; none where the stream was cancelled */
  end(how: StreamEnd, events: string[]): void;
}

/** Whether an answer that came to its end stays whole: its connection no longer matters, but what the upstream says does. */
export function mayBreakOff(error: unknown): boolean {
  return error instanceof ApiError && error.code !== "upstream_invalid_response";
}

/** A stream whose first fragment is there. What goes in is decoded and shaped in the turn in which it arrives. */
export class ShapedStream implements BodyReader {
  readonly #bodies: Bodies;
  /** Not the target, which has the whole request in it: a stream may be open for long. */
  readonly #account: string;
  readonly #legacyFunctions: boolean;
  readonly #options: CallOptions;
  readonly #normaliser: Normaliser;
  readonly #encoder: EventEncoder;
  readonly #takesTexts: boolean;
  /** Whether the latest body came out as one event. */
  #isOneEvent = false;
  #events: string[] = [];
  #opening: PromiseWithResolvers<void> | undefined;
  #reader: EventReader | undefined;
  #isPaused = false;
  #end: StreamEnd | undefined;
  /** All was read, and the end waits for what is kept of it. */
  #isClosing = false;
  #copy: FragmentCopy | undefined;

  constructor(bodies: Bodies, target: Target, options: CallOptions) {
    this.#bodies = bodies;
    this.#account = target.account.name;
    this.#legacyFunctions = target.legacyFunctions;
    this.#options = options;
    this.#normaliser = new Normaliser(options.form);
    this.#encoder = options.encoder();
    this.#takesTexts = !target.legacyFunctions && !options.observer.wantsBodies;
  }

  /** Waits for the first fragment, which `flow` then gives. @throws UpstreamFault, ApiError, ClientDisconnected */
  open(): Promise<void> {
    const opening = Promise.withResolvers<void>();
    this.#opening = opening;
    this.#bodies.flow(this);
    return opening.promise;
  }

  /** Once, after `open`: gives the events, beginning before this returns with what is there. */
  flow(reader: EventReader): void {
    this.#reader = reader;
    this.#isPaused = false;
    this.#give();
    if (!this.#isPaused) this.#bodies.resume();
  }

  /** The reader wants nothing for now. */
  pause(): void {
    this.#isPaused = true;
    this.#bodies.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#bodies.resume();
  }

  /** Nobody wants the rest: the upstream call ends, and the reader is told so. */
  cancel(): void {
    if (this.#end !== undefined) return;
    this.#bodies.cancel();
    this.#finish("cancelled");
  }

  body(body: ChunkBody): void {
    this.#options.observer.body(body);
    const chunks = this.#normaliser.push(this.#legacyFunctions ? downgradeChunk(body) : body);
    for (const chunk of chunks) this.#encoder.push(chunk, this.#events);
    this.#isOneEvent = chunks.length === 1 && body.choices.length === 1;
  }

  sameBut(json: string): boolean {
    const frame = this.#textFrame;
    if (frame === undefined) return false;
    if (json !== '""') this.#events.push(frame.head + json + frame.tail);
    return true;
  }

  copied(piece: Buffer, template: FragmentTemplate): number {
    const reader = this.#reader;
    const frame = this.#textFrame;
    if (reader?.bytes === undefined || frame === undefined) return 0;
    if (this.#copy?.template !== template || this.#copy.frame !== frame) this.#copy = new FragmentCopy(template, frame);
    const copy = this.#copy.copy(piece);
    if (copy === undefined) return 0;
    reader.bytes(copy.events);
    return copy.taken;
  }

  /** What goes around a text that is all that is new in a body; undefined where the body has to be read. */
  get #textFrame(): TextFrame | undefined {
    return this.#takesTexts && this.#isOneEvent ? this.#encoder.textFrame : undefined;
  }

  taken(more: boolean): void {
    if (this.#end !== undefined || this.#isClosing) return;
    try {
      if (more) this.#give();
      else this.#close();
    } catch (error) {
      this.#fail(error);
    }
  }

  broken(error: unknown): void {
    if (this.#end !== undefined || this.#isClosing) return;
    if (this.#normaliser.complete && mayBreakOff(error)) this.#close();
    else this.#fail(error);
  }

  #close(): void {
    if (!this.#normaliser.complete) {
      const message = `${this.#account} ended its stream before the answer was finished.`;
      this.#fail(ApiError.unavailable("upstream_invalid_response", message));
      return;
    }
    this.#bodies.settle();
    const { usage } = this.#normaliser;
    this.#isClosing = true;
    const keeping = this.#options.observer.completed({ usage, upstreamResponseId: this.#bodies.upstreamResponseId });
    if (keeping === undefined) this.#complete();
    else void keeping.then(() => this.#complete());
  }

  #complete(): void {
    if (this.#end !== undefined) return;
    this.#encoder.push(this.#normaliser.end(), this.#events);
    this.#encoder.end(this.#events);
    this.#finish("finished");
  }

  /** Before anything was sent, the error is the answer; behind it, the stream tells of it. */
  #fail(error: unknown): void {
    this.#bodies.cancel();
    if (this.#opening !== undefined && this.#events.length === 0) {
      this.#end = "faulted";
      this.#opening.reject(error);
      return;
    }
    if (error instanceof ClientDisconnected) {
      this.#finish("cancelled");
      return;
    }
    const fault = error instanceof UpstreamFault || error instanceof ApiError ? error : ApiError.internal(error);
    this.#options.observer.faulted(fault);
    this.#encoder.fault(this.#options.renderFault(fault), this.#events);
    this.#finish("faulted");
  }

  #finish(how: StreamEnd): void {
    this.#end = how;
    this.#give();
  }

  #give(): void {
    const reader = this.#reader;
    if (reader === undefined) {
      if (this.#events.length === 0) return;
      // Until someone reads, the first batch is enough.
      this.pause();
      this.#opening?.resolve();
      this.#opening = undefined;
      return;
    }
    const events = this.#events;
    if (this.#end === undefined) {
      if (events.length === 0) return;
      this.#events = [];
      reader.batch(events);
      return;
    }
    this.#reader = undefined;
    reader.end(this.#end, events);
  }
}
