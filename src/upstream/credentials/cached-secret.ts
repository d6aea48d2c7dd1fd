/** A secret that ends, such as an access token: fetched once for all calls, and again before its end. */
import type { Clock } from "../../lib/time/clock.ts";

export type Dated<T> = {
  readonly value: T;
  /** Unix milliseconds; absent: it has no end. */
  readonly endsAt?: number | undefined;
  /** The place that it came from, in words, without the secret. */
  readonly source: string;
};

type SecretOptions<T> = {
  readonly clock: Clock;
  /** Gets a new one, within a deadline of its own, and logs it where that fails. @throws Error with a message that holds no secret */
  readonly fetch: () => Promise<Dated<T>>;
};

/** It is fetched anew so long before its end, or in the last fifth of its life if that is shorter, while calls go on with it. */
const aheadMs = 5 * 60_000;
/** It is not used in its last moments, as a request takes a while to arrive, and clocks differ. */
const marginMs = 10_000;
/** The time between attempts to refresh while an old secret still counts. */
const retryMs = 15_000;
/** An endpoint that failed is left alone so long: calls that come meanwhile get the same error. */
const failureMs = 1000;
/** A secret that is younger than this is not at fault when it is refused. */
const youngMs = 60_000;

export class CachedSecret<T> {
  readonly #options: SecretOptions<T>;
  #held: (Dated<T> & { readonly fetchedAt: number }) | undefined;
  #fetching: Promise<T> | undefined;
  #nextRefreshAt = 0;
  #isDoubted = false;
  #failure: { readonly error: unknown; readonly until: number } | undefined;

  constructor(options: SecretOptions<T>) {
    this.#options = options;
  }

  /** Waits only while there is none, or it is at its end. @throws what `fetch` throws */
  async get(): Promise<T> {
    const held = this.#held;
    const now = this.#options.clock.now();
    if (held === undefined || this.#isDoubted || endOf(held) - marginMs <= now) return await this.#awaited(now);
    if (now >= refreshAt(held) && now >= this.#nextRefreshAt) this.#refresh(now);
    return held.value;
  }

  /** The secret and its place, once there was one. */
  get held(): Dated<T> | undefined {
    return this.#held;
  }

  /** The upstream refused a secret: if it is this one it is fetched anew before the next call. One that was just fetched stays. */
  refused(isSame: (value: T) => boolean): void {
    const held = this.#held;
    if (held === undefined || !isSame(held.value)) return;
    if (this.#options.clock.now() - held.fetchedAt >= youngMs) this.#isDoubted = true;
  }

  #awaited(now: number): Promise<T> {
    if (this.#fetching !== undefined) return this.#fetching;
    if (this.#failure !== undefined && now < this.#failure.until) return Promise.reject(this.#failure.error);
    return this.#fetch();
  }

  #refresh(now: number): void {
    this.#nextRefreshAt = now + retryMs;
    // The old one still counts, and `fetch` has logged why there is no new one.
    if (this.#fetching === undefined) this.#fetch().catch(() => {});
  }

  #fetch(): Promise<T> {
    const fetching = this.#fetched().finally(() => {
      this.#fetching = undefined;
    });
    this.#fetching = fetching;
    return fetching;
  }

  async #fetched(): Promise<T> {
    const { clock, fetch } = this.#options;
    const wasDoubted = this.#isDoubted;
    try {
      const found = await fetch();
      this.#held = { ...found, fetchedAt: clock.now() };
      this.#isDoubted = false;
      this.#failure = undefined;
      return found.value;
    } catch (error) {
      const held = this.#held;
      const now = clock.now();
      // A doubted one is better than none: it may be something else that was refused.
      this.#isDoubted = false;
      if (wasDoubted && held !== undefined && endOf(held) - marginMs > now) {
        this.#held = { ...held, fetchedAt: now };
        return held.value;
      }
      this.#failure = { error, until: now + failureMs };
      throw error;
    }
  }
}

const endOf = ({ endsAt = Number.POSITIVE_INFINITY }: { readonly endsAt?: number | undefined }) => endsAt;

function refreshAt(held: { readonly endsAt?: number | undefined; readonly fetchedAt: number }): number {
  const end = endOf(held);
  return end === Number.POSITIVE_INFINITY ? end : end - Math.min(aheadMs, (end - held.fetchedAt) / 5);
}
