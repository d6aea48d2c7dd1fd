/** Previews of personas. */
import type { PreviewInfo, PreviewRepository, PreviewRow } from "../previews.ts";
import { columnNames, insertion, selection, tableOf, valuesOf } from "../tables.ts";
import { audited, recording } from "./recorded.ts";
import type { Sql } from "./sql.ts";

const table = tableOf("previews");
const info = { columns: table.columns.filter(([name]) => name !== "content") };
const place = (name: string) => `$${columnNames(table).indexOf(name) + 1}`;
const size = columnNames(table).length;
const changed = columnNames(table)
  .filter((name) => name !== "label")
  .map((name) => `${name} = excluded.${name}`);

/** The values are selected: where there are too many there is no row to insert. */
const put = `${insertion(table).replace(/values \((.*)\)$/, "select $1")}
  where (select count(*) from troupe.previews other
    where other.label <> ${place("label")}::text and other.ends_at > ${place("pushed_at")}::bigint) < $${size + 1}::int
  on conflict (label) do update set ${changed.join(", ")}`;
const isThere = "label = $1::text and ends_at > $2::bigint";

export type Previews = PreviewRepository & {
  /** Removes those that have ended. @returns how many */
  removeEnded(now: number, max: number): Promise<number>;
};

export function previewRepository(sql: Sql): Previews {
  return {
    put: (row, max, line) => sql.runBoth(put, recording(size + 2), [...valuesOf(table, row), max, ...audited(line)]),
    async revision(label, now) {
      const text = `select revision from troupe.previews where ${isThere}`;
      return (await sql.run<{ revision: string }>(text, [label, now]))[0]?.revision;
    },
    get: async (label, now) =>
      (await sql.run<PreviewRow>(`select ${selection(table)} from troupe.previews where ${isThere}`, [label, now]))[0],
    list: async (now) => [
      ...(await sql.run<PreviewInfo>(
        `select ${selection(info)} from troupe.previews where ends_at > $1::bigint order by label`,
        [now],
      )),
    ],
    drop: (label, now, line) =>
      sql.runBoth(`delete from troupe.previews where ${isThere}`, recording(3), [label, now, ...audited(line)]),
    removeEnded: async (now, max) =>
      (
        await sql.run(
          `delete from troupe.previews where label in (select label from troupe.previews
            where ends_at <= $1::bigint order by ends_at limit $2::int)`,
          [now, max],
        )
      ).count,
  };
}
