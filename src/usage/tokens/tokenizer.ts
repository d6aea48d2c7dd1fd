/**
 * Counts tokens by the tokenizer of OpenAI's newer models, in a thread of its own: it starts when it is first needed, ends when it
 * was idle for a while, and never holds up this one. Who asks says how long the count is worth waiting for.
 */

import type { Logger } from "../../lib/process/log.ts";
import type { Clock } from "../../lib/time/clock.ts";

export interface TextCounter {
  /** @returns the tokens of all texts together; undefined where there is no count in time. Never rejects */
  count(texts: readonly string[], deadlineMs: number): Promise<number | undefined>;
}

/** The thread as it is needed here. */
interface CountingThread {
  send(texts: readonly string[]): void;
  end(): void;
}

export type ThreadEvents = { readonly counted: (tokens: number) => void; readonly died: (reason: string) => void };
type StartThread = (events: ThreadEvents) => CountingThread;

type Job = { readonly texts: readonly string[]; readonly settle: (tokens: number | undefined) => void };

/** Texts are some 128 KB at most. */
const maxWaiting = 256;
const idleMs = 300_000;
/** No text that is sent takes so long: the thread hangs. */
const maxJobMs = 20_000;
/** Before a thread that died is replaced. */
const restartMs = 10_000;

export class Tokenizer implements TextCounter {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #start: StartThread;
  readonly #waiting: Job[] = [];
  #running: Job | undefined;
  #thread: CountingThread | undefined;
  #notBefore = Number.NEGATIVE_INFINITY;
  #cancelTimer = () => {};
  #isClosed = false;

  constructor(clock: Clock, log: Logger, start: StartThread = startThread) {
    this.#clock = clock;
    this.#log = log;
    this.#start = start;
  }

  /** True if its tables are in memory. */
  get isLoaded(): boolean {
    return this.#thread !== undefined;
  }

  count(texts: readonly string[], deadlineMs: number): Promise<number | undefined> {
    const isAway = this.#thread === undefined && this.#clock.monotonic() < this.#notBefore;
    if (this.#isClosed || isAway || this.#waiting.length >= maxWaiting) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const settle = (tokens: number | undefined) => {
        cancelDeadline();
        resolve(tokens);
      };
      const job: Job = { texts, settle };
      const cancelDeadline = this.#clock.setTimer(deadlineMs, () => {
        const at = this.#waiting.indexOf(job);
        if (at >= 0) this.#waiting.splice(at, 1);
        resolve(undefined);
      });
      this.#waiting.push(job);
      if (this.#running === undefined) this.#next();
    });
  }

  /** Ends the thread; what waits for it has no count. */
  close(): void {
    this.#isClosed = true;
    this.#end();
  }

  #next(): void {
    this.#cancelTimer();
    this.#running = this.#waiting.shift();
    if (this.#running === undefined) {
      this.#cancelTimer = this.#clock.setTimer(idleMs, () => this.#end());
      return;
    }
    this.#cancelTimer = this.#clock.setTimer(maxJobMs, () => this.#died("it did not answer in time"));
    try {
      this.#thread ??= this.#newThread();
      this.#thread.send(this.#running.texts);
    } catch (error) {
      this.#died(String(error));
    }
  }

  /** Ignores what an ended thread still sends. */
  #newThread(): CountingThread {
    const isCurrent = () => this.#thread === thread;
    const thread = this.#start({
      counted: (tokens) => {
        if (!isCurrent()) return;
        this.#running?.settle(tokens);
        this.#next();
      },
      died: (reason) => {
        if (isCurrent()) this.#died(reason);
      },
    });
    return thread;
  }

  #died(reason: string): void {
    this.#log.warn("the tokenizer's thread died; tokens are estimated by the length of texts until it is back", {
      reason,
    });
    this.#notBefore = this.#clock.monotonic() + restartMs;
    this.#end();
  }

  #end(): void {
    this.#cancelTimer();
    this.#thread?.end();
    this.#thread = undefined;
    this.#running?.settle(undefined);
    this.#running = undefined;
    for (const job of this.#waiting.splice(0)) job.settle(undefined);
  }
}

/** Path of the thread's code in the executable; `build.ts` compiles it in. */
declare const TROUPE_TOKEN_WORKER: string | undefined;

function startThread({ counted, died }: ThreadEvents): CountingThread {
  const path = typeof TROUPE_TOKEN_WORKER === "string" ? TROUPE_TOKEN_WORKER : "./token-worker.ts";
  const worker = new Worker(new URL(path, import.meta.url).href, { smol: true });
  worker.onmessage = ({ data }: MessageEvent<number>) => counted(data);
  worker.onerror = (event) => {
    event.preventDefault();
    died(event.message);
  };
  worker.addEventListener("close", () => died("it ended"));
  // A process that has nothing else to do ends.
  worker.unref();
  return { send: (texts) => worker.postMessage(texts), end: () => worker.terminate() };
}
