/** An upstream as the services see it: a test decides, step by step, what each call gives. */
import type { Sink } from "../../src/lib/streams/flow.ts";
import type {
  Answer,
  EventSource,
  Events,
  LastEvents,
  Producer,
  StreamEnd,
  WholeAnswer,
} from "../../src/upstream/answer.ts";

type Step = { events: string[] } | { end: StreamEnd };

/** One call, waiting for its script. */
export class ScriptedCall implements EventSource {
  readonly signal: AbortSignal;
  readonly answer: Promise<Answer<EventSource>>;
  /** How many batches were taken from the stream. */
  reads = 0;
  #steps: Step[] = [];
  /** The last events: given together with the end. */
  #closing: string[] = [];
  #reader: Sink<Events, LastEvents> | undefined;
  #isPaused = false;
  #resolve!: (answer: Answer<EventSource>) => void;
  #reject!: (error: unknown) => void;

  constructor(signal: AbortSignal) {
    this.signal = signal;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    signal.addEventListener("abort", () => {
      this.#reject(signal.reason);
      this.#give();
    });
  }

  /** @param of what an upstream's error has beside */
  whole(
    body: string,
    status = 200,
    headers: Record<string, string> = { "content-type": "application/json" },
    of: Partial<WholeAnswer> = {},
  ): void {
    this.#resolve({ kind: "whole", status, headers, body, ...of });
  }

  fail(error: unknown): void {
    this.#reject(error);
  }

  /** Opens a stream. */
  stream(headers: Record<string, string> = {}): this {
    this.#resolve({ kind: "stream", headers, events: this });
    return this;
  }

  /** One batch. */
  push(...events: string[]): this {
    return this.#add({ events });
  }

  end(end: StreamEnd): this {
    return this.#add({ end });
  }

  #add(step: Step): this {
    this.#steps.push(step);
    this.#give();
    return this;
  }

  flow(reader: Sink<Events, LastEvents>): void {
    this.#reader = reader;
    this.#give();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#give();
  }

  cancel(): void {
    this.#end("cancelled");
  }

  #give(): void {
    while (this.#reader !== undefined && !this.#isPaused) {
      const step = this.signal.aborted ? { end: "cancelled" as const } : this.#steps.shift();
      if (step === undefined) return;
      if ("end" in step) {
        this.#end(step.end);
        return;
      }
      this.reads += 1;
      if (step.events.at(-1) === "[DONE]") this.#closing = step.events;
      else this.#reader.push(step.events);
    }
  }

  #end(how: StreamEnd): void {
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.end({ how, events: this.#closing });
  }
}

export class ScriptedUpstream {
  readonly calls: ScriptedCall[] = [];
  readonly #waiting = new Set<() => void>();

  readonly produce: Producer = (signal) => {
    const call = new ScriptedCall(signal);
    this.calls.push(call);
    for (const wake of this.#waiting) wake();
    return call.answer;
  };

  /** Resolves once it was called that often. */
  async called(times: number): Promise<void> {
    while (this.calls.length < times) await new Promise<void>((wake) => this.#waiting.add(wake));
  }

  get last(): ScriptedCall {
    const call = this.calls.at(-1);
    if (call === undefined) throw new Error("nothing was called");
    return call;
  }
}

/** An event of a kept stream, taken apart: the name of its call, its number in it, and what was pushed. */
export function keptEvent(event: string): { readonly prefix: string; readonly number: number; readonly text: string } {
  const [, prefix, number, text] = /^id: ([^\n]*-)(\d+)\n(.*)$/s.exec(event)!;
  return { prefix: prefix!, number: Number(number), text: text! };
}

/** Lets everything run that does not wait for time or the network. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 3; round += 1) await new Promise((resolve) => setImmediate(resolve));
}
