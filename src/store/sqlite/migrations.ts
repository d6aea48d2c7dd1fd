/** The schema, as the steps that made it. Appended to, never edited: files of every earlier version exist. */
import type { Database } from "bun:sqlite";
import { StorageError } from "../storage-error.ts";

/** Step n brings a file of version n-1 to version n, which SQLite keeps in `user_version`. */
export const migrations: readonly string[] = [
  // 1: API keys. Triggers bump a generation, so that a running server notices another process's change by reading one row.
  `create table keys (
    id text primary key,
    name text not null,
    prefix text not null,
    hash text not null unique,
    tier text not null,
    per_minute integer,
    surfaces text not null,
    models text not null,
    created_at integer not null,
    expires_at integer,
    last_used_at integer,
    revoked_at integer
  ) strict, without rowid;
  create table generations (name text primary key, value integer not null) strict, without rowid;
  insert into generations values ('keys', 0);
  create trigger keys_inserted after insert on keys begin
    update generations set value = value + 1 where name = 'keys';
  end;
  create trigger keys_deleted after delete on keys begin
    update generations set value = value + 1 where name = 'keys';
  end;
  create trigger keys_updated after update of name, prefix, hash, tier, per_minute, surfaces, models, expires_at, revoked_at
  on keys begin
    update generations set value = value + 1 where name = 'keys';
  end;`,

  // 2: Idempotency records. `run` identifies one upstream call, as row ids are reused.
  `create table kept_calls (
    call integer primary key,
    scope text not null,
    request_id text not null,
    fingerprint text not null,
    run text not null,
    state text not null check (state in ('running', 'finished', 'interrupted')),
    owner text,
    watched integer not null default 0,
    created_at integer not null,
    expires_at integer,
    status integer,
    headers text,
    events integer,
    body_from integer,
    body blob,
    bytes integer not null default 0,
    unique (scope, request_id)
  ) strict;
  create index kept_calls_running on kept_calls (owner, watched) where owner is not null;
  create index kept_calls_expiring on kept_calls (expires_at) where expires_at is not null;
  create table kept_events (
    call integer not null references kept_calls on delete cascade,
    first_id integer not null,
    data blob not null,
    primary key (call, first_id)
  ) strict, without rowid;`,

  // 3: Stored completions. A conversation expires as one; a turn knows the one it continues.
  `create table conversations (
    conversation integer primary key,
    expires_at integer not null
  ) strict;
  create index conversations_expiring on conversations (expires_at);
  create table turns (
    id text primary key,
    conversation integer not null references conversations on delete cascade,
    parent text,
    holder text not null,
    model text not null,
    created_at integer not null,
    deleted_at integer,
    metadata text not null,
    upstream_account text,
    upstream_id text,
    request blob not null,
    input blob not null,
    completion blob not null
  ) strict;
  create index turns_listed on turns (holder, created_at, id) where deleted_at is null;
  create index turns_continued on turns (parent) where parent is not null;
  create index turns_of_conversation on turns (conversation);
  create index turns_deleted on turns (deleted_at) where deleted_at is not null;`,

  // 4: A row for the write probe of health checks, as large as a usual one, so that a nearly full disk counts as full.
  "create table trials (trial integer primary key check (trial = 1), data blob not null) strict;",

  // 5: Kept events are whole texts, with names. Of older calls, and of those of an older process that still runs, each event is
  // its data alone: they are told apart here, as writing them anew would hold up the start.
  "alter table kept_calls add column whole_events integer not null default 0;",

  // 6: Of turns in other client formats than chat's: what their routes return, and where an answer in the background stands. A
  // table of its own, as a process of the version before may still insert turns.
  `create table answers (
    id text primary key references turns on delete cascade,
    format text not null,
    state text not null check (state in ('running', 'finished', 'failed', 'cancelled')),
    shown blob
  ) strict;`,

  // 7: Keys' tags and tokens per minute; budgets, what is spent of them, and the reservations of calls under way; audit lines.
  // A budget's change counts as a key's, as both are read together.
  `alter table keys add column tags text not null default '[]';
  alter table keys add column tokens_per_minute integer;
  create trigger keys_labelled after update of tags, tokens_per_minute on keys begin
    update generations set value = value + 1 where name = 'keys';
  end;
  create table budgets (
    scope text not null,
    period text not null check (period in ('day', 'month', 'prepaid')),
    amount integer not null,
    updated_at integer not null,
    primary key (scope, period)
  ) strict, without rowid;
  create trigger budgets_inserted after insert on budgets begin
    update generations set value = value + 1 where name = 'keys';
  end;
  create trigger budgets_updated after update on budgets begin
    update generations set value = value + 1 where name = 'keys';
  end;
  create trigger budgets_deleted after delete on budgets begin
    update generations set value = value + 1 where name = 'keys';
  end;
  create table spending (
    scope text not null,
    span text not null,
    spent integer not null default 0,
    reserved integer not null default 0,
    primary key (scope, span)
  ) strict, without rowid;
  create table reservations (
    id text primary key,
    owner text not null,
    amount integer not null,
    tokens_key text,
    tokens_at integer,
    tokens integer not null default 0
  ) strict, without rowid;
  create index reservations_owned on reservations (owner);
  create table reserved_spans (
    reservation text not null references reservations on delete cascade,
    scope text not null,
    span text not null,
    primary key (reservation, scope, span)
  ) strict, without rowid;
  create table token_uses (
    key text not null,
    at integer not null,
    tokens integer not null,
    primary key (key, at)
  ) strict, without rowid;
  create table audit (
    id text primary key,
    at integer not null,
    actor text not null,
    act text not null,
    subject text not null,
    before text,
    after text
  ) strict, without rowid;`,

  // 8: What calls used and cost: a line for each attempt, and the sums of each day, so that a year is added up from few rows.
  `create table ledger (
    request_id text not null,
    attempt integer not null,
    at integer not null,
    key_id text not null,
    tags text not null,
    surface text not null,
    format text not null,
    model text not null,
    persona text,
    persona_version text,
    provider text,
    upstream_model text,
    ended text not null,
    status integer,
    call_of text,
    service_tier text,
    counted text not null,
    price_source text not null,
    price_date text,
    price_note text,
    first_token_ms integer,
    total_ms integer not null,
    input_tokens integer not null,
    cache_read_tokens integer not null,
    cache_write_5m_tokens integer not null,
    cache_write_1h_tokens integer not null,
    output_tokens integer not null,
    reasoning_tokens integer not null,
    audio_input_tokens integer not null,
    audio_output_tokens integer not null,
    cost integer,
    input_cost integer,
    cache_read_cost integer,
    cache_write_cost integer,
    output_cost integer,
    reasoning_cost integer,
    audio_input_cost integer,
    audio_output_cost integer,
    other_cost integer,
    primary key (request_id, attempt)
  ) strict, without rowid;
  create index ledger_listed on ledger (at, request_id, attempt);
  create table ledger_days (
    day integer not null,
    key_id text not null,
    tags text not null,
    surface text not null,
    format text not null,
    model text not null,
    persona text not null,
    provider text not null,
    upstream_model text not null,
    calls integer not null,
    finished integer not null,
    broken integer not null,
    abandoned integer not null,
    refused integer not null,
    replayed integer not null,
    joined integer not null,
    unknown_costs integer not null,
    estimated integer not null,
    input_tokens integer not null,
    cache_read_tokens integer not null,
    cache_write_5m_tokens integer not null,
    cache_write_1h_tokens integer not null,
    output_tokens integer not null,
    reasoning_tokens integer not null,
    audio_input_tokens integer not null,
    audio_output_tokens integer not null,
    cost integer not null,
    input_cost integer not null,
    cache_read_cost integer not null,
    cache_write_cost integer not null,
    output_cost integer not null,
    reasoning_cost integer not null,
    audio_input_cost integer not null,
    audio_output_cost integer not null,
    other_cost integer not null,
    primary key (day, key_id, tags, surface, format, model, persona, provider, upstream_model)
  ) strict, without rowid;`,

  // 9: A rotated key's old secret, and until when it is taken.
  `alter table keys add column old_hash text;
  alter table keys add column old_until integer;`,
];

/** "trpe": tells our files from any other SQLite database. */
const applicationId = 0x74727065;

/**
 * Runs the missing migrations. Of several processes that start at once one migrates, the others find it done.
 * @throws StorageError for a file of a newer version, or of another program
 */
export function migrate(database: Database, path: string, steps: readonly string[] = migrations): void {
  // Read first, so that opening an up-to-date file takes no write lock.
  if (versionOf(database, path, steps.length) === steps.length) return;
  database
    .transaction(() => {
      for (const step of steps.slice(versionOf(database, path, steps.length))) database.run(step);
      database.run(`pragma application_id = ${applicationId}`);
      database.run(`pragma user_version = ${steps.length}`);
    })
    .immediate();
}

/**
 * The file's version; 0 is an empty file.
 * @throws StorageError for a file of a newer version than `known`, or of another program
 */
export function versionOf(database: Database, path: string, known = migrations.length): number {
  const read = (sql: string) => Object.values(database.query<Record<string, number>, []>(sql).get() ?? {})[0] ?? 0;
  const version = read("pragma user_version");
  const owner = read("pragma application_id");
  const foreign = owner !== applicationId && (owner !== 0 || read("select count(*) from sqlite_schema") > 0);
  if (foreign) throw new StorageError("foreign", path, `${path} is a database of another program; move it away.`);
  if (version > known) {
    throw new StorageError(
      "newer",
      path,
      `${path} was written by a newer Troupe (schema ${version}, this one knows ${known}); run that version, or restore an older backup.`,
    );
  }
  return version;
}
