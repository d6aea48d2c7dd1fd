/** Models without a price where a budget applies: the next model that has one is asked, and the ledger says why. */
import { expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const answering = () =>
  new UpstreamServer(({ json }) =>
    Response.json({
      id: "1",
      object: "chat.completion",
      created: 1,
      model: (json as { model: string }).model,
      choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
    }),
  );

const prices: Config["prices"] = [{ match: "openai/priced*", input: 1, output: 2 }];
const budgets: Config["budgets"] = {
  ...{ all: { day: 10 }, keys: {}, tags: {}, tiers: { free: {}, pro: {}, enterprise: {} } },
  ...{ unknownPrice: "refuse", assumedOutputTokens: 64, assumedToolUses: 5, estimateFactor: 1 },
};

async function startWith(upstream: UpstreamServer, config: Partial<Config> = {}) {
  const providers = { openai: { baseUrl: upstream.url } };
  return await Troupe.start({
    surfaces: ["orchestrator", "gateway"],
    providers,
    config: { prices, budgets, ...config },
  });
}

const messages = [{ role: "user", content: "Hello" }];
const modelsAsked = ({ requests }: UpstreamServer) => requests.map(({ json }) => (json as { model: string }).model);

async function linesOf(
  troupe: Troupe,
): Promise<Pick<LedgerLine, "attempt" | "upstreamModel" | "ended" | "errorCode">[]> {
  const { ledger, store } = troupe.server.services;
  await ledger.flush();
  const lines = await store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 10 });
  return lines
    .map(({ attempt, upstreamModel, ended, errorCode }) => ({ attempt, upstreamModel, ended, errorCode }))
    .toSorted((a, b) => a.attempt - b.attempt);
}

const refusedFirst = [
  { attempt: 1, upstreamModel: "nobody-knows", ended: "refused", errorCode: "model_without_price" },
  { attempt: 2, upstreamModel: "priced", ended: "finished", errorCode: null },
];

test.each(["/v1/chat/completions", "/v1/messages"])("a persona's next model is asked: %s", async (path) => {
  using upstream = answering();
  await using troupe = await startWith(upstream);
  troupe.setTargets("troupe/guide", ["openai/nobody-knows", "openai/priced"]);
  const answer = await troupe.post(path, { model: "troupe/guide", messages, max_tokens: 9 });
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining("Hi")]);
  expect(modelsAsked(upstream)).toEqual(["priced"]);
  expect(await linesOf(troupe)).toEqual(refusedFirst as never);
});

test.each(["first", "weighted"] as const)("so is an alias's, whose strategy is %s", async (strategy) => {
  using upstream = answering();
  const models = ["openai/nobody-knows", "openai/priced"];
  await using troupe = await startWith(upstream, { aliases: { ours: { models, strategy, weights: [1, 0.000001] } } });
  const answer = await troupe.post("/gateway/v1/chat/completions", { model: "ours", messages, max_tokens: 9 });
  expect(answer.status).toBe(200);
  expect(modelsAsked(upstream)).toEqual(["priced"]);
});

test("where none has a price the refusal says so, and nobody was asked", async () => {
  using upstream = answering();
  await using troupe = await startWith(upstream);
  troupe.setTargets("troupe/guide", ["openai/nobody-knows", "openai/neither"]);
  const answer = await troupe.post("/v1/chat/completions", { model: "troupe/guide", messages });
  expect([answer.status, await answer.json()]).toEqual([
    403,
    { error: expect.objectContaining({ code: "model_without_price" }) },
  ]);
  expect(upstream.requests).toHaveLength(0);
  expect((await linesOf(troupe)).map(({ ended }) => ended)).toEqual(["refused", "refused"]);
});

test("without a budget the first model is asked, as ever", async () => {
  using upstream = answering();
  await using troupe = await startWith(upstream, { budgets: { ...budgets, all: {} } });
  troupe.setTargets("troupe/guide", ["openai/nobody-knows", "openai/priced"]);
  expect((await troupe.post("/v1/chat/completions", { model: "troupe/guide", messages })).status).toBe(200);
  expect(modelsAsked(upstream)).toEqual(["nobody-knows"]);
});

test("what is refused for want of a price counts among the calls of unknown cost", async () => {
  using upstream = answering();
  await using troupe = await startWith(upstream);
  const answer = await troupe.post("/gateway/v1/chat/completions", { model: "openai/nobody-knows", messages });
  expect([answer.status, await answer.json()]).toMatchObject([
    answer.status,
    { error: { code: "model_without_price" } },
  ]);
  await linesOf(troupe);
  const { store } = troupe.server.services;
  const [sum] = await store.ledger.sums({ since: 0, until: Number.MAX_SAFE_INTEGER }, ["upstream_model"], { limit: 9 });
  expect(sum).toMatchObject({ group: ["nobody-knows"], calls: 1, cost: 0, unknownCosts: 1 });
});
