/** A stream's events, given as they come, for one who asks for them. */
import type { EventReader, EventSource, StreamEnd } from "../upstream/answer.ts";

/** The next events, and how the stream ended where they are the last. */
export type Step = { readonly events: string[]; readonly end?: StreamEnd };

export class PulledEvents implements EventReader {
  readonly #source: EventSource;
  /** Given before anyone asked: one batch at most but for those that were under way. */
  readonly #ahead: Step[] = [];
  #asked: ((step: Step) => void) | undefined;
  #flows = false;

  constructor(source: EventSource) {
    this.#source = source;
  }

  /** One call at a time, and none after the end. */
  next(): Promise<Step> {
    const step = this.#ahead.shift();
    if (step !== undefined) return Promise.resolve(step);
    return new Promise((resolve) => {
      this.#asked = resolve;
      if (this.#flows) this.#source.resume();
      else {
        this.#flows = true;
        this.#source.flow(this);
      }
    });
  }

  batch(events: string[]): void {
    this.#source.pause();
    this.#give({ events });
  }

  end(end: StreamEnd, events: string[]): void {
    this.#give({ events, end });
  }

  #give(step: Step): void {
    const asked = this.#asked;
    this.#asked = undefined;
    if (asked === undefined) this.#ahead.push(step);
    else asked(step);
  }
}
