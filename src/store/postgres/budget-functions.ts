/**
 * Budgets as functions of the database: reservations, settlements and windows of tokens. Each locks what it counts in, always in one order.
 */
import { spentIn } from "../sql/ledger-rollups.ts";

export const budgetFunctions = `
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

-- The models of a budget by model, as \`like\` has them: of its pattern only * stands for something. Null: a budget of all models.
create function troupe.models_of(p_scope text) returns text language sql immutable as $$
  select translate(regexp_replace(substr(p_scope, strpos(p_scope, ' model:') + 7), '([\\\\%_])', '\\\\\\1', 'g'), '*', '%')
    where strpos(p_scope, ' model:') > 0
$$;

-- What a call costs a budget. @param p_models of the call, each with its cost; null where that is unknown, and p_unknown counts
create function troupe.cost_of(p_scope text, p_models jsonb, p_all bigint, p_unknown bigint) returns bigint language sql immutable as $$
  select case when strpos(p_scope, ' model:') = 0 or p_all = 0 then p_all else (
    select coalesce(sum(coalesce(m.cost, p_unknown)), 0) from jsonb_to_recordset(p_models) as m (model text, cost bigint)
    where m.model like troupe.models_of(p_scope)) end
$$;

-- A span of a day or a month begins with what the ledger has of it, and counts every line from then on. The lock of such a beginning
-- lets it and the ledger's writers see all of each other: who comes second finds what the first has written.
create function troupe.ledger_cost(p_scope text, p_span text) returns bigint language plpgsql as $$
declare
  p_whose text := split_part(p_scope, ' model:', 1);
  p_kind text := split_part(p_whose, ':', 1);
  p_name text := split_part(p_whose, ':', 2);
  p_models text := troupe.models_of(p_scope);
  begins date := to_date(rpad(p_span, 10, '-01'), 'YYYY-MM-DD');
  ends date := begins + case when length(p_span) = 7 then interval '1 month' else interval '1 day' end;
begin
  return (select coalesce(sum(cost), 0) from troupe.ledger_days d join troupe.ledger_groups using (rollup, dimensions_id)
    where rollup = case when p_kind = 'all' and p_models is null then ${spentIn("all", false).id} when p_kind = 'all' then ${spentIn("all", true).id}
        when p_models is null then ${spentIn("key", false).id} else ${spentIn("key", true).id} end
      and d.day >= begins - date '1970-01-01' and d.day < ends - date '1970-01-01' and case p_kind
      when 'all' then true
      when 'key' then key_id = p_name
      when 'tag' then jsonb_exists(tags::jsonb, p_name)
      else key_id in (select id from troupe.keys where tier = p_name) end
      and (p_models is null or provider || '/' || upstream_model like p_models));
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

create function troupe.budget_state(p_scope text, p_span text, p_spent bigint, p_reserved bigint, p_limit bigint) returns jsonb
  language sql immutable as $$
  select jsonb_build_object('scope', p_scope, 'span', p_span, 'spent', p_spent, 'reserved', p_reserved, 'limit', p_limit)
$$;

-- Many reservations in one statement: a row that all calls count in is locked until its commit is on the disk, and what a process has
-- waiting takes that lock once. Each entry is decided in the order of the list, with all that those before it did. No call is in a list twice.
create function troupe.reserve_calls(p_budgets jsonb, p_entries jsonb) returns jsonb language plpgsql
  set plan_cache_mode = force_generic_plan as $$
declare
  locked record;
  entry record;
  hash bigint;
  places integer := jsonb_array_length(p_budgets);
  place integer;
  all_scopes text[] := array_fill(null::text, array[places]);
  all_spans text[] := all_scopes;
  spents bigint[] := array_fill(null::bigint, array[places]);
  reserveds bigint[] := spents;
  refusing integer;
  tightest integer;
  least_left bigint;
  is_spent boolean;
  at_ms float8;
  tokens_window jsonb;
  made integer[] := '{}';
  made_at bigint[] := '{}';
  answers jsonb[];
begin
  perform troupe.open_spans(p_budgets);
  -- Locks in one order everywhere: what is counted in, then windows of tokens, then reservations.
  for locked in
    select s.scope, s.span, s.spent, s.reserved, b.place from troupe.spending s
    join rows from (jsonb_to_recordset(p_budgets) as (scope text, span text)) with ordinality b (scope, span, place)
      on b.scope = s.scope and b.span = s.span
    order by s.scope, s.span for update of s
  loop
    all_scopes[locked.place] := locked.scope;
    all_spans[locked.place] := locked.span;
    spents[locked.place] := locked.spent;
    reserveds[locked.place] := locked.reserved;
  end loop;
  for hash in
    select distinct hashtextextended(e.key, 1953656933) from jsonb_to_recordset(p_entries) as e (key text)
    where e.key is not null order by 1
  loop
    perform pg_advisory_xact_lock(hash);
  end loop;

  for entry in
    select a.*, h.owner is not null as is_held
    from rows from (jsonb_to_recordset(p_entries) as (request_id text, attempt bigint, amount bigint, places int[], limits bigint[],
      key text, now float8, "limit" bigint, tokens bigint))
      with ordinality a (request_id, attempt, amount, places, limits, key, now, lim, tokens, number)
    left join troupe.reservations h on h.request_id = a.request_id and h.attempt = a.attempt order by a.number
  loop
    answers[entry.number] := '{}';
    -- Sent again, it counts once.
    if entry.is_held then continue; end if;
    refusing := null;
    is_spent := false;
    for number in 1 .. coalesce(array_length(entry.places, 1), 0) loop
      place := entry.places[number];
      is_spent := spents[place] >= entry.limits[number] or spents[place] + entry.amount > entry.limits[number];
      if is_spent or (refusing is null and (spents[place] + reserveds[place] >= entry.limits[number]
        or spents[place] + reserveds[place] + entry.amount > entry.limits[number])) then refusing := number; end if;
      exit when is_spent;
    end loop;
    if refusing is not null then
      place := entry.places[refusing];
      answers[entry.number] := jsonb_build_object('refusedBy',
        troupe.budget_state(all_scopes[place], all_spans[place], spents[place], reserveds[place], entry.limits[refusing]));
      continue;
    end if;
    at_ms := null;
    if entry.key is not null then
      at_ms := coalesce(entry.now, extract(epoch from clock_timestamp()) * 1000);
      tokens_window := troupe.use_tokens(entry.key, at_ms, entry.lim, entry.tokens);
      answers[entry.number] := jsonb_build_object('tokens', tokens_window);
      if coalesce((tokens_window->>'waitMs')::float8, 1) > 0 then continue; end if;
    end if;
    tightest := null;
    least_left := null;
    for number in 1 .. coalesce(array_length(entry.places, 1), 0) loop
      place := entry.places[number];
      reserveds[place] := reserveds[place] + entry.amount;
      if least_left is null or entry.limits[number] - spents[place] - reserveds[place] < least_left then
        least_left := entry.limits[number] - spents[place] - reserveds[place];
        tightest := number;
      end if;
    end loop;
    if tightest is not null then
      place := entry.places[tightest];
      answers[entry.number] := answers[entry.number] || jsonb_build_object('tightest',
        troupe.budget_state(all_scopes[place], all_spans[place], spents[place], reserveds[place], entry.limits[tightest]));
    end if;
    made := array_append(made, entry.number::integer);
    made_at := array_append(made_at, (ceil(at_ms / 250) * 250)::bigint);
  end loop;

  if made <> '{}' then
    insert into troupe.reservations (request_id, attempt, owner, amount, scopes, spans, tokens_key, tokens_at, tokens, line)
      select e.request_id, e.attempt, e.owner, e.amount,
        coalesce((select array_agg(all_scopes[p.place] order by p.at) from unnest(e.places) with ordinality p (place, at)), '{}'),
        coalesce((select array_agg(all_spans[p.place] order by p.at) from unnest(e.places) with ordinality p (place, at)), '{}'),
        e.key, m.made_at, e.tokens, e.line
      from rows from (jsonb_to_recordset(p_entries) as (request_id text, attempt bigint, owner text, amount bigint, places int[],
        key text, tokens bigint, line text))
        with ordinality e (request_id, attempt, owner, amount, places, key, tokens, line, number)
      join unnest(made, made_at) m (number, made_at) on m.number = e.number;
    update troupe.spending s set reserved = c.reserved
      from unnest(all_scopes, all_spans, reserveds) c (scope, span, reserved)
      where s.scope = c.scope and s.span = c.span and s.reserved is distinct from c.reserved;
  end if;
  return to_jsonb(answers);
end $$;

-- Ends the reservations of calls, and spends what those of them cost whose line is new to the ledger: in the transaction that adds the lines.
-- \`cost\` is null where it is unknown, \`used\` where the tokens are; then what was reserved counts.
create function troupe.settle_calls(p_lines jsonb, p_new jsonb) returns jsonb language plpgsql
  set plan_cache_mode = force_generic_plan as $$
declare
  hash bigint;
  answer jsonb;
begin
  perform pg_advisory_xact_lock_shared(1953656934, 1);
  if not exists (select 1 from troupe.reservations) and not exists (select 1 from troupe.spending) then return '[]'; end if;
  perform 1 from troupe.spending s where (s.scope, s.span) in (
    select scope, span from jsonb_to_recordset(p_lines) as l (days text[], scopes text[]), unnest(l.scopes) scope, unnest(l.days) span
    union all select m.scope, m.span from jsonb_to_recordset(p_lines) as l (days text[], scopes text[]), unnest(l.scopes) whose, unnest(l.days) day,
      troupe.spending m where strpos(m.scope, ' model:') > 0 and split_part(m.scope, ' model:', 1) = whose and m.span = day
    union all select b.scope, b.span from jsonb_to_recordset(p_lines) as l (request_id text, attempt bigint)
      join troupe.reservations r on r.request_id = l.request_id and r.attempt = l.attempt, unnest(r.scopes, r.spans) b (scope, span))
    order by s.scope, s.span for update of s;
  for hash in
    select distinct hashtextextended(r.tokens_key, 1953656933) from jsonb_to_recordset(p_lines) as l (request_id text, attempt bigint)
    join troupe.reservations r on r.request_id = l.request_id and r.attempt = l.attempt where r.tokens_key is not null order by 1
  loop
    perform pg_advisory_xact_lock(hash);
  end loop;
  with lines as (
    select l.*, n.attempt is not null as is_new
    from jsonb_to_recordset(p_lines) as l (request_id text, attempt bigint, cost bigint, used bigint, days text[], scopes text[], models jsonb)
    left join jsonb_to_recordset(p_new) as n (request_id text, attempt bigint)
      on n.request_id = l.request_id and n.attempt = l.attempt),
  ended as (
    delete from troupe.reservations r using lines l where r.request_id = l.request_id and r.attempt = l.attempt
    returning r.*, l.is_new, l.used, l.models, case when l.is_new then coalesce(l.cost, r.amount) else 0 end as spent),
  corrected as (
    update troupe.token_uses u set tokens = greatest(0, u.tokens + c.change) from (
      select tokens_key, tokens_at, sum(case when is_new then coalesce(used, tokens) else 0 end - tokens) as change
      from ended where tokens_key is not null group by tokens_key, tokens_at) c
    where u.key = c.tokens_key and u.at = c.tokens_at and c.change <> 0),
  changes as (
    select scope, span, sum(spent) as spent, sum(freed) as freed from (
      select scope, span, coalesce(l.cost, e.amount, 0) as spent, 0 as freed
        from lines l left join ended e on e.request_id = l.request_id and e.attempt = l.attempt,
        unnest(l.scopes) scope, unnest(l.days) span where l.is_new
      union all
      select m.scope, m.span, troupe.cost_of(m.scope, l.models, coalesce(l.cost, e.amount, 0), coalesce(e.amount, 0)), 0
        from lines l left join ended e on e.request_id = l.request_id and e.attempt = l.attempt,
        unnest(l.scopes) whose, unnest(l.days) day, troupe.spending m
        where l.is_new and strpos(m.scope, ' model:') > 0 and split_part(m.scope, ' model:', 1) = whose and m.span = day
      union all
      select b.scope, b.span, case when b.span = 'prepaid' then troupe.cost_of(b.scope, e.models, e.spent, e.amount) else 0 end, e.amount
        from ended e, unnest(e.scopes, e.spans) b (scope, span)) parts
    group by scope, span having sum(spent) <> 0 or sum(freed) <> 0),
  settled as (
    update troupe.spending s set spent = s.spent + c.spent, reserved = greatest(0, s.reserved - c.freed)
    from changes c where s.scope = c.scope and s.span = c.span returning s.scope, s.span, s.spent, s.reserved)
  select coalesce(jsonb_agg(to_jsonb(settled)), '[]') into answer from settled;
  return answer;
end $$;

create function troupe.note_calls(p_owner text, p_calls jsonb) returns bigint language plpgsql as $$
declare
  noted bigint;
begin
  insert into troupe.reservations (request_id, attempt, owner, amount, scopes, spans, line)
    select c.request_id, c.attempt, p_owner, 0, '{}', '{}', c.line
    from jsonb_to_recordset(p_calls) as c (request_id text, attempt bigint, line text)
    where not exists (select 1 from troupe.ledger l where l.request_id = c.request_id and l.attempt = c.attempt)
    order by c.request_id, c.attempt on conflict do nothing;
  get diagnostics noted = row_count;
  return noted;
end $$;`;
