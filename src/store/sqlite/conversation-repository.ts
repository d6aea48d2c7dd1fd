/** Stored answers in SQLite: what differs from PostgreSQL. */

import type { Turn } from "../contract/store.ts";
import { conversationRepository, type SharedConversations, turnTable } from "../sql/conversation-repository.ts";
import { insertion, valuesOf } from "../sql/tables.ts";
import type { SqliteSql } from "./sqlite-sql.ts";

const inserted = { name: "turns", columns: [...turnTable.columns, ["conversation", "integer"] as const] };
const insertTurn = insertion(inserted);

export const sqliteConversations = (sql: SqliteSql): SharedConversations =>
  conversationRepository(sql, {
    hasMetadata: `not exists (select 1 from json_each($5) wanted where not exists (
      select 1 from json_each(t.metadata) found where found.key = wanted.key and found.value = wanted.value))`,
    setMetadata: "metadata = $4",
    wanted: (metadata) => metadata,
    insert: (turn, alone, expiresAt) =>
      sql.atomically((run) => {
        const insert = (row: Turn, conversation: number) =>
          void run(insertTurn, valuesOf(inserted, { ...row, conversation }));
        const [continued] = run<{ conversation: number }>("select conversation from turns where id = $1", [
          turn.parent,
        ]);
        if (continued === undefined) {
          const begin = "insert into conversations (expires_at) values ($1) returning conversation";
          const [begun] = run<{ conversation: number }>(begin, [expiresAt]);
          insert({ ...turn, parent: null, input: alone }, begun!.conversation);
        } else {
          insert(turn, continued.conversation);
          const extend = "update conversations set expires_at = max(expires_at, $2) where conversation = $1";
          run(extend, [continued.conversation, expiresAt]);
        }
      }),
  });
