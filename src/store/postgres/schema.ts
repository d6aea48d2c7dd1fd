/** The schema of the first release: tables, then functions. Times are Unix milliseconds, of the nodes' clocks; leases alone go by the server's. */
import { budgetFunctions } from "./budget-functions.ts";
import { ledgerFunctions } from "./ledger-functions.ts";
import { nodeTable } from "./node-repository.ts";
import { variantFunctions, variantTable } from "./variant-functions.ts";
import { windowFunctions } from "./window-functions.ts";

const tables = `
create table troupe.keys (
  id text collate "C" primary key,
  name text not null,
  prefix text not null,
  hash text not null unique,
  -- A rotated key's old secret, and until when it is taken.
  old_hash text,
  old_until bigint,
  tier text not null,
  per_minute integer,
  tokens_per_minute bigint,
  surfaces text not null,
  models text not null,
  tags text not null default '[]',
  created_at bigint not null,
  expires_at bigint,
  last_used_at bigint,
  revoked_at bigint,
  -- The version of the keys by which it is what it is.
  change bigint not null default 0
);
create table troupe.generations (name text primary key, value bigint not null);
-- The ledger's is no generation, but what ids of its dimensions are made with.
insert into troupe.generations values ('keys', 0), ('ledger', ('x' || substr(md5(gen_random_uuid()::text), 1, 12))::bit(48)::bigint);
-- A version of the keys that never comes again, though a fail-over or a backup may lose those before it: it goes by time.
create function troupe.count_key_change() returns trigger language plpgsql as $$
begin
  update troupe.generations set value = greatest(value + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
    where name = 'keys';
  return null;
end $$;
create trigger keys_deleted after delete on troupe.keys for each row execute function troupe.count_key_change();
-- Whoever counts holds the count until the end, so changes are seen in their order.
create function troupe.number_key_change() returns trigger language plpgsql as $$
begin
  update troupe.generations set value = greatest(value + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
    where name = 'keys' returning value into new.change;
  return new;
end $$;
create trigger keys_changed before insert
  or update of name, prefix, hash, old_hash, old_until, tier, per_minute, tokens_per_minute, surfaces, models, tags, expires_at,
    revoked_at
  on troupe.keys for each row execute function troupe.number_key_change();

-- A process that serves, and until when the leases of all its calls hold.
create table troupe.lease_owners (owner text primary key, lapses_at timestamptz not null) with (fillfactor = 50);

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
  key_holder text not null,
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
create index turns_listed on troupe.turns (key_holder, created_at, id) where deleted_at is null;
create index turns_continued on troupe.turns (parent) where parent is not null;
create index turns_of_conversation on troupe.turns (conversation);
create index turns_deleted on troupe.turns (deleted_at) where deleted_at is not null;

create table troupe.budgets (
  scope text collate "C" not null,
  period text collate "C" not null check (period in ('day', 'month', 'prepaid')),
  amount bigint not null,
  updated_at bigint not null,
  primary key (scope, period)
);
-- A budget's change counts as a key's, as both are read together.
create trigger budgets_changed after insert or update or delete
  on troupe.budgets for each row execute function troupe.count_key_change();
create table troupe.spending (
  scope text collate "C" not null,
  span text collate "C" not null,
  spent bigint not null default 0,
  reserved bigint not null default 0,
  primary key (scope, span)
) with (fillfactor = 50);
-- Those by model, by whom they hold.
create index spending_by_model on troupe.spending (split_part(scope, ' model:', 1), span) where strpos(scope, ' model:') > 0;
-- Calls under way: what they hold of budgets, and the line, as JSON, that they become if their process ends before them.
create table troupe.reservations (
  request_id text collate "C" not null,
  attempt bigint not null,
  owner text not null,
  amount bigint not null,
  scopes text[] not null,
  spans text[] not null,
  tokens_key text,
  tokens_at bigint,
  tokens bigint not null default 0,
  line text not null,
  primary key (request_id, attempt)
);
create index reservations_owned on troupe.reservations (owner);
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
-- Browsers that are signed in to the console, each by the hash of its cookie and that of the key's secret.
create table troupe.sessions (
  id text collate "C" primary key,
  hash text not null unique,
  key text not null,
  key_hash text not null,
  client text not null,
  created_at bigint not null,
  used_at bigint not null,
  ends_at bigint not null
);
create index sessions_of_key on troupe.sessions (key, id);

-- Versions of personas, each with the content that it is the hash of, and the labels that name some.
create table troupe.persona_versions (
  id text collate "C" primary key,
  persona text collate "C" not null,
  version text not null,
  created_at bigint not null,
  used_at bigint not null,
  content text not null,
  source text
);
create index persona_versions_used on troupe.persona_versions (persona, used_at);
create index persona_versions_unused on troupe.persona_versions (used_at);
create table troupe.persona_labels (
  persona text collate "C" not null,
  label text collate "C" not null,
  version text not null,
  moved_at bigint not null,
  primary key (persona, label)
);

-- Personas of working trees (kind preview), and reports of what changes in them (kind report), each push whole in one row; the large column is the last, so that the others are read without it.
create table troupe.previews (
  kind text collate "C" not null,
  label text collate "C" not null,
  revision text not null,
  key text not null,
  key_name text not null,
  pushed_at bigint not null,
  ends_at bigint not null,
  bytes bigint not null,
  personas text not null,
  content text not null,
  primary key (kind, label)
);

-- Whoever keeps one counts the others, one push after the other: in a function that is volatile each query sees what was committed before it.
create function troupe.locked_previews() returns table (kind text, label text, ends_at bigint) language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1953656935, 2);
  return query select one.kind, one.label, one.ends_at from troupe.previews one;
end $$;

-- The last run of each persona's tests.
create table troupe.persona_test_runs (
  persona text collate "C" primary key,
  version text not null,
  at bigint not null,
  passed bigint not null,
  failed bigint not null,
  errors bigint not null,
  run text not null
);
create index persona_test_runs_at on troupe.persona_test_runs (at);

-- Facts of models that were taken in place of the executable's, and the one row that says which of them count.
create table troupe.facts_lists (
  sha256 text collate "C" primary key,
  as_of text not null,
  source text not null,
  is_forced bigint not null,
  taken_at bigint not null,
  content bytea not null
);
create table troupe.facts_state (
  id text collate "C" primary key,
  in_force text,
  refused text,
  failure text,
  due bigint not null,
  tried_at bigint
);
-- Read together with the keys, too.
create trigger facts_changed after insert or update of in_force
  on troupe.facts_state for each row execute function troupe.count_key_change();

-- What operators were alerted of and has not ended, and messages of it that are not delivered yet.
create table troupe.alert_causes (cause text collate "C" primary key, since bigint not null);
create table troupe.alert_messages (
  id text collate "C" not null,
  destination text collate "C" not null,
  body text not null,
  at bigint not null,
  attempts bigint not null default 0,
  due bigint not null,
  primary key (id, destination)
);`;

export const firstSchema: string = [
  ...[tables, variantTable, nodeTable],
  ...[ledgerFunctions, windowFunctions, budgetFunctions, variantFunctions],
].join("\n");
