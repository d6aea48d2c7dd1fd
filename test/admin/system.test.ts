/** The admin API's routes of the installation: the configuration in force, the node's health, and the calls under way. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { HeldStream } from "../helpers/held-stream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

const secret = "sk-upstream-secret";

async function get({ url, key }: TroupeProcess, path: string): Promise<Json> {
  const answer = await fetch(`${url}/admin/v1${path}`, { headers: { authorization: `Bearer ${key}` } });
  const json = (await answer.json()) as Json;
  expect({ path, status: answer.status, json }).toMatchObject({ status: 200 });
  return json;
}

test("the configuration in force is shown with the origin of each value and without a secret, also after a reload", async () => {
  using folder = new TempFolder();
  const file = folder.file("troupe.yaml");
  const settings = (level: string, anonymous: number) =>
    `log:\n  level: ${level}\ntiers: { pro: 1000000 }\nlimits:\n  anonymous_per_minute: ${anonymous}\n`;
  const mycorp = `providers:\n  mycorp: { dialect: openai, base_url: "http://127.0.0.1:9/v1", api_key: ${secret} }\n`;
  writeFileSync(file, settings("info", 500) + mycorp);
  await using troupe = await TroupeProcess.start(folder.path, "http://127.0.0.1:9/v1", {
    env: { OPENAI_API_KEY: secret, TROUPE_CONFIG: file },
  });
  const before = await get(troupe, "/configuration");
  expect(before).toMatchObject({
    object: "configuration",
    version: expect.stringMatching(/^[0-9a-f]+$/),
    values: {
      log: { level: "info" },
      data: folder.path,
      providers: { openai: { api_key: "***" }, mycorp: { api_key: "***" } },
    },
    origins: {
      "log.level": { where: "file", name: expect.stringMatching(/troupe\.yaml:2:\d+$/) },
      data: { where: "command line", name: "--data" },
      "providers.openai.api_key": { where: "environment", name: "OPENAI_API_KEY" },
    },
  });
  expect(JSON.stringify(before)).not.toContain(secret);
  const anonymous = await fetch(`${troupe.url}/admin/v1/configuration`);
  expect(anonymous.status).toBe(401);
  await anonymous.body?.cancel();

  writeFileSync(file, `\n\n${settings("warn", 700)}`);
  troupe.signal("SIGHUP");
  let after = before;
  while ((after["values"] as { limits: Json }).limits["anonymous_per_minute"] !== 700)
    after = await get(troupe, "/configuration");
  // The log's level waits for a restart.
  expect(after).toMatchObject({
    values: { log: { level: "info" } },
    origins: { "limits.anonymous_per_minute": { where: "file", name: expect.stringMatching(/troupe\.yaml:7:\d+$/) } },
  });
  expect(after["version"]).not.toBe(before["version"]);
  expect((await get(troupe, "/health"))["last_reload"]).toEqual({
    at: expect.stringMatching(/Z$/),
    changed: expect.arrayContaining(["limits.anonymous_per_minute"]),
    error: null,
  });

  writeFileSync(file, "limits: { nothing_of_that_name: 1 }\n");
  troupe.signal("SIGHUP");
  const failed = async () => (await get(troupe, "/health"))["last_reload"] as { error: string | null };
  while ((await failed()).error === null) await Bun.sleep(20);
  expect(await failed()).toMatchObject({ changed: [], error: "the configuration is invalid" });
  expect(Object.keys((after["values"] as Json)["providers"] as Json)).toEqual(["openai"]);
});

test("calls under way are listed without their ends, and are gone once they have ended", async () => {
  using folder = new TempFolder();
  const held = new HeldStream();
  using upstream = new UpstreamServer(() => held.response());
  await using troupe = await TroupeProcess.start(folder.path, upstream.url);
  expect(await get(troupe, "/calls/open")).toEqual({
    object: "list",
    data: [],
    has_more: false,
    total: 0,
    workers: null,
  });
  const call = fetch(`${troupe.url}/gateway/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${troupe.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "openai/x", stream: true, messages: [{ role: "user", content: "Hi." }] }),
  });
  held.fragment("Hello");
  const answer = await call;
  const { data, total } = (await get(troupe, "/calls/open")) as { data: Json[]; total: number };
  expect([total, data.length]).toEqual([1, 1]);
  expect(data[0]).toMatchObject({
    object: "call.open",
    request_id: answer.headers.get("x-request-id"),
    attempt: 1,
    surface: "gateway",
    format: "chat",
    model: "openai/x",
    provider: "openai",
    upstream_model: "x",
    age_ms: expect.any(Number),
  });
  for (const name of ["ended", "status", "tokens", "cost_micro_dollars", "total_ms"])
    expect(data[0]).not.toHaveProperty(name);
  const health = await get(troupe, "/health");
  expect(health).toMatchObject({
    object: "health",
    status: "ok",
    store: "sqlite",
    requests_under_way: 2,
    draining: false,
    database_bytes: expect.any(Number),
    memory_bytes: expect.any(Number),
    listeners: [
      { address: expect.stringMatching(/^127\.0\.0\.1:/), tls: false, surfaces: ["orchestrator", "gateway", "admin"] },
    ],
    ledger: { lines_waiting: 0, lag_seconds: 0, lines_lost: 0 },
    workers: null,
    checks: { storage: { status: "ok" }, personas: { status: "ok" } },
  });
  expect(new Date(health["started_at"] as string).getTime()).toBeLessThanOrEqual(Date.now());

  // With its counts: a call without them is open until its tokens are counted here.
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  held.event({ id: "up", choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage });
  held.event("[DONE]");
  held.close();
  await answer.text();
  expect(await get(troupe, "/calls/open")).toMatchObject({ data: [], total: 0 });
});
