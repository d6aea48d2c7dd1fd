/** A beat that counts the nodes only where it is asked to: each reads all of them for it. */
import { maxWanted } from "../shared-windows.ts";

/** A step of the schema. Never edited once released. */
export const beatFunctions = `
create function troupe.beat_node(p_node text, p_lease bigint, p_is_new boolean, p_counts boolean) returns jsonb language plpgsql as $$
declare
  now_ms bigint := troupe.window_now();
  lapses bigint;
  answer jsonb;
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
  answer := jsonb_build_object('leaseMs', lapses - now_ms, 'epoch', '',
    'wanted', coalesce((select jsonb_agg(caller) from (
      select caller from troupe.window_holds where node = p_node and wanted limit ${maxWanted}) w), '[]'::jsonb));
  if p_counts then
    answer := answer || (select jsonb_build_object('group', jsonb_build_object(
      'nodes', count(*), 'rank', count(*) filter (where node < p_node))) from troupe.nodes where lapses_at > now_ms);
  end if;
  return answer;
end $$;`;
