/** A stream of an upstream, event after event, which stops while nobody takes them. */
import type { Sink } from "../../src/lib/streams/flow.ts";
import type { EventSource, Events, LastEvents, StreamEnd } from "../../src/upstream/answer.ts";
import type { Machine } from "./machine.ts";

export type StreamPlan = {
  /** How many events come, the last one included. */
  readonly events: number;
  readonly everyMs: number;
  readonly how: StreamEnd;
  readonly textOf: (number: number) => string;
  /** Called once, when nothing more is given. */
  readonly ended: () => void;
};

export class StreamSource implements EventSource {
  readonly #machine: Machine;
  readonly #plan: StreamPlan;
  #sink: Sink<Events, LastEvents> | undefined;
  #isPaused = false;
  #given = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(machine: Machine, plan: StreamPlan) {
    this.#machine = machine;
    this.#plan = plan;
  }

  flow(sink: Sink<Events, LastEvents>): void {
    this.#sink = sink;
    this.#later();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#later();
  }

  cancel(): void {
    this.#cancelTimer?.();
    if (this.#sink === undefined) return;
    this.#sink = undefined;
    this.#plan.ended();
  }

  #later(): void {
    if (this.#isPaused || this.#sink === undefined || this.#cancelTimer !== undefined) return;
    this.#cancelTimer = this.#machine.setTimer(this.#plan.everyMs, () => {
      this.#cancelTimer = undefined;
      this.#give();
      this.#later();
    });
  }

  #give(): void {
    const { events, how, textOf, ended } = this.#plan;
    const sink = this.#sink;
    if (sink === undefined || this.#isPaused) return;
    const text = textOf(this.#given);
    this.#given += 1;
    if (this.#given < events) {
      sink.push([text]);
      return;
    }
    this.#sink = undefined;
    ended();
    sink.end({ how, events: [text] });
  }
}
