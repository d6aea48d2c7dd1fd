/** Windows of requests in PostgreSQL: one statement for each hit, a function of the database. */
import { goodForMs, type StoredWindows, type WindowHit, type WindowState } from "../contract/windows.ts";
import type { QueryPool } from "./query-pool.ts";

type Row = Omit<WindowState, "growsMs"> & { readonly grows_ms: number };

/** @param pool is closed with it */
export function postgresWindows(pool: QueryPool, newId: () => string, windowMs = 60_000): StoredWindows {
  const ask = async (caller: string, limit: number, hits: readonly WindowHit[]): Promise<WindowState> => {
    const [row] = await pool.run<Row>(
      "select * from troupe.hit_window($1::text, $2::bigint, $3::bigint, $4::text, $5::text::bigint[], $6::text::bigint[], $7::text::bigint[])",
      [
        caller,
        limit,
        windowMs + goodForMs,
        newId(),
        listed(hits.map(([id]) => numberOf(id))),
        listed(hits.map(([, age]) => age)),
        listed(hits.map(([, , count = 1]) => count)),
      ],
    );
    const { allowed, used, grows_ms: growsMs, life } = row!;
    return { allowed, used, growsMs, life };
  };
  return {
    hit: (caller, limit, id) => ask(caller, limit, [[id, 0]]),
    add: (caller, hits) => ask(caller, -1, hits),
    async tidy() {
      // Rows that a call is busy with are left for the next time.
      const text = `delete from troupe.windows where caller in (select caller from troupe.windows
        where over_at <= floor(extract(epoch from clock_timestamp()) * 1000) limit 20000 for update skip locked)`;
      await pool.run(text);
    },
    close: () => pool.close(),
  };
}

const listed = (numbers: readonly (number | bigint)[]) => `{${numbers.join(",")}}`;

/** Number of a request: the last 15 of the 32 hexadecimal characters of its id, which are random. */
const numberOf = (id: string) => BigInt(`0x${id.slice(-15)}`);
