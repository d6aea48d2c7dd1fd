/** Records of calls that carry a service-request-id: what both databases do alike. */
import type { IdempotencyRecord, RunRepository, RunTotals, StoredEvents } from "../contract/store.ts";
import type { Sql } from "./sql.ts";

/** With the process that makes the call, where it runs. */
type Owned = Omit<IdempotencyRecord, "heldBy" | "owner"> & { readonly owner: string | null };

type RunRecordOptions<R> = {
  /** For what calls wait for, and for the rest. */
  readonly path: Sql;
  readonly background: Sql;
  /** Selected beside a record, with a comma before it. */
  readonly more?: string;
  /** Condition that joins events `e` to their call `k`. */
  readonly joined: string;
  readonly recordOf: (row: Owned & R) => IdempotencyRecord;
  /** Under which this process holds its calls. */
  readonly owner: () => string;
};

export type RunRecords = Pick<RunRepository, "find" | "get" | "body" | "eventsAt" | "watch" | "watched" | "discard"> & {
  /** Calls that expire by then, the earliest first. @returns how many were removed */
  removeExpired(now: number, max: number): Promise<number>;
  totals(): Promise<RunTotals>;
};

const identified = "call = $1::bigint and run = $2::text";
const body = `select body from troupe.kept_calls where ${identified}`;
const watch = `update troupe.kept_calls set watched = true where ${identified} and not watched`;
const watched = "select call::float8 as call from troupe.kept_calls where owner = $1::text and watched";
const discard = `delete from troupe.kept_calls where ${identified} and state = 'finished'`;
// Several nodes sweep at once: each takes other rows.
const removeExpired = `delete from troupe.kept_calls where call in (
  select call from troupe.kept_calls where expires_at <= $1::bigint order by expires_at limit $2::int for update skip locked)`;
const totals = `select count(*) filter (where state = 'running')::float8 as running,
  count(*) filter (where state = 'finished')::float8 as finished,
  count(*) filter (where state = 'interrupted')::float8 as interrupted, coalesce(sum(bytes), 0)::float8 as bytes
  from troupe.kept_calls`;

export function runRecords<R>(options: RunRecordOptions<R>): RunRecords {
  const { path, background, more = "", joined, recordOf, owner } = options;
  const record = `select call::float8 as call, run, fingerprint, state, owner, expires_at::float8 as "expiresAt", status, headers,
    events, body_from as "bodyFrom"${more} from troupe.kept_calls`;
  const eventsAt = `select first_id as "firstId", data from troupe.kept_events e join troupe.kept_calls k on ${joined}
    where k.call = $1::bigint and k.run = $2::text and k.state <> 'interrupted' and first_id <= $3::int
    order by first_id desc limit 1`;
  const one = async (where: string, values: readonly (string | number)[]) => {
    const [row] = await path.run<Owned & R>(`${record} where ${where}`, values);
    return row && recordOf(row);
  };
  return {
    find: (scope, requestId) => one("scope = $1::text and request_id = $2::text", [scope, requestId]),
    get: ({ call, run }) => one(identified, [call, run]),
    async body({ call, run }) {
      return (await path.run<{ body: Uint8Array | null }>(body, [call, run]))[0]?.body ?? undefined;
    },
    eventsAt: async ({ call, run }, number) => (await path.run<StoredEvents>(eventsAt, [call, run, number]))[0],
    watch: async ({ call, run }) => void (await path.run(watch, [call, run])),
    async watched() {
      return (await background.run<{ call: number }>(watched, [owner()])).map(({ call }) => call);
    },
    discard: async ({ call, run }) => void (await path.run(discard, [call, run])),
    removeExpired: async (now, max) => (await background.run(removeExpired, [now, max])).count,
    totals: async () => (await background.run<RunTotals>(totals))[0]!,
  };
}
