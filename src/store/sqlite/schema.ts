import { ledgerTables, sumColumns } from "../ledger/columns.ts";

/** Rows lie in the order of their keys. */
const inOrder = " strict, without rowid";

/** The schema of the first release. Times are Unix milliseconds. */
export const firstSchema = `
-- API keys. Triggers bump a generation, so that a running server notices another process's change by reading one row.
create table keys (
  id text primary key,
  name text not null,
  prefix text not null,
  hash text not null unique,
  -- A rotated key's old secret, and until when it is taken.
  old_hash text,
  old_until integer,
  tier text not null,
  per_minute integer,
  tokens_per_minute integer,
  surfaces text not null,
  models text not null,
  tags text not null default '[]',
  created_at integer not null,
  expires_at integer,
  last_used_at integer,
  revoked_at integer,
  -- The generation by which it is what it is.
  change integer not null default 0
) strict, without rowid;
create index keys_by_change on keys (change);
create table generations (name text primary key, value integer not null) strict, without rowid;
-- The ledger's is no generation, but what ids of its dimensions are made with.
insert into generations values ('keys', 0), ('ledger', random() & 281474976710655);
create trigger keys_inserted after insert on keys begin
  update generations set value = value + 1 where name = 'keys';
  update keys set change = (select value from generations where name = 'keys') where id = new.id;
end;
create trigger keys_deleted after delete on keys begin
  update generations set value = value + 1 where name = 'keys';
end;
create trigger keys_updated after update of name, prefix, hash, old_hash, old_until, tier, per_minute, tokens_per_minute, surfaces,
  models, tags, expires_at, revoked_at on keys begin
  update generations set value = value + 1 where name = 'keys';
  update keys set change = (select value from generations where name = 'keys') where id = new.id;
end;

-- Idempotency records. A run identifies one upstream call, as row ids are reused.
create table kept_calls (
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
  -- Before the body, whose pages need not be read for it.
  bytes integer not null default 0,
  body blob,
  unique (scope, request_id)
) strict;
create index kept_calls_running on kept_calls (owner, watched) where owner is not null;
create index kept_calls_expiring on kept_calls (expires_at) where expires_at is not null;
create table kept_events (
  call integer not null references kept_calls on delete cascade,
  first_id integer not null,
  data blob not null,
  primary key (call, first_id)
) strict, without rowid;

-- Stored completions. A conversation expires as one; a turn knows the one it continues.
create table conversations (
  conversation integer primary key,
  expires_at integer not null
) strict;
create index conversations_expiring on conversations (expires_at);
create table turns (
  id text primary key,
  conversation integer not null references conversations on delete cascade,
  parent text,
  key_holder text not null,
  model text not null,
  created_at integer not null,
  deleted_at integer,
  metadata text not null,
  upstream_account text,
  upstream_id text,
  request blob not null,
  input blob not null,
  completion blob not null,
  format text not null,
  state text not null check (state in ('running', 'finished', 'failed', 'cancelled')),
  shown blob
) strict;
create index turns_listed on turns (key_holder, created_at, id) where deleted_at is null;
create index turns_continued on turns (parent) where parent is not null;
create index turns_of_conversation on turns (conversation);
create index turns_deleted on turns (deleted_at) where deleted_at is not null;

-- A row for the write probe of health checks, as large as a usual one, so that a nearly full disk counts as full.
create table trials (trial integer primary key check (trial = 1), data blob not null) strict;

-- Budgets, what is spent of them, and the reservations of calls under way; audit lines. A budget's change counts as a key's, as both
-- are read together.
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
-- Those by model, by whom they hold.
create index spending_by_model on spending (substr(scope, 1, instr(scope, ' model:') - 1), span) where instr(scope, ' model:') > 0;
-- Calls under way: what they hold of budgets, and the line that they become if their process ends before them. An index by their owners
-- took a third of what a reservation costs, and all of them are seldom asked for.
create table reservations (
  request_id text not null,
  attempt integer not null,
  owner text not null,
  amount integer not null,
  budgets text not null,
  tokens_key text,
  tokens_at integer,
  tokens integer not null default 0,
  line text not null,
  primary key (request_id, attempt)
) strict, without rowid;
create table token_uses (
  key text not null,
  at integer not null,
  tokens integer not null,
  primary key (key, at)
) strict, without rowid;
-- Variants that may stop, with what is counted of their present window. A stop counts as a key's change, as both are read together.
create table variants (
  persona text not null,
  version text not null,
  variant text not null,
  calls integer not null,
  errors integer not null,
  refusals integer not null,
  slow integer not null,
  cost integer not null,
  other_calls integer not null,
  other_errors integer not null,
  other_refusals integer not null,
  other_slow integer not null,
  other_cost integer not null,
  windows integer not null,
  updated_at integer not null,
  stopped_at integer,
  reason text,
  primary key (persona, version, variant)
) strict, without rowid;
create trigger variants_inserted after insert on variants when new.stopped_at is not null begin
  update generations set value = value + 1 where name = 'keys';
end;
create trigger variants_updated after update on variants when new.stopped_at is not old.stopped_at begin
  update generations set value = value + 1 where name = 'keys';
end;
create table audit (
  id text primary key,
  at integer not null,
  actor text not null,
  act text not null,
  subject text not null,
  before text,
  after text
) strict, without rowid;
-- Browsers that are signed in to the console, each by the hash of its cookie and that of the key's secret.
create table sessions (
  id text primary key,
  hash text not null unique,
  key text not null,
  key_hash text not null,
  client text not null,
  created_at integer not null,
  used_at integer not null,
  ends_at integer not null
) strict, without rowid;
create index sessions_of_key on sessions (key, id);

-- Versions of personas, each with the content that it is the hash of, and the labels that name some.
create table persona_versions (
  id text primary key,
  persona text not null,
  version text not null,
  created_at integer not null,
  used_at integer not null,
  content text not null,
  source text
) strict;
create index persona_versions_used on persona_versions (persona, used_at);
create index persona_versions_unused on persona_versions (used_at);
create table persona_labels (
  persona text not null,
  label text not null,
  version text not null,
  moved_at integer not null,
  primary key (persona, label)
) strict, without rowid;

-- Personas of working trees (kind preview), and reports of what changes in them (kind report), each push whole in one row; the large column is the last, so that the others are read without it.
create table previews (
  kind text not null,
  label text not null,
  revision text not null,
  key text not null,
  key_name text not null,
  pushed_at integer not null,
  ends_at integer not null,
  bytes integer not null,
  personas text not null,
  content text not null,
  primary key (kind, label)
) strict;

-- The last run of each persona's tests.
create table persona_test_runs (
  persona text primary key,
  version text not null,
  at integer not null,
  passed integer not null,
  failed integer not null,
  errors integer not null,
  run text not null
) strict, without rowid;
create index persona_test_runs_at on persona_test_runs (at);

-- Facts of models that were taken in place of the executable's, and the one row that says which of them count.
create table facts_lists (
  sha256 text primary key,
  as_of text not null,
  source text not null,
  is_forced integer not null,
  taken_at integer not null,
  content blob not null
) strict;
create table facts_state (
  id text primary key,
  in_force text,
  refused text,
  failure text,
  due integer not null,
  tried_at integer
) strict, without rowid;
create trigger facts_inserted after insert on facts_state when new.in_force is not null begin
  update generations set value = value + 1 where name = 'keys';
end;
create trigger facts_updated after update on facts_state when new.in_force is not old.in_force begin
  update generations set value = value + 1 where name = 'keys';
end;

-- What operators were alerted of and has not ended, and messages of it that are not delivered yet.
create table alert_causes (cause text primary key, since integer not null) strict, without rowid;
create table alert_messages (
  id text not null,
  destination text not null,
  body text not null,
  at integer not null,
  attempts integer not null default 0,
  due integer not null,
  primary key (id, destination)
) strict, without rowid;

-- What calls used and cost: a line for each attempt, and the sums of each hour, so that a year is added up from few rows.
${ledgerTables({ text: "text", number: "integer", prefix: "", dated: () => inOrder, plain: " strict", ordered: inOrder })}
-- What lines add to the sums, until it is added up.
create table ledger_increments (
  id integer primary key,
  hour integer not null,
  -- JSON: the ids of their dimensions in each rollup.
  dimensions_ids text not null,
  ${sumColumns.map((column) => `${column} integer not null`).join(",\n  ")}
) strict;
-- Sums of days that are over, of one rollup and of dimensions from one id (less 1) to another, and the days that have some in none.
create table ledger_packs (
  rollup integer not null,
  day integer not null,
  after integer not null,
  until integer not null,
  sums blob not null,
  primary key (rollup, day, after)
) strict;
create table ledger_unpacked (day integer primary key) strict;
`;
