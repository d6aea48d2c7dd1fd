import { describe, expect, test } from "bun:test";
import type { BudgetPeriod } from "../../src/api/words.ts";
import type { Config } from "../../src/config/config.ts";
import { surfaceRoutes } from "../../src/http/surface-routes.ts";

import { spanOf } from "../../src/usage/spans.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const answer = (usage: object = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }) =>
  Response.json({
    id: "1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
    usage,
  });

type Budgets = Partial<Config["budgets"]>;

/** A server whose models cost a dollar for each token of the longest answer. */
async function startWith(
  upstream: UpstreamServer,
  budgets: Budgets = {},
  options: TroupeOptions = {},
): Promise<Troupe> {
  const config = { budgets: { ...defaults, ...budgets }, ...options.config };
  const providers = { openai: { baseUrl: upstream.url } };
  const troupe = await Troupe.start({ surfaces: ["orchestrator", "gateway", "raw"], ...options, providers, config });
  troupe.server.services.usage.price = (_, usage) => usage.completion_tokens * 1_000_000;
  return troupe;
}

const defaults: Config["budgets"] = {
  all: {},
  tiers: { free: {}, pro: {}, enterprise: {} },
  keys: {},
  tags: {},
  unknownPrice: "refuse",
  assumedOutputTokens: 4096,
  assumedToolUses: 5,
  estimateFactor: 1,
};

const chat = "/gateway/v1/chat/completions";
const body = (maxTokens?: number) => ({
  model: "openai/m",
  messages: [{ role: "user", content: "Hello" }],
  ...(maxTokens !== undefined && { max_tokens: maxTokens }),
});

const setBudget = (troupe: Troupe, scope: string, period: BudgetPeriod, dollars: number) =>
  troupe.server.services.store.budgets.set({ scope, period, limit: dollars * 1_000_000, updatedAt: 1 });

test("of calls that race for a budget, as many reach the upstream as it pays for", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await startWith(upstream, { all: { day: 10 } });
  const answers = await Promise.all(Array.from({ length: 200 }, () => troupe.post(chat, body(1))));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  expect(upstream.requests).toHaveLength(10);
  const refused = answers.find(({ status }) => status === 429)!;
  const { error } = (await refused.json()) as { error: Record<string, string> };
  expect(error).toMatchObject({ type: "insufficient_quota", code: "insufficient_quota", param: "" });
  expect(error["message"]).toMatch(
    /^The day's budget of all calls has \$0\.00 left of \$10\.00\. It opens again at 20\d\d-\d\d-\d\dT00:00:00Z\.$/,
  );
  expect(refused.headers.get("x-should-retry")).toBe("false");
  expect(Number(refused.headers.get("retry-after"))).toBeWithin(1, 86_401);
  const metrics = await (await troupe.fetch("/metrics")).text();
  // Those that waited two seconds beside slow ones for what was reserved count as held.
  const counts = [...metrics.matchAll(/^troupe_budget_refusals_total\{kind="(?:all|held)"\} (\d+)$/gm)];
  expect(counts.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(190);
});

test("a call that may cost more than is left is refused, and says what it may cost", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await startWith(upstream, { tiers: { ...defaults.tiers, enterprise: { prepaid: 3 } } });
  const refused = await troupe.post(chat, body(4));
  expect(refused.status).toBe(429);
  expect(refused.headers.has("retry-after")).toBe(false);
  expect(((await refused.json()) as { error: { message: string } }).error.message).toBe(
    "The prepaid budget of the tier 'enterprise' has $3.00 left of $3.00, and this call may cost up to $4.00.",
  );
  expect((await troupe.post(chat, body())).status).toBe(429);
  expect((await troupe.post(chat, body(3))).status).toBe(200);
  expect(upstream.requests).toHaveLength(1);
});

test("a change applies to the next call, and a key's own budget goes before the default", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await startWith(upstream, { keys: { month: 1 } });
  const key = await troupe.createKey({ name: "a", tier: "pro", tags: ["team-a"] });
  const status = async () => (await troupe.post(chat, body(1), { key })).status;
  expect([await status(), await status()]).toEqual([200, 429]);
  const { id } = await troupe.server.services.keys.show("a");
  await setBudget(troupe, `key:${id}`, "month", 3);
  expect([await status(), await status(), await status()]).toEqual([200, 200, 429]);
  await setBudget(troupe, `key:${id}`, "month", 100);
  await setBudget(troupe, "tag:team-a", "prepaid", 1);
  expect([await status(), await status()]).toEqual([200, 429]);
  expect(await troupe.server.services.store.budgets.add({ scope: "tag:team-a", period: "prepaid" }, 1e6, 2)).toBe(2e6);
  expect([await status(), await status()]).toEqual([200, 429]);
});

test("a budget that is set in the middle of its span counts what was spent before, once", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url } },
    config: { prices: [{ match: "openai/m", input: 0, output: 1_000_000 }], budgets: defaults },
  });
  const { services } = troupe.server;
  const status = async () => (await troupe.post(chat, body(7))).status;
  expect([await status(), await status()]).toEqual([200, 200]);
  // One call is in the ledger, and one on its way there.
  await services.ledger.flush();
  expect(await status()).toBe(200);
  await setBudget(troupe, "all", "day", 28);
  await setBudget(troupe, "all", "month", 1000);
  await setBudget(troupe, "tier:enterprise", "prepaid", 7);
  expect(await status()).toBe(200);
  await services.ledger.flush();
  expect(await status()).toBe(429);
  const spans = services.budgets.rules.all().map(({ scope, period }) => ({ scope, span: spanOf(period, Date.now()) }));
  const spent = (await services.store.budgets.spending(spans)).map((one) => one.spent / 1e6);
  expect(spent).toEqual([28, 28, 7]);
});

test("a day ends at midnight in UTC, and a clock that goes back opens nothing twice", async () => {
  using upstream = new UpstreamServer(() => answer());
  const clock = new ManualClock(Date.UTC(2026, 10, 30, 23, 59, 58));
  await using troupe = await startWith(upstream, { all: { day: 1, month: 3 } }, { clock });
  const ask = () => troupe.post(chat, body(1));
  expect((await ask()).status).toBe(200);
  const refused = await ask();
  expect(refused.headers.get("retry-after")).toBe("2");
  expect(await refused.text()).toContain("It opens again at 2026-12-01T00:00:00Z.");
  clock.advance(2_000);
  expect((await ask()).status).toBe(200);
  clock.advance(-2_000);
  expect((await ask()).status).toBe(429);
  clock.advance(2_000);
  expect((await ask()).status).toBe(429);
  clock.advance(86_400_000);
  expect((await ask()).status).toBe(200);
});

test("answers say what is left of the tightest budget, and a key's usage what is left of each", async () => {
  using upstream = new UpstreamServer(() => answer());
  const clock = new ManualClock(Date.UTC(2026, 10, 30, 12));
  const budgets = { all: { month: 1000 }, tags: { "team-a": { day: 30 } } };
  const prices = [{ match: "openai/m", input: 0, output: 1_000_000 }];
  await using troupe = await startWith(upstream, budgets, { clock, config: { prices } });
  const key = await troupe.createKey({
    name: "a",
    tier: "pro",
    tags: ["team-a"],
    surfaces: ["orchestrator", "gateway"],
  });
  const { id } = await troupe.server.services.keys.show("a");
  await setBudget(troupe, `key:${id}`, "prepaid", 50);
  const leftIn = ({ headers }: Response) => [headers.get("x-troupe-budget"), headers.get("x-troupe-budget-remaining")];
  // Estimated at 10 dollars each; the answer costs 7.
  expect(leftIn(await troupe.post(chat, body(10), { key }))).toEqual(["tag:team-a/day", "20000000"]);
  await troupe.server.services.ledger.flush();
  const streamed = await troupe.post(chat, { ...body(10), stream: true }, { key });
  expect(leftIn(streamed)).toEqual(["tag:team-a/day", "13000000"]);
  await streamed.text();
  await troupe.server.services.ledger.flush();
  const refused = await troupe.post(chat, body(20), { key });
  expect([refused.status, ...leftIn(refused)]).toEqual([429, "tag:team-a/day", "16000000"]);
  expect(leftIn(await troupe.post(chat, body(10)))).toEqual(["all/month", "976000000"]);
  expect(leftIn(await troupe.fetch("/gateway/v1/models", { key }))).toEqual([null, null]);
  await troupe.server.services.ledger.flush();

  const budget = (
    scope: string,
    period: string,
    span: string,
    limit: number,
    spent: number,
    resets_at: string | null,
  ) => ({
    ...{ id: `${scope}/${period}`, scope, period, span },
    ...{ limit_micro_dollars: limit * 1e6, spent_micro_dollars: spent * 1e6, reserved_micro_dollars: 0 },
    ...{ left_micro_dollars: (limit - spent) * 1e6, resets_at },
  });
  for (const surface of ["", "/gateway"]) {
    const usage = (await (await troupe.fetch(`${surface}/v1/usage`, { key })).json()) as Record<string, unknown>;
    expect(usage["budgets"]).toEqual([
      budget(`key:${id}`, "prepaid", "prepaid", 50, 14, null),
      budget("tag:team-a", "day", "2026-11-30", 30, 14, "2026-12-01T00:00:00.000Z"),
      budget("all", "month", "2026-11", 1000, 21, "2026-12-01T00:00:00.000Z"),
    ]);
  }
  const unheld = await startWith(upstream);
  try {
    const plain = await unheld.post(chat, body(1));
    expect([plain.status, ...leftIn(plain)]).toEqual([200, null, null]);
    expect(await (await unheld.fetch("/v1/usage")).json()).toMatchObject({ budgets: [] });
  } finally {
    await unheld[Symbol.asyncDispose]();
  }
});

test("metrics tell what is spent of each budget", async () => {
  using upstream = new UpstreamServer(() => answer());
  const clock = new ManualClock();
  await using troupe = await startWith(upstream, { all: { prepaid: 10 }, tags: { batch: { day: 2 } } }, { clock });
  expect((await troupe.post(chat, body(3))).status).toBe(200);
  await clock.advanceSlowly(15_000);
  const admin = await troupe.createKey({ name: "a", tier: "pro", surfaces: ["admin"] });
  const metricsFor = async (key: string | null) => (await troupe.fetch("/metrics", { key })).text();
  for (const key of [null, troupe.key]) expect(await metricsFor(key)).not.toMatch(/dollars/);
  const lines = (await metricsFor(admin)).split("\n").filter((line) => /^troupe_budget_\w+_dollars/.test(line));
  const spent = lines.find((line) => line.startsWith('troupe_budget_used_dollars{scope="all",period="prepaid"}'));
  expect(Number(spent?.split(" ")[1])).toBeGreaterThan(0);
  expect(lines).toContain('troupe_budget_limit_dollars{scope="all",period="prepaid"} 10');
  expect(lines).toContain('troupe_budget_limit_dollars{scope="tag:batch",period="day"} 2');
  expect(lines).toContain('troupe_budget_used_dollars{scope="tag:batch",period="day"} 0');
});

test("what is not billed is free again", async () => {
  using upstream = new UpstreamServer(() => Response.json({ error: { message: "no" } }, { status: 400 }));
  await using troupe = await startWith(upstream, { all: { prepaid: 1 } });
  for (let at = 0; at < 3; at += 1) expect((await troupe.post(chat, body(1))).status).toBe(400);
  expect(upstream.requests).toHaveLength(3);
});

test("a model without a price is refused where a budget applies, unless such calls are allowed", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await startWith(upstream, { all: { day: 1 } });
  troupe.server.services.usage.price = () => undefined;
  const refused = await troupe.post(chat, body(1));
  expect(refused.status).toBe(403);
  expect(await refused.json()).toMatchObject({ error: { code: "model_without_price", param: "model" } });
  const { live } = troupe.server.services;
  const budgets: Config["budgets"] = { ...live.config.budgets, unknownPrice: "allow" };
  troupe.server.services.live = { ...live, config: { ...live.config, budgets } };
  expect((await troupe.post(chat, body(1))).status).toBe(200);
});

test("tokens per minute hold on all surfaces, are told in OpenAI's headers, and count as they were used", async () => {
  using upstream = new UpstreamServer(() => answer({ prompt_tokens: 40, completion_tokens: 20, total_tokens: 60 }));
  const clock = new ManualClock();
  await using troupe = await startWith(upstream, {}, { clock });
  const key = await troupe.createKey({ name: "a", tier: "pro", tokensPerMinute: 300 });
  const first = await troupe.post(chat, body(200), { key });
  expect(first.status).toBe(200);
  const bytes = JSON.stringify(body(200)).length;
  expect(first.headers.get("x-ratelimit-limit-tokens")).toBe("300");
  expect(first.headers.get("x-ratelimit-remaining-tokens")).toBe(String(300 - 200 - Math.ceil(bytes / 3)));
  expect(first.headers.get("x-ratelimit-reset-tokens")).toBe("60s");
  // 60 were used, so another 200 fit.
  expect((await troupe.post(chat, body(200), { key })).status).toBe(200);
  const refused = await troupe.post(chat, body(200), { key });
  expect(refused.status).toBe(429);
  expect(refused.headers.get("retry-after")).toBe("60");
  const { error } = (await refused.json()) as { error: Record<string, string> };
  expect(error["code"]).toBe("rate_limit_exceeded");
  expect(error["message"]).toStartWith("Rate limit of 300 tokens per minute exceeded: 120 used, ");
  const never = await troupe.post("/v1/chat/completions", { ...body(301), model: "troupe/guide" }, { key });
  expect([never.status, never.headers.get("x-should-retry")]).toEqual([429, "false"]);
  clock.advance(60_000);
  expect((await troupe.post(chat, body(200), { key })).status).toBe(200);
});

test("a request adds a tag only by the header that the configuration names", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await startWith(upstream, { tags: { Batch: { day: 1 } }, tagHeader: "x-tag" });
  const ask = (headers: Record<string, string>) => troupe.post(chat, body(1), { headers });
  expect((await ask({ "x-tag": "Batch" })).status).toBe(200);
  expect((await ask({ "x-tag": "Batch" })).status).toBe(429);
  expect((await ask({ "x-other": "Batch" })).status).toBe(200);
  const wrong = await ask({ "x-tag": "a b" });
  expect([wrong.status, await wrong.json()]).toMatchObject([400, { error: { param: "x-tag", code: "invalid_value" } }]);
});

describe("no route passes a budget by", () => {
  const model = "openai/m";
  const messages = [{ role: "user", content: "Hello" }];
  /** What is asked of a provider, by the route's path. */
  const bodies: Readonly<Record<string, object>> = {
    "/v1/chat/completions": { model, messages },
    "/v1/responses": { model, input: "Hello" },
    "/v1/messages": { model, messages, max_tokens: 10 },
    "/v1/completions": { model, prompt: "Hello" },
    "/v1/embeddings": { model, input: "Hello" },
    "/v1/images/generations": { model, prompt: "a cat" },
    "/v1/images/edits": { model, prompt: "a cat" },
    "/v1/images/variations": { model },
    "/v1/responses/compact": { model, input: "Hello" },
    "/v1/audio/speech": { model, input: "Hello", voice: "alloy" },
    "/v1/audio/transcriptions": { model },
    "/v1/audio/translations": { model },
    "/v1/moderations": { model, input: "Hello" },
    "/v1/rerank": { model, query: "a", documents: ["b"] },
    "/providers/:name/*": { model: "m", messages },
    "/v1beta/models/*": {},
    "/v1beta/:namespace/*": {},
    "/v1/models/*": {},
  };
  const contents = [{ role: "user", parts: [{ text: "Hello" }] }];
  /** What follows the model in the paths of Gemini's format. */
  const ofModels: Readonly<Record<string, object>> = {
    generateContent: { contents },
    streamGenerateContent: { contents },
    embedContent: { content: contents[0] },
    batchEmbedContents: { requests: [{ model: `models/${model}`, content: contents[0] }] },
  };
  /** The same routes stand below `/openai`, for clients that write that themselves. */
  const plain = (path: string) => path.replace(/^\/openai(?=\/v1\/)/, "");
  /** The requests that a route takes. */
  const requestsTo = (path: string, name: string): readonly (readonly [path: string, body: object])[] =>
    path.endsWith("/*") && !path.startsWith("/providers/")
      ? Object.entries(ofModels).map(([method, body]) => [
          path.replace(/(?::namespace\/)?\*/, `${name}:${method}`),
          body,
        ])
      : [
          [
            path.replace(":name/*", "openai/v1/chat/completions"),
            { ...bodies[plain(path)], ...(plain(path).startsWith("/v1/") && { model: name }) },
          ],
        ];
  /** They ask a provider for nothing that it bills. */
  const free = ["/v1/responses/input_tokens", "/v1/messages/count_tokens"];
  /** A refusal is the tool's result there. */
  const ofTools = "/mcp";
  const writing = (surface: "gateway" | "orchestrator") =>
    surfaceRoutes[surface].filter(({ method, path }) => ["POST", "PUT", "PATCH"].includes(method) && path !== ofTools);

  /** A server whose only budget is spent. */
  async function spent(upstream: UpstreamServer): Promise<Troupe> {
    const troupe = await startWith(upstream, { all: { prepaid: 0 } });
    troupe.server.services.usage.price = () => 1;
    troupe.setTargets("troupe/guide", ["openai/m", "openai/n"]);
    return troupe;
  }

  test("each is known here", () => {
    const paths = [...writing("gateway"), ...writing("orchestrator")].map(({ path }) => path);
    expect([...new Set(paths.map(plain))].toSorted()).toEqual([...Object.keys(bodies), ...free].toSorted());
  });

  test("as a tool of /mcp", async () => {
    using upstream = new UpstreamServer(() => answer());
    await using troupe = await spent(upstream);
    const params = { name: "ask_troupe_guide", arguments: { message: "Hi" } };
    const headers = { accept: "application/json, text/event-stream" };
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
    const text = await (await troupe.post(ofTools, call, { headers })).text();
    expect(text).toContain("prepaid budget");
    expect(text).toContain('"isError":true');
    expect(upstream.requests).toHaveLength(0);
  });

  test("on the gateway", async () => {
    using upstream = new UpstreamServer(() => answer());
    await using troupe = await spent(upstream);
    const requests = writing("gateway")
      .filter(({ path }) => !free.includes(plain(path)))
      .flatMap(({ method, path }) => requestsTo(path, model).map(([at, body]) => ({ method, at, body })));
    for (const { method, at, body } of requests) {
      const refused = await troupe.fetch(`/gateway${at}`, {
        method,
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      // Where Gemini's embeddings are not served, nothing is asked either.
      if (/mbedContents?$/.test(at) && refused.status === 404) continue;
      expect([method, at, refused.status, await refused.text()]).toEqual([
        method,
        at,
        // What another method may cost at a provider's own API is not known.
        method === "POST" ? 429 : 403,
        expect.stringContaining("prepaid budget"),
      ]);
    }
    const form = new FormData();
    form.set("model", model);
    form.set("file", new Blob(["audio"]), "a.wav");
    const refused = await troupe.fetch("/gateway/v1/audio/transcriptions", { method: "POST", body: form });
    expect([refused.status, upstream.requests.length]).toEqual([429, 0]);
  });

  test("on the orchestrator, with its fallback models, streamed and in the background", async () => {
    using upstream = new UpstreamServer(() => answer());
    await using troupe = await spent(upstream);
    const requests = writing("orchestrator")
      .filter(({ path }) => !free.includes(plain(path)) && plain(path) !== "/v1/embeddings")
      .flatMap(({ path }) => requestsTo(path, "troupe/guide"))
      .filter(([at]) => !/mbedContents?$/.test(at));
    for (const [at, body] of requests) {
      for (const stream of at.includes(":") ? [undefined] : [false, true]) {
        const refused = await troupe.post(at, { ...body, stream });
        expect([at, stream, refused.status, await refused.text()]).toEqual([
          at,
          stream,
          429,
          expect.stringContaining("prepaid budget"),
        ]);
      }
    }
    expect(upstream.requests).toHaveLength(0);
  });
});

test("what is reserved covers a persona's text, stored turns and letters of several bytes", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await Troupe.start({
    providers: { groq: { baseUrl: upstream.url } },
    config: { budgets: { ...defaults, all: { prepaid: 1000 } } },
  });
  troupe.setTargets("troupe/guide", ["groq/m"]);
  const { services } = troupe.server;
  services.usage.price = (_, usage) => usage.prompt_tokens;
  const amounts: number[] = [];
  const { reserve } = services.store.budgets;
  services.store.budgets.reserve = (reservation) => {
    amounts.push(reservation.amount);
    return reserve(reservation);
  };
  const ask = async (path: string, request: object) => {
    const answered = await troupe.post(path, request);
    expect(answered.status).toBe(200);
    const tokens = Math.ceil(Buffer.byteLength(JSON.stringify(request)) / 3);
    return { id: ((await answered.json()) as { id: string }).id, beyond: amounts.at(-1)! - tokens };
  };
  const said = "é".repeat(500);
  expect((await ask(chat, { ...body(1), model: "groq/m", messages: [{ role: "user", content: said }] })).beyond).toBe(
    0,
  );
  const first = await ask("/gateway/v1/responses", { model: "groq/m", input: said });
  expect(first.beyond).toBe(0);
  const next = { model: "groq/m", input: "more", previous_response_id: first.id };
  expect((await ask("/gateway/v1/responses", next)).beyond).toBeWithin(333, 400);
  const persona = (await ask("/v1/chat/completions", { ...body(1), model: "troupe/guide" })).beyond;
  expect(persona).toBeGreaterThan(66);
  const { messages } = upstream.last.json as { messages: { role: string; content: string }[] };
  expect(persona).toBeGreaterThanOrEqual(messages[0]!.content.length / 3);
});

describe("a provider's own API", () => {
  const json = (path: string, body: unknown) => ({
    method: "POST",
    path,
    body: JSON.stringify(body),
    type: "application/json",
  });
  const upload = { method: "POST", path: "v1/files", body: "{}", type: "multipart/form-data; boundary=x" };
  const text = { ...json("v1/chat/completions", { model: "m", max_tokens: 1 }), type: "text/plain" };
  const far = `{"messages":[{"role":"user","content":"${"a".repeat(100_000)}"}],"max_tokens":1,"model":"m"}`;
  const twice = '{"model":"free","max_tokens":1,"model":"m"}';
  type Call = { readonly method: string; readonly path: string; readonly body?: string; readonly type?: string };

  /** The price of `m` is known, and that of `free`, which is nothing. */
  async function priced(upstream: UpstreamServer, dollars: number, budgets: Budgets = {}): Promise<Troupe> {
    const troupe = await startWith(upstream, { all: { prepaid: dollars }, ...budgets });
    troupe.server.services.usage.price = ({ target }, usage) =>
      target?.model === "free" ? 0 : target?.model === "m" ? usage.completion_tokens * 1_000_000 : undefined;
    return troupe;
  }

  const send = async (troupe: Troupe, { method, path, body, type }: Call): Promise<[number, string | undefined]> => {
    const answered = await troupe.fetch(`/gateway/providers/openai/${path}`, {
      method,
      headers: type === undefined ? {} : { "content-type": type },
      ...(body !== undefined && { body }),
    });
    const told = (await answered.json()) as { error?: { code: string } };
    return [answered.status, told.error?.code];
  };

  /** What each costs at most, in dollars; undefined: nobody knows. */
  const calls: readonly [what: string, call: Call, cost: number | undefined][] = [
    ["a chat", json("v1/chat/completions", { model: "m", max_tokens: 3 }), 3],
    ["a chat of several choices", json("v1/chat/completions", { model: "m", max_tokens: 3, n: 2 }), 6],
    ["a chat without a bound", json("v1/chat/completions", { model: "m" }), 4096],
    ["a model that stands last", { ...json("v1/chat/completions", {}), body: far }, 1],
    ["a Responses call", json("v1/responses", { model: "m", input: "a", max_output_tokens: 2 }), 2],
    [
      "Gemini",
      json("v1beta/models/m:generateContent", { generationConfig: { maxOutputTokens: 2, candidateCount: 3 } }),
      6,
    ],
    ["counting", json("v1/messages/count_tokens", { model: "m" }), 0],
    ["counting at Gemini", json("v1beta/models/m:countTokens", {}), 0],
    ["reading", { method: "GET", path: "v1/models" }, 0],
    ["deleting", { method: "DELETE", path: "v1/files/1" }, 0],
    ["cancelling", { method: "POST", path: "v1/batches/1/cancel" }, 0],
    ["two models", json("v1/chat/completions", { model: "free", models: ["m"], max_tokens: 1 }), undefined],
    ["two models in a path", json("v1/models/free/models/m:generateContent", {}), undefined],
    [
      "a model in the path and another in the body",
      json("deployments/free/chat/completions", { model: "m" }),
      undefined,
    ],
    ["a model without a price", json("v1/chat/completions", { model: "other", max_tokens: 1 }), undefined],
    ["no model", json("v1/chat/completions", { max_tokens: 1 }), undefined],
    ["a body of another type", text, undefined],
    ["no body", { method: "POST", path: "v1/chat/completions" }, undefined],
    ["another method", { ...text, method: "PUT", type: "application/json" }, undefined],
    ["a batch", json("v1/batches", { input_file_id: "f", endpoint: "/v1/chat/completions" }), undefined],
    ["a batch of Anthropic's", json("v1/messages/batches", { requests: [{ params: { model: "m" } }] }), undefined],
    ["a batch of Gemini's", json("v1beta/models/m:batchGenerateContent", {}), undefined],
    ["a file", upload, undefined],
    ["fine-tuning", json("v1/fine_tuning/jobs", { model: "m", training_file: "f" }), undefined],
    ["a video", json("v1/videos", { model: "m", prompt: "a" }), undefined],
    ["a response in the background", json("v1/responses", { model: "m", background: true }), undefined],
    ["a stored history", json("v1/responses", { model: "m", previous_response_id: "r" }), undefined],
    ["a stored prompt", json("v1/responses", { model: "m", prompt: { id: "p" } }), undefined],
  ];

  test.each(calls)("%s is made where it is paid for, and not beyond", async (_, call, cost) => {
    using upstream = new UpstreamServer(() => answer());
    await using spent = await priced(upstream, 0);
    const refusal = cost === undefined ? [403, "model_without_price"] : [429, "insufficient_quota"];
    expect(await send(spent, call)).toEqual(cost === 0 ? [200, undefined] : (refusal as [number, string]));
    await using rich = await priced(upstream, 10_000, { unknownPrice: "allow" });
    expect(await send(rich, call)).toEqual([200, undefined]);
    if (cost === undefined || cost === 0) return;
    await using short = await priced(upstream, cost - 1);
    expect(await send(short, call)).toEqual([429, "insufficient_quota"]);
    await using enough = await priced(upstream, cost);
    expect(await send(enough, call)).toEqual([200, undefined]);
  });

  test("what can be read in two ways is not made", async () => {
    using upstream = new UpstreamServer(() => answer());
    await using troupe = await priced(upstream, 10);
    const asked = { ...json("v1/chat/completions", {}), body: twice };
    expect(await send(troupe, asked)).toEqual([400, "invalid_value"]);
    expect(upstream.requests).toEqual([]);
  });
});

describe("calls under way", () => {
  /** An upstream that answers nobody until it is told to. */
  function heldUpstream() {
    const gate = Promise.withResolvers<void>();
    return { upstream: new UpstreamServer(() => gate.promise.then(() => answer())), open: gate.resolve };
  }

  test("whoever leaves before anything came spends what was reserved, however often", async () => {
    const { upstream, open } = heldUpstream();
    using _ = upstream;
    await using troupe = await startWith(upstream, { all: { prepaid: 3 } });
    const kinds = [{}, { stream: true }, {}];
    for (const [at, kind] of kinds.entries()) {
      const leaving = new AbortController();
      const left = troupe.post(chat, { ...body(1), ...kind }, { signal: leaving.signal }).catch(() => "left");
      await upstream.received(at + 1);
      leaving.abort();
      expect(await left).toBe("left");
    }
    const refused = await troupe.post(chat, body(1));
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([429, "false"]);
    expect(upstream.requests).toHaveLength(3);
    const lines = await troupe.server.services.store.ledger.lines({
      since: 0,
      until: 9e15,
      limit: 9,
      where: { ended: "abandoned" },
    });
    expect(lines.map(({ cost, counted }) => [cost, counted])).toEqual(kinds.map(() => [null, "unknown"]));
    open();
  });

  test("whoever finds no room only because of them waits until one ends, and leaves if its client does", async () => {
    const { upstream, open } = heldUpstream();
    using _ = upstream;
    await using troupe = await startWith(upstream, { all: { prepaid: 2 } });
    const first = [troupe.post(chat, body(1)), troupe.post(chat, body(1))];
    await upstream.received(2);
    const { budgets } = troupe.server.services;
    const waiting = async (count: number) => {
      while (budgets.waiting !== count) await Bun.sleep(1);
    };
    const leaving = new AbortController();
    const left = troupe.post(chat, body(1), { signal: leaving.signal }).catch(() => "left");
    const held = troupe.post(chat, body(1));
    await waiting(2);
    leaving.abort();
    expect(await left).toBe("left");
    await waiting(1);
    // Nobody makes room: after two seconds it is told to come again.
    const late = await held;
    expect([late.status, late.headers.get("retry-after"), late.headers.get("x-should-retry")]).toEqual([
      429,
      "3",
      null,
    ]);
    expect(await late.json()).toMatchObject({
      error: {
        code: "rate_limit_exceeded",
        message:
          "The prepaid budget of all calls has $2.00 left of $2.00, but calls under way hold $2.00 of it until they end, and this call may cost up to $1.00. Retry in 3 s.",
      },
    });
    const next = troupe.post(chat, body(1));
    await waiting(1);
    troupe.server.services.usage.price = () => 0;
    open();
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200]);
    // Both cost a dollar: what waited is refused now, and not told to come again.
    const spent = await next;
    expect([spent.status, spent.headers.get("x-should-retry")]).toEqual([429, "false"]);
  });

  test("one that costs less than was reserved makes room for whoever waits", async () => {
    const { upstream, open } = heldUpstream();
    using _ = upstream;
    // Seven tokens of an answer are 70 cents, whatever was reserved.
    const config = { prices: [{ match: "*", input: 0, output: 100_000 }] };
    const budgets = { ...defaults, all: { prepaid: 6 } };
    await using troupe = await startWith(upstream, {}, { config: { ...config, budgets } });
    const first = troupe.post(chat, body(5));
    await upstream.received(1);
    const others = Array.from({ length: 5 }, () => troupe.post(chat, body(1)));
    while (troupe.server.services.budgets.waiting < 4) await Bun.sleep(1);
    open();
    expect((await first).status).toBe(200);
    expect((await Promise.all(others)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  });
});

test("ten calls of 400 KB at once, as agents make them, fit into a budget that they cost a hundredth of", async () => {
  const usage = { prompt_tokens: 110_000, prompt_tokens_details: { cached_tokens: 109_000 }, completion_tokens: 100 };
  const sonnet = { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 };
  using upstream = new UpstreamServer(() => answer({ ...usage, total_tokens: 110_100 }));
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url, apiKey: "k" } },
    config: { budgets: { ...defaults, all: { prepaid: 10 } }, prices: [{ match: "*", ...sonnet }] },
  });
  const agent = { ...body(8_000), messages: [{ role: "user", content: "x ".repeat(200_000) }] };
  const answers = await Promise.all(Array.from({ length: 10 }, () => troupe.post(chat, agent)));
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
});

test("who joins a call that a budget refuses has a line that says whose call it was", async () => {
  using upstream = new UpstreamServer(() => answer());
  await using troupe = await startWith(upstream, { all: { day: 10 } });
  const { services } = troupe.server;
  services.usage.price = () => 20_000_000;
  // The refusal waits until all the others have joined.
  let waiting = 0;
  let join = () => {};
  const { run } = services.idempotency;
  services.idempotency.run = (claim, signal, produce, options) =>
    run.call(services.idempotency, claim, signal, produce, {
      ...options,
      onWait: (isOther) => {
        options?.onWait?.(isOther);
        if (isOther && ++waiting % 3 === 0) join();
      },
    });
  const { reserve } = services.store.budgets;
  services.store.budgets.reserve = async (reservation) => {
    await new Promise<void>((resolve) => {
      join = resolve;
      if (waiting > 0 && waiting % 3 === 0) resolve();
    });
    return reserve(reservation);
  };
  const lines = async (ids: readonly string[]) => {
    await services.usage.close();
    await services.ledger.flush();
    const all = await services.store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 });
    return all.filter(({ requestId }) => ids.includes(requestId));
  };
  for (const [at, path] of [chat, "/gateway/v1/embeddings"].entries()) {
    const asked = at === 0 ? body(20) : { model: "openai/m", input: "a", n: 20, max_tokens: 20 };
    waiting = 0;
    const headers = { "service-request-id": `refused-${at}` };
    const answers = await Promise.all(Array.from({ length: 4 }, () => troupe.post(path, asked, { headers })));
    expect(answers.map(({ status }) => status)).toEqual([429, 429, 429, 429]);
    for (const { headers: told } of answers) expect(told.has("x-troupe-call")).toBe(false);
    const ids = answers.map(({ headers: told }) => told.get("x-request-id")!);
    const found = await lines(ids);
    expect(found.map(({ ended }) => ended).sort()).toEqual(["joined", "joined", "joined", "refused"]);
    const own = found.find(({ ended }) => ended === "refused")!;
    for (const { ended, status, errorCode, callOf, cost } of found) {
      expect([status, errorCode, cost]).toEqual([429, "insufficient_quota", 0]);
      if (ended === "joined") expect(callOf).toBe(own.requestId);
    }
  }
});
