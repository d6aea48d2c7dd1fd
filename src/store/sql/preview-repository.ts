/** Previews of personas, and reports: rows of one table, which differ in their kind. */
import type { PreviewInfo, PreviewRepository, PreviewRow } from "../contract/previews.ts";
import { audited, recording } from "./recorded.ts";
import type { Sql } from "./sql.ts";
import { columnNames, insertion, selection, tableOf, valuesOf } from "./tables.ts";

const table = tableOf("previews");
const without = (...names: string[]) => ({ columns: table.columns.filter(([name]) => !names.includes(name)) });
const place = (name: string) => `$${columnNames(table).indexOf(name) + 1}`;
const size = columnNames(table).length;
const changed = columnNames(table)
  .filter((name) => name !== "kind" && name !== "label")
  .map((name) => `${name} = excluded.${name}`);

/** The values are selected: where there are too many there is no row to insert. */
const put = `${insertion(table).replace(/values \((.*)\)$/, "select $1")}
  where (select count(*) from troupe.locked_previews() other where other.kind = ${place("kind")}::text
    and other.label <> ${place("label")}::text and other.ends_at > ${place("pushed_at")}::bigint) < $${size + 1}::int
  on conflict (kind, label) do update set ${changed.join(", ")}`;
const isThere = "kind = $1::text and label = $2::text and ends_at > $3::bigint";

/** @param kind of the rows that it keeps and finds */
export function previewRepository(sql: Sql, kind: "preview" | "report"): PreviewRepository {
  return {
    put: (row, max, line) =>
      sql.runBoth(put, recording(size + 2), [...valuesOf(table, { ...row, kind }), max, ...audited(line)]),
    async revision(label, now) {
      const text = `select revision from troupe.previews where ${isThere}`;
      return (await sql.run<{ revision: string }>(text, [kind, label, now]))[0]?.revision;
    },
    async get(label, now) {
      const text = `select ${selection(without("kind"))} from troupe.previews where ${isThere}`;
      return (await sql.run<PreviewRow>(text, [kind, label, now]))[0];
    },
    list: async (now) => [
      ...(await sql.run<PreviewInfo>(
        `select ${selection(without("kind", "content"))} from troupe.previews
          where kind = $1::text and ends_at > $2::bigint order by label`,
        [kind, now],
      )),
    ],
    drop: (label, now, line) =>
      sql.runBoth(`delete from troupe.previews where ${isThere}`, recording(4), [kind, label, now, ...audited(line)]),
  };
}

/** Removes previews and reports that have ended. @returns how many */
export async function removeEndedPreviews(sql: Sql, now: number, max: number): Promise<number> {
  const ended = "select kind, label from troupe.previews where ends_at <= $1::bigint order by ends_at limit $2::int";
  return (await sql.run(`delete from troupe.previews where (kind, label) in (${ended})`, [now, max])).count;
}
