/** Several keys and endpoints behind one account, over real sockets. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { PoolConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { Random } from "../helpers/random.ts";
import { Silence } from "../helpers/silence.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const body = (content: string) => ({
  choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
});
const failing = (status: number, error: unknown, headers: Record<string, string> = {}) =>
  jsonResponse({ error }, status, headers);
const keyOf = (request: RecordedRequest) => request.headers.get("authorization")!.slice("Bearer ".length);

/** Answers by key, at an endpoint; "a" is the usual one. */
type Script = (key: string, request: RecordedRequest) => Response | Promise<Response> | undefined;
let script: Script = () => undefined;
const upstream = new UpstreamServer((request) => script(keyOf(request), request) ?? jsonResponse(body(keyOf(request))));
const other = new UpstreamServer(
  (request) => script(`other ${keyOf(request)}`, request) ?? jsonResponse(body("other")),
);

let shift = 0;
const begin = Date.now();
/** Stands still until a test moves it; timers run as ever. */
const silence = new Silence({ ...systemClock, now: () => begin + shift, monotonic: () => 1_000_000 + shift });
const { clock, timeouts } = silence;
const second = 1000;
const hour = 3600 * second;

const keys = ["k1", "k2", "k3"];
const pool = (strategy: PoolConfig["strategy"], members: PoolConfig["members"]) => ({
  baseUrl: members[0]!.baseUrl,
  apiKey: members[0]!.apiKey,
  pool: { strategy, members },
});
const threeKeys = () =>
  pool(
    "sticky",
    keys.map((apiKey) => ({ apiKey, baseUrl: upstream.url, weight: 1 })),
  );

let troupe: Troupe;
const start = (provider: ReturnType<typeof pool>) => Troupe.start({ clock, providers: { openai: provider } });
beforeAll(async () => {
  troupe = await start(threeKeys());
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
  other[Symbol.dispose]();
});
afterEach(async () => {
  script = () => undefined;
  shift = 0;
  upstream.requests.length = 0;
  other.requests.length = 0;
});
const fresh = async (provider = threeKeys()) => {
  await troupe[Symbol.asyncDispose]();
  troupe = await start(provider);
};

const ask = (content: string, more: object = {}, headers: Record<string, string> = {}) =>
  troupe.post(
    "/gateway/v1/chat/completions",
    { model: "openai/gpt", messages: [{ role: "user", content }], ...more },
    { headers },
  );
const asked = () => upstream.requests.map(keyOf);
const view = () => troupe.server.services.pools.view(troupe.server.services.live.accounts)[0]!;

describe("a conversation", () => {
  test("keeps its key over its turns, and conversations spread", async () => {
    await fresh();
    const seen = new Map<string, Set<string>>();
    for (let turn = 0; turn < 3; turn += 1)
      for (let at = 0; at < 30; at += 1) {
        const messages = [{ role: "user", content: `talk ${at}` }];
        for (let more = 0; more < turn; more += 1)
          messages.push({ role: "assistant", content: "yes" }, { role: "user", content: `more ${more}` });
        const answer = (await (await ask("", { messages })).json()) as ReturnType<typeof body>;
        const used = seen.get(`${at}`) ?? new Set();
        seen.set(`${at}`, used.add(answer.choices[0]!.message.content));
      }
    expect([...seen.values()].map(({ size }) => size)).toEqual(Array(30).fill(1));
    expect(new Set([...seen.values()].flatMap((used) => [...used])).size).toBe(3);
    expect(troupe.server.services.pools.sticky).toEqual({ hits: 90, misses: 0 });
  });

  test("keeps its key as it grows, where its texts are left out of what is parsed and where they are not", async () => {
    await fresh();
    const seen = Array.from({ length: 40 }, () => new Set<string>());
    for (const turns of [1, 2, 10])
      for (const [at, used] of seen.entries()) {
        const said = `talk ${at}: é said "no".\n`.repeat(150);
        const messages = [
          { role: "system", content: said },
          { role: "user", content: [{ type: "text", text: said }] },
        ];
        const more = { role: "user", content: "more, ".repeat(1500) };
        const answer = await ask("", { messages: [...messages, ...Array(turns - 1).fill(more)] });
        used.add(((await answer.json()) as ReturnType<typeof body>).choices[0]!.message.content);
      }
    expect(seen.map(({ size }) => size)).toEqual(Array(40).fill(1));
    expect(new Set(seen.flatMap((used) => [...used])).size).toBe(3);
  });

  test.each([
    ["prompt_cache_key", { prompt_cache_key: "c" }, {}],
    ["session_id", { session_id: "c" }, {}],
    ["Claude Code's header", {}, { "x-claude-code-session-id": "c" }],
    ["Codex' header", {}, { session_id: "c" }],
  ])("is known by %s", async (_, more, headers) => {
    for (let at = 0; at < 12; at += 1) await ask(`text ${at}`, more, headers);
    expect(new Set(asked()).size).toBe(1);
  });

  test("stays where a failure moved it, for an hour after its last call", async () => {
    await fresh();
    await ask("moved");
    const [home] = asked();
    script = (key) => (key === home ? failing(429, { message: "slow" }, { "retry-after": "10" }) : undefined);
    expect((await ask("moved")).status).toBe(200);
    const there = asked()[2]!;
    expect(there).not.toBe(home!);
    script = () => undefined;
    shift = 30 * 60 * second;
    await ask("moved");
    shift = 80 * 60 * second;
    await ask("moved");
    expect(asked().slice(3)).toEqual([there, there]);
    shift = 150 * 60 * second;
    await ask("moved");
    expect(asked().at(-1)).toBe(home!);
    expect(troupe.server.services.pools.sticky).toEqual({ hits: 4, misses: 1 });
  });
});

describe("a key rests", () => {
  const quota = "You have reached your specified API usage limits. You will regain access on 2999-01-01 at 00:00 UTC.";
  test.each<[string, () => Response, number, string]>([
    ["401", () => failing(401, { message: "Incorrect API key provided" }), hour, "unauthorized"],
    ["403", () => failing(403, { message: "no" }), hour, "unauthorized"],
    ["402", () => failing(402, { message: "Insufficient credits" }), hour, "quota"],
    ["a spent quota", () => failing(429, { code: "insufficient_quota", message: "quota" }), hour, "quota"],
    ["a 400 of a spent quota", () => failing(400, { message: quota }), 32 * 24 * hour, "quota"],
    ["429", () => failing(429, { message: "slow" }, { "retry-after": "7" }), 7 * second, "rate_limit"],
    ["429 without an end", () => failing(429, { message: "slow" }), 10 * second, "rate_limit"],
    ["a 400 with the code of a spent quota", () => failing(400, { code: "insufficient_quota" }), hour, "quota"],
    [
      "429 of a contract's limit",
      () => failing(429, { details: { error_code: "contract_spend_limit_reached" } }),
      hour,
      "quota",
    ],
    [
      "429 that says when its limit is reset",
      () =>
        failing(
          429,
          {},
          {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": new Date(begin + 25 * second).toISOString(),
            "anthropic-ratelimit-tokens-remaining": "1000",
            "anthropic-ratelimit-tokens-reset": new Date(begin + 3 * second).toISOString(),
          },
        ),
      25 * second,
      "rate_limit",
    ],
    [
      "429 with the limit's reset in milliseconds",
      () => failing(429, {}, { "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": String(begin + 40 * second) }),
      40 * second,
      "rate_limit",
    ],
  ])("after %s, while others answer, and comes back", async (_, failure, ms, reason) => {
    await fresh();
    await ask("x");
    const [home] = asked();
    script = (key) => (key === home ? failure() : undefined);
    const answer = await ask("x");
    expect(answer.status).toBe(200);
    expect(asked()).toHaveLength(3);
    const [rest] = view().members.flatMap(({ cooldowns }) => cooldowns);
    expect(rest?.reason).toBe(reason as never);
    expect(rest!.until - begin).toBe(ms);
    script = () => undefined;
    // Others that live there go elsewhere until then.
    shift = ms - 4 * second;
    for (let at = 0; at < 12; at += 1) await ask(`early ${at}`);
    expect(asked().slice(3)).not.toContain(home!);
    upstream.requests.length = 0;
    shift = ms + second;
    for (let at = 0; at < 24; at += 1) await ask(`late ${at}`);
    expect(asked()).toContain(home!);
  });

  test("and nothing is asked of it for what the caller did wrong", async () => {
    await fresh();
    const error = { code: "context_length_exceeded", message: "This model's maximum context length is 8 tokens" };
    script = () => failing(400, error);
    const answer = await ask("x");
    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual({ error });
    expect(asked()).toHaveLength(1);
    expect(view().members.flatMap(({ cooldowns }) => cooldowns)).toEqual([]);
  });

  test("all fail: each is asked once, and what waiting helps with is the answer", async () => {
    await fresh();
    let at = 0;
    script = () => {
      at += 1;
      return at === 2
        ? failing(429, { message: "slow" }, { "retry-after": "9" })
        : failing(401, { message: "Incorrect API key provided" });
    };
    const answer = await ask("x");
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([429, "9"]);
    expect(asked().toSorted()).toEqual(keys);
    // All rest.
    const refused = await ask("y");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "9"]);
    expect(((await refused.json()) as { error: { code: string } }).error.code).toBe("upstream_unavailable");
    expect(asked()).toHaveLength(3);
  });

  test("a rest whose end nobody stated is tried by one call a minute, where nothing else is left", async () => {
    await fresh();
    script = () => failing(401, { message: "Incorrect API key provided" });
    expect((await ask("x")).status).toBe(401);
    expect((await ask("x")).status).toBe(503);
    shift = 61 * second;
    expect((await ask("x")).status).toBe(401);
    expect((await ask("x")).status).toBe(401);
    expect((await ask("x")).status).toBe(401);
    expect((await ask("x")).status).toBe(503);
    expect(asked()).toHaveLength(6);
    script = () => undefined;
    shift = 122 * second;
    expect((await ask("x")).status).toBe(200);
    expect((await ask("x")).status).toBe(200);
  });
});

test("after the rest of a limit all calls go to all keys, before the first whole answer is there", async () => {
  await fresh();
  script = () => failing(429, { message: "slow" }, { "retry-after": "5" });
  expect((await ask("x")).status).toBe(429);
  expect((await ask("x")).status).toBe(503);
  upstream.requests.length = 0;
  shift = 6 * second;
  const answered = Promise.withResolvers<void>();
  script = async (key) => {
    await answered.promise;
    return jsonResponse(body(key));
  };
  const calls = Array.from({ length: 80 }, (_, at) => ask(`talk ${at}`));
  await upstream.received(80);
  answered.resolve();
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  expect(statuses.filter((status) => status !== 200)).toEqual([]);
  expect(new Set(asked()).size).toBe(3);
});

test("calls that are limited at once after a rest lengthen it once", async () => {
  await fresh();
  script = () => failing(429, { message: "slow" });
  expect((await ask("x")).status).toBe(429);
  shift = 11 * second;
  const calls = Array.from({ length: 30 }, (_, at) => ask(`talk ${at}`));
  for (const answer of await Promise.all(calls)) expect([429, 503]).toContain(answer.status);
  for (const { cooldowns } of view().members) expect(cooldowns[0]!.until - begin - shift).toBeWithin(19_000, 20_001);
});

describe("fastest", () => {
  test("measures whole answers, apart from streams", async () => {
    await fresh(
      pool("fastest", [
        { apiKey: "k1", baseUrl: upstream.url, weight: 1 },
        { apiKey: "k1", baseUrl: other.url, weight: 1 },
      ]),
    );
    // The first takes a second for a whole answer, and begins its streams at once; the other is the other way round.
    const stream = () =>
      sseResponse([
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: { role: "assistant", content: "a" }, finish_reason: "stop" }] })}\n\n`,
        "data: [DONE]\n\n",
      ]);
    script = (key, request) => {
      const isStream = (request.json as { stream?: boolean }).stream === true;
      if ((key === "k1") !== isStream) shift += second;
      return isStream ? stream() : undefined;
    };
    for (let at = 0; at < 40; at += 1) {
      await (await ask(`whole ${at}`)).text();
      await (await ask(`stream ${at}`, { stream: true })).text();
    }
    upstream.requests.length = 0;
    other.requests.length = 0;
    const counts: number[][] = [];
    for (const isStream of [false, true]) {
      for (let at = 0; at < 40; at += 1) await (await ask(`next ${at}`, { stream: isStream })).text();
      counts.push([upstream.requests.length, other.requests.length]);
    }
    // One call in twenty asks any.
    expect(counts[0]![1]!).toBeGreaterThan(30);
    expect(counts[1]![0]! - counts[0]![0]!).toBeGreaterThan(30);
  });
});

describe("an endpoint", () => {
  const two = (strategy: PoolConfig["strategy"] = "first") =>
    pool(strategy, [
      { apiKey: "k1", baseUrl: upstream.url, weight: 1 },
      { apiKey: "k1", baseUrl: other.url, weight: 1 },
    ]);
  const counts = () => [upstream.requests.length, other.requests.length];

  test("that fails is left for another, and rests from the third failure on, until one call was answered", async () => {
    await fresh(two());
    script = (key) => (key === "k1" ? failing(500, { message: "broken" }) : undefined);
    for (let at = 0; at < 5; at += 1) expect((await ask("x")).status).toBe(200);
    expect(counts()).toEqual([3, 5]);
    expect(view().members[0]!.breaker).toEqual({
      state: "open",
      reason: "server_error",
      until: begin + 5000,
      failures: 3,
      workers: 1,
    });
    // One call tries it; the others wait for that.
    let answered = Promise.withResolvers<Response>();
    script = (key) => (key === "k1" ? answered.promise : undefined);
    shift = 5 * second;
    const trial = ask("trial");
    await upstream.received(4);
    const others = await Promise.all(Array.from({ length: 200 }, (_, at) => ask(`other ${at}`)));
    expect(others.every(({ status }) => status === 200)).toBe(true);
    expect(counts()).toEqual([4, 205]);
    expect(view().members[0]!.breaker.state).toBe("half_open");
    answered.resolve(jsonResponse(body("k1")));
    await (await trial).text();
    expect(view().members[0]!.breaker).toEqual({
      state: "closed",
      reason: undefined,
      until: undefined,
      failures: 0,
      workers: 1,
    });
    script = () => undefined;
    await ask("x");
    expect(counts()).toEqual([5, 205]);
    answered = Promise.withResolvers();
  });

  test.each([
    ["its answer comes whole", true],
    ["its answer breaks", false],
  ])("is open to all at the head of its trial's answer, before the rest of it is there: %s", async (_, isWhole) => {
    await fresh(two());
    script = (key) => (key === "k1" ? failing(500, { message: "broken" }) : undefined);
    for (let at = 0; at < 3; at += 1) await (await ask("x")).text();
    expect(view().members[0]!.breaker.state).toBe("open");
    shift = 5 * second;
    const text = JSON.stringify(body("k1"));
    let rest!: ReadableStreamDefaultController<Uint8Array>;
    const slow = new ReadableStream<Uint8Array>({
      start: (controller) => {
        rest = controller;
        controller.enqueue(Buffer.from(text.slice(0, 9)));
      },
    });
    script = (key) =>
      key === "k1" ? new Response(slow, { headers: { "content-type": "application/json" } }) : undefined;
    const trial = ask("trial");
    while (view().members[0]!.breaker.state !== "closed") await new Promise((resolve) => setImmediate(resolve));
    const before = upstream.requests.length;
    script = () => undefined;
    expect((await ask("other")).status).toBe(200);
    expect(upstream.requests.length).toBe(before + 1);
    if (isWhole) rest.enqueue(Buffer.from(text.slice(9)));
    rest.close();
    expect((await trial).status).toBe(isWhole ? 200 : 503);
    expect(view().members[0]!.breaker).toMatchObject(isWhole ? { state: "closed", failures: 0 } : { failures: 1 });
  });

  test("that is the only one is called whatever it answers, with one of its keys for each call", async () => {
    await fresh();
    script = () => failing(500, { message: "broken" });
    for (let at = 0; at < 5; at += 1) expect((await ask("x")).status).toBe(500);
    expect(asked()).toHaveLength(5);
  });

  test("that can't be reached is left for another", async () => {
    const gone = new UpstreamServer(() => jsonResponse({}));
    const url = gone.url;
    gone[Symbol.dispose]();
    await fresh(
      pool("first", [
        { apiKey: "k1", baseUrl: url, weight: 1 },
        { apiKey: "k1", baseUrl: other.url, weight: 1 },
      ]),
    );
    for (let at = 0; at < 4; at += 1) expect((await ask("x")).status).toBe(200);
    expect(view().members.map(({ breaker: { state, reason } }) => [state, reason])).toEqual([
      ["open", "unreachable"],
      ["closed", undefined],
    ]);
  });

  test("that is silent is asked once, as it may have billed the call, and rests", async () => {
    await troupe[Symbol.asyncDispose]();
    troupe = await Troupe.start({
      clock,
      providers: { openai: { ...two(), timeouts } },
    });
    script = (key) => (key === "k1" ? silence.answer() : undefined);
    for (let at = 0; at < 3; at += 1) expect((await ask("x")).status).toBe(504);
    expect(counts()).toEqual([3, 0]);
    expect((await ask("x")).status).toBe(200);
    expect(counts()).toEqual([3, 1]);
    expect(view().members[0]!.breaker).toMatchObject({ state: "open", reason: "timeout", until: begin + 5 * second });
  });

  test.each([
    ["that is silent", silence.answer, 504],
    ["whose gateway waited too long", () => failing(504, { message: "late" }), 504],
    [
      "that breaks its streams",
      () => sseResponse([`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "a" } }] })}\n\n`]),
      200,
    ],
    [
      "that ends its streams with an error",
      () =>
        sseResponse([
          `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "a" } }] })}\n\n`,
          `data: ${JSON.stringify({ error: { message: "oh", code: 500 } })}\n\n`,
        ]),
      200,
    ],
  ])("%s: the conversation's next try goes elsewhere, and stays there", async (_, broken, status) => {
    await troupe[Symbol.asyncDispose]();
    troupe = await Troupe.start({
      clock,
      providers: {
        openai: { ...two("sticky"), timeouts },
      },
    });
    // Conversations that live at the first endpoint, and one at the other.
    const names = Array.from({ length: 20 }, (_, at) => `talk ${at}`);
    const homes = new Map<string, number>();
    for (const name of names) {
      const before = upstream.requests.length;
      await ask(name);
      homes.set(name, upstream.requests.length - before);
    }
    const there = names.filter((name) => homes.get(name) === 1);
    expect(there.length).toBeWithin(3, 18);
    upstream.requests.length = 0;
    script = (key) => (key === "k1" ? broken() : undefined);
    const [first, second] = there;
    const statuses: number[] = [];
    for (let at = 0; at < 4; at += 1) {
      const answer = await ask(first!, { stream: status === 200 });
      await answer.text();
      statuses.push(answer.status);
    }
    expect(statuses).toEqual([status, 200, 200, 200]);
    expect(upstream.requests).toHaveLength(1);
    // Nobody else is kept from there for it.
    await (await ask(second!, { stream: status === 200 })).text();
    expect(upstream.requests).toHaveLength(2);
    expect(view().members[0]!.breaker).toMatchObject({ state: "closed", failures: 2 });
  });

  test("that breaks its streams is not asked again for a call, and rests", async () => {
    await fresh(two());
    const chunk = { id: "c", object: "chat.completion.chunk", created: 1, model: "gpt" };
    const delta = {
      ...chunk,
      choices: [{ index: 0, delta: { role: "assistant", content: "a" }, finish_reason: null }],
    };
    script = (key) => (key === "k1" ? sseResponse([`data: ${JSON.stringify(delta)}\n\n`]) : undefined);
    for (let at = 0; at < 3; at += 1) expect(await (await ask("x", { stream: true })).text()).toContain("event: error");
    expect(counts()).toEqual([3, 0]);
    expect(view().members[0]!.breaker).toMatchObject({ state: "open", reason: "broken" });
  });

  test("has the models that are named for it alone", async () => {
    await fresh(
      pool("first", [
        { apiKey: "k1", baseUrl: upstream.url, weight: 1, models: ["small"] },
        { apiKey: "k2", baseUrl: other.url, weight: 1, models: ["gpt"] },
      ]),
    );
    await ask("x");
    await ask("x", { model: "openai/small" });
    await ask("x", { model: "openai/unknown" });
    expect(counts()).toEqual([2, 1]);
  });
});

describe("beside completions", () => {
  test("operations go to a key that does not rest, and learn what does", async () => {
    await fresh();
    script = (_, { path }) =>
      path.endsWith("/embeddings") ? failing(429, { message: "slow" }, { "retry-after": "60" }) : undefined;
    const embed = () => troupe.post("/gateway/v1/embeddings", { model: "openai/gpt", input: "a" });
    for (let at = 0; at < 3; at += 1) expect((await embed()).status).toBe(429);
    expect(asked().toSorted()).toEqual(keys);
    expect(view().members.map(({ callsUnderWay }) => callsUnderWay)).toEqual([0, 0, 0]);
    // All rest: the upstream itself says so.
    expect((await embed()).status).toBe(429);
  });

  test("a provider's own API has the first key, where its files are", async () => {
    await fresh();
    const key = await troupe.createKey({ name: "raw", tier: "pro", surfaces: ["gateway", "raw"] });
    for (let at = 0; at < 4; at += 1) await troupe.fetch("/gateway/providers/openai/files", { key });
    expect(asked()).toEqual(["k1", "k1", "k1", "k1"]);
  });
});

test("the ledger has a line for each attempt, and for a call that all rest before", async () => {
  await fresh();
  const answers = [failing(401, { message: "Incorrect API key provided" }), failing(429, {}, { "retry-after": "5" })];
  script = () => answers.shift();
  const answered = await ask("x");
  script = () => failing(401, { message: "Incorrect API key provided" });
  await ask("y");
  const refused = await ask("z");
  const { services } = troupe.server;
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  await services.ledger.flush();
  const lines = await services.store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 });
  const of = (response: Response) =>
    lines
      .filter(({ requestId }) => requestId === response.headers.get("x-request-id"))
      .reverse()
      .map(({ attempt, ended, status }) => [attempt, ended, status]);
  expect([answered.status, refused.status]).toEqual([200, 503]);
  expect(of(answered)).toEqual([
    [1, "refused", 401],
    [2, "refused", 429],
    [3, "finished", 200],
  ]);
  expect(of(refused)).toEqual([[1, "refused", 503]]);
});

describe("several models behind one name", () => {
  const begun = (aliases: object) =>
    Troupe.start({
      clock,
      config: { aliases: aliases as never },
      providers: {
        openai: { baseUrl: upstream.url, apiKey: "k1" },
        second: { dialect: "openai", baseUrl: other.url, apiKey: "k2" },
      },
    });
  const models = ["openai/gpt", "second/gpt"];

  test("an alias keeps a conversation at one of them, and leaves what rests", async () => {
    await troupe[Symbol.asyncDispose]();
    troupe = await begun({ smart: { models } });
    const talk = (at: number) => ask(`talk ${at}`, { model: "smart" });
    for (let at = 0; at < 40; at += 1) await talk(at);
    const before = [upstream.requests.length, other.requests.length];
    expect(Math.min(...before)).toBeGreaterThan(0);
    for (let at = 0; at < 40; at += 1) await talk(at);
    expect([upstream.requests.length, other.requests.length]).toEqual(before.map((count) => count * 2));
    script = (key) => (key === "k1" ? failing(401, { message: "Incorrect API key provided" }) : undefined);
    const answers = await Promise.all(Array.from({ length: 40 }, (_, at) => talk(at)));
    expect(answers.map(({ status }) => status)).toEqual(Array(40).fill(200));
    // A model that is named itself stays.
    expect((await ask("x")).status).toBe(401);
  });

  test("one that has no such model leaves the call to the other", async () => {
    await troupe[Symbol.asyncDispose]();
    troupe = await begun({ smart: { models, strategy: "first" } });
    script = (key) => (key === "k1" ? failing(404, { code: "model_not_found" }) : undefined);
    for (let at = 0; at < 3; at += 1) expect((await ask("x", { model: "smart" })).status).toBe(200);
    expect(upstream.requests).toHaveLength(3);
  });

  test("a key must be for all of them, or for the alias", async () => {
    await troupe[Symbol.asyncDispose]();
    troupe = await begun({ smart: { models, strategy: "first" } });
    const key = (name: string, ...globs: string[]) => troupe.createKey({ name, tier: "pro", models: globs });
    const status = async (secret: string) =>
      (
        await troupe.post(
          "/gateway/v1/chat/completions",
          { model: "smart", messages: [{ role: "user", content: "x" }] },
          { key: secret },
        )
      ).status;
    expect(await status(await key("a", "openai/*"))).toBe(403);
    expect(await status(await key("b", "openai/*", "second/*"))).toBe(200);
    expect(await status(await key("c", "smart"))).toBe(200);
  });
});

test("a persona's strategy leaves what rests, and its answers tell when to try again", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("house"));
  const persona = "description: Cooks.\nmodel: [openai/gpt, second/gpt]\nstrategy: first\nsystem: You cook.\n";
  writeFileSync(folder.file("house/cook.yaml"), persona);
  await troupe[Symbol.asyncDispose]();
  troupe = await Troupe.start({
    clock,
    personas: folder.path,
    providers: {
      openai: { baseUrl: upstream.url, apiKey: "k1" },
      second: { dialect: "openai", baseUrl: other.url, apiKey: "k2" },
    },
  });
  const cook = () =>
    troupe.post("/v1/chat/completions", { model: "house/cook", messages: [{ role: "user", content: "soup" }] });
  script = (key) => (key === "k1" ? failing(429, {}, { "retry-after": "30" }) : undefined);
  for (let at = 0; at < 3; at += 1) expect((await cook()).status).toBe(200);
  expect([upstream.requests.length, other.requests.length]).toEqual([1, 3]);
  script = () => failing(429, {}, { "retry-after": "20" });
  expect((await cook()).status).toBe(503);
  const resting = await cook();
  expect([resting.status, resting.headers.get("retry-after")]).toEqual([503, "20"]);
  expect([upstream.requests.length, other.requests.length]).toEqual([1, 4]);
});

test("a conversation that the provider stores is continued with the key that began it", async () => {
  await fresh();
  script = (key) =>
    jsonResponse({
      id: `resp_of_${key}`,
      object: "response",
      created_at: 1,
      status: "completed",
      model: "gpt",
      output: [
        {
          type: "message",
          id: "m",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: key, annotations: [] }],
        },
      ],
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    });
  for (let at = 0; at < 8; at += 1) {
    upstream.requests.length = 0;
    const first = await troupe.post("/gateway/v1/responses", { model: "openai/gpt", input: `talk ${at}`, store: true });
    const { id } = (await first.json()) as { id: string };
    const [key] = asked();
    expect(id).toBe(`resp_of_${key}`);
    // Another session key would lead elsewhere.
    for (const prompt_cache_key of ["a", "b", "c", "d"])
      await troupe.post("/gateway/v1/responses", {
        model: "openai/gpt",
        input: "go on",
        previous_response_id: id,
        prompt_cache_key,
      });
    expect(asked()).toEqual([key!, key!, key!, key!, key!]);
    expect((upstream.last.json as { previous_response_id?: string }).previous_response_id).toBe(id);
  }
});

test("a reload keeps the rest of a key that stays, and calls one that was changed", async () => {
  await fresh();
  script = (key) => (key === "k3" ? undefined : failing(401, { message: "Incorrect API key provided" }));
  for (let at = 0; at < 12; at += 1) expect((await ask(`talk ${at}`)).status).toBe(200);
  const { server } = troupe;
  const { config } = server.services.live;
  const changed = ["k1", "new", "k3"].map((apiKey) => ({ apiKey, baseUrl: upstream.url, weight: 1 }));
  const resting = () => view().members.map(({ cooldowns }) => cooldowns.length);
  expect(resting()).toEqual([1, 1, 0]);
  server.reload({ ...config, providers: [{ ...config.providers[0]!, ...pool("sticky", changed) }] });
  expect(resting()).toEqual([1, 0, 0]);
  upstream.requests.length = 0;
  script = () => undefined;
  for (let at = 0; at < 24; at += 1) await ask(`talk ${at}`);
  expect(asked()).not.toContain("k1");
  expect(new Set(asked())).toEqual(new Set(["new", "k3"]));
});

test("under errors of every kind no call is billed twice, none asks a member twice, and every key comes back", async () => {
  await troupe[Symbol.asyncDispose]();
  const at = (apiKey: string, baseUrl: string) => ({ apiKey, baseUrl, weight: 1 });
  const members = [at("k1", upstream.url), at("k2", upstream.url), at("k1", other.url), at("k3", other.url)];
  troupe = await Troupe.start({ clock, providers: { openai: { ...pool("sticky", members), timeouts } } });
  const random = Random.fromEnvironment("TROUPE_TEST_SEED");
  const failures: (() => Response | Promise<Response>)[] = [
    () => failing(401, { message: "Incorrect API key provided" }),
    () => failing(402, { message: "Insufficient credits" }),
    () => failing(429, { message: "slow" }, { "retry-after": String(1 + random.below(30)) }),
    () => failing(500, { message: "broken" }),
    () => failing(529, { message: "overloaded" }),
    silence.answer,
  ];
  const billed = new Map<string, number>();
  const seen = new Map<string, string[]>();
  script = (member, request) => {
    const { content } = (request.json as { messages: { content: string }[] }).messages[0]!;
    seen.set(content, [...(seen.get(content) ?? []), member]);
    const failure = random.below(3) === 0 ? random.pick(failures) : undefined;
    const isBilled = failure === undefined || failure === failures.at(-1);
    if (isBilled) billed.set(content, (billed.get(content) ?? 0) + 1);
    return failure?.();
  };
  const statuses = new Set<number>();
  for (let round = 0; round < 60; round += 1) {
    const calls = Array.from({ length: 5 }, (_, call) => ask(`talk ${round} ${call}`));
    for (const { status } of await Promise.all(calls)) statuses.add(status);
    shift += random.below(90) * second;
  }
  expect(Math.max(...billed.values())).toBe(1);
  for (const asked of seen.values()) expect(new Set(asked).size).toBe(asked.length);
  expect(statuses).toContain(200);
  // What is mended comes back when its rest is over.
  script = () => undefined;
  shift += 2 * hour;
  upstream.requests.length = 0;
  other.requests.length = 0;
  for (let call = 0; call < 60; call += 1) expect((await ask(`late ${call}`)).status).toBe(200);
  expect([new Set(asked()).size, new Set(other.requests.map(keyOf)).size]).toEqual([2, 2]);
  expect(view().members.flatMap(({ cooldowns, callsUnderWay }) => [cooldowns.length, callsUnderWay])).toEqual(
    Array(8).fill(0),
  );
});
