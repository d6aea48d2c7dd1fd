/**
 * The lease of this process, under which it holds all of its calls: one row, renewed at a third of its time, however many calls run.
 * It lapses by the server's clock. Here it is taken to lapse before that, as it counts from when its renewal was sent; who finds
 * it lapsed, after a pause or a cut, has lost what was held, and goes on under a new name.
 */
import type { Clock } from "../../lib/time/clock.ts";
import { StorageError } from "../contract/storage-error.ts";
import type { LeaseState } from "../metrics.ts";
import { away } from "./errors.ts";
import type { QueryPool } from "./query-pool.ts";

export class LeaseOwner {
  readonly #pool: QueryPool;
  readonly #clock: Clock;
  readonly #place: string;
  readonly lapseMs: number;
  #id = "";
  /** Before that reading the lease holds. */
  #until = Number.NEGATIVE_INFINITY;
  #registering: Promise<string> | undefined;
  #proving: Promise<void> | undefined;
  #cancelTimer = () => {};
  #isClosed = false;
  /** The name whose loss was counted. */
  #lostId = "";
  readonly #counts = { lost: 0, failed: 0 };
  /** Called after each renewal that its own timer made. */
  readonly onRenewed = new Set<() => void>();

  constructor(pool: QueryPool, place: string, clock: Clock, lapseMs: number) {
    this.#pool = pool;
    this.#place = place;
    this.#clock = clock;
    this.lapseMs = lapseMs;
  }

  /** The name under which calls are held now; "" where none was needed yet. */
  get id(): string {
    return this.#id;
  }

  get state(): LeaseState {
    const ageMs = this.holds(this.#id) ? this.#reading() - (this.#until - this.lapseMs) : 0;
    return { ...this.#counts, ageSeconds: ageMs / 1000 };
  }

  /** True if what was claimed under that name may still be held. */
  holds(id: string): boolean {
    return id === this.#id && this.#reading() < this.#until;
  }

  /** Counts the time in which the machine was suspended, too: its lease lapsed meanwhile. */
  #reading(): number {
    return this.#clock.machine?.now() ?? this.#clock.monotonic();
  }

  /** The name to claim under. @throws StorageError */
  current(): Promise<string> | string {
    if (this.holds(this.#id)) return this.#id;
    this.#registering ??= this.#register().finally(() => {
      this.#registering = undefined;
    });
    return this.#registering;
  }

  /** Renews the lease, if it can still be. @throws StorageError */
  async renew(): Promise<void> {
    const id = this.#id;
    if (!this.holds(id)) return;
    const askedAt = this.#reading();
    const renewing = this.#pool.run(
      `update troupe.lease_owners set lapses_at = clock_timestamp() + $2::float8 * interval '1 ms'
       where owner = $1::text and lapses_at > clock_timestamp()`,
      [id, this.lapseMs],
    );
    const { count } = await renewing.catch((error) => {
      this.#counts.failed += 1;
      throw error;
    });
    if (this.#id !== id) return;
    // Who saw it lapse meanwhile has given up what was held: under this name nothing is held again, and others take it over.
    const isLost = count === 0 || !this.holds(id);
    if (isLost) this.lose();
    else this.#until = askedAt + this.lapseMs;
  }

  /** Finds out whether writes work, by renewing. Who asks meanwhile shares it, as all of them write one row. @throws StorageError */
  prove(): Promise<void> {
    this.#proving ??= Promise.resolve(this.current())
      .then(() => this.renew())
      .finally(() => {
        this.#proving = undefined;
      });
    return this.#proving;
  }

  /** Goes on under a new name from the next claim on. */
  lose(): void {
    this.#until = Number.NEGATIVE_INFINITY;
    if (this.#lostId === this.#id || this.#isClosed) return;
    this.#lostId = this.#id;
    this.#counts.lost += 1;
  }

  /** Gives the name up: others may take over what it holds at once. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimer();
    const id = this.#id;
    this.#until = Number.NEGATIVE_INFINITY;
    if (id === "") return;
    await this.#pool.run("delete from troupe.lease_owners where owner = $1::text", [id]);
  }

  async #register(): Promise<string> {
    if (this.#isClosed) throw new StorageError("unusable", this.#place, `The database ${this.#place} was closed.`);
    const id = this.#clock.newId();
    const askedAt = this.#reading();
    await this.#pool.run(
      `insert into troupe.lease_owners values ($1::text, clock_timestamp() + $2::float8 * interval '1 ms')
       on conflict (owner) do nothing`,
      [id, this.lapseMs],
    );
    // The one before has lapsed.
    this.lose();
    this.#id = id;
    this.#until = askedAt + this.lapseMs;
    if (!this.holds(id)) throw away(this.#place, "it answers too late for a lease");
    this.#renewAfter(this.lapseMs / 3);
    return id;
  }

  #renewAfter(ms: number): void {
    this.#cancelTimer();
    if (this.#isClosed) return;
    this.#cancelTimer = this.#clock.setTimer(ms, () => void this.#renewAgain());
  }

  /** A lease that lapsed is not renewed: the next claim registers anew. One that may lapse soon is tried again and again. */
  async #renewAgain(): Promise<void> {
    const isRenewed = await this.renew().then(
      () => true,
      () => false,
    );
    if (isRenewed) for (const notify of this.onRenewed) notify();
    if (this.holds(this.#id)) this.#renewAfter(this.lapseMs / (isRenewed ? 3 : 30));
    else this.lose();
  }
}
