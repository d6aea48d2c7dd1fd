/** Stored answers, each a turn of a conversation. */
import type { ConversationRepository, ConversationTotals, Turn, TurnShown, TurnText } from "../contract/store.ts";
import type { Parameter, Sql } from "./sql.ts";
import { selection, tableOf } from "./tables.ts";

const { columns } = tableOf("turns");
/** A turn as repositories know it. */
export const turnTable = {
  name: "turns",
  columns: columns.filter(([name]) => name !== "conversation" && name !== "deleted_at"),
};

/** Differences between the databases. */
type ConversationDialect = {
  /** Condition that is true if the turn `t` has all of the metadata in $5. */
  readonly hasMetadata: string;
  /** Sets the metadata to $4; $5 is the same as in `hasMetadata`. */
  readonly setMetadata: string;
  /** Value of $5 for that metadata. */
  readonly wanted: (metadata: string) => Parameter;
  readonly insert: ConversationRepository["insert"];
};

export type SharedConversations = ConversationRepository & {
  /** Turns of expired conversations, and conversations without any. @returns how many rows were removed */
  removeExpired(now: number, max: number): Promise<number>;
  /** Deleted turns that no other continues. @returns how many were removed */
  removeDeleted(before: number, max: number): Promise<number>;
  totals(): Promise<ConversationTotals>;
};

const selected = selection(turnTable, "t.");
const visible = "t.key_holder = $1::text and t.deleted_at is null and c.expires_at > $2::bigint";
const find = `select ${selected} from troupe.turns t join troupe.conversations c using (conversation)
  where ${visible} and t.id = $3::text`;

const chainOf = (names: string) => `
  with recursive chain (id, parent, depth) as (
    select id, parent, 0 from troupe.turns where id = $1::text
    union all
    select t.id, t.parent, depth + 1 from troupe.turns t join chain on t.id = chain.parent)
  select ${names} from chain join troupe.turns t using (id) order by depth desc`;
const chain = chainOf("t.id, t.input, t.completion");
const shownChain = chainOf("t.id, t.input, t.completion, t.request, t.format, t.shown");

const touch = `update troupe.conversations set expires_at = $2::bigint
  where conversation = (select conversation from troupe.turns where id = $1::text) and expires_at < $2::bigint`;
const settle = `update troupe.turns set state = $2::text, model = $3::text, upstream_account = $4::text,
  upstream_id = $5::text, completion = $6::bytea, shown = $7::bytea where id = $1::text and deleted_at is null
  and (state = 'running' or (state = $2::text and shown = $7::bytea))`;
const stopped = `select asked.value as id from jsonb_array_elements_text($1::text::jsonb) asked(value) where not exists (
  select 1 from troupe.turns t where t.id = asked.value and state in ('running', 'finished') and deleted_at is null)`;

const changeable = `t.id = $1::text and t.key_holder = $2::text
  and exists (select 1 from troupe.conversations c where c.conversation = t.conversation and c.expires_at > $3::bigint)`;
const markDeleted = `update troupe.turns as t set deleted_at = $3::bigint
  where ${changeable} and (t.deleted_at is null or ($4::boolean and t.deleted_at = $3::bigint))`;

const oldest = `select conversation from troupe.conversations where expires_at <= $1::bigint order by expires_at limit 1
  for update skip locked`;
const removeTurns = `with oldest as materialized (${oldest}),
  doomed as (select id from troupe.turns where conversation = (select conversation from oldest) limit $2::int)
  delete from troupe.turns where id in (select id from doomed)`;
const removeConversation = `with oldest as materialized (${oldest})
  delete from troupe.conversations where conversation = (select conversation from oldest)`;
const removeDeleted = `delete from troupe.turns where id in (
  select id from troupe.turns t where deleted_at <= $1::bigint
  and not exists (select 1 from troupe.turns later where later.parent = t.id) limit $2::int for update skip locked)`;
const totals = `select (select count(*) from troupe.conversations)::float8 as conversations, count(*)::float8 as turns,
  count(deleted_at)::float8 as deleted,
  coalesce(sum(octet_length(request) + octet_length(input) + octet_length(completion)
    + coalesce(octet_length(shown), 0)), 0)::float8 as bytes from troupe.turns`;

export function conversationRepository(sql: Sql, dialect: ConversationDialect): SharedConversations {
  const { wanted } = dialect;
  const pageOf = (comparison: "<" | ">", direction: "asc" | "desc") => `
    select ${selected} from troupe.turns t join troupe.conversations c using (conversation)
    where ${visible} and t.format = $7::text and ($3::text is null or t.model = $3::text)
    and ($4::text is null or (t.created_at, t.id) ${comparison} (select created_at, id from troupe.turns where id = $4::text))
    and ${dialect.hasMetadata} order by t.created_at ${direction}, t.id ${direction} limit $6::int`;
  const pages = { asc: pageOf(">", "asc"), desc: pageOf("<", "desc") };
  const setMetadata = `update troupe.turns as t set ${dialect.setMetadata} where ${changeable} and t.deleted_at is null`;
  return {
    find: async (keyHolder, id, now) => (await sql.run<Turn>(find, [keyHolder, now, id]))[0],
    chain: async (id) => [...(await sql.run<TurnText>(chain, [id]))],
    shownChain: async (id) => [...(await sql.run<TurnShown>(shownChain, [id]))],
    touch: async (id, expiresAt) => void (await sql.run(touch, [id, expiresAt])),
    insert: dialect.insert,
    async settle(id, { state, model, upstreamAccount, upstreamId, completion, shown }) {
      const values = [id, state, model, upstreamAccount, upstreamId, completion, shown];
      return (await sql.run(settle, values)).count > 0;
    },
    async stopped(ids) {
      const rows = await sql.run<{ id: string }>(stopped, [JSON.stringify(ids)]);
      return rows.map(({ id }) => id);
    },
    async list({ keyHolder, format, now, model, metadata, after, limit }, order) {
      if (after !== null) {
        const text = "select 1 from troupe.turns where id = $1::text and key_holder = $2::text";
        if ((await sql.run(text, [after, keyHolder])).length === 0) return undefined;
      }
      return [...(await sql.run<Turn>(pages[order], [keyHolder, now, model, after, wanted(metadata), limit, format]))];
    },
    async setMetadata(keyHolder, id, metadata, now) {
      return (await sql.run(setMetadata, [id, keyHolder, now, metadata, wanted(metadata)])).count > 0;
    },
    async markDeleted(keyHolder, id, now) {
      return (await sql.run(markDeleted, (again) => [id, keyHolder, now, again])).count > 0;
    },
    async removeExpired(now, max) {
      const { count } = await sql.run(removeTurns, [now, max]);
      return count > 0 ? count : (await sql.run(removeConversation, [now])).count;
    },
    removeDeleted: async (before, max) => (await sql.run(removeDeleted, [before, max])).count,
    totals: async () => ({ ...(await sql.run<ConversationTotals>(totals))[0]! }),
  };
}
