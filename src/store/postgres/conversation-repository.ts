/** Stored answers, each a turn of a conversation. */
import type { ConversationRepository, ConversationTotals, Turn, TurnShown, TurnText } from "../store.ts";
import type { Parameter, QueryPool } from "./query-pool.ts";

const columns = `t.id, t.parent, t.holder, t.model, t.created_at::float8 as "createdAt", t.metadata,
  t.upstream_account as "upstreamAccount", t.upstream_id as "upstreamId", t.request, t.input, t.completion, t.format,
  t.state, t.shown`;

const pageOf = (comparison: "<" | ">", direction: "asc" | "desc") => `
  select ${columns} from troupe.turns t join troupe.conversations c using (conversation)
  where t.holder = $1::text and t.deleted_at is null and c.expires_at > $2::bigint
  and t.format = $7::text and ($3::text is null or t.model = $3::text)
  and ($4::text is null or (t.created_at, t.id) ${comparison} (select created_at, id from troupe.turns where id = $4::text))
  and t.pairs @> (select coalesce(array_agg(pair), '{}') from jsonb_array_elements_text($5::text::jsonb) pair)
  order by t.created_at ${direction}, t.id ${direction} limit $6::int`;

const chainOf = (selected: string) => `
  with recursive chain (id, parent, depth) as (
    select id, parent, 0 from troupe.turns where id = $1::text
    union all
    select t.id, t.parent, depth + 1 from troupe.turns t join chain on t.id = chain.parent)
  select ${selected} from chain join troupe.turns t using (id) order by depth desc`;

const insertedColumns = `(id, conversation, parent, holder, model, created_at, metadata, pairs, upstream_account, upstream_id,
  request, input, completion, format, state, shown)`;
const values = (conversation: string, parent: string) =>
  `select $1::text, ${conversation}, ${parent}, $3::text, $4::text, $5::bigint, $6::text,
    (select coalesce(array_agg(pair), '{}') from jsonb_array_elements_text($7::text::jsonb) pair),
    $8::text, $9::text, $10::bytea, $11::bytea, $12::bytea, $13::text, $14::text, $15::bytea`;
/** The conversation's row is locked by its longer life, so that no sweep takes it meanwhile. */
const insertContinued = `with extended as (
    update troupe.conversations set expires_at = greatest(expires_at, $16::bigint)
    where conversation = (select conversation from troupe.turns where id = $2::text) returning conversation),
  inserted as (
    insert into troupe.turns ${insertedColumns} ${values("extended.conversation", "$2::text")} from extended
    on conflict (id) do nothing)
  select 1 from extended`;
const insertAlone = `with begun as (
    insert into troupe.conversations (expires_at) select $16::bigint
    where not exists (select 1 from troupe.turns where id = $1::text) returning conversation)
  insert into troupe.turns ${insertedColumns} ${values("begun.conversation", "$2::text")} from begun`;
const changeable = `t.id = $1::text and t.holder = $2::text
  and exists (select 1 from troupe.conversations c where c.conversation = t.conversation and c.expires_at > $3::bigint)`;

export function conversationRepository(pool: QueryPool): ConversationRepository {
  return {
    async find(holder, id, now) {
      const text = `select ${columns} from troupe.turns t join troupe.conversations c using (conversation)
        where t.id = $2::text and t.holder = $1::text and t.deleted_at is null and c.expires_at > $3::bigint`;
      const [row] = await pool.run<Turn>(text, [holder, id, now]);
      return row && withPlainBytes(row);
    },
    async chain(id) {
      const rows = await pool.run<TurnText>(chainOf("t.id, t.input, t.completion"), [id]);
      return rows.map((row) => ({ id: row.id, input: plain(row.input), completion: plain(row.completion) }));
    },
    async shownChain(id) {
      const rows = await pool.run<TurnShown>(chainOf("t.id, t.input, t.completion, t.request, t.format, t.shown"), [
        id,
      ]);
      return rows.map((row) => withPlainBytes(row));
    },
    async touch(id, expiresAt) {
      const text = `update troupe.conversations set expires_at = $2::bigint
        where conversation = (select conversation from troupe.turns where id = $1::text) and expires_at < $2::bigint`;
      await pool.run(text, [id, expiresAt]);
    },
    async insert(turn, alone, expiresAt) {
      if (turn.parent !== null) {
        const continued = await pool.run(insertContinued, [...valuesOf(turn), expiresAt]);
        if (continued.length > 0) return;
      }
      await pool.run(insertAlone, [...valuesOf({ ...turn, parent: null, input: alone }), expiresAt]);
    },
    async settle(id, { state, model, upstreamAccount, upstreamId, completion, shown }) {
      const text = `update troupe.turns set state = $2::text, model = $3::text, upstream_account = $4::text,
        upstream_id = $5::text, completion = $6::bytea, shown = $7::bytea where id = $1::text and deleted_at is null
        and (state = 'running' or (state = $2::text and shown = $7::bytea))`;
      const settled = [id, state, model, upstreamAccount, upstreamId, completion, shown];
      return (await pool.run(text, settled)).count > 0;
    },
    async stopped(ids) {
      const rows = await pool.run<{ id: string }>(
        `select asked as id from jsonb_array_elements_text($1::text::jsonb) asked where not exists (
           select 1 from troupe.turns t where t.id = asked and state in ('running', 'finished') and deleted_at is null)`,
        [JSON.stringify(ids)],
      );
      return rows.map(({ id }) => id);
    },
    async list({ holder, format, now, model, metadata, after, limit }, order) {
      if (after !== null) {
        const text = "select 1 from troupe.turns where id = $1::text and holder = $2::text";
        if ((await pool.run(text, [after, holder])).length === 0) return undefined;
      }
      const text = order === "asc" ? pageOf(">", "asc") : pageOf("<", "desc");
      const rows = await pool.run<Turn>(text, [holder, now, model, after, pairsOf(metadata), limit, format]);
      return rows.map((row) => withPlainBytes(row));
    },
    async setMetadata(holder, id, metadata, now) {
      const text = `update troupe.turns t set metadata = $4::text,
        pairs = (select coalesce(array_agg(pair), '{}') from jsonb_array_elements_text($5::text::jsonb) pair)
        where ${changeable} and t.deleted_at is null`;
      return (await pool.run(text, [id, holder, now, metadata, pairsOf(metadata)])).count > 0;
    },
    async markDeleted(holder, id, now) {
      const text = `update troupe.turns t set deleted_at = $3::bigint
        where ${changeable} and (t.deleted_at is null or ($4::boolean and t.deleted_at = $3::bigint))`;
      return (await pool.run(text, (again) => [id, holder, now, again])).count > 0;
    },
  };
}

const valuesOf = (turn: Turn): Parameter[] => [
  turn.id,
  turn.parent,
  turn.holder,
  turn.model,
  turn.createdAt,
  turn.metadata,
  pairsOf(turn.metadata),
  turn.upstreamAccount,
  turn.upstreamId,
  turn.request,
  turn.input,
  turn.completion,
  turn.format,
  turn.state,
  turn.shown,
];

/** A JSON array with each pair as the text of a JSON array, in which every character that the server refuses is escaped. */
export const pairsOf = (metadata: string): string =>
  JSON.stringify(Object.entries(JSON.parse(metadata) as Record<string, string>).map((pair) => JSON.stringify(pair)));

/** The client gives Buffers, and rows with methods of their own. */
function withPlainBytes<T extends TurnShown>(row: T): T {
  const { request, input, completion, shown } = row;
  return {
    ...row,
    request: plain(request),
    input: plain(input),
    completion: plain(completion),
    shown: shown && plain(shown),
  };
}

const plain = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Turns of expired conversations, and conversations without any. @returns how many rows were removed */
export async function removeExpiredTurns(pool: QueryPool, now: number, max: number): Promise<number> {
  const oldest = `select conversation from troupe.conversations where expires_at <= $1::bigint order by expires_at limit 1
    for update skip locked`;
  const { count } = await pool.run(
    `with oldest as materialized (${oldest}),
     doomed as (select id from troupe.turns where conversation = (select conversation from oldest) limit $2::int)
     delete from troupe.turns where id in (select id from doomed)`,
    [now, max],
  );
  if (count > 0) return count;
  const text = `with oldest as materialized (${oldest})
    delete from troupe.conversations where conversation = (select conversation from oldest)`;
  return (await pool.run(text, [now])).count;
}

/** Deleted turns that no other continues. @returns how many were removed */
export async function removeDeletedTurns(pool: QueryPool, before: number, max: number): Promise<number> {
  const text = `delete from troupe.turns where id in (
    select id from troupe.turns t where deleted_at <= $1::bigint
    and not exists (select 1 from troupe.turns later where later.parent = t.id) limit $2::int for update skip locked)`;
  return (await pool.run(text, [before, max])).count;
}

export async function conversationTotals(pool: QueryPool): Promise<ConversationTotals> {
  const [row] = await pool.run<ConversationTotals>(
    `select (select count(*) from troupe.conversations)::float8 as conversations, count(*)::float8 as turns,
     count(deleted_at)::float8 as deleted,
     coalesce(sum(octet_length(request) + octet_length(input) + octet_length(completion)
       + coalesce(octet_length(shown), 0)), 0)::float8 as bytes from troupe.turns`,
  );
  return { ...row! };
}
