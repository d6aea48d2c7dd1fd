/**
 * The calls of this process that the database knows to be under way, with or without a reservation: under the name of its lease, so that other
 * nodes find them when it has lapsed. One that it owns and does not know is nobody's: its reservation was carried out after its caller gave
 * up. That is given back, its tokens too.
 */
import type { InterruptedCall, LedgerLine } from "../contract/usage.ts";
import type { LeaseOwner } from "./lease-owner.ts";
import { OrphanedRows } from "./orphaned-rows.ts";
import type { QueryPool } from "./query-pool.ts";

type Named = Pick<LedgerLine, "requestId" | "attempt">;

/** A process that was paused, or cut off, takes its calls over again before others end them. */
const graceMs = 10_000;
const maxInterrupted = 10_000;

const nameOf = ({ requestId, attempt }: Named) => `${requestId} ${attempt}`;

export class HeldCalls {
  readonly #pool: QueryPool;
  readonly #leaseOwner: LeaseOwner;
  readonly #rows: OrphanedRows<Named>;
  #owner = "";

  /** @param pool for what no call waits for */
  constructor(pool: QueryPool, leaseOwner: LeaseOwner) {
    this.#pool = pool;
    this.#leaseOwner = leaseOwner;
    const { clock } = pool.options;
    this.#rows = new OrphanedRows<Named>({
      leaseOwner,
      clock,
      rows: (owner) =>
        pool.run<Named>(
          'select request_id as "requestId", attempt::float8 as attempt from troupe.reservations where owner = $1::text',
          [owner],
        ),
      nameOf,
      release: ({ requestId, attempt }) => {
        const unmade = { request_id: requestId, attempt, cost: null, used: null, days: [], scopes: [] };
        return pool.run("select troupe.settle_calls($1::text::jsonb, '[]')", [JSON.stringify([unmade])]);
      },
    });
  }

  /** The name to hold calls by. What is held by one that lapsed meanwhile goes on by the new one. @throws StorageError */
  async owner(): Promise<string> {
    const owner = await this.#leaseOwner.current();
    const before = this.#owner;
    if (owner !== before) {
      if (before !== "")
        await this.#pool.run("update troupe.reservations set owner = $1::text where owner = $2::text", [owner, before]);
      this.#owner = owner;
    }
    return owner;
  }

  /** Before it is sent. */
  began(line: Named): void {
    this.#rows.began(nameOf(line));
  }

  ended(line: Named): void {
    this.#rows.ended(nameOf(line));
  }

  /** It was sent, and its caller has no answer: whatever becomes of it is not wanted. */
  gaveUp(line: Named): void {
    this.ended(line);
    this.#rows.lookSoon();
  }

  /** Calls of processes whose lease has lapsed. @throws StorageError */
  async interrupted(): Promise<InterruptedCall[]> {
    await this.owner();
    const rows = await this.#pool.run<{ owner: string; line: string }>(
      `select owner, line from troupe.reservations r where not exists (
         select 1 from troupe.lease_owners h
         where h.owner = r.owner and h.lapses_at > clock_timestamp() - $1::float8 * interval '1 ms') limit $2::int`,
      [graceMs, maxInterrupted],
    );
    return rows
      .map(({ owner, line }) => ({ owner, line: JSON.parse(line) as LedgerLine }))
      .filter(({ line }) => !this.#rows.knows(nameOf(line)));
  }
}
