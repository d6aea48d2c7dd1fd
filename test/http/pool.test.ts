/** Several keys and endpoints behind one account, over real sockets. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { PoolConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";

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
const clock = { ...systemClock, now: () => begin + shift, monotonic: () => 1_000_000 + shift };
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
  ])("after %s, while others answer, and comes back", async (_, failure, ms, reason) => {
    await fresh();
    await ask("x");
    const [home] = asked();
    script = (key) => (key === home ? failure() : undefined);
    const answer = await ask("x");
    expect(answer.status).toBe(200);
    expect(asked()).toHaveLength(3);
    const [rest] = view().members.flatMap(({ rests }) => rests);
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
    expect(view().members.flatMap(({ rests }) => rests)).toEqual([]);
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
