/**
 * Reservations and settlements of many calls in one statement, in PL/pgSQL. A row that all calls count in is locked until its commit
 * is on the disk: what a process has waiting takes that lock once, and one commit.
 *
 * Each entry is decided as `troupe.reserve` and `troupe.settle` would, in the order of the list, with all that those before it did. No
 * id is in a list twice.
 */

/** A step of the schema. Never edited once released. */
export const callFunctions = `
create function troupe.account_calls(p_budgets jsonb, p_entries jsonb) returns jsonb language plpgsql
  set plan_cache_mode = force_generic_plan as $$
declare
  ended text[] := (select coalesce(array_agg(e.id), '{}')
    from jsonb_to_recordset(p_entries) as e (id text, spent bigint) where e.spent is not null);
  locked record;
  entry record;
  hash bigint;
  -- What is counted in: first the budgets that are asked for, in their order, then others that settlements count in.
  places integer := jsonb_array_length(p_budgets);
  place integer;
  names text[] := array_fill(null::text, array[places]);
  scopes text[] := names;
  spans text[] := names;
  spents bigint[] := array_fill(null::bigint, array[places]);
  reserveds bigint[] := spents;
  free bigint;
  refusing integer;
  pools jsonb;
  at_ms float8;
  tokens_window jsonb;
  made integer[] := '{}';
  made_at bigint[] := '{}';
  gone text[] := '{}';
  answers jsonb[];
begin
  perform troupe.open_spans(p_budgets);
  -- Locks in one order everywhere: what is counted in, then windows of tokens, then reservations.
  for locked in
    select s.scope, s.span, s.spent, s.reserved, b.place from troupe.spending s
    left join rows from (jsonb_to_recordset(p_budgets) as (scope text, span text)) with ordinality b (scope, span, place)
      on b.scope = s.scope and b.span = s.span
    where (s.scope, s.span) in (
      select o.scope, o.span from jsonb_to_recordset(p_budgets) as o (scope text, span text)
      union all select r.scope, r.span from troupe.reserved_spans r where r.reservation = any(ended))
    order by s.scope, s.span for update of s
  loop
    if locked.place is null then places := places + 1; end if;
    place := coalesce(locked.place, places);
    names[place] := locked.span || ' ' || locked.scope;
    scopes[place] := locked.scope;
    spans[place] := locked.span;
    spents[place] := locked.spent;
    reserveds[place] := locked.reserved;
  end loop;
  for hash in
    select distinct hashtextextended(k.key, 1953656933) from (
      select e.key from jsonb_to_recordset(p_entries) as e (key text)
      union all select r.tokens_key from troupe.reservations r where r.id = any(ended)) k
    where k.key is not null order by 1
  loop
    perform pg_advisory_xact_lock(hash);
  end loop;
  perform 1 from troupe.reservations where id = any(ended) order by id for update;

  for entry in
    select a.*, h.amount as held, h.tokens_key, h.tokens_at, h.tokens as held_tokens,
      case when a.spent is not null and h.id is not null then (
        select array_agg(array_position(names, r.span || ' ' || r.scope))
        from troupe.reserved_spans r where r.reservation = h.id) end as held_in
    from rows from (jsonb_to_recordset(p_entries) as (id text, amount bigint, places int[], limits bigint[], key text, now float8,
      "limit" bigint, tokens bigint, spent bigint))
      with ordinality a (id, amount, places, limits, key, now, lim, tokens, spent, number)
    left join troupe.reservations h on h.id = a.id order by a.number
  loop
    if entry.spent is not null then
      -- One that was made since the locks were taken was given up before: it is ended later.
      if entry.held is null or array_position(entry.held_in, null) is not null then
        answers[entry.number] := 'false';
        continue;
      end if;
      foreach place in array coalesce(entry.held_in, '{}') loop
        reserveds[place] := greatest(0, reserveds[place] - entry.held);
        spents[place] := spents[place] + entry.spent;
      end loop;
      if entry.tokens_key is not null then
        update troupe.token_uses set tokens = greatest(0, tokens + entry.tokens - entry.held_tokens)
          where key = entry.tokens_key and at = entry.tokens_at;
      end if;
      gone := array_append(gone, entry.id);
      answers[entry.number] := 'true';
      continue;
    end if;
    answers[entry.number] := '{}';
    -- Sent again, it counts once.
    if entry.held is not null then continue; end if;
    refusing := null;
    for number in 1 .. coalesce(array_length(entry.places, 1), 0) loop
      place := entry.places[number];
      free := entry.limits[number] - spents[place] - reserveds[place];
      if free <= 0 or entry.amount > free then
        refusing := number;
        exit;
      end if;
    end loop;
    if refusing is not null then
      select jsonb_agg(jsonb_build_object('pool', p.pool,
        'quietMs', floor(extract(epoch from clock_timestamp() - p.told_at) * 1000)) order by p.pool) into pools
        from troupe.budget_pools p where p.scope = scopes[place] and p.span = spans[place] and p.state <> 'ended';
      answers[entry.number] := jsonb_build_object('refusedBy', jsonb_strip_nulls(jsonb_build_object(
        'scope', scopes[place], 'span', spans[place], 'spent', spents[place], 'reserved', reserveds[place],
        'limit', entry.limits[refusing], 'pools', pools)));
      continue;
    end if;
    at_ms := null;
    if entry.key is not null then
      at_ms := coalesce(entry.now, extract(epoch from clock_timestamp()) * 1000);
      tokens_window := troupe.use_tokens(entry.key, at_ms, entry.lim, entry.tokens);
      answers[entry.number] := jsonb_build_object('tokens', tokens_window);
      if coalesce((tokens_window->>'waitMs')::float8, 1) > 0 then continue; end if;
    end if;
    foreach place in array coalesce(entry.places, '{}') loop
      reserveds[place] := reserveds[place] + entry.amount;
    end loop;
    made := array_append(made, entry.number::integer);
    made_at := array_append(made_at, (ceil(at_ms / 250) * 250)::bigint);
  end loop;

  if made <> '{}' then
    insert into troupe.reservations (id, owner, amount, tokens_key, tokens_at, tokens)
      select e.id, e.owner, e.amount, e.key, m.made_at, e.tokens
      from rows from (jsonb_to_recordset(p_entries) as (id text, owner text, amount bigint, key text, tokens bigint))
        with ordinality e (id, owner, amount, key, tokens, number)
      join unnest(made, made_at) m (number, made_at) on m.number = e.number;
    insert into troupe.reserved_spans
      select e.id, scopes[p.place], spans[p.place]
      from rows from (jsonb_to_recordset(p_entries) as (id text, places int[])) with ordinality e (id, places, number)
      cross join unnest(e.places) p (place) where e.number = any(made);
  end if;
  delete from troupe.reservations where id = any(gone);
  update troupe.spending s set spent = c.spent, reserved = c.reserved
    from unnest(scopes, spans, spents, reserveds) c (scope, span, spent, reserved)
    where s.scope = c.scope and s.span = c.span and (s.spent, s.reserved) is distinct from (c.spent, c.reserved);
  return to_jsonb(answers);
end $$;`;
