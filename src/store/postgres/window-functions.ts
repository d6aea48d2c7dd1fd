/** The tables and functions of shared windows, in PL/pgSQL: an exchange is decided in one round trip, under a lock for each caller. */
import { maxWanted, windowParts } from "../shared-windows.ts";

/** A step of the schema. Times are the server's, in Unix milliseconds. */
export const windowFunctions = `
create table troupe.nodes (node text primary key, lapses_at bigint not null) with (fillfactor = 50);
create table troupe.window_uses (
  caller text collate "C" not null,
  at bigint not null,
  hits bigint not null,
  primary key (caller, at)
);
create index window_uses_expiring on troupe.window_uses (at);
create table troupe.window_holds (
  caller text collate "C" not null,
  node text not null,
  held bigint not null,
  number bigint not null,
  report bigint not null,
  wanted boolean not null default false,
  primary key (caller, node)
) with (fillfactor = 50);
create index window_holds_of_node on troupe.window_holds (node);
create index window_holds_wanted on troupe.window_holds (node) where wanted;

create function troupe.window_now() returns bigint language sql as $$
  select floor(extract(epoch from clock_timestamp()) * 1000)::bigint
$$;

create function troupe.beat_node(p_node text, p_lease bigint, p_is_new boolean) returns jsonb language plpgsql as $$
declare
  now_ms bigint := troupe.window_now();
  lapses bigint;
begin
  if p_is_new then
    insert into troupe.nodes as n values (p_node, now_ms + p_lease)
      on conflict (node) do update set lapses_at = greatest(n.lapses_at, excluded.lapses_at);
  end if;
  select lapses_at into lapses from troupe.nodes where node = p_node and lapses_at > now_ms;
  if not found then return null; end if;
  -- Most beats only look.
  if lapses - now_ms < p_lease * 3 / 4 then
    update troupe.nodes set lapses_at = now_ms + p_lease where node = p_node and lapses_at > now_ms
      returning lapses_at into lapses;
    if not found then return null; end if;
  end if;
  return jsonb_build_object('leaseMs', lapses - now_ms, 'epoch', '',
    'nodes', (select count(*) from troupe.nodes where lapses_at > now_ms),
    'rank', (select count(*) from troupe.nodes where lapses_at > now_ms and node < p_node),
    'wanted', coalesce((select jsonb_agg(caller) from (
      select caller from troupe.window_holds where node = p_node and wanted limit ${maxWanted}) w), '[]'::jsonb));
end $$;

create function troupe.exchange_windows(p_node text, p_window bigint, p_asks jsonb) returns jsonb language plpgsql as $$
declare
  ask record;
  mine record;
  now_ms bigint;
  part bigint := greatest(1, p_window / ${windowParts});
  live bigint;
  own bigint;
  free bigint;
  due bigint;
  used bigint;
  lapsed bigint;
  others bigint;
  oldest bigint;
  lapsed_at bigint;
  answers jsonb := '[]';
  hash bigint;
begin
  -- In one order everywhere.
  for hash in select distinct hashtextextended(a.caller, 2003397491)
    from jsonb_to_recordset(p_asks) as a (caller text) order by 1
  loop
    perform pg_advisory_xact_lock(hash);
  end loop;
  now_ms := troupe.window_now();
  if not exists (select 1 from troupe.nodes where node = p_node and lapses_at > now_ms) then return null; end if;
  select count(*) into live from troupe.nodes where lapses_at > now_ms;
  for ask in select * from jsonb_to_recordset(p_asks) as a
    (caller text, number bigint, report bigint, "limit" bigint, uses jsonb, want bigint, waiting bigint)
  loop
    delete from troupe.window_uses
      where caller = ask.caller and (at <= now_ms - p_window or at > now_ms + p_window);
    select h.held, h.number, h.report into mine from troupe.window_holds h where h.caller = ask.caller and h.node = p_node;
    own := coalesce(mine.held, 0);
    if mine.number is null or (mine.number < ask.number and mine.report < ask.report) then
      -- At the end of their part of the window, so that none is forgotten too early.
      insert into troupe.window_uses as u (caller, at, hits)
        select ask.caller, ceil((now_ms - (use->>0)::float8) / part)::bigint * part, sum((use->>1)::bigint)
        from jsonb_array_elements(ask.uses) use where (use->>0)::float8 < p_window group by 2
        on conflict (caller, at) do update set hits = u.hits + excluded.hits;
      own := greatest(0, own - (select coalesce(sum((use->>1)::bigint), 0) from jsonb_array_elements(ask.uses) use));
    end if;
    select coalesce(sum(hits), 0), min(at) into used, oldest from troupe.window_uses where caller = ask.caller;
    select coalesce(sum(h.held) filter (where n.lapses_at > now_ms), 0),
      coalesce(sum(h.held) filter (where n.lapses_at <= now_ms), 0), min(n.lapses_at) filter (where n.lapses_at <= now_ms)
      into others, lapsed, lapsed_at
      from troupe.window_holds h join troupe.nodes n on n.node = h.node
      where h.caller = ask.caller and h.node <> p_node and h.held > 0 and n.lapses_at > now_ms - p_window;
    used := used + lapsed;
    -- One that comes late tells nothing new.
    if mine.number is null or mine.number <= ask.number then
      if ask.want < own then own := ask.want;
      else
        free := greatest(0, ask."limit" - used - others - own);
        due := least(free, greatest(0, ask.waiting - own));
        -- Ahead only a part of what is left, so that the nodes meet at the limit with little in their hands.
        own := own + least(ask.want - own, due + (free - due) / (2 * live));
      end if;
      if own < ask.waiting and others > 0 then
        update troupe.window_holds set wanted = true
          where caller = ask.caller and node <> p_node and held > 0 and not wanted;
      end if;
      insert into troupe.window_holds as h values (ask.caller, p_node, own, ask.number, ask.report, false)
        on conflict (caller, node) do update
        set held = excluded.held, number = excluded.number, report = excluded.report, wanted = false;
    end if;
    answers := answers || jsonb_build_object('caller', ask.caller, 'held', own, 'used', used, 'others', others,
      'growsMs', case when used > 0 then greatest(1, least(oldest, lapsed_at) + p_window - now_ms) end);
  end loop;
  return answers;
end $$;

create function troupe.tidy_windows(p_window bigint, p_forget bigint) returns void language plpgsql as $$
declare
  now_ms bigint := troupe.window_now();
begin
  -- What a call is busy with is left for the next time.
  delete from troupe.window_uses where ctid = any(array(
    select ctid from troupe.window_uses where at <= now_ms - p_window limit 20000 for update skip locked));
  delete from troupe.nodes where lapses_at < now_ms - p_window - p_forget;
  delete from troupe.window_holds where ctid = any(array(
    select h.ctid from troupe.window_holds h
    where not exists (select 1 from troupe.nodes n where n.node = h.node) limit 20000 for update skip locked));
end $$;`;
