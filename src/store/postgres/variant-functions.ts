/** Counts of variants as a function of the database: the same as `countCall` of ../variants.ts, under the locks of the rows. */
import { standardErrors } from "../contract/variants.ts";

export const variantTable = `
-- Variants that may stop, with what is counted of their present window.
create table troupe.variants (
  persona text collate "C" not null,
  version text collate "C" not null,
  variant text collate "C" not null,
  calls bigint not null default 0,
  errors bigint not null default 0,
  refusals bigint not null default 0,
  slow bigint not null default 0,
  cost bigint not null default 0,
  other_calls bigint not null default 0,
  other_errors bigint not null default 0,
  other_refusals bigint not null default 0,
  other_slow bigint not null default 0,
  other_cost bigint not null default 0,
  windows bigint not null default 0,
  updated_at bigint not null default 0,
  stopped_at bigint,
  reason text,
  primary key (persona, version, variant)
) with (fillfactor = 50);
-- A stop counts as a key's change, as both are read together.
create trigger variants_stopped after update of stopped_at on troupe.variants
  for each row when (old.stopped_at is distinct from new.stopped_at) execute function troupe.count_key_change();`;

export const variantFunctions = `
create function troupe.is_worse(p_count float8, p_calls float8, p_other_count float8, p_other_calls float8) returns boolean
  language sql immutable as $$
  select p_other_calls = 0 or (p_count / p_calls > p_other_count / nullif(p_other_calls, 0)
    and (p_count / p_calls - p_other_count / nullif(p_other_calls, 0)) ^ 2 >= ${standardErrors ** 2}
      * ((p_count + p_other_count) / (p_calls + p_other_calls)) * (1 - (p_count + p_other_count) / (p_calls + p_other_calls))
      * (1 / p_calls + 1 / nullif(p_other_calls, 0)))
$$;

-- Counts the calls whose lines are new to the ledger, in their order, and stops the variants that go beyond a bound by them. Says whether any was.
create function troupe.count_variants(p_calls jsonb, p_rules jsonb, p_new jsonb) returns boolean language plpgsql as $$
declare
  call record;
  rule record;
  state troupe.variants;
  is_slow boolean;
  ended_at bigint;
  any_stopped boolean := false;
begin
  if jsonb_array_length(p_calls) = 0 then return false; end if;
  insert into troupe.variants (persona, version, variant)
    select r.persona, r.version, r.variant from jsonb_to_recordset(p_rules) as r (persona text, version text, variant text)
    where not exists (select 1 from troupe.variants v
      where v.persona = r.persona and v.version = r.version and v.variant = r.variant)
    order by 1, 2, 3 on conflict do nothing;
  perform 1 from troupe.variants v join jsonb_to_recordset(p_rules) as r (persona text, version text, variant text)
    on v.persona = r.persona and v.version = r.version and v.variant = r.variant
    order by v.persona, v.version, v.variant for update of v;
  for call in
    select c.* from rows from (jsonb_to_recordset(p_calls) as (request_id text, attempt bigint, at bigint, ms bigint, cost bigint,
      persona text, version text, variant text, outcome text))
      with ordinality c (request_id, attempt, at, ms, cost, persona, version, variant, outcome, number)
    where exists (select 1 from jsonb_to_recordset(p_new) as n (request_id text, attempt bigint)
      where n.request_id = c.request_id and n.attempt = c.attempt)
    order by c.number
  loop
    ended_at := call.at + call.ms;
    for rule in
      select r.* from jsonb_to_recordset(p_rules) as r (persona text, version text, variant text, calls bigint, errors bigint,
        refusals bigint, slow bigint, slow_ms float8, cost float8)
      where r.persona = call.persona and r.version = call.version
    loop
      select * into state from troupe.variants v
        where v.persona = rule.persona and v.version = rule.version and v.variant = rule.variant;
      if state.stopped_at is not null then continue; end if;
      is_slow := coalesce(call.ms > rule.slow_ms, false);
      if call.variant <> rule.variant then
        state.other_calls := state.other_calls + 1;
        state.other_errors := state.other_errors + (call.outcome = 'failed')::int;
        state.other_refusals := state.other_refusals + (call.outcome = 'refused')::int;
        state.other_slow := state.other_slow + is_slow::int;
        state.other_cost := state.other_cost + coalesce(call.cost, 0);
      else
        state.calls := state.calls + 1;
        state.errors := state.errors + (call.outcome = 'failed')::int;
        state.refusals := state.refusals + (call.outcome = 'refused')::int;
        state.slow := state.slow + is_slow::int;
        state.cost := state.cost + coalesce(call.cost, 0);
        state.reason := case
          when state.errors >= rule.errors and troupe.is_worse(state.errors, state.calls, state.other_errors, state.other_calls)
            then 'error_rate'
          when state.refusals >= rule.refusals and troupe.is_worse(state.refusals, state.calls, state.other_refusals, state.other_calls)
            then 'refusals'
          when state.slow >= rule.slow and troupe.is_worse(state.slow, state.calls, state.other_slow, state.other_calls)
            then 'p95_seconds'
          when state.cost > rule.cost
            and (state.other_calls = 0 or state.cost * state.other_calls > state.other_cost * state.calls) then 'cost' end;
        if state.reason is not null then
          state.stopped_at := ended_at;
          any_stopped := true;
        elsif state.calls >= rule.calls then
          state.calls := 0; state.errors := 0; state.refusals := 0; state.slow := 0; state.cost := 0;
          state.other_calls := 0; state.other_errors := 0; state.other_refusals := 0; state.other_slow := 0; state.other_cost := 0;
          state.windows := state.windows + 1;
        end if;
      end if;
      update troupe.variants v set calls = state.calls, errors = state.errors, refusals = state.refusals, slow = state.slow,
          cost = state.cost, other_calls = state.other_calls, other_errors = state.other_errors,
          other_refusals = state.other_refusals, other_slow = state.other_slow, other_cost = state.other_cost,
          windows = state.windows, updated_at = greatest(v.updated_at, ended_at), stopped_at = state.stopped_at, reason = state.reason
        where v.persona = rule.persona and v.version = rule.version and v.variant = rule.variant;
    end loop;
  end loop;
  return any_stopped;
end $$;

-- Ends the calls whose lines the ledger gets: their reservations first, so that locks are taken in one order.
create function troupe.end_calls(p_lines jsonb, p_new jsonb, p_calls jsonb, p_rules jsonb) returns jsonb language plpgsql as $$
declare
  spending jsonb := troupe.settle_calls(p_lines, p_new);
begin
  return jsonb_build_object('spending', spending, 'stopped', troupe.count_variants(p_calls, p_rules, p_new));
end $$;`;
