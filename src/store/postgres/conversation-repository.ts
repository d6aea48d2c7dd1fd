/** Stored answers in PostgreSQL: what differs from SQLite. */

import type { Turn } from "../contract/store.ts";
import { conversationRepository, type SharedConversations, turnTable } from "../sql/conversation-repository.ts";
import { columnNames, sqlTypes, valuesOf } from "../sql/tables.ts";
import type { QueryPool } from "./query-pool.ts";

const names = columnNames(turnTable);
const placeOf = new Map(turnTable.columns.map(([name, kind], at) => [name, `$${at + 1}::${sqlTypes[kind]}`]));
/** Placeholders that follow a turn's own values. */
const [metadataPairs, expiry] = [`$${names.length + 1}`, `$${names.length + 2}::bigint`];
const pairs = (place: string) =>
  `(select coalesce(array_agg(pair), '{}') from jsonb_array_elements_text(${place}::text::jsonb) pair)`;
const insertInto = (conversation: string) => `
  insert into troupe.turns (conversation, pairs, ${names.join(", ")})
  select ${conversation}.conversation, ${pairs(metadataPairs)}, ${[...placeOf.values()].join(", ")} from ${conversation}`;
/** The conversation's row is locked by its longer life, so that no sweep takes it meanwhile. */
const insertContinued = `with extended as (
    update troupe.conversations set expires_at = greatest(expires_at, ${expiry})
    where conversation = (select conversation from troupe.turns where id = ${placeOf.get("parent")}) returning conversation),
  inserted as (${insertInto("extended")} on conflict (id) do nothing)
  select 1 from extended`;
const insertAlone = `with begun as (
    insert into troupe.conversations (expires_at) select ${expiry}
    where not exists (select 1 from troupe.turns where id = ${placeOf.get("id")}) returning conversation)
  ${insertInto("begun")}`;

export const postgresConversations = (pool: QueryPool): SharedConversations =>
  conversationRepository(pool, {
    hasMetadata: `t.pairs @> ${pairs("$5")}`,
    setMetadata: `metadata = $4::text, pairs = ${pairs("$5")}`,
    wanted: metadataPairsOf,
    async insert(turn, alone, expiresAt) {
      const values = (row: Turn) => [...valuesOf(turnTable, row), metadataPairsOf(row.metadata), expiresAt];
      if (turn.parent !== null && (await pool.run(insertContinued, values(turn))).length > 0) return;
      await pool.run(insertAlone, values({ ...turn, parent: null, input: alone }));
    },
  });

/** A JSON array with each pair as the text of a JSON array, in which every character that the server refuses is escaped. */
export const metadataPairsOf = (metadata: string): string =>
  JSON.stringify(Object.entries(JSON.parse(metadata) as Record<string, string>).map((pair) => JSON.stringify(pair)));
