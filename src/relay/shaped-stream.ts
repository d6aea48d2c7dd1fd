/** A stream's bodies in, the texts of its events out, one batch for each read of the upstream. */
import { doneData } from "../lib/sse.ts";
import type { ChunkBody } from "../wire/chat.ts";
import { ApiError, UpstreamFault } from "../wire/errors.ts";
import { downgradeChunk } from "../wire/legacy-functions.ts";
import type { RelayOptions, StreamEnd } from "./relay.ts";
import { StreamShaper } from "./shape.ts";
import type { Target } from "./target.ts";
import { ClientGone } from "./upstream.ts";

/** Takes a stream's bodies as they are decoded. */
export interface BodySink {
  body(body: ChunkBody): void;
  /**
   * A body that is like the one before but for its text.
   * @param json the text as JSON writes it, as `JSON.stringify` would
   * @returns false when it is not taken in this form
   */
  sameBut(json: string): boolean;
}

/** Where a stream's bodies come from. */
export interface Bodies {
  /** The next bytes of the upstream, where there is one; undefined at its end. @throws ApiError, ClientGone */
  read(): Promise<Uint8Array | undefined>;
  /**
   * Hands on the bodies that were read.
   * @returns whether there may be more
   * @throws UpstreamFault or ApiError, behind what was handed on before
   */
  decode(bytes: Uint8Array | undefined, sink: BodySink): boolean;
  readonly upstreamResponseId: string | undefined;
  /** Ends the upstream call if it still runs. */
  cancel(): void;
  /** All that matters was read: what is left is only read so that the connection can serve again. */
  settle(): void;
}

/** What a generator would be, with one promise for a batch where that has several. */
export class ShapedStream implements BodySink {
  readonly #bodies: Bodies;
  readonly #target: Target;
  readonly #options: RelayOptions;
  readonly #shaper: StreamShaper;
  readonly #takesTexts: boolean;
  #texts: string[] = [];
  #first: string[] | undefined;
  #more = true;
  /** Met behind texts of the same read: those go out first. */
  #fault: { readonly error: unknown } | undefined;
  #end: StreamEnd | undefined;

  constructor(bodies: Bodies, target: Target, options: RelayOptions) {
    this.#bodies = bodies;
    this.#target = target;
    this.#options = options;
    this.#shaper = new StreamShaper(options.shaping);
    this.#takesTexts = !target.legacyFunctions && !options.observer.wantsBodies;
  }

  /** Waits for the first fragment, which `next` then gives. @throws UpstreamFault, ApiError, ClientGone */
  async open(): Promise<void> {
    this.#first = await this.#batch();
  }

  async next(): Promise<IteratorResult<string[], StreamEnd>> {
    if (this.#end !== undefined) return { done: true, value: this.#end };
    const first = this.#first;
    this.#first = undefined;
    try {
      return { done: false, value: first ?? (await this.#batch()) };
    } catch (error) {
      return this.#broken(error);
    }
  }

  async return(end: StreamEnd): Promise<IteratorResult<string[], StreamEnd>> {
    this.#end ??= end;
    this.#bodies.cancel();
    return { done: true, value: end };
  }

  body(body: ChunkBody): void {
    this.#options.observer.body(body);
    this.#shaper.push([this.#target.legacyFunctions ? downgradeChunk(body) : body], this.#texts);
  }

  sameBut(json: string): boolean {
    return this.#takesTexts && this.#shaper.pushSame(json, this.#texts);
  }

  /** Never empty. */
  async #batch(): Promise<string[]> {
    while (this.#more && this.#texts.length === 0) {
      if (this.#fault !== undefined) throw this.#fault.error;
      try {
        this.#more = this.#bodies.decode(await this.#bodies.read(), this);
      } catch (error) {
        // What breaks after the answer's end no longer matters; what the upstream says of it does.
        const told = error instanceof ClientGone || error instanceof UpstreamFault;
        if (this.#shaper.complete && !told) this.#more = false;
        else if (this.#texts.length === 0) throw error;
        else this.#fault = { error };
      }
    }
    if (this.#texts.length === 0) this.#close();
    const texts = this.#texts;
    this.#texts = [];
    return texts;
  }

  #close(): void {
    const { account } = this.#target;
    if (!this.#shaper.complete) {
      const message = `${account.name} ended its stream before the answer was finished.`;
      throw ApiError.unavailable("upstream_invalid_response", message);
    }
    this.#bodies.settle();
    const { usage } = this.#shaper;
    this.#options.observer.completed({ usage, upstreamResponseId: this.#bodies.upstreamResponseId });
    this.#texts.push(...this.#shaper.end(), doneData);
    this.#end = "finished";
  }

  #broken(error: unknown): IteratorResult<string[], StreamEnd> {
    this.#bodies.cancel();
    if (error instanceof ClientGone) {
      this.#end = "cancelled";
      return { done: true, value: "cancelled" };
    }
    const fault = error instanceof UpstreamFault || error instanceof ApiError ? error : ApiError.internal(error);
    this.#options.observer.faulted(fault);
    this.#end = "faulted";
    return { done: false, value: [this.#shaper.fault(this.#options.renderFault(fault)), doneData] };
  }
}
