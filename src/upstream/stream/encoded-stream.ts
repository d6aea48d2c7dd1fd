/** Encodes a stream's chunks as events, in the turn of the event loop in which they arrive. */
import type { Sink } from "../../lib/streams/flow.ts";
import { downgradeChunk } from "../../protocols/chat/legacy-functions.ts";
import type { ChunkBody, ChunkChoice, Usage } from "../../protocols/chat/schema.ts";
import { ApiError, readingError, type UpstreamFault } from "../../protocols/errors.ts";
import type { ErrorFields, EventEncoder } from "../../protocols/protocol.ts";
import type { CallObserver } from "../observer.ts";
import type { Target } from "../target.ts";
import { AnswerEvents, mayBreakOff } from "./answer-events.ts";
import { withCost } from "./cost.ts";
import type { ChunkSource } from "./decode.ts";
import { type NormalForm, Normaliser } from "./normaliser.ts";

/** Writes a stream in the client's format. */
export type StreamWriter = {
  /** Makes the stream's encoder. Called once, and not for plain answers. */
  encoder(): EventEncoder;
};

export type EncodingOptions = {
  readonly form: NormalForm;
  readonly writer: StreamWriter;
  readonly observer: CallObserver;
  /** Maps a fault to the error fields that the client sees. */
  readonly renderFault: (fault: UpstreamFault | ApiError) => ErrorFields;
};

export class EncodedStream extends AnswerEvents implements Sink<readonly ChunkBody[], readonly ChunkBody[]> {
  readonly #chunks: ChunkSource;
  /** Not the target, which would hold the whole request in memory while the stream is open. */
  readonly #account: string;
  readonly #legacyFunctions: boolean;
  readonly #renderFault: EncodingOptions["renderFault"];
  readonly #normaliser: Normaliser;
  readonly #showsCost: boolean;
  readonly #encoder: EventEncoder;
  /** The ends of the choices, by their index: clients take the first for the last, and some upstreams tell several. */
  readonly #ends = new Map<number, ChunkBody>();
  /** Members that came without a choice: they stand beside the last end, as a chunk without choices has counts alone. */
  #late: ChunkBody | undefined;

  constructor(chunks: ChunkSource, target: Target, { form, writer, observer, renderFault }: EncodingOptions) {
    super(chunks, observer);
    this.#chunks = chunks;
    this.#account = target.account.name;
    this.#legacyFunctions = target.legacyFunctions;
    this.#renderFault = renderFault;
    this.#normaliser = new Normaliser(form);
    this.#showsCost = form.showsCost === true;
    this.#encoder = writer.encoder();
  }

  push(chunks: readonly ChunkBody[]): void {
    if (this.isOver) return;
    const events: string[] = [];
    try {
      this.#encode(chunks, events);
    } catch (error) {
      this.break(readingError(error, this.#account), events);
      return;
    }
    if (events.length > 0) this.give(events);
  }

  end(chunks: readonly ChunkBody[]): void {
    if (this.isOver) return;
    const events: string[] = [];
    try {
      this.#encode(chunks, events);
      this.#close(events);
    } catch (error) {
      this.break(readingError(error, this.#account), events);
    }
  }

  fail(error: unknown): void {
    if (this.isOver) return;
    if (this.#normaliser.complete && mayBreakOff(error)) this.#close([]);
    else this.break(error, []);
  }

  protected begin(): void {
    this.#chunks.flow(this);
  }

  protected report(fault: UpstreamFault | ApiError, events: string[]): void {
    this.#encoder.fault(this.#renderFault(fault), events);
  }

  protected get counted(): Usage | undefined {
    return this.#normaliser.usage ?? this.#chunks.counted;
  }

  #encode(chunks: readonly ChunkBody[], events: string[]): void {
    for (const chunk of chunks) {
      this.observer.body(chunk);
      const normal = this.#normaliser.push(this.#legacyFunctions ? downgradeChunk(chunk) : chunk);
      for (const one of normal) {
        const choice = one.choices[0];
        if (choice?.finish_reason === null || one.ended_thought !== undefined) this.#encoder.push(one, events);
        else if (choice === undefined) this.#late = { ...this.#late, ...one };
        else this.#end(one, choice);
      }
    }
  }

  #writeEnd(events: string[]): void {
    const end = this.#normaliser.end();
    const { usage } = this.#normaliser;
    try {
      this.#encoder.push(this.#showsCost ? withCost(end, this.observer, { usage }) : end, events);
      this.#encoder.end(events);
    } catch (error) {
      throw readingError(error, this.#account);
    }
  }

  /** Holds an end back until the stream's. A later one of the same choice counts, with what the one before had beside it. */
  #end(chunk: ChunkBody, choice: ChunkChoice): void {
    const before = this.#ends.get(choice.index);
    const whole = before && { ...before, ...chunk, choices: [{ ...before.choices[0], ...choice }] };
    this.#ends.set(choice.index, whole ?? chunk);
  }

  #close(events: string[]): void {
    if (!this.#normaliser.complete) {
      const message = `${this.#account} ended its stream before the answer was finished.`;
      this.break(ApiError.unavailable("upstream_invalid_response", message), events);
      return;
    }
    let left = this.#ends.size;
    for (const end of this.#ends.values()) {
      left -= 1;
      this.#encoder.push(left === 0 ? { ...this.#late, ...end } : end, events);
    }
    this.#ends.clear();
    const { usage } = this.#normaliser;
    const answer = { usage, upstreamResponseId: this.#chunks.upstreamResponseId };
    if (this.#encoder.isKept === true) {
      this.#writeEnd(events);
      const passed = events.pop()!;
      this.complete({ ...answer, passed }, events, (last) => last.push(passed));
    } else this.complete(answer, events, (last) => this.#writeEnd(last));
  }
}
