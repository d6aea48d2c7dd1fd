/**
 * Compares what this process holds, calls or reservations, with what the database says it holds. A row that it owns and does not know is
 * orphaned: of a statement that the server carried out long after its caller gave up, or that was carried out twice, or of a release that
 * never came through. It would stay for as long as this process lives, so it is released: at each renewal of the lease, and soon after a
 * statement that was cut off, as others wait for such a row.
 */
import type { Clock } from "../../lib/time/clock.ts";
import type { LeaseOwner } from "./lease-owner.ts";

type OrphanedRowsOptions<R> = {
  readonly leaseOwner: LeaseOwner;
  readonly clock: Clock;
  /** Gives the rows that the database says are held under that name. */
  readonly rows: (owner: string) => Promise<readonly R[]>;
  readonly nameOf: (row: R) => string;
  readonly release: (row: R) => Promise<unknown>;
};

const retryMs = 250;

export class OrphanedRows<R> {
  readonly #options: OrphanedRowsOptions<R>;
  /** Under which name each is held, where that matters: from before it is sent until there can't be a row of it. */
  readonly #known = new Map<string, string | undefined>();
  #isLooking = false;
  #isPlanned = false;

  constructor(options: OrphanedRowsOptions<R>) {
    this.#options = options;
    options.leaseOwner.onRenewed.add(() => void this.#releaseUnknown());
  }

  /** @param owner the lease owner's name, where it is lost with the lease of that name */
  began(name: string, owner?: string): void {
    this.#known.set(name, owner);
  }

  knows(name: string): boolean {
    return this.#known.has(name);
  }

  ended(name: string): void {
    this.#known.delete(name);
  }

  /** Rows that the database says are held here. @throws StorageError */
  rows(): Promise<readonly R[]> {
    return this.#options.rows(this.#options.leaseOwner.id);
  }

  /** A statement was cut off: looks for what it left until that works, or the lease has lapsed, as then nobody waits for it. */
  lookSoon(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    this.#options.clock.setTimer(retryMs, () => void this.#look());
  }

  async #look(): Promise<void> {
    const { leaseOwner } = this.#options;
    const isDone = !leaseOwner.holds(leaseOwner.id) || (await this.#releaseUnknown());
    this.#isPlanned = false;
    if (!isDone) this.lookSoon();
  }

  /** Never rejects. @returns whether all that was found is released; what fails is tried at the next renewal */
  async #releaseUnknown(): Promise<boolean> {
    const { leaseOwner, nameOf, release } = this.#options;
    if (this.#isLooking) return false;
    this.#isLooking = true;
    try {
      const { id } = leaseOwner;
      // A row that is found was sent before it was asked for, so it is known by now, if it is at all.
      for (const row of await this.rows()) {
        if (leaseOwner.id !== id) return true;
        if (!this.#known.has(nameOf(row))) await release(row);
      }
      // Rows that were held under another name are lost, and end without a word.
      for (const [name, owner] of this.#known)
        if (owner !== undefined && owner !== leaseOwner.id) this.#known.delete(name);
      return true;
    } catch {
      return false;
    } finally {
      this.#isLooking = false;
    }
  }
}
