/** An upstream as the services see it: a test decides, step by step, what each call gives. */
import type { Answer, Producer, StreamEnd } from "../../src/services/answer.ts";

type Step = { events: string[] } | { end: StreamEnd } | { error: unknown };

/** One call, waiting for its script. */
export class ScriptedCall {
  readonly signal: AbortSignal;
  readonly answer: Promise<Answer>;
  /** How many batches were read from the stream. */
  reads = 0;
  /** The stream's generator has ended, however. */
  closed = false;
  #steps: Step[] = [];
  #wake = () => {};
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
      this.#wake();
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
    this.#resolve({ kind: "events", headers, events: this.#events() });
    return this;
  }

  /** One batch. */
  push(...events: string[]): this {
    return this.#add({ events });
  }

  end(end: StreamEnd): this {
    return this.#add({ end });
  }

  break(error: unknown): this {
    return this.#add({ error });
  }

  #add(step: Step): this {
    this.#steps.push(step);
    this.#wake();
    return this;
  }

  async *#events(): AsyncGenerator<string[], StreamEnd> {
    try {
      for (;;) {
        this.reads += 1;
        while (this.#steps.length === 0 && !this.signal.aborted) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
        if (this.signal.aborted) return "cancelled";
        const step = this.#steps.shift()!;
        if ("end" in step) return step.end;
        if ("error" in step) throw step.error;
        yield step.events;
      }
    } finally {
      this.closed = true;
    }
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
