/**
 * Removes the rows of calls that nobody makes. One whose claim or release was cut off may be there all the same, and other nodes would
 * wait for it. Tried until it works, or until the lease has lapsed, as then nobody waits. What the server carries out later than that
 * is found at a renewal of the lease (`own-rows.ts`); this is sooner.
 */
import type { Clock } from "../../lib/clock.ts";
import type { Parameter } from "../shared/sql.ts";
import type { Holder } from "./holder.ts";
import type { QueryPool } from "./query-pool.ts";

type Stray = { readonly owner: string; readonly text: string; readonly parameters: readonly Parameter[] };

const retryMs = 250;
/** Beyond it the oldest are left to the renewals. */
const maxStrays = 10_000;

export class Strays implements Disposable {
  readonly #pool: QueryPool;
  readonly #holder: Holder;
  readonly #clock: Clock;
  #waiting: Stray[] = [];
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;

  constructor(pool: QueryPool, holder: Holder, clock: Clock) {
    this.#pool = pool;
    this.#holder = holder;
    this.#clock = clock;
  }

  /** @param text a statement that removes the row, if it is there */
  add(stray: Stray): void {
    if (this.#waiting.length >= maxStrays) this.#waiting.shift();
    this.#waiting.push(stray);
    this.#later();
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#cancelTimer?.();
  }

  #later(): void {
    if (this.#isClosed || this.#waiting.length === 0) return;
    this.#cancelTimer ??= this.#clock.setTimer(retryMs, () => void this.#remove());
  }

  /** After one that failed the others would fail too. */
  async #remove(): Promise<void> {
    const strays = this.#waiting.splice(0);
    let removed = 0;
    for (const stray of strays) {
      if (this.#holder.holds(stray.owner) && !(await this.#isRemoved(stray))) break;
      removed += 1;
    }
    this.#waiting = [...strays.slice(removed), ...this.#waiting];
    this.#cancelTimer = undefined;
    this.#later();
  }

  async #isRemoved({ text, parameters }: Stray): Promise<boolean> {
    try {
      await this.#pool.run(text, parameters);
      return true;
    } catch {
      return false;
    }
  }
}
