/**
 * Calls that carry a service-request-id, and their answers. A lease is the call's own row, as it was claimed: `run` is its fencing
 * token, and each write is one statement that finds the row by it or changes nothing.
 */

import type { CallId, FinishedCall, IdempotencyRecord, Lease, NewCall, RunRepository } from "../contract/store.ts";
import { type RunRecords, runRecords } from "../sql/run-records.ts";
import type { LeaseOwner } from "./lease-owner.ts";
import { OrphanedRows } from "./orphaned-rows.ts";
import type { QueryPools } from "./query-pool.ts";

/** Selected beside a record. */
const more = `,
  exists (select 1 from troupe.lease_owners h where h.owner = kept_calls.owner and h.lapses_at > clock_timestamp()) as "isAlive"`;
const identified = "call = $1::bigint and run = $2::text";
/**
 * An answer may be stored by a statement whose caller gave up, long before it is stored again. A run has one answer, so whatever found
 * its own row finished has stored it.
 */
const unanswered = "state in ('running', 'finished')";

/** Both ways to claim return as well whether the owner's lease still holds. */
const holding = `(select 1 from troupe.lease_owners where owner = $6::text and lapses_at > clock_timestamp())`;
const claimed = `select (select call::float8 from claimed) as call, exists ${holding} as "isHolding"`;
const claimNew = `with claimed as (
    insert into troupe.kept_calls as k (scope, request_id, fingerprint, run, state, owner, created_at)
    select $1::text, $2::text, $3::text, $4::text, 'running', $6::text, $5::bigint where exists ${holding}
    on conflict (scope, request_id) do update set state = k.state
    where k.run = excluded.run and k.owner = excluded.owner and k.state = 'running'
    returning call)
  ${claimed}`;
const claimOld = `with claimed as (
    update troupe.kept_calls set fingerprint = $3::text, run = $4::text, state = 'running', owner = $6::text, watched = false,
      created_at = $5::bigint, expires_at = null, status = null, headers = null, events = null, body_from = null, body = null,
      bytes = 0
    where call = $7::bigint and scope = $1::text and request_id = $2::text and exists ${holding}
      and ((run = $8::text and state = $9::text) or (run = $4::text and owner = $6::text and state = 'running'))
    returning call),
  gone as (delete from troupe.kept_events where call = (select call from claimed) and run = $8::text)
  ${claimed}`;

const released = `delete from troupe.kept_calls where ${identified} and state = 'running'`;

export function runRepository({ path, background }: QueryPools, leaseOwner: LeaseOwner): RunRepository & RunRecords {
  const records = runRecords<{ readonly isAlive: boolean }>({
    ...{ path, background, more, joined: "k.call = e.call and k.run = e.run" },
    owner: () => leaseOwner.id,
    recordOf({ owner, isAlive, ...rest }) {
      const by = owner === null ? null : owner === leaseOwner.id ? "self" : isAlive ? "other" : "gone";
      return { ...rest, heldBy: by, ...(owner !== null && { owner }) };
    },
  });
  const own = new OrphanedRows<CallId>({
    leaseOwner,
    clock: background.options.clock,
    rows: (owner) =>
      background.run<CallId>(
        "select call::float8 as call, run from troupe.kept_calls where owner = $1::text and state = 'running'",
        [owner],
      ),
    nameOf: ({ run }) => run,
    release: ({ call, run }) => background.run(released, [call, run]),
  });
  /** Forgets the call of a write that found no row of its own: it runs no more. @returns whether the write found one */
  const held = (run: string, isHeld: boolean) => {
    if (!isHeld) own.ended(run);
    return isHeld;
  };
  type Replaced = CallId & Pick<IdempotencyRecord, "state">;
  const claimUnder = async (owner: string, call: NewCall, old?: Replaced): Promise<Lease | "lapsed" | undefined> => {
    const fresh = [call.scope, call.requestId, call.fingerprint, call.run, call.createdAt, owner];
    const replaced = old === undefined ? [] : [old.call, old.run, old.state];
    const text = old === undefined ? claimNew : claimOld;
    let isSent = false;
    const parameters = () => {
      isSent = true;
      return [...fresh, ...replaced];
    };
    own.began(call.run, owner);
    const claiming = path.run<{ call: number | null; isHolding: boolean }>(text, parameters);
    const [found] = await claiming.catch((error) => {
      own.ended(call.run);
      if (isSent) own.lookSoon();
      throw error;
    });
    const { call: number, isHolding } = found!;
    if (isHolding && number !== null) return { call: number, run: call.run, owner };
    own.ended(call.run);
    return isHolding ? undefined : "lapsed";
  };
  return {
    ...records,
    leaseTerms: { renewMs: leaseOwner.lapseMs / 3, lapseMs: leaseOwner.lapseMs },
    holds: ({ owner }) => owner !== undefined && leaseOwner.holds(owner),
    async claim(call, old) {
      const lease = await claimUnder(await leaseOwner.current(), call, old);
      if (lease !== "lapsed") return lease;
      // By the server's clock alone, which may have been set.
      leaseOwner.lose();
      const again = await claimUnder(await leaseOwner.current(), call, old);
      return again === "lapsed" ? undefined : again;
    },
    async renew(leases) {
      await leaseOwner.renew();
      const running = new Map((await own.rows()).map(({ call, run }) => [call, run]));
      return leases.filter(({ call, run }) => !held(run, running.get(call) === run));
    },
    async interruptAbandoned(at) {
      await leaseOwner.current();
      const { count } = await background.run(
        `with gone as (
           select call, run from troupe.kept_calls k where owner is not null
           and not exists (select 1 from troupe.lease_owners h where h.owner = k.owner and h.lapses_at > clock_timestamp())
           for update skip locked),
         dropped as (delete from troupe.kept_events e using gone where e.call = gone.call and e.run = gone.run)
         update troupe.kept_calls k set state = 'interrupted', owner = null, watched = false, expires_at = $1::bigint
         from gone where k.call = gone.call and k.run = gone.run and k.state = 'running'`,
        [at],
      );
      return count;
    },
    async append({ call, run }, headers, { firstId, data }) {
      const [found] = await path.run<{ isHeld: boolean }>(
        `with opened as (
           update troupe.kept_calls set status = 200, headers = $3::text where ${identified} and state = 'running'
           returning call, run),
         appended as (
           insert into troupe.kept_events select call, run, $4::int, $5::bytea from opened
           on conflict (call, run, first_id) do update set data = excluded.data)
         select exists (select 1 from opened) as "isHeld"`,
        [call, run, headers, firstId, data],
      );
      return held(run, found!.isHeld);
    },
    async finish({ call, run }, finished) {
      const text = `update troupe.kept_calls set state = 'finished', owner = null, status = $3::int,
        headers = $4::text, events = $5::int, body_from = $6::int, body = $7::bytea, bytes = $8::bigint, expires_at = $9::bigint
        where ${identified} and ${unanswered}`;
      const { count } = await path.run(text, [call, run, ...valuesOf(finished)]);
      own.ended(run);
      return count > 0;
    },
    async release({ call, run }) {
      own.ended(run);
      try {
        await path.run(released, [call, run]);
      } catch (error) {
        own.lookSoon();
        throw error;
      }
    },
  };
}

const valuesOf = ({ status, headers, events, bodyFrom, body, bytes, expiresAt }: FinishedCall) => [
  status,
  headers,
  events,
  bodyFrom,
  body,
  bytes,
  expiresAt,
];
