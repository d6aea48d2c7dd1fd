/**
 * What this process holds, calls or reservations, beside what the database says it holds. A row that it owns and does not know is of
 * nobody: of a statement that the server carried out long after its caller gave up, or that was carried out twice, or of a release that
 * never came through. It would stay for as long as this process lives, so it is released, at a renewal of the lease.
 */
import type { Holder } from "./holder.ts";

export type OwnRowsOptions<R> = {
  readonly holder: Holder;
  /** What the database says that is held under that name. */
  readonly rows: (owner: string) => Promise<readonly R[]>;
  readonly nameOf: (row: R) => string;
  readonly release: (row: R) => Promise<unknown>;
  /** Whether there may be any; absent: always. */
  readonly isDue?: () => boolean;
};

export class OwnRows<R> {
  readonly #options: OwnRowsOptions<R>;
  /** Under which name each is held, where that matters: from before it is sent until there can't be a row of it. */
  readonly #known = new Map<string, string | undefined>();
  #isLooking = false;

  constructor(options: OwnRowsOptions<R>) {
    this.#options = options;
    options.holder.onRenewed.add(() => void this.#releaseUnknown());
  }

  /** @param owner the holder's name, where it is lost with the lease of that name */
  began(name: string, owner?: string): void {
    this.#known.set(name, owner);
  }

  knows(name: string): boolean {
    return this.#known.has(name);
  }

  ended(name: string): void {
    this.#known.delete(name);
  }

  /** What the database says that is held here. @throws StorageError */
  rows(): Promise<readonly R[]> {
    return this.#options.rows(this.#options.holder.id);
  }

  /** Never rejects: what fails is tried at the next renewal. */
  async #releaseUnknown(): Promise<void> {
    const { holder, nameOf, release, isDue } = this.#options;
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const { id } = holder;
      // A row that is found was sent before it was asked for, so it is known by now, if it is at all.
      for (const row of isDue?.() === false ? [] : await this.rows()) {
        if (holder.id !== id) return;
        if (!this.#known.has(nameOf(row))) await release(row);
      }
      // What was held under another name is lost, and ends without a word.
      for (const [name, owner] of this.#known) if (owner !== undefined && owner !== holder.id) this.#known.delete(name);
    } catch {
    } finally {
      this.#isLooking = false;
    }
  }
}
