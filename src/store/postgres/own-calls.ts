/**
 * The calls that this process makes, beside those that the database says it makes. A row that it owns and does not know is of nobody:
 * of a claim that the server carried out long after its caller gave up, or that was carried out twice, or of a release that never came
 * through. Others would wait for it for as long as this process lives, so it is released, at each renewal of the lease.
 */
import type { CallId } from "../store.ts";
import type { Holder } from "./holder.ts";
import type { QueryPool } from "./query-pool.ts";

export class OwnCalls {
  readonly #pool: QueryPool;
  readonly #holder: Holder;
  readonly #released: string;
  /** Under which name each run was claimed: from before its claim is sent until no row of it can run. */
  readonly #known = new Map<string, string>();
  #isLooking = false;

  /** @param released a statement that removes the row of a call and a run that runs */
  constructor(pool: QueryPool, holder: Holder, released: string) {
    this.#pool = pool;
    this.#holder = holder;
    this.#released = released;
    holder.onRenewed = () => void this.#releaseUnknown();
  }

  /** @param owner the holder's name */
  began(run: string, owner: string): void {
    this.#known.set(run, owner);
  }

  ended(run: string): void {
    this.#known.delete(run);
  }

  /** What the database says that runs here. @throws StorageError */
  async rows(): Promise<readonly CallId[]> {
    return this.#pool.run<CallId>(
      "select call::float8 as call, run from troupe.kept_calls where owner = $1::text and state = 'running'",
      [this.#holder.id],
    );
  }

  /** Never rejects: what fails is tried at the next renewal. */
  async #releaseUnknown(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const { id } = this.#holder;
      // A row that is found was claimed before it was asked for, so it is known by now, if it is at all.
      for (const { call, run } of await this.rows()) {
        if (this.#holder.id !== id) return;
        if (!this.#known.has(run)) await this.#pool.run(this.#released, [call, run]);
      }
      // What was held under another name is lost, and its runs end without a word.
      for (const [run, owner] of this.#known) if (owner !== this.#holder.id) this.#known.delete(run);
    } catch {
    } finally {
      this.#isLooking = false;
    }
  }
}
