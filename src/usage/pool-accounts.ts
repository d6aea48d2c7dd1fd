/** Tells the database what of pools was spent, in one statement for whatever came while the last one was under way. Never gives up. */
import type { Clock } from "../lib/clock.ts";
import type { PoolAccount, PoolRepository, PoolState } from "../store/budget-pools.ts";

type Done = (account: PoolAccount, state: PoolState) => void;
type Entry = { account: PoolAccount; readonly done: Done[] };

const batchSize = 100;
const retryMs = 1_000;

export class PoolAccounts {
  readonly #repository: PoolRepository;
  readonly #clock: Clock;
  readonly #onFailure: (error: unknown) => void;
  /** By pool: what came for one that waits is joined with it. */
  #waiting = new Map<string, Entry>();
  #flushing: Promise<void> | undefined;
  #isFailing = false;
  #cancelRetry = () => {};

  constructor(poolRepository: PoolRepository, clock: Clock, onFailure: (error: unknown) => void) {
    this.#repository = poolRepository;
    this.#clock = clock;
    this.#onFailure = onFailure;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** @param done told of what was written and the state of the pool afterwards */
  tell(account: PoolAccount, done: Done = () => {}): void {
    const entry = this.#waiting.get(account.pool);
    if (entry === undefined) this.#waiting.set(account.pool, { account, done: [done] });
    else {
      entry.account = joined(entry.account, account);
      entry.done.push(done);
    }
    if (!this.#isFailing) this.#flushing ??= Promise.resolve().then(() => this.#flush());
  }

  /** Resolves once what was told until now is written, or could not be. */
  async flushed(): Promise<void> {
    await this.#flushing;
  }

  /** One last try. */
  async close(): Promise<void> {
    this.#cancelRetry();
    await this.#flushing;
    if (this.#waiting.size > 0) await this.#flush();
    this.#cancelRetry();
  }

  /** Never rejects. */
  async #flush(): Promise<void> {
    this.#isFailing = false;
    while (this.#waiting.size > 0 && !this.#isFailing) {
      const batch = [...this.#waiting.values()].slice(0, batchSize);
      for (const { account } of batch) this.#waiting.delete(account.pool);
      try {
        const states = await this.#repository.account(batch.map(({ account }) => account));
        for (const [at, { account, done }] of batch.entries()) for (const one of done) one(account, states[at]!);
      } catch (error) {
        for (const { account, done } of batch) {
          const later = this.#waiting.get(account.pool);
          const all = later === undefined ? account : joined(account, later.account);
          this.#waiting.set(account.pool, { account: all, done: [...done, ...(later?.done ?? [])] });
        }
        this.#isFailing = true;
        this.#onFailure(error);
        this.#cancelRetry = this.#clock.setTimer(retryMs, () => {
          this.#flushing = this.#flush();
        });
      }
    }
    this.#flushing = undefined;
  }
}

/** Sums and what was given back only grow. */
function joined(one: PoolAccount, other: PoolAccount): PoolAccount {
  const sums: Record<string, number> = { ...one.sums };
  for (const [node, sum] of Object.entries(other.sums)) sums[node] = Math.max(sum, sums[node] ?? 0);
  const returned = Math.max(one.returned ?? 0, other.returned ?? 0);
  const held = other.held ?? one.held;
  return {
    pool: one.pool,
    sums,
    ...((one.returned !== undefined || other.returned !== undefined) && { returned }),
    ...(held !== undefined && { held }),
    ...((one.isClosed || other.isClosed) && { isClosed: true }),
    ...((one.isLost || other.isLost) && { isLost: true }),
    ...((one.isEnded || other.isEnded) && { isEnded: true }),
  };
}
