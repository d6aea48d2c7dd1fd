/** Versions of personas and their labels. */
import { keepable } from "../../lib/text/plain-text.ts";
import { dayMs } from "../../lib/time/duration.ts";
import {
  maxPersonaVersions,
  type PersonaLabel,
  type PersonaVersionInfo,
  type PersonaVersionRepository,
  type PersonaVersionRow,
} from "../contract/persona-versions.ts";
import { audited, recording } from "./recorded.ts";
import type { Sql } from "./sql.ts";
import { insertion, selection, tableOf, valuesOf } from "./tables.ts";

const table = tableOf("persona_versions");
const labels = tableOf("persona_labels");

const keep = `${insertion(table)} on conflict (id) do nothing`;
const isUnlabelled = `not exists (select 1 from troupe.persona_labels l
  where l.persona = persona_versions.persona and l.version = persona_versions.version)`;
/** Run with a new version: those of a persona that are beyond the most, and not used that day. */
const removeExcess = `delete from troupe.persona_versions where exists (select 1 from changed)
  and id in (select id from troupe.persona_versions where persona = $2::text and id <> $1::text
    order by used_at desc, id limit 1000000 offset ${maxPersonaVersions - 1})
  and used_at < $7::bigint - ${dayMs} and ${isUnlabelled}`;
const named = "(select named.value from jsonb_array_elements_text($1::text::jsonb) named(value))";
const known = `select id from troupe.persona_versions where id in ${named} order by id`;
const touch = `update troupe.persona_versions set used_at = $2::bigint where used_at < $2::bigint and id in ${named}`;
const get = `select ${selection(table)} from troupe.persona_versions where id = $1::text`;
const info = { columns: table.columns.filter(([name]) => name !== "content" && name !== "source") };
const list = `select ${selection(info)} from troupe.persona_versions where persona = $1::text order by created_at desc, id`;
const removeUnused = `delete from troupe.persona_versions where id in (select id from troupe.persona_versions
    where used_at < $1::bigint and ${isUnlabelled} order by used_at limit $2::int)`;

const move = `${insertion(labels)} on conflict (persona, label) do update
  set version = excluded.version, moved_at = excluded.moved_at
  where persona_labels.version = $5::text and persona_labels.version <> excluded.version`;
const remove = "delete from troupe.persona_labels where persona = $1::text and label = $2::text and version = $3::text";

type PersonaVersions = PersonaVersionRepository & {
  /** Removes versions that were last used before then and that no label names. @returns how many */
  removeUnused(before: number, max: number): Promise<number>;
};

export function personaVersionRepository(sql: Sql): PersonaVersions {
  return {
    async keep(row) {
      const source = row.source === null ? null : keepable(row.source);
      await sql.runBoth(keep, removeExcess, valuesOf(table, { ...row, source }));
    },
    known: async (ids) => (await sql.run<{ id: string }>(known, [JSON.stringify(ids)])).map(({ id }) => id),
    touch: async (ids, at) => void (await sql.run(touch, [JSON.stringify(ids), at])),
    get: async (id) => (await sql.run<PersonaVersionRow>(get, [id]))[0],
    list: async (persona) => [...(await sql.run<PersonaVersionInfo>(list, [persona]))],
    labels: async () => [
      ...(await sql.run<PersonaLabel>(
        `select ${selection(labels)} from troupe.persona_labels order by persona, label`,
      )),
    ],
    moveLabel: (label, before, line) =>
      sql.runBoth(move, recording(6), [...valuesOf(labels, label), before, ...audited(line)]),
    removeLabel: ({ persona, label, version }, line) =>
      sql.runBoth(remove, recording(4), [persona, label, version, ...audited(line)]),
    removeUnused: async (before, max) => (await sql.run(removeUnused, [before, max])).count,
  };
}
