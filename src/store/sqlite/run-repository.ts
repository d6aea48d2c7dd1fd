/** Calls that carry a service-request-id, and their answers. A lease is held by the process' liveness lock, so it never lapses. */
import type { Database } from "bun:sqlite";
import type {
  CallId,
  FinishedCall,
  IdempotencyRecord,
  NewCall,
  RunRepository,
  StoredEvents,
} from "../contract/store.ts";
import { type RunRecords, runRecords } from "../sql/run-records.ts";
import type { Sql } from "../sql/sql.ts";
import type { Synchronous } from "./asynchronous.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { LivenessLock } from "./liveness-lock.ts";

const identified = "call = $call and run = $run";

/** @param lock gives this process' lock, which is taken when it is first asked for */
export function sqliteRecords(sql: Sql, lock: () => LivenessLock): RunRecords {
  const heldBy = (owner: string | null) =>
    owner === null ? null : owner === lock().id ? "self" : lock().isAlive(owner) ? "other" : "gone";
  return runRecords({
    ...{ path: sql, background: sql, joined: "k.call = e.call" },
    recordOf: ({ owner, ...rest }) => ({ ...rest, heldBy: heldBy(owner) }),
    owner: () => lock().id,
  });
}

/** @param lock as above */
export function runRepository(
  database: Database,
  shared: GroupCommit,
  lock: () => LivenessLock,
): Synchronous<Omit<RunRepository, keyof RunRecords>> {
  const claim = database.prepare<CallId, NewCall & { owner: string }>(
    `insert into kept_calls (scope, request_id, fingerprint, run, state, owner, created_at)
     values ($scope, $requestId, $fingerprint, $run, 'running', $owner, $createdAt)
     on conflict (scope, request_id) do nothing returning call, run`,
  );
  const append = database.prepare<unknown, { call: number; firstId: number; data: Uint8Array }>(
    "insert into kept_events values ($call, $firstId, $data)",
  );
  const open = database.prepare<unknown, CallId & { headers: string | null }>(
    `update kept_calls set status = 200, headers = $headers where ${identified} and owner is not null`,
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
  const appendTo = database.transaction((id: CallId, headers: string | null, { firstId, data }: StoredEvents) => {
    if (open.run({ ...id, headers }).changes === 0) return false;
    append.run({ call: id.call, firstId, data });
    return true;
  });
  const interruptAll = database.transaction((owner: string, at: number) => {
    dropEvents.run({ owner });
    return interrupt.run({ owner, at }).changes;
  });
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
    append: (lease, headers, events) => appendTo.immediate(lease, headers, events),
    finish: (lease, finished) => shared.run(() => finish.run({ ...lease, ...finished }).changes > 0),
    release: ({ call, run }) => void remove.run({ call, run, state: "running" }),
  };
}

const identityOf = ({ call, run, state }: CallId & Pick<IdempotencyRecord, "state">) => ({ call, run, state });
