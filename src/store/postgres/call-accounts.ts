/**
 * Reservations, many of them in one statement where many wait: a budget that all calls count in is one row, which is locked until a commit
 * is on the disk.
 */

import type { Parameter } from "../shared/sql.ts";
import type { Reservation } from "../usage.ts";
import { Batches } from "./batches.ts";
import type { QueryPool } from "./query-pool.ts";

export type CallEntry = {
  readonly request_id: string;
  readonly attempt: number;
  readonly owner: string;
  readonly amount: number;
  readonly budgets: Reservation["budgets"];
  /** The window of tokens, if it counts in one. */
  readonly key: string | undefined;
  readonly limit: number | undefined;
  readonly tokens: number;
  /** By the caller's clock, where windows go by it. */
  readonly now: number | undefined;
  /** JSON. */
  readonly line: string;
};

/** Whose rows are locked until all are done: some 15 ms. */
const maxEntries = 256;
/** The second one collects the waiting while the first one is carried out; one that hangs has the others go on. */
const maxUnderWay = 2;

const reserve = "select troupe.reserve_calls($1::text::jsonb, $2::text::jsonb)::text as answer";

/** @returns what the function of the database decides */
export function callAccounts(pool: QueryPool): Batches<CallEntry, unknown> {
  const { clock, deadlineMs, place } = pool.options;
  return new Batches({
    clock,
    deadlineMs,
    place,
    maxEntries,
    maxUnderWay,
    async send(_, entries) {
      const [row] = await pool.run<{ answer: string }>(reserve, (again) => listOf(entries(again)));
      return JSON.parse(row!.answer) as unknown[];
    },
  });
}

/** All budgets once, and the entries, which name them by their places. */
function listOf(entries: readonly CallEntry[]): Parameter[] {
  const places = new Map<string, number>();
  const budgets: object[] = [];
  const placeOf = (scope: string, span: string) => {
    const name = `${span} ${scope}`;
    let place = places.get(name);
    if (place === undefined) {
      place = budgets.push({ scope, span });
      places.set(name, place);
    }
    return place;
  };
  const list = entries.map((entry) => {
    const { budgets: asked, ...rest } = entry;
    return {
      ...rest,
      places: asked.map(({ scope, span }) => placeOf(scope, span)),
      limits: asked.map(({ limit }) => limit),
    };
  });
  return [JSON.stringify(budgets), JSON.stringify(list)];
}
