/** The admin API's routes of providers, and what `/health`, the metrics and the ledger show of their keys. */
import { expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
};
const hash = (key: string) => new Bun.CryptoHasher("sha256").update(key).digest("hex").slice(0, 8);

test("a key that rests is shown by its fingerprint with the reason, a test calls each key, and nobody else sees names", async () => {
  using upstream = new UpstreamServer(({ headers }) => {
    const key = headers.get("authorization")!.slice("Bearer ".length);
    if (key === "bad-key-1") return jsonResponse({ error: { message: `${"x".repeat(270)} ${key}` } }, 401);
    return jsonResponse(answer);
  });
  const baseUrl = upstream.url;
  const members = ["bad-key-1", "good-key-2"].map((apiKey) => ({ apiKey, baseUrl, weight: 1 }));
  const usual = ["orchestrator", "gateway", "admin"] as const;
  await using troupe = await Troupe.start({
    providers: {
      openai: { baseUrl, apiKey: members[0]!.apiKey, pool: { strategy: "first", members } },
      groq: { baseUrl },
    },
    config: {
      listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: [...usual] }],
      prices: [{ match: "openai/m", input: 1, output: 6 }],
    },
  });
  const { services } = troupe.server;
  const { secret: key } = await services.keys.create({
    ...{ name: "admin", tier: "pro", perMinute: 1_000, surfaces: ["admin"] },
  });
  const ask = async (path: string, init: RequestInit = {}) => {
    const got = await troupe.fetch(path, { key, ...init });
    return { status: got.status, json: (await got.json()) as Record<string, unknown> };
  };
  const called = await troupe.post("/gateway/v1/chat/completions", {
    model: "openai/m",
    messages: [{ role: "user", content: "hi" }],
  });
  await called.text();
  expect(called.status).toBe(200);
  expect(called.headers.get("x-troupe-attempts")).toBe("2");

  const rest = { model: null, reason: "unauthorized", until: expect.any(String), workers: 1 };
  const closed = { state: "closed", reason: null, until: null, failures: 0, workers: 1 };
  const keys = [
    expect.objectContaining({ fingerprint: hash("bad-key-1"), endpoint: baseUrl, rests: [rest], breaker: closed }),
    expect.objectContaining({ fingerprint: hash("good-key-2"), rests: [], breaker: closed, calls_under_way: 0 }),
  ];
  const openai = {
    object: "provider",
    id: "openai",
    dialect: "openai",
    state: "degraded",
    strategy: "first",
    keys,
    workers: null,
  };
  const list = await ask("/admin/v1/providers");
  expect(list).toMatchObject({ status: 200, json: { object: "list", data: [openai, { id: "groq", state: "ok" }] } });
  expect(await ask("/admin/v1/providers/openai")).toMatchObject({
    status: 200,
    json: {
      ...openai,
      last_hour: { attempts: 2, failures: 1, error_rate: 0.5, first_token_ms: { p50: null, p95: null } },
      last_errors: [
        {
          ...{ reason: "unauthorized", status: 401, key: hash("bad-key-1"), endpoint: baseUrl },
          error_text: "an error that quotes the key",
          request_id: called.headers.get("x-request-id"),
        },
      ],
    },
  });
  expect((await ask("/admin/v1/providers/none")).status).toBe(404);
  expect((await ask("/admin/v1/providers/builtin")).status).toBe(404);

  const test = { method: "POST", headers: { "content-type": "application/json" }, body: '{"model":"m"}' };
  const tested = await ask("/admin/v1/providers/openai/test", test);
  const one = { endpoint: baseUrl, milliseconds: expect.any(Number) };
  expect(tested).toMatchObject({
    status: 200,
    json: {
      ...{ object: "provider.tested", provider: "openai", model: "m" },
      results: [
        {
          ...{ ...one, fingerprint: hash("bad-key-1"), answered: false, status: 401, reason: "unauthorized" },
          ...{ message: "an error that quotes the key", answer: null, tokens: null, cost_micro_dollars: null },
        },
        {
          ...{ ...one, fingerprint: hash("good-key-2"), answered: true, status: 200, reason: null, message: null },
          ...{ answer: "ok", tokens: { input: 5, output: 1 }, cost_micro_dollars: 11 },
        },
      ],
    },
  });
  const page = { before: null, limit: 5, actor: null, act: "provider.test", subject: null };
  const audited = await services.store.audit.list(page);
  expect(audited).toMatchObject([{ subject: "openai" }]);
  expect(JSON.stringify([list, tested, audited])).not.toMatch(/bad-key|good-key/);

  const open = await (await troupe.fetch("/health", { key: null })).text();
  expect(JSON.parse(open).checks.providers).toEqual({ status: "ok", set_up: 2, degraded: 1 });
  const { json: health } = await ask("/health");
  expect((health["checks"] as Record<string, unknown>)["providers"]).toMatchObject({
    rests: [{ provider: "openai", keys: [{ key: hash("bad-key-1"), reason: "unauthorized" }] }],
  });
  const metrics = await (await troupe.fetch("/metrics", { key: null })).text();
  expect(metrics).toContain('troupe_rests_total{gen_ai_provider_name="openai",reason="unauthorized"} 1\n');
  expect(metrics).toContain('troupe_keys_resting{gen_ai_provider_name="openai",reason="unauthorized"} 1\n');
  expect(metrics).toContain('troupe_breakers{gen_ai_provider_name="openai",state="closed"} 1\n');
  expect(metrics).toContain('troupe_attempts_left_total{gen_ai_provider_name="openai",reason="unauthorized"} 1\n');
  expect(metrics).not.toContain(hash("bad-key-1"));
});
