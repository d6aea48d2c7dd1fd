/**
 * Hears from other processes, by LISTEN, that something has changed. Only a hint: what is said while the connection is away is
 * lost, and one that went silent hears nothing and says nothing (https://www.postgresql.org/docs/current/sql-notify.html). So polls
 * stay the truth, and a heartbeat to itself tells whether anything is heard at all.
 */
import type { SQL } from "bun";
import { type Clock, withTimeout } from "../../lib/clock.ts";
import type { QueryPool } from "./query-pool.ts";

/** What all processes listen to: `keys`, the number of a call that others watch, or who holds one that they begin to watch. */
export const hintChannel = "troupe";
/** For an answer of the listening connection, and for a heartbeat to come back. */
const patienceMs = 2_000;
/** Between tries where nothing is ever heard, as behind a pooler. */
const maxBackOffMs = 5 * 60_000;

export const watchHint = "watch ";

export type HintOptions = {
  /** Opens a client whose connection is never given up for being idle. */
  readonly connect: () => SQL;
  /** Sends heartbeats. */
  readonly pool: QueryPool;
  readonly clock: Clock;
  readonly onKeys: () => void;
  /** Between heartbeats. */
  readonly beatMs: number;
};

export class Hints implements Disposable {
  readonly #options: HintOptions;
  /** Of this process alone. */
  readonly #ownChannel: string;
  readonly #waiting = new Map<number, Set<() => void>>();
  /** Called with the holder of a call that is watched from now on. */
  onWatched = (_holder: string) => {};
  #sql: SQL | undefined;
  #beats = 0;
  #heardBeat = 0;
  #isHeard = false;
  #isClosed = false;
  #backOffMs: number;
  #cancelTimer = () => {};

  /** How often a connection was found to hear nothing, and how many hints came. */
  readonly counts = { deaf: 0, heard: 0 };

  constructor(options: HintOptions) {
    this.#options = options;
    this.#backOffMs = options.beatMs;
    this.#ownChannel = `troupe_${options.clock.newId()}`;
    this.#beatAfter(0);
  }

  /** Whether hints can be relied on to come, most of the time. */
  get isHeard(): boolean {
    return this.#isHeard;
  }

  /** Resolves when the call may have changed, after `ms`, or when the signal aborts. */
  changed(call: number, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(call) ?? new Set();
      this.#waiting.set(call, waiting);
      const end = () => {
        cancelTimer();
        signal.removeEventListener("abort", end);
        waiting.delete(end);
        if (waiting.size === 0 && this.#waiting.get(call) === waiting) this.#waiting.delete(call);
        resolve();
      };
      waiting.add(end);
      signal.addEventListener("abort", end);
      const cancelTimer = this.#options.clock.setTimer(ms, end);
    });
  }

  /** To be called while the server is away: the client would try to listen again by itself, and print at each try. */
  hangUp(): void {
    this.#isHeard = false;
    this.#sql?.close({ timeout: 0 }).catch(() => {});
    this.#sql = undefined;
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#cancelTimer();
    this.hangUp();
  }

  #beatAfter(ms: number): void {
    this.#cancelTimer();
    if (!this.#isClosed) this.#cancelTimer = this.#options.clock.setTimer(ms, () => void this.#beat());
  }

  /** Never rejects. */
  async #beat(): Promise<void> {
    const isHeard = await this.#isListening().catch(() => false);
    if (this.#isClosed) return;
    if (isHeard) this.#backOffMs = this.#options.beatMs;
    else {
      if (this.#isHeard) this.counts.deaf += 1;
      this.hangUp();
      this.#backOffMs = Math.min(2 * this.#backOffMs, maxBackOffMs);
    }
    this.#isHeard = isHeard;
    this.#beatAfter(this.#backOffMs);
  }

  /** Whether this process hears itself. @throws what the client throws */
  async #isListening(): Promise<boolean> {
    const { clock, pool } = this.#options;
    if (this.#sql === undefined && !(await this.#listen())) return false;
    this.#beats += 1;
    const beat = this.#beats;
    await pool.run("select pg_notify($1::text, $2::text)", [this.#ownChannel, String(beat)]);
    for (let waitedMs = 0; this.#heardBeat < beat && waitedMs < patienceMs; waitedMs += 50) {
      await new Promise<void>((resolve) => clock.setTimer(50, resolve));
    }
    return this.#heardBeat >= beat;
  }

  async #listen(): Promise<boolean> {
    const sql = this.#options.connect();
    this.#sql = sql;
    const listening = Promise.all([
      sql.listen(this.#ownChannel, (beat) => {
        this.#heardBeat = Math.max(this.#heardBeat, Number(beat));
      }),
      // What was said before is not heard: all is read anew.
      sql.listen(hintChannel, (hint) => this.#hear(hint), this.#options.onKeys),
    ]);
    listening.catch(() => {});
    return (await withTimeout(this.#options.clock, listening, patienceMs)) !== undefined;
  }

  #hear(hint: string): void {
    this.counts.heard += 1;
    if (hint === "keys") this.#options.onKeys();
    else if (hint.startsWith(watchHint)) this.onWatched(hint.slice(watchHint.length));
    else for (const wake of this.#waiting.get(Number(hint)) ?? []) wake();
  }
}
