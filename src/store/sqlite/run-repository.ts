/** Calls that carry a service-request-id, and their answers. A lease is held by the process' liveness lock, so it never lapses. */
import type { Database } from "bun:sqlite";
import type {
  CallId,
  FinishedCall,
  IdempotencyRecord,
  NewCall,
  RunRepository,
  RunTotals,
  StoredEvents,
} from "../store.ts";
import type { Synchronous } from "./asynchronous.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { LivenessLock } from "./liveness-lock.ts";

export type SqliteRuns = Synchronous<RunRepository> & {
  removeExpired(now: number, max: number): number;
  totals(): RunTotals;
};

/** With the process that makes the call, where it runs. */
type Row = Omit<IdempotencyRecord, "holder"> & { owner: string | null };

const identified = "call = $call and run = $run";
const columns =
  "call, run, fingerprint, state, owner, expires_at as expiresAt, status, headers, events, body_from as bodyFrom";

/** @param lock gives this process' lock, which is taken when it is first asked for */
export function runRepository(database: Database, shared: GroupCommit, lock: () => LivenessLock): SqliteRuns {
  const claim = database.prepare<CallId, NewCall & { owner: string }>(
    `insert into kept_calls (scope, request_id, fingerprint, run, state, owner, created_at)
     values ($scope, $requestId, $fingerprint, $run, 'running', $owner, $createdAt)
     on conflict (scope, request_id) do nothing returning call, run`,
  );
  const find = database.prepare<Row, { scope: string; requestId: string }>(
    `select ${columns} from kept_calls where scope = $scope and request_id = $requestId`,
  );
  const get = database.prepare<Row, CallId>(`select ${columns} from kept_calls where ${identified}`);
  const body = database.prepare<{ body: Uint8Array | null }, CallId>(`select body from kept_calls where ${identified}`);
  const watch = database.prepare<unknown, CallId>(`update kept_calls set watched = 1 where ${identified}`);
  const watched = database.prepare<{ call: number }, { owner: string }>(
    "select call from kept_calls where owner = $owner and watched = 1",
  );
  const append = database.prepare<unknown, { call: number; firstId: number; data: Uint8Array }>(
    "insert into kept_events values ($call, $firstId, $data)",
  );
  const open = database.prepare<unknown, CallId & { headers: string | null }>(
    `update kept_calls set status = 200, headers = $headers where ${identified} and owner is not null`,
  );
  const eventsAt = database.prepare<StoredEvents, CallId & { number: number }>(
    `select first_id as firstId, data from kept_events where call = $call and first_id <= $number
     and exists (select 1 from kept_calls where ${identified}) order by first_id desc limit 1`,
  );
  const finish = database.prepare<unknown, CallId & FinishedCall>(
    `update kept_calls set state = 'finished', owner = null, watched = 0, status = $status, headers = $headers,
     events = $events, body_from = $bodyFrom, body = $body, bytes = $bytes, expires_at = $expiresAt
     where ${identified} and state in ('running', 'finished')`,
  );
  const remove = database.prepare<unknown, CallId & Pick<IdempotencyRecord, "state">>(
    `delete from kept_calls where ${identified} and state = $state`,
  );
  const held = database.prepare<CallId, { owner: string }>("select call, run from kept_calls where owner = $owner");
  const owners = database.prepare<{ owner: string }, []>(
    "select distinct owner from kept_calls where owner is not null",
  );
  const dropEvents = database.prepare(
    "delete from kept_events where call in (select call from kept_calls where owner = $owner)",
  );
  const interrupt = database.prepare(
    "update kept_calls set state = 'interrupted', owner = null, watched = 0, expires_at = $at where owner = $owner",
  );
  const removeExpired = database.prepare(
    `delete from kept_calls where call in
     (select call from kept_calls where expires_at <= $now order by expires_at limit $max)`,
  );
  const totals = database.prepare<RunTotals, []>(
    `select count(*) filter (where state = 'running') as running, count(*) filter (where state = 'finished') as finished,
     count(*) filter (where state = 'interrupted') as interrupted, ifnull(sum(bytes), 0) as bytes from kept_calls`,
  );
  const appendTo = database.transaction((id: CallId, headers: string | null, { firstId, data }: StoredEvents) => {
    if (open.run({ ...id, headers }).changes === 0) return false;
    append.run({ call: id.call, firstId, data });
    return true;
  });
  const interruptAll = database.transaction((owner: string, at: number) => {
    dropEvents.run({ owner });
    return interrupt.run({ owner, at }).changes;
  });
  const holderOf = (owner: string | null) =>
    owner === null ? null : owner === lock().id ? "self" : lock().isAlive(owner) ? "other" : "gone";
  const recordOf = (row: Row | null): IdempotencyRecord | undefined => {
    if (row === null) return undefined;
    const { owner, ...rest } = row;
    return { ...rest, holder: holderOf(owner) };
  };
  return {
    leaseTerms: { renewMs: 10_000 },
    // By the lock of a process, for as long as it lives.
    holds: () => true,
    claim: (call, old) => {
      const owner = lock().id;
      return shared.run(() => {
        if (old !== undefined && remove.run(identityOf(old)).changes === 0) return undefined;
        return claim.get({ ...call, owner }) ?? undefined;
      });
    },
    renew: (leases) => {
      const runs = new Map(held.all({ owner: lock().id }).map(({ call, run }) => [call, run]));
      return leases.filter(({ call, run }) => runs.get(call) !== run);
    },
    interruptAbandoned: (at) => {
      const own = lock();
      const gone = owners.all().filter(({ owner }) => !own.isAlive(owner));
      return gone.reduce((sum, { owner }) => sum + interruptAll.immediate(owner, at), 0);
    },
    find: (scope, requestId) => recordOf(find.get({ scope, requestId })),
    get: (id) => recordOf(get.get(id)),
    body: (id) => body.get(id)?.body ?? undefined,
    watch: (id) => void watch.run(id),
    watched: () => watched.all({ owner: lock().id }).map(({ call }) => call),
    append: (lease, headers, events) => appendTo.immediate(lease, headers, events),
    eventsAt: (id, number) => eventsAt.get({ ...id, number }) ?? undefined,
    finish: (lease, finished) => shared.run(() => finish.run({ ...lease, ...finished }).changes > 0),
    release: ({ call, run }) => void remove.run({ call, run, state: "running" }),
    discard: ({ call, run }) => void remove.run({ call, run, state: "finished" }),
    removeExpired: (now, max) => removeExpired.run({ now, max }).changes,
    totals: () => totals.get()!,
  };
}

const identityOf = ({ call, run, state }: CallId & Pick<IdempotencyRecord, "state">) => ({ call, run, state });
