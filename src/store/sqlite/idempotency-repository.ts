/** Calls that carry a service-request-id, and their answers. */
import type { Database } from "bun:sqlite";
import type { GroupCommit } from "./group-commit.ts";

/** One upstream call. Its number alone is not enough: numbers come again after rows were removed. */
export type CallId = { readonly call: number; readonly run: string };

export type NewCall = {
  readonly scope: string;
  readonly requestId: string;
  readonly fingerprint: string;
  readonly run: string;
  /** The process that makes the call. */
  readonly owner: string;
  readonly createdAt: number;
};

/** Times are Unix milliseconds. `owner` is null unless running, the rest null unless known. */
export type IdempotencyRecord = CallId & {
  fingerprint: string;
  state: "running" | "finished" | "interrupted";
  owner: string | null;
  expiresAt: number | null;
  status: number | null;
  /** JSON object. */
  headers: string | null;
  /** How many events a stream has; null for a whole answer. */
  events: number | null;
  /** The number of the first event in the body; the ones before are rows of their own. Likewise a whole answer's pieces. */
  bodyFrom: number | null;
  /** 1: the stream's events are kept as whole texts; 0: as their data alone, by an older version. */
  wholeEvents: 0 | 1;
};

export type FinishedCall = {
  readonly status: number;
  readonly headers: string;
  readonly events: number | null;
  readonly bodyFrom: number | null;
  readonly body: Uint8Array;
  /** Of all that is kept of the answer. */
  readonly bytes: number;
  readonly expiresAt: number;
};

export type StoredEvents = { readonly firstId: number; readonly data: Uint8Array };

export type IdempotencyTotals = { running: number; finished: number; interrupted: number; bytes: number };

export interface IdempotencyRepository {
  /**
   * @param old a call that stands in the way
   * @returns the call's number; undefined when scope and request id are taken, by another call than the old one
   */
  claim(call: NewCall, old?: CallId): Promise<number | undefined>;
  find(scope: string, requestId: string): IdempotencyRecord | undefined;
  get(id: CallId): IdempotencyRecord | undefined;
  body(id: CallId): Uint8Array | undefined;
  /** Asks the owner to write events down as they come. */
  watch(id: CallId): void;
  /** The owner's calls that someone watches. */
  watched(owner: string): number[];
  /**
   * Keeps events of a running call, or a piece of a whole answer.
   * @param headers those of a stream, which others may read from now on; null: of a whole answer, which is not for reading yet
   * @returns false when the call is gone
   */
  append(id: CallId, headers: string | null, events: StoredEvents): boolean;
  /** The kept events that begin at or before that number, the latest of them. */
  eventsAt(id: CallId, number: number): StoredEvents | undefined;
  /** @returns false when the call is gone */
  finish(id: CallId, finished: FinishedCall): Promise<boolean>;
  release(id: CallId): void;
  /** Processes with running calls. */
  owners(): string[];
  /** Marks all running calls of a process that ended. @returns how many */
  interrupt(owner: string, at: number): number;
  /** Removes calls that expire by then, a few at a time, the earliest first. @returns how many */
  removeExpired(now: number, most: number): number;
  totals(): IdempotencyTotals;
}

const identified = "call = $call and run = $run";
const columns =
  "call, run, fingerprint, state, owner, expires_at as expiresAt, status, headers, events, body_from as bodyFrom, " +
  "whole_events as wholeEvents";

export function idempotencyRepository(database: Database, shared: GroupCommit): IdempotencyRepository {
  const claim = database.prepare<{ call: number }, NewCall>(
    `insert into kept_calls (scope, request_id, fingerprint, run, state, owner, created_at, whole_events)
     values ($scope, $requestId, $fingerprint, $run, 'running', $owner, $createdAt, 1)
     on conflict (scope, request_id) do nothing returning call`,
  );
  const find = database.prepare<IdempotencyRecord, { scope: string; requestId: string }>(
    `select ${columns} from kept_calls where scope = $scope and request_id = $requestId`,
  );
  const get = database.prepare<IdempotencyRecord, CallId>(`select ${columns} from kept_calls where ${identified}`);
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
     where ${identified} and owner is not null`,
  );
  const release = database.prepare<unknown, CallId>(`delete from kept_calls where ${identified}`);
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
     (select call from kept_calls where expires_at <= $now order by expires_at limit $most)`,
  );
  const totals = database.prepare<IdempotencyTotals, []>(
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
  return {
    claim: (call, old) =>
      shared.run(() => (old === undefined || release.run(old).changes > 0 ? claim.get(call)?.call : undefined)),
    find: (scope, requestId) => find.get({ scope, requestId }) ?? undefined,
    get: (id) => get.get(id) ?? undefined,
    body: (id) => body.get(id)?.body ?? undefined,
    watch: (id) => void watch.run(id),
    watched: (owner) => watched.all({ owner }).map(({ call }) => call),
    append: (id, headers, events) => appendTo.immediate(id, headers, events),
    eventsAt: (id, number) => eventsAt.get({ ...id, number }) ?? undefined,
    finish: (id, finished) => shared.run(() => finish.run({ ...id, ...finished }).changes > 0),
    release: (id) => void release.run(id),
    owners: () => owners.all().map(({ owner }) => owner),
    interrupt: (owner, at) => interruptAll.immediate(owner, at),
    removeExpired: (now, most) => removeExpired.run({ now, most }).changes,
    totals: () => totals.get()!,
  };
}
