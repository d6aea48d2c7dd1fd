/**
 * Removes the rows of calls that nobody makes. One whose claim or release was cut off may be there all the same, and other nodes would
 * wait for it for as long as this process lives. Tried until it works, or until the lease has lapsed, as then nobody waits.
 *
 * The server may carry out a claim long after its caller gave up: what waited in a socket, or for a lock, comes after a removal that
 * found nothing. So each is removed again and again, at twice the interval each time.
 */
import type { Clock } from "../../lib/clock.ts";
import type { Holder } from "./holder.ts";
import type { Parameter, QueryPool } from "./query-pool.ts";

type Stray = { readonly owner: string; readonly text: string; readonly parameters: readonly Parameter[] };

type Waiting = { readonly stray: Stray; readonly everyMs: number; readonly dueAt: number };

const retryMs = 250;
/** The last interval; all of them take twice as long, beyond any statement's time limit and any packet's way. */
const lastMs = retryMs * 2 ** 10;
/** Beyond it the lease itself is given up. */
const maxStrays = 10_000;

export class Strays implements Disposable {
  readonly #pool: QueryPool;
  readonly #holder: Holder;
  readonly #clock: Clock;
  #waiting: Waiting[] = [];
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;

  constructor(pool: QueryPool, holder: Holder, clock: Clock) {
    this.#pool = pool;
    this.#holder = holder;
    this.#clock = clock;
  }

  /** @param text a statement that removes the row, if it is there */
  add(stray: Stray): void {
    if (this.#waiting.length >= maxStrays) this.#drop();
    if (this.#waiting.length >= maxStrays) this.#holder.lose();
    else this.#waiting.push(this.#next(stray, retryMs));
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

  #next(stray: Stray, everyMs: number): Waiting {
    return { stray, everyMs, dueAt: this.#clock.monotonic() + everyMs };
  }

  /** Makes room: the oldest that was removed once is likely to be gone. */
  #drop(): void {
    const at = this.#waiting.findIndex(({ everyMs }) => everyMs > retryMs);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  async #remove(): Promise<void> {
    const left: Waiting[] = [];
    let hasFailed = false;
    for (const waiting of this.#waiting.splice(0)) {
      const { stray, everyMs, dueAt } = waiting;
      if (!this.#holder.holds(stray.owner)) continue;
      // After one that failed the others would fail too.
      if (hasFailed || dueAt > this.#clock.monotonic()) left.push(waiting);
      else if (!(await this.#isRemoved(stray))) {
        hasFailed = true;
        left.push(waiting);
      } else if (everyMs < lastMs) left.push(this.#next(stray, 2 * everyMs));
    }
    this.#waiting = [...left, ...this.#waiting];
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
