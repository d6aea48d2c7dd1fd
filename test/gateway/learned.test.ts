/**
 * An upstream refuses what was chosen here: the call is made once more without it before anything is answered, and the fact holds for a
 * day. What the caller wrote is never changed.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { systemClock } from "../../src/lib/time/clock.ts";
import { examineRunning } from "../../src/operate/doctor/running.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { testConfig } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest } from "../helpers/upstream-server.ts";
import { agentFamilies, agentFamilyOf } from "../helpers/upstreams/agent.ts";
import { WatchedLog } from "../helpers/watched-log.ts";

type Json = Record<string, unknown>;

/** What the upstream says to a request; undefined: it answers. */
let refuse: (path: string, body: Json) => { status?: number; error: unknown } | undefined = () => undefined;
const dayMs = 24 * 60 * 60 * 1000;
let laterMs = 0;
const clock = { ...systemClock, now: () => systemClock.now() + laterMs };
const watched = new WatchedLog();

const byOpenAi = (param: string | null, code: string | null, message = `No: ${param}`) => ({
  error: { error: { message, type: "invalid_request_error", param, code } },
});
const byAnthropic = (message: string) => ({
  error: { type: "error", error: { type: "invalid_request_error", message }, request_id: "req_1" },
});
const byGoogle = (field: string) => ({
  error: {
    error: {
      code: 400,
      message: "Invalid value",
      status: "INVALID_ARGUMENT",
      details: [
        { "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [{ field, description: "No." }] },
      ],
    },
  },
});

const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("acme"));
const personas = {
  warm: "model: openai/mystery\ndefaults: {temperature: 0.2}",
  cool: "model: openai/mystery\ndefaults: {temperature: 0.1}",
  claude: "model: anthropic/mystery\ndefaults: {temperature: 0.2}",
  gem: "model: google/mystery\ndefaults: {top_p: 0.2}",
  paid: "model: openai/gpt-4o\ndefaults: {temperature: 0.2}",
  extra: "model: mistral/mystery\noptions: {min_p: 0.1}",
  spread: "model: pooled/mystery\ndefaults: {temperature: 0.2}",
};
for (const [name, text] of Object.entries(personas))
  writeFileSync(folder.file(`acme/${name}.yaml`), `description: x\nsystem: Help.\n${text}\n`);
const answer = (request: RecordedRequest) => {
  const { path, json } = request;
  const refusal = refuse(path, json as Json);
  if (refusal !== undefined) return jsonResponse(refusal.error, refusal.status ?? 400);
  const family = agentFamilies[agentFamilyOf(request)!];
  return family.answer({ text: "It rains." }, family.read(request));
};
const { troupe, upstream } = await served(answer, (baseUrl) => ({
  providers: {
    openai: { baseUrl },
    anthropic: { baseUrl },
    google: { baseUrl },
    mistral: { baseUrl },
    pooled: {
      dialect: "openai",
      baseUrl,
      pool: {
        strategy: "sticky",
        members: [
          { baseUrl, apiKey: "one", weight: 1 },
          { baseUrl, apiKey: "two", weight: 1 },
        ],
      },
    },
  },
  personas: folder.path,
  // One reservation of 1,000 tokens of gpt-4o, and not two.
  config: {
    listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["gateway", "orchestrator", "admin"] }],
    budgets: { ...testConfig("", {}).budgets, tags: { held: { day: 0.015 } } },
  },
  log: watched.log,
  clock,
}));
await troupe.server.services.loading;
beforeEach(() => {
  laterMs += 2 * dayMs;
  refuse = () => undefined;
  upstream.requests.length = 0;
  watched.lines.length = 0;
});

const messages = [{ role: "user", content: "Hi" }];
const gateway = (body: Json) => troupe.post("/gateway/v1/chat/completions", { messages, ...body });
const persona = (name: string, body: Json = {}) =>
  troupe.post("/v1/chat/completions", { model: `acme/${name}`, messages, ...body });
const sent = (name: string) => upstream.requests.map(({ json }) => (json as Json)[name]);
const learned = () =>
  troupe.server.services.learned.list().map(({ provider, model, fact }) => `${provider}/${model}: ${fact}`);
const tools = [{ type: "function", function: { name: "look_up", parameters: { type: "object", properties: {} } } }];

async function linesOf(): Promise<Json[]> {
  const { ledger, store } = troupe.server.services;
  await ledger.flush();
  const since = clock.now() - 60_000;
  return (await store.ledger.lines({ since, until: Number.MAX_SAFE_INTEGER, limit: 100 })) as unknown as Json[];
}

describe.each([false, true])("streamed: %p", (stream) => {
  const answered = async (response: Response) => {
    expect(await response.clone().text()).toContain("rains.");
    expect(response.status).toBe(200);
  };

  test("a persona's default is left out, and stays out for a day, for its value alone", async () => {
    const isRefused = (temperature: unknown) => temperature === 0.2;
    refuse = (_, { temperature }) =>
      isRefused(temperature) ? byOpenAi("temperature", "unsupported_value") : undefined;
    await answered(await persona("warm", { stream }));
    expect(sent("temperature")).toEqual([0.2, undefined]);
    await answered(await persona("warm", { stream }));
    await answered(await persona("cool", { stream }));
    expect(sent("temperature")).toEqual([0.2, undefined, undefined, 0.1]);
    expect(learned()).toEqual(["openai/mystery: without temperature: 0.2"]);
    laterMs += dayMs;
    expect(learned()).toEqual([]);
    await answered(await persona("warm", { stream }));
    expect(sent("temperature").slice(4)).toEqual([0.2, undefined]);
  });

  test("a field that is refused whatever it holds is left out of all personas' calls", async () => {
    refuse = (_, { temperature }) =>
      temperature === undefined ? undefined : byOpenAi("temperature", "unsupported_parameter");
    await answered(await persona("warm", { stream }));
    await answered(await persona("cool", { stream }));
    expect(sent("temperature")).toEqual([0.2, undefined, undefined]);
  });

  test.each([
    [
      "claude",
      "temperature",
      byAnthropic("`temperature` is deprecated for this model."),
      (body: Json) => body["temperature"],
    ],
    ["gem", "top_p", byGoogle("generation_config.top_p"), (body: Json) => (body["generationConfig"] as Json)?.["topP"]],
    ["spread", "temperature", byOpenAi("temperature", "unsupported_value"), (body: Json) => body["temperature"]],
    [
      "extra",
      "min_p",
      { status: 422, error: { detail: [{ loc: ["body", "min_p"], type: "extra_forbidden", msg: "No." }] } },
      (body: Json) => body["min_p"],
    ],
  ] as const)("%s: as each upstream says it", async (name, _field, refusal, valueIn) => {
    refuse = (_, body) => (valueIn(body) === undefined ? undefined : refusal);
    await answered(await persona(name, { stream }));
    await answered(await persona(name, { stream }));
    expect(upstream.requests.map(({ json }) => valueIn(json as Json) !== undefined)).toEqual([true, false, false]);
  });

  test("in its caller's own format too", async () => {
    refuse = (_, { temperature }) =>
      temperature === undefined ? undefined : byAnthropic("temperature: Extra inputs are not permitted");
    const body = { model: "acme/claude", max_tokens: 64, stream, messages };
    for (const _ of [1, 2]) await answered(await troupe.post("/v1/messages", body));
    expect(sent("temperature")).toEqual([0.2, undefined, undefined]);
  });

  test("the road of tools is changed, and back", async () => {
    refuse = (path, body) =>
      path.endsWith("/chat/completions") && body["tools"] !== undefined
        ? byOpenAi("reasoning_effort", null)
        : undefined;
    for (const _ of [1, 2]) await answered(await gateway({ model: "openai/mystery", tools, stream }));
    const paths = () => upstream.requests.map(({ path }) => path.split("/").at(-1));
    expect(paths()).toEqual(["completions", "responses", "responses"]);
    expect(learned()).toEqual(["openai/mystery: tools_road: responses"]);
    upstream.requests.length = 0;
    refuse = (path) => (path.endsWith("/responses") ? byOpenAi("model", null) : undefined);
    for (const _ of [1, 2]) await answered(await gateway({ model: "openai/gpt-6", tools, stream }));
    expect(paths()).toEqual(["responses", "completions", "completions"]);
  });

  test("fields that were added, or named anew", async () => {
    refuse = (_, body) =>
      body["stream_options"] === undefined ? undefined : byOpenAi("stream_options", "unknown_parameter");
    if (stream) {
      for (const _ of [1, 2]) await answered(await gateway({ model: "openai/mystery", stream }));
      expect(sent("stream_options").map((one) => one !== undefined)).toEqual([true, false, false]);
    }
    upstream.requests.length = 0;
    refuse = (_, body) =>
      body["max_completion_tokens"] === undefined ? undefined : byOpenAi("max_completion_tokens", "unknown_parameter");
    for (const _ of [1, 2]) await answered(await gateway({ model: "openai/gpt-6.1", max_tokens: 9, stream }));
    expect(sent("max_tokens")).toEqual([undefined, 9, 9]);
    upstream.requests.length = 0;
    refuse = (_, body) => (body["include"] === undefined ? undefined : byOpenAi("include", null));
    for (const _ of [1, 2]) await answered(await gateway({ model: "openai/gpt-6.1", tools, stream }));
    expect(sent("include").map((one) => one !== undefined)).toEqual([true, false, false]);
  });

  test("what the caller wrote is refused to them byte for byte, once", async () => {
    refuse = (path, body) => {
      if (body["temperature"] !== undefined) return byOpenAi("temperature", "unsupported_value");
      if (body["stream_options"] !== undefined) return byOpenAi("stream_options", "unknown_parameter");
      return path.endsWith("/chat/completions") && body["tools"] ? byOpenAi("tools", "invalid_value") : undefined;
    };
    const asked = [
      { temperature: 0.2 },
      { stream: true, stream_options: { include_usage: true } },
      { tools, stream_options: stream ? { include_usage: false } : undefined },
    ];
    for (const more of asked) {
      upstream.requests.length = 0;
      const response = await gateway({ model: "openai/mystery", stream, ...more });
      const { path, json } = upstream.last;
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual(refuse(path, json as Json)!.error);
      expect(upstream.requests).toHaveLength(1);
    }
    const response = await persona("warm", { temperature: 0.2, stream });
    expect([response.status, upstream.requests.length]).toEqual([400, 2]);
    expect(learned()).toEqual([]);
  });
});

test("words alone teach nothing, nor do places without a type, other statuses and bodies that are no JSON", async () => {
  const message = "Unsupported parameter: 'temperature' is not supported with this model.";
  const refusals = [
    { error: { error: { message } } },
    { error: { error: { message, type: "invalid_request_error", param: null, code: null } } },
    { error: { error: { message, param: "temperature" } } },
    { error: message },
    { ...byOpenAi("temperature", "decimal_above_max_value") },
    { ...byOpenAi("temperature", "unsupported_value"), status: 403 },
    { ...byOpenAi("messages", "unsupported_value") },
    { ...byOpenAi("__proto__", "unsupported_value") },
  ];
  for (const refusal of refusals) {
    upstream.requests.length = 0;
    refuse = () => refusal;
    expect((await persona("warm")).ok).toBe(false);
    expect(upstream.requests).toHaveLength(1);
  }
  expect(learned()).toEqual([]);
});

test("where it is refused without it too, the first error is the answer, and it is not asked again for a day", async () => {
  refuse = (path) => byOpenAi("reasoning_effort", null, path);
  for (const requests of [2, 3]) {
    const response = await gateway({ model: "openai/mystery", tools, reasoning_effort: "low" });
    expect([response.status, await response.json()]).toEqual([400, refuse(upstream.requests[0]!.path, {})!.error]);
    expect(upstream.requests).toHaveLength(requests);
  }
  expect(learned()).toEqual([]);
});

test("nothing is learned of an upstream that is away", async () => {
  refuse = (_, { temperature }) =>
    temperature === undefined ? { ...byOpenAi(null, null), status: 503 } : byOpenAi("temperature", "unsupported_value");
  expect((await persona("warm")).status).toBe(503);
  expect([upstream.requests.length, learned()]).toEqual([2, []]);
});

test("the ledger has both attempts, and a budget pays once", async () => {
  refuse = (_, { temperature }) =>
    temperature === undefined ? undefined : byOpenAi("temperature", "unsupported_value");
  const key = await troupe.createKey({ name: "held", tier: "pro", tags: ["held"] });
  const body = { model: "acme/paid", messages, max_completion_tokens: 1000 };
  const response = await troupe.post("/v1/chat/completions", body, { key });
  expect([response.status, response.headers.get("x-troupe-attempts")]).toEqual([200, "2"]);
  const lines = (await linesOf()).map(({ attempt, ended, status, errorCode }) => ({
    attempt,
    ended,
    status,
    errorCode,
  }));
  expect(lines.sort((a, b) => Number(a.attempt) - Number(b.attempt))).toEqual([
    { attempt: 1, ended: "refused", status: 400, errorCode: "unsupported_value" },
    { attempt: 2, ended: "finished", status: 200, errorCode: null },
  ]);
});

test("a call with an id is run once, and its answer kept", async () => {
  refuse = (_, { temperature }) =>
    temperature === undefined ? undefined : byOpenAi("temperature", "unsupported_value");
  const headers = { "service-request-id": crypto.randomUUID() };
  const texts: string[] = [];
  for (const _ of [1, 2]) {
    const response = await troupe.post("/v1/chat/completions", { model: "acme/warm", messages }, { headers });
    texts.push(await response.text());
  }
  expect(texts[1]).toBe(texts[0]!);
  expect(upstream.requests).toHaveLength(2);
});

test("it is told in the log and as a metric", async () => {
  refuse = (_, { temperature }) =>
    temperature === undefined ? undefined : byOpenAi("temperature", "unsupported_parameter");
  await persona("warm");
  const line = await watched.logged(({ fields }) => "fact" in fields);
  expect(line.fields).toMatchObject({ provider: "openai", upstream_model: "mystery", fact: "without temperature" });
  const { learned: known } = troupe.server.services;
  const admin = await troupe.createKey({ name: "admin", tier: "pro", surfaces: ["admin"] });
  const told = { provider: "openai", model: "mystery", fact: "without temperature" };
  const until = expect.stringMatching(/^\d{4}-/);
  const listed = (await (
    await fetch(`${troupe.url}/admin/v1/models?limit=1`, { headers: { authorization: `Bearer ${admin}` } })
  ).json()) as Json;
  expect(listed).toMatchObject({ learned: [{ ...told, until }] });
  const found = (await examineRunning(troupe.server.services, "here")).filter(({ what }) => what === "openai/mystery");
  expect(found).toEqual([expect.objectContaining({ found: expect.stringContaining("without temperature") })]);
  expect(known.counts().get("openai")).toBeGreaterThan(0);
});
