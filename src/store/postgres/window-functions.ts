/**
 * The tables and the function of windows, in PL/pgSQL. A caller is one row of a table that is not logged, so that no commit waits for a
 * disk; a crash of the server empties it, and the nodes find out by its life.
 */
import { recentIds, windowParts } from "../contract/windows.ts";

/** Requests that one part can count. */
const maxHits = 2 ** 20 - 1;

/**
 * A part is its time, in Unix milliseconds of the server, times 2^20, plus its hits. `p_limit` below 0: they are counted whatever there
 * is. `over_at`: when nothing counts any more.
 */
export const windowFunctions = `
create unlogged table troupe.windows (
  caller text collate "C" primary key, parts bigint[] not null, used bigint not null, recent bigint[] not null, over_at bigint not null
) with (fillfactor = 50);
-- Of 5 KB at most.
alter table troupe.windows alter column parts set storage plain;
create unlogged table troupe.window_life (one boolean primary key, life text not null);

create function troupe.hit_window(p_caller text, p_limit bigint, p_window bigint, p_life text, p_ids bigint[], p_ages bigint[], p_hits bigint[],
  out allowed boolean, out used float8, out grows_ms float8, out life text) language plpgsql as $$
declare
  v_parts bigint[];
  v_recent bigint[];
  hits bigint;
  part_ms bigint := greatest(1, p_window / ${windowParts});
  now_ms bigint;
  part bigint;
  fresh bigint;
  at integer := 0;
  is_changed boolean := false;
begin
  loop
    select w.parts, w.used, w.recent into v_parts, hits, v_recent from troupe.windows w where w.caller = p_caller for update;
    exit when found;
    insert into troupe.windows values (p_caller, '{}', 0, '{}', 0) on conflict do nothing;
  end loop;
  loop
    select l.life into life from troupe.window_life l;
    exit when found;
    insert into troupe.window_life values (true, p_life) on conflict do nothing;
  end loop;
  -- Once the row is locked, so that times are in order.
  now_ms := floor(extract(epoch from clock_timestamp()) * 1000);
  -- What is ahead is of before the server's clock was set back.
  while at < cardinality(v_parts) and (v_parts[at + 1] >> 20 <= now_ms - p_window or v_parts[at + 1] >> 20 > now_ms + p_window + part_ms) loop
    at := at + 1;
    hits := hits - (v_parts[at] & ${maxHits});
  end loop;
  if at > 0 then v_parts := v_parts[at + 1:]; end if;
  allowed := p_limit < 0 or hits < p_limit or p_ids[1] = any(v_recent);
  for number in 1 .. case when allowed then cardinality(p_ids) else 0 end loop
    continue when p_ids[number] = any(v_recent) or p_ages[number] >= p_window;
    -- At the end of their part, so that none is forgotten too early.
    part := ((now_ms - p_ages[number]) / part_ms * part_ms + part_ms) << 20;
    at := cardinality(v_parts);
    while at > 0 and v_parts[at] >> 20 > part >> 20 loop at := at - 1; end loop;
    if at > 0 and v_parts[at] >> 20 = part >> 20 then
      fresh := least(p_hits[number], ${maxHits} - (v_parts[at] & ${maxHits}));
      v_parts[at] := v_parts[at] + fresh;
    else
      fresh := least(p_hits[number], ${maxHits});
      v_parts := v_parts[:at] || (part + fresh) || v_parts[at + 1:];
    end if;
    hits := hits + fresh;
    is_changed := true;
  end loop;
  if is_changed then
    update troupe.windows w set parts = v_parts, used = hits, recent = (p_ids || v_recent)[1:${recentIds}],
      over_at = now_ms + p_window + part_ms where w.caller = p_caller;
  end if;
  used := hits;
  -- After a limit was lowered there may be more requests than it allows: those must go first.
  hits := case when allowed then 1 else hits - p_limit + 1 end;
  at := 0;
  while hits > 0 and at < cardinality(v_parts) loop
    at := at + 1;
    hits := hits - (v_parts[at] & ${maxHits});
  end loop;
  grows_ms := case when at = 0 then 0 else greatest(1, (v_parts[at] >> 20) + p_window - now_ms) end;
end $$;`;
