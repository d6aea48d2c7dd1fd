/** Pools of money as functions of the database. What they do is told in `src/store/budget-pools.ts`. */
/** The step of the schema that makes them. Never edited once released. */
export const poolFunctions = `
create table troupe.budget_pools (
  pool text primary key,
  scope text collate "C" not null,
  span text collate "C" not null,
  granted bigint not null,
  spent bigint not null default 0,
  returned bigint not null default 0,
  held bigint not null default 0,
  state text not null default 'open' check (state in ('open', 'closed', 'ended')),
  opened_at timestamptz not null default clock_timestamp(),
  told_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
create unique index budget_pools_open on troupe.budget_pools (scope, span) where state = 'open';
create index budget_pools_left on troupe.budget_pools (scope, span) where state <> 'ended';
create table troupe.pool_sums (
  pool text not null references troupe.budget_pools on delete cascade,
  node text not null,
  spent bigint not null,
  primary key (pool, node)
) with (fillfactor = 50);

-- What of a pool counts as reserved.
create function troupe.pool_left(p_pool troupe.budget_pools) returns bigint language sql immutable as $$
  select case when p_pool.state = 'ended' then 0 else greatest(0, p_pool.granted - p_pool.spent - p_pool.returned) end
$$;

create function troupe.fill_pools(p_asks jsonb) returns jsonb language plpgsql as $$
declare
  ask record;
  held troupe.budget_pools;
  free bigint;
  give bigint;
  answers jsonb := '[]';
begin
  perform troupe.open_spans(p_asks);
  perform 1 from troupe.spending s join jsonb_to_recordset(p_asks) as b (scope text, span text)
    on s.scope = b.scope and s.span = b.span order by s.scope, s.span for update of s;
  for ask in
    select * from rows from (jsonb_to_recordset(p_asks) as (
      scope text, span text, "limit" bigint, needs bigint, pool text, "upTo" bigint, fresh text))
      with ordinality a(scope, span, lim, needs, pool, up_to, fresh, place) order by place
  loop
    select ask.lim - s.spent - s.reserved into free from troupe.spending s where s.scope = ask.scope and s.span = ask.span;
    select * into held from troupe.budget_pools where scope = ask.scope and span = ask.span and state = 'open' for update;
    if not found then
      give := least(ask.up_to, free / 2);
      -- A name that was used is that of a statement which comes twice, after its pool has ended.
      if give < ask.needs or give <= 0 or exists (select 1 from troupe.budget_pools where pool = ask.fresh) then
        answers := answers || 'null'::jsonb;
        continue;
      end if;
      insert into troupe.budget_pools (pool, scope, span, granted) values (ask.fresh, ask.scope, ask.span, give)
        returning * into held;
      update troupe.spending set reserved = reserved + give where scope = ask.scope and span = ask.span;
    elsif held.pool = ask.pool and held.granted < ask.up_to then
      give := least(ask.up_to - held.granted, free / 2);
      if give < ask.needs or give <= 0 then
        answers := answers || 'null'::jsonb;
        continue;
      end if;
      update troupe.spending set reserved = reserved - troupe.pool_left(held) where scope = ask.scope and span = ask.span;
      update troupe.budget_pools set granted = granted + give where pool = held.pool returning * into held;
      update troupe.spending set reserved = reserved + troupe.pool_left(held) where scope = ask.scope and span = ask.span;
    end if;
    answers := answers || jsonb_build_object('pool', held.pool, 'granted', held.granted, 'isNew', held.pool = ask.fresh);
  end loop;
  return answers;
end $$;

create function troupe.account_pools(p_accounts jsonb) returns jsonb language plpgsql as $$
declare
  told record;
  held troupe.budget_pools;
  before bigint;
  added bigint;
  answers jsonb := '[]';
begin
  perform 1 from troupe.spending s join (
      select distinct p.scope, p.span from troupe.budget_pools p
      join jsonb_to_recordset(p_accounts) as a (pool text) on a.pool = p.pool) p
    on s.scope = p.scope and s.span = p.span order by s.scope, s.span for update of s;
  for told in
    select * from rows from (jsonb_to_recordset(p_accounts) as (pool text, sums jsonb, returned bigint, held bigint,
      "isClosed" boolean, "isLost" boolean, "isEnded" boolean))
      with ordinality a(pool, sums, returned, held, is_closed, is_lost, is_ended, place) order by place
  loop
    select * into held from troupe.budget_pools where pool = told.pool for update;
    if not found then
      answers := answers || '"unknown"'::jsonb;
      continue;
    end if;
    before := troupe.pool_left(held);
    select coalesce(sum(greatest(0, n.value::bigint - coalesce(k.spent, 0))), 0) into added
      from jsonb_each_text(told.sums) n left join troupe.pool_sums k on k.pool = told.pool and k.node = n.key;
    insert into troupe.pool_sums as k select told.pool, n.key, n.value::bigint from jsonb_each_text(told.sums) n
      on conflict (pool, node) do update set spent = excluded.spent where k.spent < excluded.spent;
    update troupe.budget_pools set spent = spent + added, returned = greatest(returned, coalesce(told.returned, 0)),
      held = coalesce(told.held, budget_pools.held), 
      -- That somebody wants it closed is no sign of life.
      told_at = case when told.sums = '{}' and told.returned is null then told_at else clock_timestamp() end, state = case
        when state = 'ended' or told.is_ended then 'ended'
        when state = 'closed' or told.is_closed or (told.is_lost and opened_at < clock_timestamp() - interval '2 seconds')
          then 'closed'
        else 'open' end
      where pool = told.pool returning * into held;
    update troupe.spending set spent = spent + added, reserved = greatest(0, reserved - before + troupe.pool_left(held))
      where scope = held.scope and span = held.span;
    answers := answers || to_jsonb(held.state);
  end loop;
  return answers;
end $$;

create function troupe.end_pools() returns bigint language plpgsql as $$
declare
  held troupe.budget_pools;
  ended bigint := 0;
begin
  delete from troupe.budget_pools where state = 'ended' and told_at < clock_timestamp() - interval '1 day';
  for held in
    select p.* from troupe.budget_pools p where state <> 'ended' and told_at < clock_timestamp() - interval '10 minutes'
    order by scope, span, pool
  loop
    perform 1 from troupe.spending where scope = held.scope and span = held.span for update;
    update troupe.budget_pools set state = 'ended'
      where pool = held.pool and state <> 'ended' and told_at < clock_timestamp() - interval '10 minutes';
    if not found then continue; end if;
    -- As it was under the lock.
    select * into held from troupe.budget_pools where pool = held.pool;
    update troupe.spending set reserved = greatest(0, reserved - greatest(0, held.granted - held.spent - held.returned))
      where scope = held.scope and span = held.span;
    ended := ended + 1;
  end loop;
  return ended;
end $$;

-- As before, and names the pools that hold money of the budget that refuses.
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
      return jsonb_build_object('refusedBy', jsonb_strip_nulls(jsonb_build_object('scope', budget.scope, 'span', budget.span,
        'spent', budget.spent, 'reserved', budget.reserved, 'limit', budget.lim, 'pools', (
          select jsonb_agg(jsonb_build_object('pool', p.pool,
            'quietMs', floor(extract(epoch from clock_timestamp() - p.told_at) * 1000)) order by p.pool)
          from troupe.budget_pools p where p.scope = budget.scope and p.span = budget.span and p.state <> 'ended'))));
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
end $$;`;
