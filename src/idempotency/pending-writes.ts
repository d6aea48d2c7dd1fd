/** Writes that failed when a run ended: its answer, from which retries are answered until it is stored, or its release. */
import type { Clock } from "../lib/time/clock.ts";
import type { Lease, RunRepository } from "../store/contract/store.ts";
import type { InFlightRun } from "./in-flight-run.ts";

/** Longest time for which answers are held that readers were given. */
const givenMs = 60_000;
/** The same where no reader was given the answer, as another process may take the call over meanwhile. */
const ungivenMs = 10 * 60_000;
/** In characters, of all answers. */
const maxSize = 64 * 1024 * 1024;
const maxLeases = 10_000;

export class PendingWrites {
  readonly #rows: RunRepository;
  readonly #clock: Clock;
  /** By scope and request id. `until` is a monotonic reading. */
  readonly #answers = new Map<string, { readonly run: InFlightRun; readonly until: number }>();
  /** Empty where leases lapse, as the store then releases by itself. */
  readonly #leases = new Set<Lease>();

  constructor(rows: RunRepository, clock: Clock) {
    this.#rows = rows;
    this.#clock = clock;
  }

  get hasReleases(): boolean {
    return this.#leases.size > 0;
  }

  get #canLapse(): boolean {
    return this.#rows.leaseTerms.lapseMs !== undefined;
  }

  /** @returns false where there is no room for the answer */
  add(key: string, run: InFlightRun): boolean {
    let size = run.heldSize;
    for (const { run: other } of this.#answers.values()) size += other.heldSize;
    if (size > maxSize) return false;
    this.#answers.set(key, { run, until: this.#clock.monotonic() + (this.#canLapse ? ungivenMs : givenMs) });
    return true;
  }

  /** Tries to store the answers. Gives those that are not held any more, and whether they were given up. */
  async *save(): AsyncGenerator<{ readonly key: string; readonly run: InFlightRun; readonly isGivenUp: boolean }> {
    for (const [key, pending] of this.#answers) {
      const { run, until } = pending;
      const isGivenUp = (await run.save()) === "pending";
      if (isGivenUp && until > this.#clock.monotonic()) continue;
      yield { key, run, isGivenUp };
      // Others who saved meanwhile may have been first, and another call may have begun.
      if (this.#answers.get(key) === pending) this.#answers.delete(key);
    }
  }

  /** Releases an id; where that fails, again and again by `releaseAll`, as other processes wait for it. @throws StorageError */
  async release(lease: Lease): Promise<void> {
    try {
      await this.#rows.release(lease);
      this.#leases.delete(lease);
    } catch (error) {
      if (!this.#canLapse && this.#leases.size < maxLeases) this.#leases.add(lease);
      throw error;
    }
  }

  /** @throws StorageError */
  async releaseAll(): Promise<void> {
    for (const lease of this.#leases) await this.release(lease);
  }

  clear(): void {
    this.#answers.clear();
    this.#leases.clear();
  }
}
