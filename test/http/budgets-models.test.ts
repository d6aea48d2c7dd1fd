/** Budgets that count the calls of some models alone, by what is called: a model whose budget is spent lets the next one be tried. */
import { describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { spanOf } from "../../src/usage/spans.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

/** Each token of an answer costs a dollar; an answer has seven. */
const prices: Config["prices"] = [{ match: "*", input: 0, output: 1_000_000, tools: { advisor: 0 } }];
const budgets: Config["budgets"] = {
  ...{ all: {}, keys: {}, tags: {}, tiers: { free: {}, pro: {}, enterprise: {} } },
  ...{ unknownPrice: "refuse", assumedOutputTokens: 7, assumedToolUses: 5, estimateFactor: 1 },
};

const answering = () =>
  new UpstreamServer(({ json }) => {
    const { model, stream, input } = json as { model: string; stream?: boolean; input?: unknown };
    const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 };
    if (input !== undefined)
      return Response.json({ object: "list", data: [{ object: "embedding", index: 0, embedding: [1] }], model, usage });
    const head = { id: "1", created: 1, model };
    if (stream !== true)
      return Response.json({
        ...{ ...head, object: "chat.completion", usage },
        choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
      });
    const chunk = { ...head, object: "chat.completion.chunk" };
    const chunks = [
      { ...chunk, choices: [{ index: 0, delta: { role: "assistant", content: "Hi" }, finish_reason: null }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
      { ...chunk, choices: [], usage },
    ];
    const text = chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
    return new Response(`${text}data: [DONE]\n\n`, { headers: { "content-type": "text/event-stream" } });
  });

const startWith = (upstream: UpstreamServer, models: Config["budgets"]["models"], config: Partial<Config> = {}) =>
  Troupe.start({
    surfaces: ["orchestrator", "gateway", "raw"],
    providers: { openai: { baseUrl: upstream.url }, mistral: { baseUrl: upstream.url } },
    config: { prices, budgets: { ...budgets, ...(models && { models }) }, ...config },
  });

const messages = [{ role: "user", content: "Hello" }];
const modelsAsked = ({ requests }: UpstreamServer) => requests.map(({ json }) => (json as { model: string }).model);

async function settled({ server: { services } }: Troupe): Promise<void> {
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  await services.ledger.flush();
}

async function linesOf(troupe: Troupe) {
  await settled(troupe);
  const lines = await troupe.server.services.store.ledger.lines({
    ...{ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 },
  });
  return lines
    .map(({ attempt, upstreamModel, ended, errorCode, errorText }) => ({
      ...{ attempt, upstreamModel, ended, errorCode, errorText },
    }))
    .toSorted((a, b) => a.attempt - b.attempt);
}

/** Dollars. */
async function spentOf(troupe: Troupe, scope: string): Promise<number> {
  await settled(troupe);
  const [state] = await troupe.server.services.store.budgets.spending([{ scope, span: spanOf("day", Date.now()) }]);
  return state!.spent / 1_000_000;
}

const errorOf = async (answer: Response) =>
  ((await answer.json()) as { error: { message: string; code: string } }).error;

describe("by what is called", () => {
  const calls = {
    chat: ["/gateway/v1/chat/completions", { messages }],
    messages: ["/gateway/v1/messages", { messages, max_tokens: 7 }],
    completions: ["/gateway/v1/completions", { prompt: "Hello" }],
  } as const;
  for (const [name, [path, body]] of Object.entries(calls))
    for (const stream of [false, true])
      test(`${name}, ${stream ? "streamed" : "whole"}: the budget's models are refused, others are not`, async () => {
        using upstream = answering();
        await using troupe = await startWith(upstream, { "openai/gpt*": { all: { day: 10 } } });
        const call = (model: string) => troupe.post(path, { ...body, stream, model });
        const statuses: number[] = [];
        for (const model of ["openai/gpt-4o", "openai/gpt-4o", "openai/gpt-5.4", "openai/o3", "mistral/gpt-4o"]) {
          const answer = await call(model);
          await answer.text();
          statuses.push(answer.status);
          await settled(troupe);
        }
        expect(statuses).toEqual([200, 429, 429, 200, 200]);
        expect(await spentOf(troupe, "all model:openai/gpt*")).toBe(7);
      });

  test("an alias counts by the models behind it, and so does a provider's own API", async () => {
    using upstream = answering();
    const aliases = {
      quick: "openai/gpt-4o",
      mine: { models: ["openai/gpt-4o", "mistral/large"], strategy: "first" as const },
    };
    await using troupe = await startWith(upstream, { "openai/gpt*": { all: { day: 14 } } }, { aliases });
    const statuses: number[] = [];
    for (const [path, body] of [
      ["/gateway/providers/openai/v1/chat/completions", { model: "gpt-4o", messages }],
      ["/gateway/v1/chat/completions", { model: "quick", messages }],
      ["/gateway/v1/chat/completions", { model: "quick", messages }],
      ["/gateway/v1/chat/completions", { model: "mine", messages }],
      ["/gateway/providers/openai/v1/chat/completions", { model: "gpt-4o", messages }],
      ["/gateway/providers/mistral/v1/chat/completions", { model: "gpt-4o", messages }],
    ] as const) {
      const answer = await troupe.post(path, body);
      await answer.text();
      statuses.push(answer.status);
      await settled(troupe);
    }
    expect(statuses).toEqual([200, 200, 429, 200, 429, 200]);
    expect(modelsAsked(upstream)).toEqual(["gpt-4o", "gpt-4o", "large", "gpt-4o"]);
  });

  test("each key has its own share of a model where the configuration says so, and a key's own goes before", async () => {
    using upstream = answering();
    await using troupe = await startWith(upstream, { "openai/*": { keys: { day: 7 } } });
    const { services } = troupe.server;
    const [a, b] = [
      await troupe.createKey({ name: "a", tier: "pro" }),
      await troupe.createKey({ name: "b", tier: "pro" }),
    ];
    const status = async (key: string, model = "openai/m") => {
      const answer = await troupe.post("/gateway/v1/chat/completions", { model, messages }, { key });
      await answer.text();
      await settled(troupe);
      return answer.status;
    };
    expect([await status(a), await status(a), await status(b), await status(a, "mistral/m")]).toEqual([
      200, 429, 200, 200,
    ]);
    const { id } = await services.keys.show("a");
    const scope = `key:${id} model:openai/*`;
    await services.store.budgets.set({ scope, period: "day", limit: 14_000_000, updatedAt: 1 });
    expect([await status(a), await status(a)]).toEqual([200, 429]);
    expect(await spentOf(troupe, scope)).toBe(14);
    // The holder sees their own, and nobody else's.
    const { budgets: own } = (await (await troupe.fetch("/gateway/v1/usage", { key: b })).json()) as {
      budgets: { scope: string; model?: string; left_micro_dollars: number }[];
    };
    const { id: idOfB } = await services.keys.show("b");
    expect(own).toMatchObject([{ scope: `key:${idOfB} model:openai/*`, model: "openai/*", left_micro_dollars: 0 }]);
  });
});

describe("the next model of a persona", () => {
  const refused = {
    ...{ attempt: 1, upstreamModel: "dear", ended: "refused", errorCode: "insufficient_quota" },
    errorText: expect.stringMatching(/^The day's budget of all calls for 'openai\/dear' has \$0\.00 left of \$7\.00/),
  };
  for (const stream of [false, true])
    test(`is tried where the first one's budget is spent, ${stream ? "streamed" : "whole"}; the ledger says why`, async () => {
      using upstream = answering();
      await using troupe = await startWith(upstream, { "openai/dear": { all: { day: 7 } } });
      troupe.setTargets("troupe/guide", ["openai/dear", "openai/plain"]);
      const call = async () => {
        const answer = await troupe.post("/v1/chat/completions", {
          model: "troupe/guide",
          messages,
          stream,
          max_tokens: 7,
        });
        expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining("Hi")]);
        await settled(troupe);
      };
      await call();
      await call();
      expect(modelsAsked(upstream)).toEqual(["dear", "plain"]);
      const lines = await linesOf(troupe);
      expect(lines.filter(({ ended }) => ended === "refused")).toEqual([refused] as never);
      expect(lines.at(-1)).toMatchObject({ attempt: 2, upstreamModel: "plain", ended: "finished" });
    });

  test("is not tried where a budget of all models is spent", async () => {
    using upstream = answering();
    await using troupe = await startWith(upstream, undefined, { budgets: { ...budgets, all: { day: 7 } } });
    troupe.setTargets("troupe/guide", ["openai/dear", "openai/plain"]);
    await (await troupe.post("/v1/chat/completions", { model: "troupe/guide", messages, max_tokens: 7 })).text();
    await settled(troupe);
    expect((await troupe.post("/v1/chat/completions", { model: "troupe/guide", messages, max_tokens: 7 })).status).toBe(
      429,
    );
    expect(await linesOf(troupe)).toHaveLength(2);
  });
});

test("a model that a call names beside its own has to have room too", async () => {
  using upstream = answering();
  await using troupe = await Troupe.start({
    providers: { anthropic: { baseUrl: upstream.url } },
    config: { prices, budgets: { ...budgets, models: { "anthropic/claude-opus-*": { all: { day: 0 } } } } },
  });
  const call = async (more: object) => {
    const answer = await troupe.post("/gateway/v1/messages", {
      ...{ model: "anthropic/claude-sonnet-5", max_tokens: 7, messages, ...more },
    });
    return [answer.status, await answer.text()];
  };
  expect(await call({ fallbacks: [{ model: "claude-opus-5" }] })).toEqual([
    429,
    expect.stringContaining("budget of all calls for 'anthropic/claude-opus-*'"),
  ]);
  expect(await call({ tools: [{ type: "advisor_20260301", name: "advisor", model: "claude-opus-5" }] })).toEqual([
    429,
    expect.stringContaining("anthropic/claude-opus-*"),
  ]);
  expect(upstream.requests).toHaveLength(0);
});

test("callers of a persona that hides its models learn of no pattern", async () => {
  using upstream = answering();
  await using troupe = await startWith(upstream, { "openai/*": { all: { day: 8 } } });
  const { personas } = troupe.server.services;
  const hiding = { targets: ["openai/dear"], hidesUpstream: true };
  personas.replace(personas.list().map((one) => (one.id === "troupe/guide" ? { ...one, ...hiding } : one)));
  const call = () => troupe.post("/v1/chat/completions", { model: "troupe/guide", messages, max_tokens: 7 });
  const first = await call();
  await first.text();
  await settled(troupe);
  const second = await call();
  expect([first.status, second.status]).toEqual([200, 429]);
  for (const { headers } of [first, second]) expect([...headers].join("\n")).not.toContain("openai");
  expect((await errorOf(second)).message).toMatch(
    /^The day's budget of all calls for the model that answers has \$1\.00 left/,
  );
});

test.each([false, true])("what an adviser costs is its own model's (streamed: %p)", async (stream) => {
  const part = (type: string, output_tokens: number, more: object = {}) => ({
    type,
    input_tokens: 9,
    output_tokens,
    ...more,
  });
  const usage = {
    ...{ input_tokens: 9, output_tokens: 3 },
    iterations: [part("message", 3), part("advisor_message", 4, { model: "claude-opus-5" })],
  };
  const message = {
    ...{ id: "msg_1", type: "message", role: "assistant", model: "claude-sonnet-5" },
    ...{ content: [{ type: "text", text: "Hi" }], stop_reason: "end_turn", stop_sequence: null, usage },
  };
  const events = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
    { type: "message_stop" },
  ];
  using upstream = new UpstreamServer(() =>
    stream
      ? new Response(events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(""), {
          headers: { "content-type": "text/event-stream" },
        })
      : Response.json(message),
  );
  const models = {
    "anthropic/claude-opus-*": { all: { day: 100 } },
    "anthropic/claude-sonnet-*": { all: { day: 100 } },
  };
  await using troupe = await Troupe.start({
    providers: { anthropic: { baseUrl: upstream.url } },
    config: { prices, budgets: { ...budgets, all: { day: 100 }, models } },
  });
  const tools = [{ type: "advisor_20260301", name: "advisor", model: "claude-opus-5", max_uses: 1 }];
  const body = { model: "anthropic/claude-sonnet-5", max_tokens: 7, messages, tools, stream };
  expect((await (await troupe.post("/gateway/v1/messages", body)).text()).includes("Hi")).toBe(true);
  const spent = [];
  for (const scope of ["all", "all model:anthropic/claude-opus-*", "all model:anthropic/claude-sonnet-*"])
    spent.push(await spentOf(troupe, scope));
  expect(spent).toEqual([7, 4, 3]);
});
