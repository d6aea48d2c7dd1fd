/**
 * The schema, as the steps that made it. Appended to, never edited.
 *
 * While nodes are upgraded one by one, programs of two versions serve from one database. So a step only *expands*: new tables,
 * new columns that may be null or have a default, new indexes; a program of the version before goes on as if nothing were.
 * What a step makes superfluous is dropped by a later step, a *contraction*, once no program that needs it is left: it says by
 * `servesFrom` which schema a program must know at least, and older programs then refuse to start.
 */
import { StorageError } from "../storage-error.ts";
import type { QueryPool } from "./query-pool.ts";

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
];

/** One number for all programs, so that of several that start at once one migrates. "trpe" */
const migrationLock = 0x74727065;

type Version = { readonly version: number; readonly servesFrom: number };

/**
 * Brings the schema forward, in one transaction. The lock ends with it, so a pooler that shares connections may be in between.
 * @throws StorageError: `newer` where this program is too old for the database
 */
export async function migrate(pool: QueryPool, place: string, known: readonly Step[] = steps): Promise<void> {
  if (((await readVersion(pool, place, known.length))?.version ?? 0) >= known.length) return;
  await pool.transaction(async (ask) => {
    await ask("select pg_advisory_xact_lock($1::bigint)", [migrationLock]);
    await ask("set local statement_timeout = 0");
    await ask("create schema if not exists troupe");
    await ask("create table if not exists troupe.schema (version integer not null, serves_from integer not null)");
    const [found] = await ask<{ version: number }>("select version from troupe.schema");
    const from = found?.version ?? 0;
    for (const { sql } of known.slice(from)) await ask(sql);
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
