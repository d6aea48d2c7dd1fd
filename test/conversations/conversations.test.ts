import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Conversations, type Exchange, type KeyHolder, type Resumed } from "../../src/conversations/conversations.ts";
import type { ListOf } from "../../src/conversations/pages.ts";
import type { AnswerMessage, ChatRequest, Message } from "../../src/protocols/chat/schema.ts";
import type { ApiError } from "../../src/protocols/errors.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite/store.ts";
import { runs } from "../helpers/long-form.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const dayMs = 86_400_000;
const me: KeyHolder = { keyId: "key_1", surface: "gateway" };
const others: KeyHolder[] = [
  { keyId: "key_2", surface: "gateway" },
  { keyId: "key_1", surface: "orchestrator" },
];

class House implements Disposable {
  readonly folder = new TempFolder();
  readonly clock = new ManualClock();
  readonly store: SqliteStore = openStore(this.folder.path);
  readonly conversations = new Conversations(this.store, this.clock, () => 30);

  /** Stores one exchange, and gives the handle. */
  async say(
    id: string,
    text: string,
    options: Partial<Exchange> & { after?: string; keyHolder?: KeyHolder } = {},
  ): Promise<string> {
    const keyHolder = options.keyHolder ?? me;
    const resumed = options.after === undefined ? undefined : await this.conversations.resume(keyHolder, options.after);
    await this.conversations.remember(keyHolder, {
      ...exchange(id, [{ role: "user", content: text }]),
      resumed,
      ...options,
    });
    return id;
  }

  /** Everything the sweeper would remove by now. */
  async sweep(): Promise<void> {
    const { maintenance } = this.store;
    while ((await maintenance.removeExpiredTurns(this.clock.now(), 3)) > 0);
    while ((await maintenance.removeDeletedTurns(this.clock.now(), 3)) > 0);
  }

  [Symbol.dispose](): void {
    void this.store.close();
    this.folder[Symbol.dispose]();
  }
}

function exchange(
  id: string,
  messages: Message[],
  request: Partial<ChatRequest> = {},
  answer: Partial<AnswerMessage> = {},
): Exchange {
  return {
    request: { model: "openai/gpt-5", messages, store: true, ...request } as ChatRequest,
    requestId: `req_${id}`,
    completion: {
      id,
      object: "chat.completion",
      created: 1_700_000_000,
      model: "openai/gpt-5",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: `answer ${id}`, refusal: null, ...answer },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    },
  };
}

const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });

async function errorOf(work: () => unknown): Promise<ApiError> {
  try {
    await work();
  } catch (error) {
    return error as ApiError;
  }
  throw new Error("nothing was thrown");
}

const idsOf = (list: ListOf<{ id: string }>) => list.data.map(({ id }) => id);

describe("continuing", () => {
  test("gives all messages so far, from any turn, along each branch", async () => {
    using house = new House();
    await house.say("a", "1");
    await house.say("b", "2", { after: "a" });
    await house.say("c", "3", { after: "b" });
    await house.say("d", "4", { after: "a" });
    const messages = async (id: string) => (await house.conversations.resume(me, id)).messages;
    expect(await messages("a")).toEqual([user("1"), assistant("answer a")]);
    expect(await messages("c")).toEqual([
      user("1"),
      assistant("answer a"),
      user("2"),
      assistant("answer b"),
      user("3"),
      assistant("answer c"),
    ]);
    expect(await messages("d")).toEqual([user("1"), assistant("answer a"), user("4"), assistant("answer d")]);
  });

  test("carries tool calls and thinking, and leaves out what only answers have", async () => {
    using house = new House();
    const call = { id: "call_1", type: "function" as const, function: { name: "f", arguments: "{}" } };
    await house.conversations.remember(
      me,
      exchange(
        "a",
        [user("x")],
        {},
        {
          content: null,
          tool_calls: [call],
          reasoning_content: "hm",
          thinking_blocks: [{ type: "thinking", thinking: "hm", signature: "s" }],
          annotations: [],
          audio: { id: "audio_1", data: "AAAA", transcript: "t", expires_at: 1 },
        },
      ),
    );
    expect((await house.conversations.resume(me, "a")).messages[1] as unknown).toEqual({
      role: "assistant",
      content: null,
      tool_calls: [call],
      reasoning_content: "hm",
      thinking_blocks: [{ type: "thinking", thinking: "hm", signature: "s" }],
      audio: { id: "audio_1" },
    });
    await house.conversations.remember(me, exchange("b", [user("x")], {}, { content: null, refusal: "no" }));
    expect((await house.conversations.resume(me, "b")).messages[1] as unknown).toEqual({
      role: "assistant",
      content: null,
      refusal: "no",
    });
  });

  test("knows the upstream's own id, and whose it is", async () => {
    using house = new House();
    await house.say("a", "1", { upstream: { account: "xai", responseId: "resp_1" } });
    expect((await house.conversations.resume(me, "a")).upstream).toEqual({ account: "xai", responseId: "resp_1" });
    await house.say("b", "2", { after: "a" });
    expect((await house.conversations.resume(me, "b")).upstream).toBeUndefined();
    expect((await house.conversations.resume(me, "b")).messages).toHaveLength(4);
  });

  test("survives a restart", async () => {
    using house = new House();
    await house.say("a", "1");
    await house.store.close();
    const store = openStore(house.folder.path);
    const { messages } = await new Conversations(store, house.clock, () => 30).resume(me, "a");
    expect(messages).toEqual([user("1"), assistant("answer a")]);
    await store.close();
    Object.assign(house, { store: openStore(house.folder.path) });
  });

  test("unknown, another key's, another surface's: 404 not_found naming previous_response_id", async () => {
    using house = new House();
    await house.say("a", "1");
    for (const attempt of [
      () => house.conversations.resume(me, "z"),
      ...others.map((other) => () => house.conversations.resume(other, "a")),
    ]) {
      const error = await errorOf(attempt);
      expect([error.status, error.type, error.code, error.param]).toEqual([
        404,
        "invalid_request_error",
        "not_found",
        "previous_response_id",
      ]);
    }
  });

  test("a conversation beyond all reason is refused, not loaded", async () => {
    using house = new House();
    const resumed: Resumed = { id: "a0", messages: [], upstream: undefined, tokens: 0 };
    const huge = "x".repeat(17 * 1024 * 1024);
    await house.say("a0", huge);
    for (let at = 1; at < 4; at += 1) {
      await house.conversations.remember(me, {
        ...exchange(`a${at}`, [user(huge)]),
        resumed: { ...resumed, id: `a${at - 1}` },
      });
    }
    expect(await errorOf(() => house.conversations.resume(me, "a3"))).toMatchObject({
      status: 400,
      param: "previous_response_id",
    });
    expect((await house.conversations.resume(me, "a2")).messages).toHaveLength(6);
  });
});

describe("expiry and deletion", () => {
  test("a conversation lives 30 days from its last use, all its turns together", async () => {
    using house = new House();
    await house.say("a", "1");
    house.clock.advance(20 * dayMs);
    await house.say("b", "2", { after: "a" });
    house.clock.advance(30 * dayMs - 1);
    expect((await house.conversations.resume(me, "a")).messages).toHaveLength(2);
    house.clock.advance(30 * dayMs - 1);
    expect((await house.conversations.get(me, "b")).id).toBe("b");
    house.clock.advance(1);
    for (const id of ["a", "b"]) {
      expect((await errorOf(() => house.conversations.resume(me, id))).param).toBe("previous_response_id");
      expect((await errorOf(() => house.conversations.get(me, id))).status).toBe(404);
    }
    expect((await house.conversations.list(me, {})).data).toEqual([]);
    await house.sweep();
    expect(await house.store.maintenance.conversationTotals()).toEqual({
      conversations: 0,
      turns: 0,
      deleted: 0,
      bytes: 0,
    });
  });

  test("a deleted turn is gone for its key holder; what continues it stays whole, until that is deleted too", async () => {
    using house = new House();
    await house.say("a", "1", { upstream: { account: "xai", responseId: "resp_1" } });
    await house.say("b", "2", { after: "a" });
    for (const other of others) expect((await errorOf(() => house.conversations.delete(other, "a"))).status).toBe(404);
    expect(await house.conversations.delete(me, "a")).toEqual({ account: "xai", responseId: "resp_1" });
    for (const attempt of [
      () => house.conversations.resume(me, "a"),
      () => house.conversations.get(me, "a"),
      () => house.conversations.messages(me, "a", {}),
      () => house.conversations.update(me, "a", {}),
      () => house.conversations.delete(me, "a"),
    ]) {
      expect(await errorOf(attempt)).toMatchObject({ status: 404, code: "not_found" });
    }
    expect(idsOf(await house.conversations.list(me, {}))).toEqual(["b"]);
    await house.sweep();
    expect((await house.conversations.resume(me, "b")).messages).toHaveLength(4);
    expect(await house.conversations.delete(me, "b")).toBeUndefined();
    await house.sweep();
    expect(await house.store.maintenance.conversationTotals()).toMatchObject({ turns: 0, bytes: 0 });
  });

  test("an answer whose forerunner went away while it was made is kept with its whole history", async () => {
    using house = new House();
    await house.say("a", "1");
    const resumed = await house.conversations.resume(me, "a");
    await house.conversations.delete(me, "a");
    await house.sweep();
    expect((await house.store.maintenance.conversationTotals()).turns).toBe(0);
    await house.conversations.remember(me, { ...exchange("b", [user("2")]), resumed });
    expect((await house.conversations.resume(me, "b")).messages).toEqual([
      user("1"),
      assistant("answer a"),
      user("2"),
      assistant("answer b"),
    ]);
  });
});

describe("the stored-completions routes", () => {
  test("get: the completion, and what the request said", async () => {
    using house = new House();
    await house.conversations.remember(
      me,
      exchange("a", [user("x")], { temperature: 0.5, seed: 7, user: "u", metadata: { k: "v" }, tool_choice: "none" }),
    );
    expect(await house.conversations.get(me, "a")).toEqual({
      ...exchange("a", []).completion,
      request_id: "req_a",
      tool_choice: "none",
      tools: null,
      seed: 7,
      top_p: 1,
      temperature: 0.5,
      presence_penalty: 0,
      frequency_penalty: 0,
      input_user: "u",
      response_format: null,
      metadata: { k: "v" },
    } as never);
    for (const other of others) expect((await errorOf(() => house.conversations.get(other, "a"))).status).toBe(404);
  });

  test("list: pages in both directions, by model and by metadata, one's own only", async () => {
    using house = new House();
    const models = ["m/1", "m/2"];
    for (let at = 0; at < 25; at += 1) {
      const id = `c${String(at).padStart(2, "0")}`;
      const made = exchange(id, [user("x")], { metadata: { parity: String(at % 2), all: "yes" } });
      await house.conversations.remember(me, {
        ...made,
        completion: { ...made.completion, model: models[at % 5 === 0 ? 0 : 1]! },
      });
      if (at % 2 === 0) house.clock.advance(1);
    }
    await house.say("theirs", "x", { keyHolder: others[0]! });
    const first = await house.conversations.list(me, {});
    expect([first.data.length, first.first_id, first.last_id, first.has_more]).toEqual([20, "c00", "c19", true]);
    const second = await house.conversations.list(me, { after: "c19" });
    expect([idsOf(second), second.has_more]).toEqual([["c20", "c21", "c22", "c23", "c24"], false]);
    expect(idsOf(await house.conversations.list(me, { order: "desc", limit: 3 }))).toEqual(["c24", "c23", "c22"]);
    expect(idsOf(await house.conversations.list(me, { order: "desc", limit: 2, after: "c22" }))).toEqual([
      "c21",
      "c20",
    ]);
    expect(idsOf(await house.conversations.list(me, { model: "m/1" }))).toEqual(["c00", "c05", "c10", "c15", "c20"]);
    const odd = { metadata: { parity: "1", all: "yes" }, model: "m/1" };
    expect(idsOf(await house.conversations.list(me, odd))).toEqual(["c05", "c15"]);
    expect(idsOf(await house.conversations.list(me, { metadata: { parity: "2" } }))).toEqual([]);
    expect(idsOf(await house.conversations.list(me, { metadata: { 'od"d.[0]': "x" } }))).toEqual([]);
    expect(await house.conversations.list(others[1]!, {})).toEqual({
      object: "list",
      data: [],
      first_id: null,
      last_id: null,
      has_more: false,
    });
    await house.conversations.delete(me, "c19");
    expect(idsOf(await house.conversations.list(me, { after: "c19", limit: 1 }))).toEqual(["c20"]);
  });

  test("list: paging finds everything once, whatever the page size and the times", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 7 }),
        fc.constantFrom("asc" as const, "desc" as const),
        async (waits, limit, order) => {
          using house = new House();
          const ids: string[] = [];
          for (const [at, wait] of waits.entries()) {
            house.clock.advance(wait);
            ids.push(await house.say(`c${String(at).padStart(2, "0")}`, "x"));
          }
          const found: string[] = [];
          for (let after: string | undefined; ; ) {
            const page = await house.conversations.list(me, { limit, order, after });
            found.push(...idsOf(page));
            if (!page.has_more) break;
            after = page.last_id!;
          }
          expect(found).toEqual(order === "asc" ? ids : ids.toReversed());
        },
      ),
      { numRuns: runs(25) },
    );
  });

  test("messages: what the model was given, with ids to page by", async () => {
    using house = new House();
    await house.say("a", "1");
    const parts = [
      { type: "text" as const, text: "look" },
      { type: "image_url" as const, image_url: { url: "https://example.com/x.png" } },
    ];
    await house.conversations.remember(me, {
      ...exchange("b", [{ role: "user", content: parts, name: "ann" }]),
      resumed: await house.conversations.resume(me, "a"),
    });
    const list = await house.conversations.messages(me, "b", {});
    expect(list).toEqual({
      object: "list",
      data: [
        { id: "b-0", role: "user", content: "1", name: null, content_parts: null },
        { id: "b-1", role: "assistant", content: "answer a", name: null, content_parts: null },
        { id: "b-2", role: "user", content: "look", name: "ann", content_parts: parts },
      ],
      first_id: "b-0",
      last_id: "b-2",
      has_more: false,
    });
    const pages = [{ limit: 2 }, { limit: 2, after: "b-1" }, { order: "desc" as const, limit: 1, after: "b-2" }];
    const answers = await Promise.all(pages.map((paging) => house.conversations.messages(me, "b", paging)));
    expect(answers.map(idsOf)).toEqual([["b-0", "b-1"], ["b-2"], ["b-1"]]);
    expect((await house.conversations.messages(me, "b", { limit: 2 })).has_more).toBe(true);
  });

  test("update: replaces the metadata, and nothing else", async () => {
    using house = new House();
    await house.conversations.remember(me, exchange("a", [user("x")], { metadata: { k: "v" } }));
    const before = await house.conversations.get(me, "a");
    expect(await house.conversations.update(me, "a", { other: "w" })).toEqual({ ...before, metadata: { other: "w" } });
    expect((await house.conversations.get(me, "a")).metadata).toEqual({ other: "w" });
    expect((await errorOf(() => house.conversations.update(others[0]!, "a", {}))).status).toBe(404);
  });

  test("a wrong limit or cursor is named", async () => {
    using house = new House();
    await house.say("a", "1");
    await house.say("theirs", "1", { keyHolder: others[0]! });
    for (const limit of [0, 101, 1.5, Number.NaN]) {
      expect(await errorOf(() => house.conversations.list(me, { limit }))).toMatchObject({
        status: 400,
        param: "limit",
      });
      expect(await errorOf(() => house.conversations.messages(me, "a", { limit }))).toMatchObject({ param: "limit" });
    }
    for (const after of ["nothing", "theirs", ""]) {
      expect(await errorOf(() => house.conversations.list(me, { after }))).toMatchObject({
        status: 404,
        param: "after",
      });
    }
    expect(await errorOf(() => house.conversations.messages(me, "a", { after: "a-1" }))).toMatchObject({
      param: "after",
    });
  });
});

describe("when storage fails", () => {
  const failing = () => {
    throw new StorageError("full", "troupe.db", "the disk is full");
  };

  test("nothing is pretended: 503 storage_unavailable", async () => {
    using house = new House();
    await house.say("a", "1");
    const rows = house.store.conversations;
    Object.assign(rows, { find: failing, insert: failing, list: failing, setMetadata: failing });
    for (const attempt of [
      () => house.say("b", "2"),
      () => house.conversations.resume(me, "a"),
      () => house.conversations.list(me, {}),
      () => house.conversations.update(me, "a", {}),
    ]) {
      expect(await errorOf(attempt)).toMatchObject({ status: 503, code: "storage_unavailable" });
    }
  });

  test("a full disk does not keep a conversation from being read on", async () => {
    using house = new House();
    await house.say("a", "1");
    Object.assign(house.store.conversations, { touch: failing });
    expect((await house.conversations.resume(me, "a")).messages).toHaveLength(2);
  });
});
