/** The ledger's tables, a partition for each day, and what opens and drops them. */

import { dayMs, hourMs } from "../../lib/time/duration.ts";
import { ledgerTables } from "../ledger/columns.ts";
import { ofAll } from "../sql/ledger-rollups.ts";

const partitioned = (column: string) => ` partition by range (${column})`;

export const ledgerFunctions = `
${ledgerTables({ text: 'text collate "C"', number: "bigint", prefix: "troupe.", dated: partitioned, plain: "", ordered: "" })}

-- Makes the partitions of a day. Attached, they hold up neither those who read the ledger nor those who write to it.
create function troupe.open_ledger_day(p_schema text, p_day bigint) returns void language plpgsql as $$
declare
  part record;
begin
  for part in select * from (values ('ledger', p_day * ${dayMs}, (p_day + 1) * ${dayMs}),
    ('ledger_hours', p_day * ${dayMs / hourMs}, (p_day + 1) * ${dayMs / hourMs}),
    ('ledger_days', p_day, p_day + 1)) as p (name, low, high)
  loop
    perform pg_advisory_xact_lock(1953656935, 1);
    -- Not to_regclass, which remembers what was before the lock.
    if exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = p_schema and c.relname = part.name || '_' || p_day) then continue; end if;
    execute format('create table %1$I.%2$I (like %1$I.%3$I including all)', p_schema, part.name || '_' || p_day, part.name);
    execute format('alter table %1$I.%3$I attach partition %1$I.%2$I for values from (%4$s) to (%5$s)',
      p_schema, part.name || '_' || p_day, part.name, part.low, part.high);
  end loop;
end $$;

-- Drops the oldest day before that one. Whoever reads or writes meanwhile is not kept waiting: it is tried again later.
-- Returns how many lines there were, null where there is no such day.
create function troupe.drop_ledger_day(p_before bigint) returns bigint language plpgsql set lock_timeout = '200ms' as $$
declare
  oldest bigint;
  lines bigint;
begin
  -- Materialized, as a plan may read the numbers out of other tables' names before it leaves these tables out.
  with parts as materialized (
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'troupe.ledger'::regclass)
  select min(substr(relname, 8)::bigint) into oldest from parts where substr(relname, 8)::bigint < p_before;
  if oldest is null then
    delete from troupe.ledger_dimensions where day < p_before;
    delete from troupe.ledger_groups where day < p_before;
    return null;
  end if;
  select coalesce(sum(calls), 0) into lines from troupe.ledger_hours
    where rollup = ${ofAll.id} and hour >= oldest * ${dayMs / hourMs} and hour < (oldest + 1) * ${dayMs / hourMs};
  execute format('drop table troupe.ledger_%1$s, troupe.ledger_hours_%1$s, troupe.ledger_days_%1$s', oldest);
  return lines;
exception when lock_not_available then
  return null;
end $$;`;
