/** An upstream as the services see it: a test decides, step by step, what each call gives. */
import type { Answer, EventReader, EventSource, Producer, StreamEnd } from "../../src/upstream/answer.ts";

type Step = { events: string[] } | { end: StreamEnd };

/** One call, waiting for its script. */
export class ScriptedCall implements EventSource {
  readonly signal: AbortSignal;
  readonly answer: Promise<Answer>;
  /** How many batches were taken from the stream. */
  reads = 0;
  #steps: Step[] = [];
  /** The last events: given together with the end. */
  #closing: string[] = [];
  #reader: EventReader | undefined;
  #isPaused = false;
  #resolve!: (answer: Answer) => void;
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

  whole(body: string, status = 200, headers: Record<string, string> = { "content-type": "application/json" }): void {
    this.#resolve({ kind: "whole", status, headers, body });
  }

  fail(error: unknown): void {
    this.#reject(error);
  }

  /** Opens a stream. */
  stream(headers: Record<string, string> = {}): this {
    this.#resolve({ kind: "events", headers, events: this });
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

  flow(reader: EventReader): void {
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
      else this.#reader.batch(step.events);
    }
  }

  #end(how: StreamEnd): void {
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.end(how, this.#closing);
  }
}

export class ScriptedUpstream {
  readonly calls: ScriptedCall[] = [];

  readonly produce: Producer = (signal) => {
    const call = new ScriptedCall(signal);
    this.calls.push(call);
    return call.answer;
  };

  get last(): ScriptedCall {
    const call = this.calls.at(-1);
    if (call === undefined) throw new Error("nothing was called");
    return call;
  }
}

/** Lets everything run that does not wait for time or the network. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 3; round += 1) await new Promise((resolve) => setImmediate(resolve));
}
