/**
 * Reservations and settlements, many of them in one statement where many wait: a budget that all calls count in is one row, which is
 * locked until a commit is on the disk. One alone goes by the functions that cost the least for one.
 */
import type { Reservation } from "../store.ts";
import { Batches } from "./batches.ts";
import type { Parameter, QueryPool } from "./query-pool.ts";

export type CallEntry =
  | {
      readonly id: string;
      readonly owner: string;
      readonly amount: number;
      readonly budgets: Reservation["budgets"];
      /** The window of tokens, if it counts in one. */
      readonly key: string | undefined;
      readonly limit: number | undefined;
      readonly tokens: number;
      /** By the caller's clock, where windows go by it. */
      readonly now: number | undefined;
    }
  | { readonly id: string; readonly spent: number; readonly tokens: number };

/** Whose rows are locked until all are done: some 15 ms. */
const maxEntries = 256;
/** The second one collects the waiting while the first one is carried out; one that hangs has the others go on. */
const maxUnderWay = 2;

// A settlement has what was spent.
const one = `select case when $9::bigint is null
    then troupe.reserve($1::text, $2::text, $3::bigint, $4::text::jsonb, $5::text, $6::float8, $7::bigint, $8::bigint)
    else to_jsonb(troupe.settle($1::text, $9::bigint, $8::bigint)) end::text as answer`;
const many = "select troupe.account_calls($1::text::jsonb, $2::text::jsonb)::text as answer";

/** @returns what `troupe.reserve` says of a reservation, and of a settlement whether there was one */
export function callAccounts(pool: QueryPool): Batches<CallEntry, unknown> {
  const { clock, deadlineMs, place } = pool.options;
  return new Batches({
    clock,
    deadlineMs,
    place,
    maxEntries,
    maxUnderWay,
    async send(count, entries) {
      if (count === 1) {
        const [row] = await pool.run<{ answer: string }>(one, (again) => parametersOf(entries(again)[0]!));
        return [JSON.parse(row!.answer)];
      }
      const [row] = await pool.run<{ answer: string }>(many, (again) => listOf(entries(again)));
      return JSON.parse(row!.answer) as unknown[];
    },
  });
}

function parametersOf(entry: CallEntry): Parameter[] {
  if ("spent" in entry) return [entry.id, null, null, null, null, null, null, entry.tokens, entry.spent];
  const { id, owner, amount, budgets, key, now, limit, tokens } = entry;
  return [id, owner, amount, JSON.stringify(budgets), key ?? null, now ?? null, limit ?? null, tokens, null];
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
    if ("spent" in entry) return entry;
    const { budgets: asked, ...rest } = entry;
    return {
      ...rest,
      places: asked.map(({ scope, span }) => placeOf(scope, span)),
      limits: asked.map(({ limit }) => limit),
    };
  });
  return [JSON.stringify(budgets), JSON.stringify(list)];
}
