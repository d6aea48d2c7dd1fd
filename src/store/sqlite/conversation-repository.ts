/** Stored answers, each a turn of a conversation. */
import type { Database } from "bun:sqlite";

import type {
  ConversationRepository,
  ConversationTotals,
  Page,
  SettledTurn,
  Turn,
  TurnShown,
  TurnText,
} from "../store.ts";
import type { Synchronous } from "./asynchronous.ts";

export type SqliteConversations = Synchronous<ConversationRepository> & {
  removeExpired(now: number, max: number): number;
  removeDeleted(before: number, max: number): number;
  totals(): ConversationTotals;
};

const columns = `t.id, t.parent, t.holder, t.model, t.created_at as createdAt, t.metadata, t.upstream_account as upstreamAccount,
  t.upstream_id as upstreamId, t.request, t.input, t.completion,
  t.format, t.state, t.shown`;
const joined = "turns t join conversations c using (conversation)";
const visible = "t.holder = $holder and t.deleted_at is null and c.expires_at > $now";

const pageOf = (comparison: "<" | ">", direction: "asc" | "desc") => `
  select ${columns} from ${joined}
  where ${visible} and t.format = $format and ($model is null or t.model = $model)
  and ($after is null or (t.created_at, t.id) ${comparison} (select created_at, id from turns where id = $after))
  and not exists (
    select 1 from json_each($metadata) wanted where not exists (
      select 1 from json_each(t.metadata) found where found.key = wanted.key and found.value = wanted.value))
  order by t.created_at ${direction}, t.id ${direction} limit $limit`;

const chainOf = (selected: string) => `
  with recursive chain (id, parent, depth) as (
    select id, parent, 0 from turns where id = $id
    union all
    select t.id, t.parent, depth + 1 from turns t join chain on t.id = chain.parent)
  select ${selected} from chain join turns t using (id) order by depth desc`;

export function conversationRepository(database: Database): SqliteConversations {
  const find = database.prepare<Turn, { holder: string; id: string; now: number }>(
    `select ${columns} from ${joined} where t.id = $id and ${visible}`,
  );
  const chain = database.prepare<TurnText, { id: string }>(chainOf("t.id, t.input, t.completion"));
  const shownChain = database.prepare<TurnShown, { id: string }>(
    chainOf("t.id, t.input, t.completion, t.request, t.format, t.shown"),
  );
  const touch = database.prepare(
    `update conversations set expires_at = $expiresAt
     where conversation = (select conversation from turns where id = $id) and expires_at < $expiresAt`,
  );
  const begin = database.prepare<{ conversation: number }, { expiresAt: number }>(
    "insert into conversations (expires_at) values ($expiresAt) returning conversation",
  );
  const conversationOf = database.prepare<{ conversation: number }, { id: string }>(
    "select conversation from turns where id = $id",
  );
  const insert = database.prepare<unknown, Turn & { conversation: number }>(
    `insert into turns (id, conversation, parent, holder, model, created_at, metadata, upstream_account, upstream_id, request,
      input, completion, format, state, shown) values ($id, $conversation, $parent, $holder, $model, $createdAt, $metadata,
      $upstreamAccount, $upstreamId, $request, $input, $completion, $format, $state, $shown)`,
  );
  const settle = database.prepare<unknown, SettledTurn & { id: string }>(
    `update turns set state = $state, shown = $shown, model = $model, upstream_account = $upstreamAccount,
     upstream_id = $upstreamId, completion = $completion
     where id = $id and deleted_at is null and (state = 'running' or (state = $state and shown = $shown))`,
  );
  const stopped = database.prepare<{ id: string }, { ids: string }>(
    `select value as id from json_each($ids) where not exists (
       select 1 from turns where id = value and state in ('running', 'finished') and deleted_at is null)`,
  );
  const belongs = database.prepare("select 1 from turns where id = $id and holder = $holder");
  const pages = {
    asc: database.prepare<Turn, Page>(pageOf(">", "asc")),
    desc: database.prepare<Turn, Page>(pageOf("<", "desc")),
  };
  const changeable = `id = $id and holder = $holder and deleted_at is null
     and (select expires_at from conversations c where c.conversation = turns.conversation) > $now`;
  const setMetadata = database.prepare(`update turns set metadata = $metadata where ${changeable}`);
  const markDeleted = database.prepare(`update turns set deleted_at = $now where ${changeable}`);
  const oldestExpired = "select conversation from conversations where expires_at <= $now order by expires_at limit 1";
  const removeTurns = database.prepare(
    `delete from turns where id in (select id from turns where conversation = (${oldestExpired}) limit $max)`,
  );
  const removeConversation = database.prepare(`delete from conversations where conversation = (${oldestExpired})`);
  const removeDeleted = database.prepare(
    `delete from turns where id in (
       select id from turns t where deleted_at <= $before
       and not exists (select 1 from turns later where later.parent = t.id) limit $max)`,
  );
  const totals = database.prepare<ConversationTotals, []>(
    `select (select count(*) from conversations) as conversations, count(*) as turns, count(deleted_at) as deleted,
     ifnull(sum(length(request) + length(input) + length(completion) + ifnull(length(shown), 0)), 0)
     as bytes from turns`,
  );
  const insertTurn = database.transaction((turn: Turn, alone: Uint8Array, expiresAt: number) => {
    const continued = turn.parent === null ? null : conversationOf.get({ id: turn.parent });
    if (continued === null) {
      insert.run({ ...turn, parent: null, input: alone, conversation: begin.get({ expiresAt })!.conversation });
    } else {
      insert.run({ ...turn, conversation: continued.conversation });
      touch.run({ id: turn.id, expiresAt });
    }
  });
  const removeExpired = database.transaction((now: number, max: number) => {
    const { changes } = removeTurns.run({ now, max });
    return changes > 0 ? changes : removeConversation.run({ now }).changes;
  });
  return {
    find: (holder, id, now) => find.get({ holder, id, now }) ?? undefined,
    chain: (id) => chain.all({ id }),
    shownChain: (id) => shownChain.all({ id }),
    touch: (id, expiresAt) => void touch.run({ id, expiresAt }),
    insert: (turn, alone, expiresAt) => insertTurn.immediate(turn, alone, expiresAt),
    settle: (id, settled) => settle.run({ ...settled, id }).changes > 0,
    stopped: (ids) => stopped.all({ ids: JSON.stringify(ids) }).map(({ id }) => id),
    list: (page, order) => {
      if (page.after !== null && belongs.get({ id: page.after, holder: page.holder }) === null) return undefined;
      return pages[order].all(page);
    },
    setMetadata: (holder, id, metadata, now) => setMetadata.run({ holder, id, metadata, now }).changes > 0,
    markDeleted: (holder, id, now) => markDeleted.run({ holder, id, now }).changes > 0,
    removeExpired: (now, max) => removeExpired.immediate(now, max),
    removeDeleted: (before, max) => removeDeleted.run({ before, max }).changes,
    totals: () => totals.get()!,
  };
}
