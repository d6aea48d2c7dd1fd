/** Stored completions, each a turn of a conversation. */
import type { Database } from "bun:sqlite";

/** Times are Unix milliseconds; the last three are packed JSON. */
export type Turn = {
  readonly id: string;
  /** The turn that this one continues. */
  readonly parent: string | null;
  /** Who may see it. */
  readonly holder: string;
  readonly model: string;
  readonly createdAt: number;
  /** JSON object of strings. */
  readonly metadata: string;
  /** Where the upstream holds the conversation too: which account's, and its id there. */
  readonly upstreamAccount: string | null;
  readonly upstreamId: string | null;
  /** What a reader may want to know of the request. */
  readonly request: Uint8Array;
  /** The messages that came with this turn. */
  readonly input: Uint8Array;
  readonly completion: Uint8Array;
};

export type TurnText = Pick<Turn, "id" | "input" | "completion">;

export type Page = {
  readonly holder: string;
  readonly now: number;
  readonly model: string | null;
  /** JSON object: only turns whose metadata has all of its pairs. */
  readonly metadata: string;
  /** The turn after which the page begins. */
  readonly after: string | null;
  readonly limit: number;
};

export type ConversationTotals = { conversations: number; turns: number; deleted: number; bytes: number };

/** A turn is found only by its holder, neither deleted nor expired. */
export interface ConversationRepository {
  find(holder: string, id: string, now: number): Turn | undefined;
  /** The turn and all that it continues, deleted ones included: oldest first. */
  chain(id: string): TurnText[];
  /** The conversation of that turn was used. */
  touch(id: string, expiresAt: number): void;
  /**
   * @param alone the turn's input if the one it continues is gone by now
   * @param expiresAt of the whole conversation
   */
  insert(turn: Turn, alone: Uint8Array, expiresAt: number): void;
  /** In order of birth. @returns undefined when `after` is no turn of that holder */
  list(page: Page, order: "asc" | "desc"): Turn[] | undefined;
  /** @returns false when there is no such turn */
  setMetadata(holder: string, id: string, metadata: string, now: number): boolean;
  /** @returns false when there is no such turn */
  markDeleted(holder: string, id: string, now: number): boolean;
  /** Removes turns of expired conversations, a few at a time. @returns how many rows */
  removeExpired(now: number, most: number): number;
  /** Removes turns deleted before that time that no other turn continues, a few at a time. @returns how many */
  removeDeleted(before: number, most: number): number;
  totals(): ConversationTotals;
}

const columns = `t.id, t.parent, t.holder, t.model, t.created_at as createdAt, t.metadata, t.upstream_account as upstreamAccount,
  t.upstream_id as upstreamId, t.request, t.input, t.completion`;
const visible = "t.holder = $holder and t.deleted_at is null and c.expires_at > $now";

const pageOf = (comparison: "<" | ">", direction: "asc" | "desc") => `
  select ${columns} from turns t join conversations c using (conversation)
  where ${visible} and ($model is null or t.model = $model)
  and ($after is null or (t.created_at, t.id) ${comparison} (select created_at, id from turns where id = $after))
  and not exists (
    select 1 from json_each($metadata) wanted where not exists (
      select 1 from json_each(t.metadata) found where found.key = wanted.key and found.value = wanted.value))
  order by t.created_at ${direction}, t.id ${direction} limit $limit`;

export function conversationRepository(database: Database): ConversationRepository {
  const find = database.prepare<Turn, { holder: string; id: string; now: number }>(
    `select ${columns} from turns t join conversations c using (conversation) where t.id = $id and ${visible}`,
  );
  const chain = database.prepare<TurnText, { id: string }>(
    `with recursive chain (id, parent, depth) as (
       select id, parent, 0 from turns where id = $id
       union all
       select t.id, t.parent, depth + 1 from turns t join chain on t.id = chain.parent)
     select t.id, t.input, t.completion from chain join turns t using (id) order by depth desc`,
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
    `insert into turns values ($id, $conversation, $parent, $holder, $model, $createdAt, null, $metadata,
      $upstreamAccount, $upstreamId, $request, $input, $completion)`,
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
    `delete from turns where id in (select id from turns where conversation = (${oldestExpired}) limit $most)`,
  );
  const removeConversation = database.prepare(`delete from conversations where conversation = (${oldestExpired})`);
  const removeDeleted = database.prepare(
    `delete from turns where id in (
       select id from turns t where deleted_at <= $before
       and not exists (select 1 from turns later where later.parent = t.id) limit $most)`,
  );
  const totals = database.prepare<ConversationTotals, []>(
    `select (select count(*) from conversations) as conversations, count(*) as turns, count(deleted_at) as deleted,
     ifnull(sum(length(request) + length(input) + length(completion)), 0) as bytes from turns`,
  );
  const insertTurn = database.transaction((turn: Turn, alone: Uint8Array, expiresAt: number) => {
    const continued = turn.parent === null ? null : conversationOf.get({ id: turn.parent });
    if (continued === null) {
      insert.run({ ...turn, parent: null, input: alone, conversation: begin.get({ expiresAt })!.conversation });
      return;
    }
    insert.run({ ...turn, conversation: continued.conversation });
    touch.run({ id: turn.id, expiresAt });
  });
  const removeExpired = database.transaction((now: number, most: number) => {
    const { changes } = removeTurns.run({ now, most });
    return changes > 0 ? changes : removeConversation.run({ now }).changes;
  });
  return {
    find: (holder, id, now) => find.get({ holder, id, now }) ?? undefined,
    chain: (id) => chain.all({ id }),
    touch: (id, expiresAt) => void touch.run({ id, expiresAt }),
    insert: (turn, alone, expiresAt) => insertTurn.immediate(turn, alone, expiresAt),
    list: (page, order) => {
      if (page.after !== null && belongs.get({ id: page.after, holder: page.holder }) === null) return undefined;
      return pages[order].all(page);
    },
    setMetadata: (holder, id, metadata, now) => setMetadata.run({ holder, id, metadata, now }).changes > 0,
    markDeleted: (holder, id, now) => markDeleted.run({ holder, id, now }).changes > 0,
    removeExpired: (now, most) => removeExpired.immediate(now, most),
    removeDeleted: (before, most) => removeDeleted.run({ before, most }).changes,
    totals: () => totals.get()!,
  };
}
