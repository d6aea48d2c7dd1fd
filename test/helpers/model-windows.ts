/** Windows in the memory of a test: what a store's own must do too. */
import type { StoredWindows, WindowHit, WindowState } from "../../src/store/contract/windows.ts";

/** Times by the ids of requests; several that one id names have a number behind it. */
type Window = Map<string, number>;

/** Bugs that a simulation puts in on purpose. */
export type WindowBug = "shares-are-not-told" | "hits-count-twice";

export class ModelWindows implements StoredWindows {
  readonly #now: () => number;
  readonly #windowMs: number;
  readonly #bugs: ReadonlySet<string>;
  #callers = new Map<string, Window>();
  life = "1";

  constructor(now: () => number, windowMs: number, bugs: ReadonlySet<string> = new Set()) {
    this.#now = now;
    this.#windowMs = windowMs;
    this.#bugs = bugs;
  }

  /** @returns how to go back to what it has now */
  copy(): () => void {
    const [callers, life] = [structuredClone(this.#callers), this.life];
    return () => {
      [this.#callers, this.life] = [callers, life];
    };
  }

  /** As a restart does that keeps nothing. */
  wipe(): void {
    this.#callers.clear();
    this.life += "1";
  }

  async hit(caller: string, limit: number, id: string): Promise<WindowState> {
    return this.hitNow(caller, limit, [[id, 0]]);
  }

  async add(caller: string, hits: readonly WindowHit[]): Promise<WindowState> {
    return this.hitNow(caller, -1, hits);
  }

  /** @param limit below 0: they are counted whatever there is */
  hitNow(caller: string, limit: number, hits: readonly WindowHit[]): WindowState {
    const now = this.#now();
    const window = this.#callers.get(caller) ?? new Map<string, number>();
    this.#callers.set(caller, window);
    // In the order in which they were counted, which is nearly that of their times.
    for (const [id, at] of window) {
      if (at > now - this.#windowMs) break;
      window.delete(id);
    }
    const allowed = limit < 0 || window.size < limit || window.has(hits[0]![0]);
    const isCounted = allowed && !(limit < 0 && this.#bugs.has("shares-are-not-told"));
    for (const [id, age, count = 1] of isCounted ? hits : []) {
      if (age >= this.#windowMs || window.has(id)) continue;
      window.set(id, now - age);
      for (let number = 1; number < count; number += 1) window.set(`${id} ${number}`, now - age);
      if (this.#bugs.has("hits-count-twice")) window.set(`${id} again`, now - age);
    }
    const oldest = [
      ...window
        .values()
        .drop(allowed ? 0 : window.size - limit)
        .take(1),
    ];
    const growsMs = oldest.length === 0 ? 0 : Math.max(1, oldest[0]! + this.#windowMs - now);
    return { allowed, used: window.size, growsMs, life: this.life };
  }

  async tidy(): Promise<void> {}
  async close(): Promise<void> {}
}
