/** Shared windows in PostgreSQL, by functions of the database. */
import type { Beat, SharedWindows, WindowState, WindowTimes } from "../shared-windows.ts";
import type { QueryPool } from "./query-pool.ts";

/** How long a lapsed node is remembered. */
const forgetMs = 600_000;

/** @param pool is closed with it */
export function postgresWindows(pool: QueryPool, { windowMs, leaseMs }: WindowTimes): SharedWindows {
  const decided = async <T>(text: string, parameters: (string | number | boolean)[]): Promise<T | undefined> => {
    const [row] = await pool.run<{ answer: string | null }>(text, parameters);
    return row?.answer == null ? undefined : (JSON.parse(row.answer) as T);
  };
  return {
    beat: (node, isNew, counts) =>
      decided<Beat>("select troupe.beat_node($1::text, $2::bigint, $3::boolean, $4::boolean)::text as answer", [
        ...[node, leaseMs, isNew, counts],
      ]),
    exchange: (node, asks) =>
      decided<WindowState[]>("select troupe.exchange_windows($1::text, $2::bigint, $3::text::jsonb)::text as answer", [
        node,
        windowMs,
        JSON.stringify(asks),
      ]),
    async leave(node) {
      await pool.run(
        `with gone as (delete from troupe.nodes where node = $1::text)
         delete from troupe.window_holds where node = $1::text`,
        [node],
      );
    },
    async tidy() {
      await pool.run("select troupe.tidy_windows($1::bigint, $2::bigint)", [windowMs, forgetMs]);
    },
    close: () => pool.close(),
  };
}
