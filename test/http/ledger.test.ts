/** Every way that a call can end leaves one line in the ledger, with what is known of it. */
import { beforeEach, describe, expect, test } from "bun:test";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { Console } from "../cli/console.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import type { RecordedRequest } from "../helpers/upstream-server.ts";

let answer: (request: RecordedRequest) => Response | Promise<Response>;

const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 };
const secret = "SECRET-WORDS";
const plain = JSON.stringify({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: secret }, finish_reason: "stop" }],
  usage,
});
const whole = () => new Response(plain, { headers: { "content-type": "application/json" } });
const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;
const stream = (...events: string[]) =>
  new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
const words =
  "The quick brown fox jumps over the lazy dog while seventeen engineers review a rather long report. ".split(/(?= )/);

const { troupe, upstream } = await served(
  (request) => answer(request),
  (url) => ({
    providers: {
      openai: { baseUrl: url },
      second: { dialect: "openai", baseUrl: url },
      anthropic: { baseUrl: url },
      openrouter: { baseUrl: url },
      nowhere: { dialect: "openai", baseUrl: "http://127.0.0.1:1" },
    },
    countsTokens: true,
  }),
);
troupe.setTargets("troupe/tutor", ["openai/gpt-4o", "second/gpt-4o"]);
// Estimates do not wait for it as long as it takes to start.
await troupe.server.services.tokenizer.count(["words"], 60_000);
beforeEach(() => {
  answer = whole;
});

const ask = (body: object = {}, headers: Record<string, string> = {}, path = "/gateway/v1/chat/completions") =>
  troupe.post(path, { model: "openai/gpt-4o", messages: [{ role: "user", content: secret }], ...body }, { headers });

async function linesOf(response: Response): Promise<LedgerLine[]> {
  return linesOfId(response.headers.get("x-request-id")!);
}

/** The lines of one request, in the order of its attempts. */
async function linesOfId(id: string): Promise<LedgerLine[]> {
  const { services } = troupe.server;
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  await services.ledger.flush();
  const lines = await services.store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 });
  return lines.filter((line) => line.requestId === id).reverse();
}

test("a plain answer", async () => {
  const response = await ask();
  await response.text();
  expect(await linesOf(response)).toMatchObject([
    {
      attempt: 1,
      surface: "gateway",
      format: "chat",
      model: "openai/gpt-4o",
      persona: null,
      provider: "openai",
      upstreamModel: "gpt-4o",
      ended: "finished",
      status: 200,
      counted: "upstream",
      // 10 × 2.5 + 4 × 10
      cost: 65,
      firstTokenMs: null,
    },
  ]);
});

test("a streamed answer", async () => {
  answer = () =>
    stream(
      chunk({ role: "assistant", content: "Hi" }),
      chunk({}, { finish_reason: "stop" }),
      `data: ${JSON.stringify({ choices: [], usage })}\n\n`,
      "data: [DONE]\n\n",
    );
  const response = await ask({ stream: true });
  await response.text();
  const [line] = await linesOf(response);
  expect(line).toMatchObject({ ended: "finished", counted: "upstream", cost: 65 });
  expect(line!.firstTokenMs).toBeNumber();
});

test("a persona whose first model fails has a line for each attempt", async () => {
  const answers = [() => new Response("{}", { status: 503 }), whole];
  answer = () => answers.shift()!();
  const response = await ask({ model: "troupe/tutor" }, {}, "/v1/chat/completions");
  expect(response.status).toBe(200);
  await response.text();
  expect(await linesOf(response)).toMatchObject([
    { attempt: 1, ended: "broken", status: 503, provider: "openai", cost: 0, counted: "none", persona: "troupe/tutor" },
    { attempt: 2, ended: "finished", status: 200, provider: "second", cost: 65, surface: "orchestrator" },
  ]);
});

test("a persona leaves an account that is spent, also where that is said with the status of a wrong request", async () => {
  const answers = [() => Response.json({ error: { code: "insufficient_quota" } }, { status: 400 }), whole];
  answer = () => answers.shift()!();
  const response = await ask({ model: "troupe/tutor" }, {}, "/v1/chat/completions");
  await response.text();
  expect(await linesOf(response)).toMatchObject([
    { attempt: 1, status: 400, failure: "quota", provider: "openai", cost: 0 },
    { attempt: 2, ended: "finished", provider: "second", cost: 65 },
  ]);
});

test.each([
  ["an upstream's refusal", { model: "openai/gpt-4o" }, { ended: "refused", status: 400, provider: "openai" }],
  ["an upstream that can't be reached", { model: "nowhere/m" }, { ended: "broken", status: 503, provider: "nowhere" }],
  ["a provider that is not set up", { model: "none/m" }, { ended: "refused", status: 400, provider: null }],
])("%s costs nothing", async (_, body, expected) => {
  answer = () => Response.json({ error: { message: "no" } }, { status: 400 });
  const response = await ask(body);
  await response.text();
  expect(await linesOf(response)).toMatchObject([
    { attempt: 1, cost: 0, counted: "none", priceSource: "none", ...expected },
  ]);
});

const refusal = (status: number, message: string) => () =>
  new Response(JSON.stringify({ error: { message } }), { status });
const inStream = (error: object) => () =>
  stream(chunk({ role: "assistant", content: "Hi" }), `data: ${JSON.stringify({ error })}\n\n`);

test.each([
  ["invalid_request", refusal(400, "no such field"), false],
  ["context_length", refusal(400, "maximum context length is 8192 tokens"), false],
  ["content_filter", refusal(400, "against our content policy"), false],
  ["unauthorized", refusal(401, "who?"), false],
  ["unauthorized", refusal(403, "no"), false],
  ["quota", refusal(402, "pay"), false],
  ["quota", refusal(429, "insufficient_quota"), false],
  ["quota", () => Response.json({ error: { code: "insufficient_quota" } }, { status: 400 }), false],
  ["not_found", refusal(404, "no such model"), false],
  ["rate_limit", refusal(429, "slow down"), false],
  ["server_error", refusal(500, "oh"), false],
  ["timeout", refusal(504, "late"), false],
  ["broken", () => new Response("{", { headers: { "content-type": "application/json" } }), false],
  ["broken", () => stream(chunk({ role: "assistant", content: "Hi" })), true],
  ["server_error", inStream({ message: "oh", code: 500 }), true],
  ["rate_limit", inStream({ message: "slow", code: 429 }), true],
])("an attempt that was left has its reason: %s", async (failure, answered, isStream) => {
  answer = answered;
  const response = await ask({ stream: isStream });
  await response.text();
  expect(await linesOf(response)).toMatchObject([{ failure, upstreamFormat: "chat", upstreamKey: null }]);
});

test("an attempt at nobody has its reason, and a whole answer none", async () => {
  const nobody = await ask({ model: "nowhere/gpt-4o" });
  await nobody.text();
  expect(await linesOf(nobody)).toMatchObject([{ failure: "unreachable" }]);
  const response = await ask();
  await response.text();
  expect(await linesOf(response)).toMatchObject([{ failure: null }]);
});

test("lines are chosen and summed by the reason, which a key sees; its holder does not see the operator's keys", async () => {
  answer = refusal(402, "pay");
  await (await ask({ model: "second/reasons" })).text();
  const { services } = troupe.server;
  await services.ledger.flush();
  const usage = await troupe.fetch("/v1/usage?by=provider,failure&failure=quota&model=second/reasons");
  expect(await usage.json()).toMatchObject({ data: [{ provider: "second", failure: "quota", calls: 1 }] });
  expect((await troupe.fetch("/v1/usage?by=upstream_key")).status).toBe(400);
  expect((await troupe.fetch("/v1/usage?upstream_endpoint=x")).status).toBe(400);
});

test("a stream that breaks off is estimated", async () => {
  answer = () => stream(chunk({ role: "assistant", content: "" }), ...words.map((content) => chunk({ content })));
  const response = await ask({ stream: true });
  expect(await response.text()).toContain("error");
  const [line] = await linesOfId(response.headers.get("x-request-id")!);
  expect(line).toMatchObject({ ended: "broken", counted: "estimated", priceSource: "list" });
  // 17 words and a stop by the tokenizer itself.
  expect(line!.tokens.output).toBeWithin(14, 23);
  expect(line!.tokens.input).toBeWithin(3, 9);
  expect(line!.cost!).toBe(Math.floor(line!.tokens.input * 2.5 + 0.5 + line!.tokens.output * 10));
});

test("of a stream that breaks off what the upstream told counts, and the rest is estimated", async () => {
  const start = {
    type: "message_start",
    message: {
      id: "m",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: null,
      usage: { input_tokens: 1000, cache_read_input_tokens: 500, output_tokens: 1 },
    },
  };
  const text = (part: string) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: part } });
  const events = [
    start,
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    ...words.map(text),
  ];
  answer = () => stream(...events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`));
  const response = await ask({ model: "anthropic/claude-sonnet-5", stream: true });
  await response.text();
  const [line] = await linesOf(response);
  expect(line).toMatchObject({ ended: "broken", counted: "estimated" });
  expect(line!.tokens).toMatchObject({ input: 1500, cacheRead: 500 });
  expect(line!.tokens.output).toBeWithin(14, 23);
});

test("a client that leaves in the middle", async () => {
  const held = new HeldStream();
  answer = () => held.response();
  held.send(chunk({ role: "assistant", content: "Hello there" }));
  const leaving = new AbortController();
  const response = await fetch(`${troupe.url}/gateway/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${troupe.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "openai/gpt-4o", messages: [{ role: "user", content: secret }], stream: true }),
    signal: leaving.signal,
  });
  const reader = response.body!.getReader();
  await reader.read();
  leaving.abort();
  const [line] = await linesOfId(response.headers.get("x-request-id")!);
  expect(line).toMatchObject({ ended: "abandoned", counted: "estimated" });
  expect(line!.tokens.output).toBeGreaterThan(0);
});

test("a replay and a join cost nothing, and name the call", async () => {
  const id = { "service-request-id": "once" };
  const both = await Promise.all([ask({}, id), ask({}, id)]);
  const replayed = await ask({}, id);
  const lines = (await Promise.all(both.map(linesOf))).flat();
  const made = lines.find(({ ended }) => ended === "finished")!;
  const other = lines.find(({ ended }) => ended !== "finished")!;
  expect([lines.length, made.cost, other.cost, other.callOf]).toEqual([2, 65, 0, made.requestId]);
  expect(["joined", "replayed"]).toContain(other.ended);
  const [line] = await linesOf(replayed);
  expect(line).toMatchObject({ ended: "replayed", cost: 0, callOf: made.requestId, provider: null, counted: "none" });
  expect(replayed.headers.get("x-troupe-call")).toBeNull();
});

test("what is compiled in is free", async () => {
  const response = await ask({ model: "builtin/echo" });
  expect(await linesOf(response)).toMatchObject([
    { ended: "finished", cost: 0, priceSource: "free", provider: "builtin" },
  ]);
});

test("the ledger, the command, the API and the metrics agree, and nobody's words are in it", async () => {
  const { store, metrics, ledger, clock } = troupe.server.services;
  await ledger.flush();
  const lines = await store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 1000 });
  expect(JSON.stringify(lines)).not.toContain("SECRET");
  const cost = lines.reduce((sum, line) => sum + (line.cost ?? 0), 0);
  const unknown = lines.filter((line) => line.cost === null).length;
  const response = await troupe.fetch("/v1/usage?by=provider,model");
  const told = (await response.json()) as { data: { cost_micro_dollars: number }[]; total: object };
  expect(told.total).toMatchObject({ calls: lines.length, cost_micro_dollars: cost, unknown_cost_calls: unknown });
  expect(told.data.reduce((sum, row) => sum + row.cost_micro_dollars, 0)).toBe(cost);
  const shell = new Console(troupe.data);
  const { out } = await shell.run(`usage --data ${troupe.data} --by provider --json`);
  expect(JSON.parse(out).total).toEqual(told.total);
  const series = [...metrics.render().matchAll(/^troupe_cost_micro_dollars_total\{.*\} (\d+)$/gm)];
  expect(series.reduce((sum, [, value]) => sum + Number(value), 0)).toBe(cost);
  const other = await troupe.createKey({ name: "other", tier: "pro" });
  const none = (await (await troupe.fetch("/gateway/v1/usage", { key: other })).json()) as {
    total: object;
    since: string;
  };
  expect(none.total).toMatchObject({ calls: 0, cost_micro_dollars: 0 });
  expect(Date.parse(none.since) % 86_400_000).toBe(0);
  expect(clock.now() - Date.parse(none.since)).toBeWithin(29 * 86_400_000, 30 * 86_400_000);
});

test.each([
  ["by=week", "by"],
  ["by=day,day", "by"],
  ["since=yesterday", "since"],
  ["since=2026-01-02&until=2026-01-01", "since"],
  ["limit=0", "limit"],
])("a question that makes no sense is refused by its part: %s", async (query, param) => {
  const response = await troupe.fetch(`/v1/usage?${query}`);
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { code: "invalid_value", param } });
});

describe("usage.cost", () => {
  const costed = { usage: { include: true } };
  const asChunks = () =>
    stream(
      chunk({ role: "assistant", content: "Hi" }),
      chunk({}, { finish_reason: "stop" }),
      `data: ${JSON.stringify({ choices: [], usage })}\n\n`,
      "data: [DONE]\n\n",
    );
  const usageOf = async (body: object) => ((await (await ask(body)).json()) as { usage: object }).usage;
  const usagesOf = (text: string) =>
    [...text.matchAll(/^data: (\{.*\})$/gm)]
      .map(([, json]) => (JSON.parse(json!) as { usage?: object | null }).usage)
      .filter((found) => found != null);

  test("stands in a plain answer that asks for it, and the question is not sent to who does not know it", async () => {
    expect(await usageOf(costed)).toEqual({ ...usage, cost: 0.000065 });
    expect(Object.keys(upstream.requests.at(-1)!.json as object)).toEqual(["model", "messages"]);
    expect(await usageOf({})).toEqual(usage);
    expect(await usageOf({ usage: { include: false } })).toEqual(usage);
  });

  test("stands in a stream's last chunk, alone or beside stream_options", async () => {
    answer = asChunks;
    for (const more of [
      {},
      { stream_options: { include_usage: true } },
      { stream_options: { include_usage: false } },
    ]) {
      const text = await (await ask({ ...costed, ...more, stream: true })).text();
      expect(usagesOf(text)).toEqual([{ ...usage, cost: 0.000065 }]);
    }
    expect(usagesOf(await (await ask({ stream: true })).text())).toEqual([]);
  });

  test("is null where the price or the counts are not known, and 0 where nothing is billed", async () => {
    expect(await usageOf({ ...costed, model: "second/unknown-model" })).toEqual({ ...usage, cost: null });
    expect(await usageOf({ ...costed, model: "builtin/echo" })).toMatchObject({ cost: 0 });
    answer = () => Response.json({ ...JSON.parse(plain), usage: undefined });
    expect(await usageOf(costed)).toMatchObject({ prompt_tokens: 0, cost: null });
  });

  test("is what the upstream says it is, and is asked of it where it knows the question", async () => {
    answer = () => Response.json({ ...JSON.parse(plain), usage: { ...usage, cost: 0.0125 } });
    expect(await usageOf({ ...costed, model: "openrouter/some/model" })).toEqual({ ...usage, cost: 0.0125 });
    expect(upstream.requests.at(-1)!.json).toMatchObject(costed);
  });

  test("of a persona's answer is that of the model that gave it", async () => {
    const response = await ask({ ...costed, model: "troupe/tutor" }, {}, "/v1/chat/completions");
    expect(((await response.json()) as { usage: object }).usage).toEqual({ ...usage, cost: 0.000065 });
  });

  test("that is no object is refused by its place", async () => {
    const response = await ask({ usage: true });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: "usage" } });
  });
});
