/**
 * The schema, as the steps that made it. Appended to, never edited.
 *
 * While nodes are upgraded one by one, programs of two versions serve from one database. So a step only *expands*: new tables,
 * new columns that may be null or have a default, new indexes; a program of the version before goes on as if nothing were.
 * What a step makes superfluous is dropped by a later step, a *contraction*, once no program that needs it is left: it says by
 * `servesFrom` which schema a program must know at least, and older programs then refuse to start.
 */
import { type Clock, systemClock } from "../../lib/clock.ts";
import { StorageError } from "../storage-error.ts";
import { beatFunctions } from "./beat-functions.ts";
import { callFunctions } from "./call-functions.ts";
import { nodeTable } from "./node-repository.ts";
import { poolFunctions } from "./pool-functions.ts";
import type { QueryPool } from "./query-pool.ts";
import { windowFunctions } from "./window-functions.ts";

export type Step = {
  readonly sql: string;
  /** For a contraction: the number of the oldest step that a program must know to serve on. */
  readonly servesFrom?: number;
};

export const steps: readonly Step[] = [
  {
    // 1: What SQLite's first six steps hold. Times are Unix milliseconds, of the nodes' clocks; leases alone go by the server's.
    sql: `
create table troupe.keys (
  id text collate "C" primary key,
  name text not null,
  prefix text not null,
  hash text not null unique,
  tier text not null,
  per_minute integer,
  surfaces text not null,
  models text not null,
  created_at bigint not null,
  expires_at bigint,
  last_used_at bigint,
  revoked_at bigint
);
create table troupe.generations (name text primary key, value bigint not null);
insert into troupe.generations values ('keys', 0);
create function troupe.count_key_change() returns trigger language plpgsql as $$
begin
  update troupe.generations set value = value + 1 where name = 'keys';
  return null;
end $$;
create trigger keys_changed after insert or delete
  or update of name, prefix, hash, tier, per_minute, surfaces, models, expires_at, revoked_at
  on troupe.keys for each row execute function troupe.count_key_change();

-- A process that serves, and until when the leases of all its calls hold.
create table troupe.holders (holder text primary key, lapses_at timestamptz not null) with (fillfactor = 50);

create table troupe.kept_calls (
  call bigint generated always as identity primary key,
  scope text not null,
  request_id text not null,
  fingerprint text not null,
  run text not null,
  state text not null check (state in ('running', 'finished', 'interrupted')),
  owner text,
  watched boolean not null default false,
  created_at bigint not null,
  expires_at bigint,
  status integer,
  headers text,
  events integer,
  body_from integer,
  body bytea,
  bytes bigint not null default 0,
  unique (scope, request_id)
);
-- Packed already.
alter table troupe.kept_calls alter column body set storage external;
create index kept_calls_running on troupe.kept_calls (owner) where owner is not null;
create index kept_calls_expiring on troupe.kept_calls (expires_at) where expires_at is not null;
-- By run too: an answer that is interrupted may leave some behind, which then are nobody's until the call's row goes.
create table troupe.kept_events (
  call bigint not null references troupe.kept_calls on delete cascade,
  run text not null,
  first_id integer not null,
  data bytea not null,
  primary key (call, run, first_id)
);
alter table troupe.kept_events alter column data set storage external;

create table troupe.conversations (
  conversation bigint generated always as identity primary key,
  expires_at bigint not null
);
create index conversations_expiring on troupe.conversations (expires_at);
create table troupe.turns (
  id text collate "C" primary key,
  conversation bigint not null references troupe.conversations on delete cascade,
  parent text collate "C",
  holder text not null,
  model text not null,
  created_at bigint not null,
  deleted_at bigint,
  metadata text not null,
  -- Each pair of the metadata as a JSON array: jsonb would refuse some of the texts that clients may send.
  pairs text[] not null,
  upstream_account text,
  upstream_id text,
  request bytea not null,
  input bytea not null,
  completion bytea not null,
  format text not null,
  state text not null check (state in ('running', 'finished', 'failed', 'cancelled')),
  shown bytea
);
alter table troupe.turns alter column request set storage external, alter column input set storage external,
  alter column completion set storage external, alter column shown set storage external;
create index turns_listed on troupe.turns (holder, created_at, id) where deleted_at is null;
create index turns_continued on troupe.turns (parent) where parent is not null;
create index turns_of_conversation on troupe.turns (conversation);
create index turns_deleted on troupe.turns (deleted_at) where deleted_at is not null;`,
  },
  {
    // 2: Keys' tags and tokens per minute.
    sql: `
alter table troupe.keys add column tags text not null default '[]', add column tokens_per_minute bigint;
create trigger keys_labelled after update of tags, tokens_per_minute
  on troupe.keys for each row execute function troupe.count_key_change();`,
  },
  {
    // 3: Budgets, what is spent of them, and the reservations of calls under way; audit lines. A budget's change counts as a key's,
    // as both are read together. A reservation locks what it counts in, always in one order.
    sql: `
create table troupe.budgets (
  scope text collate "C" not null,
  period text collate "C" not null check (period in ('day', 'month', 'prepaid')),
  amount bigint not null,
  updated_at bigint not null,
  primary key (scope, period)
);
create trigger budgets_changed after insert or update or delete
  on troupe.budgets for each row execute function troupe.count_key_change();
create table troupe.spending (
  scope text collate "C" not null,
  span text collate "C" not null,
  spent bigint not null default 0,
  reserved bigint not null default 0,
  primary key (scope, span)
) with (fillfactor = 50);
create table troupe.reservations (
  id text primary key,
  owner text not null,
  amount bigint not null,
  tokens_key text,
  tokens_at bigint,
  tokens bigint not null default 0
);
create index reservations_owned on troupe.reservations (owner);
create table troupe.reserved_spans (
  reservation text not null references troupe.reservations on delete cascade,
  scope text not null,
  span text not null,
  primary key (reservation, scope, span)
);
-- Uses of tokens are gathered by 250 ms, and count as of the last of them.
create table troupe.token_uses (key text not null, at bigint not null, tokens bigint not null, primary key (key, at));
create table troupe.audit (
  id text collate "C" primary key,
  at bigint not null,
  actor text not null,
  act text not null,
  subject text not null,
  before text,
  after text
);

create function troupe.use_tokens(p_key text, p_now float8, p_limit bigint, p_tokens bigint) returns jsonb language plpgsql as $$
declare
  bucket bigint := ceil(p_now / 250) * 250;
  used bigint;
  latest bigint;
  wait float8;
begin
  delete from troupe.token_uses where key = p_key and (at <= floor(p_now) - 60000 or at > floor(p_now) + 60000);
  select coalesce(sum(tokens), 0), max(at) into used, latest from troupe.token_uses where key = p_key;
  if used + p_tokens > p_limit then
    if p_tokens <= p_limit then
      select greatest(1, min(at) + 60000 - p_now) into wait from (
        select at, sum(tokens) over (order by at) as gone from troupe.token_uses where key = p_key) uses
      where gone >= used + p_tokens - p_limit;
    end if;
    return jsonb_build_object('used', used, 'emptyMs', greatest(0, coalesce(latest + 60000 - p_now, 0)), 'waitMs', wait);
  end if;
  insert into troupe.token_uses as u values (p_key, bucket, p_tokens)
    on conflict (key, at) do update set tokens = greatest(0, u.tokens + excluded.tokens);
  return jsonb_build_object('used', used + p_tokens, 'emptyMs', bucket + 60000 - p_now, 'waitMs', 0);
end $$;

create function troupe.reserve(p_id text, p_owner text, p_amount bigint, p_budgets jsonb, p_key text, p_now float8,
  p_limit bigint, p_tokens bigint) returns jsonb language plpgsql as $$
declare
  budget record;
  at_ms float8 := p_now;
  tokens_window jsonb;
begin
  insert into troupe.spending (scope, span)
    select b.scope, b.span from jsonb_to_recordset(p_budgets) as b (scope text, span text) order by 1, 2
    on conflict do nothing;
  perform 1 from troupe.spending s join jsonb_to_recordset(p_budgets) as b (scope text, span text)
    on s.scope = b.scope and s.span = b.span order by s.scope, s.span for update of s;
  if p_key is not null then
    perform pg_advisory_xact_lock(hashtextextended(p_key, 1953656933));
    at_ms := coalesce(p_now, extract(epoch from clock_timestamp()) * 1000);
  end if;
  -- Sent again, it counts once.
  if exists (select 1 from troupe.reservations where id = p_id) then return '{}'; end if;
  for budget in
    select s.scope, s.span, s.spent, s.reserved, b.lim from rows from (
      jsonb_to_recordset(p_budgets) as (scope text, span text, "limit" bigint)) with ordinality b(scope, span, lim, place)
    join troupe.spending s on s.scope = b.scope and s.span = b.span order by place
  loop
    if budget.lim - budget.spent - budget.reserved <= 0 or p_amount > budget.lim - budget.spent - budget.reserved then
      return jsonb_build_object('refusedBy', jsonb_build_object('scope', budget.scope, 'span', budget.span,
        'spent', budget.spent, 'reserved', budget.reserved, 'limit', budget.lim));
    end if;
  end loop;
  if p_key is not null then
    tokens_window := troupe.use_tokens(p_key, at_ms, p_limit, p_tokens);
    if coalesce((tokens_window->>'waitMs')::float8, 1) > 0 then return jsonb_build_object('tokens', tokens_window); end if;
  end if;
  insert into troupe.reservations values (p_id, p_owner, p_amount, p_key,
    case when p_key is not null then ceil(at_ms / 250) * 250 end, p_tokens);
  insert into troupe.reserved_spans
    select p_id, b.scope, b.span from jsonb_to_recordset(p_budgets) as b (scope text, span text);
  update troupe.spending s set reserved = s.reserved + p_amount
    from troupe.reserved_spans r where r.reservation = p_id and r.scope = s.scope and r.span = s.span;
  return case when p_key is null then '{}'::jsonb else jsonb_build_object('tokens', tokens_window) end;
end $$;

create function troupe.settle(p_id text, p_spent bigint, p_tokens bigint) returns boolean language plpgsql as $$
declare
  held troupe.reservations;
begin
  -- What it counts in first, in the order in which a reservation locks it.
  perform 1 from troupe.spending s join troupe.reserved_spans r on r.scope = s.scope and r.span = s.span
    where r.reservation = p_id order by s.scope, s.span for update of s;
  select * into held from troupe.reservations where id = p_id for update;
  if not found then return false; end if;
  update troupe.spending s set reserved = greatest(0, s.reserved - held.amount), spent = s.spent + p_spent
    from troupe.reserved_spans r where r.reservation = p_id and r.scope = s.scope and r.span = s.span;
  update troupe.token_uses set tokens = greatest(0, tokens + p_tokens - held.tokens)
    where key = held.tokens_key and at = held.tokens_at;
  delete from troupe.reservations where id = p_id;
  return true;
end $$;`,
  },
  // 4: What calls used and cost: a line for each attempt, and the sums of each day.
  {
    sql: `
create table troupe.ledger (
  request_id text collate "C", key_id text collate "C", surface text collate "C", format text collate "C",
  model text collate "C", persona text collate "C", persona_version text collate "C",
  provider text collate "C", upstream_model text collate "C", ended text collate "C",
  call_of text collate "C", service_tier text collate "C", counted text collate "C",
  price_source text collate "C", price_date text collate "C", price_note text collate "C",
  tags text collate "C" not null,
  attempt bigint, at bigint, status bigint, first_token_ms bigint, total_ms bigint, input_tokens bigint,
  cache_read_tokens bigint, cache_write_5m_tokens bigint, cache_write_1h_tokens bigint,
  output_tokens bigint, reasoning_tokens bigint, audio_input_tokens bigint, audio_output_tokens bigint,
  cost bigint, input_cost bigint, cache_read_cost bigint, cache_write_cost bigint, output_cost bigint,
  reasoning_cost bigint, audio_input_cost bigint, audio_output_cost bigint, other_cost bigint,
  primary key (request_id, attempt)
);
create index ledger_listed on troupe.ledger (at, request_id, attempt);
create table troupe.ledger_days (
  day bigint not null, key_id text collate "C" not null, tags text collate "C" not null,
  surface text collate "C" not null, format text collate "C" not null, model text collate "C" not null,
  persona text collate "C" not null, provider text collate "C" not null,
  upstream_model text collate "C" not null,
  calls bigint not null default 0, finished bigint not null default 0, broken bigint not null default 0,
  abandoned bigint not null default 0, refused bigint not null default 0,
  replayed bigint not null default 0, joined bigint not null default 0,
  unknown_costs bigint not null default 0, estimated bigint not null default 0,
  input_tokens bigint not null default 0, cache_read_tokens bigint not null default 0,
  cache_write_5m_tokens bigint not null default 0, cache_write_1h_tokens bigint not null default 0,
  output_tokens bigint not null default 0, reasoning_tokens bigint not null default 0,
  audio_input_tokens bigint not null default 0, audio_output_tokens bigint not null default 0,
  cost bigint not null default 0, input_cost bigint not null default 0,
  cache_read_cost bigint not null default 0, cache_write_cost bigint not null default 0,
  output_cost bigint not null default 0, reasoning_cost bigint not null default 0,
  audio_input_cost bigint not null default 0, audio_output_cost bigint not null default 0,
  other_cost bigint not null default 0,
  primary key (day, key_id, tags, surface, format, model, persona, provider, upstream_model)
);`,
  },
  // 5: A span of a day or a month begins with what the ledger has of it, and counts every line from then on. The lock of such a beginning
  // lets it and the ledger's writers see all of each other: who comes second finds what the first has written.
  {
    sql: `
create function troupe.ledger_cost(p_scope text, p_span text) returns bigint language plpgsql as $$
declare
  p_kind text := split_part(p_scope, ':', 1);
  p_name text := split_part(p_scope, ':', 2);
  begins date := to_date(rpad(p_span, 10, '-01'), 'YYYY-MM-DD');
  ends date := begins + case when length(p_span) = 7 then interval '1 month' else interval '1 day' end;
begin
  return (select coalesce(sum(cost), 0) from troupe.ledger_days
    where day >= begins - date '1970-01-01' and day < ends - date '1970-01-01' and case p_kind
      when 'all' then true
      when 'key' then key_id = p_name
      when 'tag' then jsonb_exists(tags::jsonb, p_name)
      else key_id in (select id from troupe.keys where tier = p_name) end);
end $$;

create function troupe.open_spans(p_budgets jsonb) returns void language plpgsql as $$
begin
  if not exists (select 1 from jsonb_to_recordset(p_budgets) as b (scope text, span text)
    where not exists (select 1 from troupe.spending s where s.scope = b.scope and s.span = b.span)) then return; end if;
  perform pg_advisory_xact_lock(1953656934, 1);
  insert into troupe.spending (scope, span, spent)
    select b.scope, b.span, case when b.span = 'prepaid' then 0 else troupe.ledger_cost(b.scope, b.span) end
    from jsonb_to_recordset(p_budgets) as b (scope text, span text)
    where not exists (select 1 from troupe.spending s where s.scope = b.scope and s.span = b.span) order by 1, 2
    on conflict do nothing;
end $$;

create function troupe.spend_unreserved(p_costs jsonb) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(1953656934, 1);
  perform 1 from troupe.spending s join jsonb_to_recordset(p_costs) as c (scope text, span text)
    on s.scope = c.scope and s.span = c.span order by s.scope, s.span for update of s;
  update troupe.spending s set spent = s.spent + c.cost from (
    select scope, span, sum(cost) as cost from jsonb_to_recordset(p_costs) as u (scope text, span text, cost bigint)
    group by scope, span) c where s.scope = c.scope and s.span = c.span;
end $$;

create or replace function troupe.reserve(p_id text, p_owner text, p_amount bigint, p_budgets jsonb, p_key text, p_now float8,
  p_limit bigint, p_tokens bigint) returns jsonb language plpgsql as $$
declare
  budget record;
  at_ms float8 := p_now;
  tokens_window jsonb;
begin
  perform troupe.open_spans(p_budgets);
  perform 1 from troupe.spending s join jsonb_to_recordset(p_budgets) as b (scope text, span text)
    on s.scope = b.scope and s.span = b.span order by s.scope, s.span for update of s;
  if p_key is not null then
    perform pg_advisory_xact_lock(hashtextextended(p_key, 1953656933));
    at_ms := coalesce(p_now, extract(epoch from clock_timestamp()) * 1000);
  end if;
  -- Sent again, it counts once.
  if exists (select 1 from troupe.reservations where id = p_id) then return '{}'; end if;
  for budget in
    select s.scope, s.span, s.spent, s.reserved, b.lim from rows from (
      jsonb_to_recordset(p_budgets) as (scope text, span text, "limit" bigint)) with ordinality b(scope, span, lim, place)
    join troupe.spending s on s.scope = b.scope and s.span = b.span order by place
  loop
    if budget.lim - budget.spent - budget.reserved <= 0 or p_amount > budget.lim - budget.spent - budget.reserved then
      return jsonb_build_object('refusedBy', jsonb_build_object('scope', budget.scope, 'span', budget.span,
        'spent', budget.spent, 'reserved', budget.reserved, 'limit', budget.lim));
    end if;
  end loop;
  if p_key is not null then
    tokens_window := troupe.use_tokens(p_key, at_ms, p_limit, p_tokens);
    if coalesce((tokens_window->>'waitMs')::float8, 1) > 0 then return jsonb_build_object('tokens', tokens_window); end if;
  end if;
  insert into troupe.reservations values (p_id, p_owner, p_amount, p_key,
    case when p_key is not null then ceil(at_ms / 250) * 250 end, p_tokens);
  insert into troupe.reserved_spans
    select p_id, b.scope, b.span from jsonb_to_recordset(p_budgets) as b (scope text, span text);
  update troupe.spending s set reserved = s.reserved + p_amount
    from troupe.reserved_spans r where r.reservation = p_id and r.scope = s.scope and r.span = s.span;
  return case when p_key is null then '{}'::jsonb else jsonb_build_object('tokens', tokens_window) end;
end $$;`,
  },
  // 6: Rate windows over all nodes.
  { sql: windowFunctions },
  {
    // 7: Who listens hears that keys or budgets have changed.
    sql: `
create or replace function troupe.count_key_change() returns trigger language plpgsql as $$
begin
  update troupe.generations set value = value + 1 where name = 'keys';
  perform pg_notify('troupe', 'keys');
  return null;
end $$;`,
  },
  {
    // 8: A rotated key's old secret, and until when it is taken. Programs before refuse it at once.
    sql: "alter table troupe.keys add column old_hash text, add column old_until bigint;",
  },
  // 9: Money of budgets in pools, for nodes that count calls elsewhere.
  { sql: poolFunctions },
  // 10: What each node serves.
  { sql: nodeTable },
  // 11: Reservations and settlements of many calls at once.
  { sql: callFunctions },
  // 12: Beats that do not count.
  { sql: beatFunctions },
  {
    // 13: A version of the keys that never comes again, though a fail-over or a backup may lose those before it: it goes by time.
    sql: `
create or replace function troupe.count_key_change() returns trigger language plpgsql as $$
begin
  update troupe.generations set value = greatest(value + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
    where name = 'keys';
  perform pg_notify('troupe', 'keys');
  return null;
end $$;`,
  },
];

/** One number for all programs, so that of several that start at once one migrates. "trpe" */
const migrationLock = 0x74727065;

type Version = { readonly version: number; readonly servesFrom: number };

export type MigrationOptions = {
  readonly known?: readonly Step[];
  readonly clock?: Clock;
  /** Is told how far it is. */
  readonly tell?: (words: string) => void;
  /** How long a step waits for a table. Whoever asks for that table meanwhile waits behind it, so it is less than a call's own deadline. */
  readonly lockMs?: number;
  /** For how long it is tried again where others hold a table. */
  readonly goOnMs?: number;
};

/** Between two tries, so that those who waited behind the first are answered. */
const pauseMs = 1_000;

/**
 * Brings the schema forward, in one transaction. The lock ends with it, so a pooler that shares connections may be in between.
 * A dump reads tables for minutes: no step waits behind it for long, as all nodes' statements would wait behind the step.
 * @throws StorageError: `newer` where this program is too old for the database, `busy` where others held a table all the time
 */
export async function migrate(pool: QueryPool, place: string, options: MigrationOptions = {}): Promise<void> {
  const { known = steps, clock = systemClock, tell = () => {}, lockMs = 1_000, goOnMs = 300_000 } = options;
  if (await isCurrent(pool, place, known.length)) return;
  const beganAt = clock.monotonic();
  for (;;) {
    try {
      return await runSteps(pool, known, lockMs, tell);
    } catch (error) {
      if (!(error instanceof StorageError && error.kind === "busy")) throw error;
      const leftMs = goOnMs - (clock.monotonic() - beganAt);
      if (leftMs <= 0) throw heldUp(place, known.length, goOnMs);
      tell(`others hold a table (a dump, say): tried again for ${Math.ceil(leftMs / 1000)} s`);
      await new Promise<void>((resolve) => void clock.setTimer(Math.min(pauseMs, leftMs), resolve));
    }
  }
}

/** Whether the schema is this program's, or a newer one that it can serve from. @throws StorageError */
export async function isCurrent(pool: QueryPool, place: string, known = steps.length): Promise<boolean> {
  return ((await readVersion(pool, place, known))?.version ?? 0) >= known;
}

function heldUp(place: string, to: number, goOnMs: number): StorageError {
  const message = `The database ${place} could not be brought to schema ${to} within ${goOnMs / 1000} s, as others hold its tables (a dump, a report): let them end, and start again.`;
  return new StorageError("busy", place, message);
}

function runSteps(
  pool: QueryPool,
  known: readonly Step[],
  lockMs: number,
  tell: (words: string) => void,
): Promise<void> {
  return pool.transaction(async (ask) => {
    await ask("set local statement_timeout = 0");
    // Of a node that died without a word; between two statements pass milliseconds.
    await ask("set local idle_in_transaction_session_timeout = '60s'");
    const lock = [migrationLock];
    const [own] = await ask<{ isFree: boolean }>('select pg_try_advisory_xact_lock($1::bigint) as "isFree"', lock);
    if (!own!.isFree) {
      tell("another process brings the schema forward: waiting for it");
      await ask("select pg_advisory_xact_lock($1::bigint)", lock);
    }
    await ask(`set local lock_timeout = ${lockMs}`);
    await ask("create schema if not exists troupe");
    await ask("create table if not exists troupe.schema (version integer not null, serves_from integer not null)");
    const [found] = await ask<{ version: number }>("select version from troupe.schema");
    const from = found?.version ?? 0;
    for (const [at, { sql }] of known.entries()) {
      if (at < from) continue;
      tell(`step ${at + 1} of ${known.length}`);
      await ask(sql);
    }
    if (from >= known.length) return;
    const servesFrom = Math.max(1, ...known.map((step) => step.servesFrom ?? 1));
    await ask("delete from troupe.schema");
    await ask("insert into troupe.schema values ($1::int, $2::int)", [known.length, servesFrom]);
  });
}

/** @returns undefined where there is no schema yet. @throws StorageError for one that a program of `known` steps can't serve from */
export async function readVersion(pool: QueryPool, place: string, known = steps.length): Promise<Version | undefined> {
  const [{ there } = { there: false }] = await pool.run<{ there: boolean }>(
    "select to_regclass('troupe.schema') is not null as there",
  );
  if (!there) return undefined;
  const [found] = await pool.run<Version>('select version, serves_from as "servesFrom" from troupe.schema');
  if (found !== undefined && found.servesFrom > known) {
    const message = `The database ${place} was brought to schema ${found.version} by a newer Troupe, and serves programs from schema ${found.servesFrom} on (this one knows ${known}); run that version.`;
    throw new StorageError("newer", place, message);
  }
  return found;
}
