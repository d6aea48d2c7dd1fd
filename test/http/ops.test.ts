import { describe, expect, test } from "bun:test";
import manifest from "../../package.json" with { type: "json" };
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { parsePrometheus } from "../helpers/prometheus.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const troupe = untilEnd(await Troupe.start());

const get = (path: string) => troupe.fetch(path, { key: null });

describe("the open endpoints", () => {
  test("/health tells of its checks", async () => {
    const response = await get("/health");
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      status: "ok",
      version: manifest.version,
      uptime_seconds: expect.any(Number),
      checks: {
        storage: { status: "ok" },
        ledger: { status: "ok", waiting: 0 },
        personas: { status: "ok", loaded: 8, version: expect.stringMatching(/^[0-9a-f]{12}$/) },
        configuration: { status: "ok", version: expect.stringMatching(/^[0-9a-f]{12}$/) },
        providers: { status: "ok", set_up: 0 },
      },
    });
  });

  test("/health is degraded while no line of the ledger can be written", async () => {
    const { ledger: lines } = troupe.server.services.store;
    const { ledger } = troupe.server.services;
    const { append } = lines;
    lines.append = async () => {
      throw new Error("no such column: tier");
    };
    const body = { model: "builtin/echo", messages: [{ role: "user", content: "Hi" }] };
    try {
      await (await troupe.post("/gateway/v1/chat/completions", body)).text();
      await ledger.flush();
      const response = await get("/health");
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({
        status: "degraded",
        checks: {
          ledger: {
            status: "failing",
            waiting: 1,
            message: "No line of the ledger can be written: they wait in memory.",
          },
        },
      });
    } finally {
      lines.append = append;
    }
    await ledger.flush();
    expect(await (await get("/health")).json()).toMatchObject({ status: "ok", checks: { ledger: { waiting: 0 } } });
  });

  test("/health is 503 when storage is lost", async () => {
    const { maintenance } = troupe.server.services.store;
    const { check } = maintenance;
    maintenance.check = async () => {
      throw new Error("disk I/O error");
    };
    try {
      const response = await get("/health");
      expect(response.status).toBe(503);
      const keys = { status: "failing", message: "Keys can't be made, changed or revoked, as the storage fails." };
      expect(await response.json()).toMatchObject({
        status: "degraded",
        checks: { storage: { status: "failing" }, keys },
      });
    } finally {
      maintenance.check = check;
    }
  });

  test("/health says that keys can't be read, until they can", async () => {
    const { store, keys } = troupe.server.services;
    const known = await troupe.createKey({ name: "known", tier: "free" });
    await keys.refresh();
    const { changes } = store.keys;
    store.keys.changes = async () => {
      throw new StorageError("away", "keys.db", "gone");
    };
    const newer = await troupe.createKey({ name: "newer", tier: "free" });
    const statusOf = async (key: string) => (await troupe.fetch("/v1/models", { key })).status;
    try {
      expect(await statusOf(known)).toBe(200);
      // It may be one that could not be read yet.
      expect(await statusOf(newer)).toBe(503);
      const response = await get("/health");
      expect(response.status).toBe(200);
      const { status, checks } = (await response.json()) as { status: string; checks: Record<string, unknown> };
      expect([status, checks["storage"], checks["keys"]]).toEqual([
        "degraded",
        { status: "ok" },
        {
          status: "failing",
          message: "Keys can't be read: those that are known are let in, and no change of a key counts.",
        },
      ]);
    } finally {
      store.keys.changes = changes;
    }
    expect(await statusOf(newer)).toBe(200);
    expect(await (await get("/health")).json()).not.toHaveProperty("checks.keys");
  });

  test("/healthz is `ok`", async () => {
    const response = await get("/healthz");
    expect([response.status, await response.text()]).toEqual([200, "ok"]);
  });

  test("/version names the API's version", async () => {
    expect(await (await get("/version")).json()).toEqual({
      name: "troupe",
      version: manifest.version,
      api_version: "v1",
      commit: expect.any(String),
      built_at: expect.any(String),
      runtime: `bun ${Bun.version}`,
    });
  });
});

describe("/metrics", () => {
  const samples = async () => {
    const response = await get("/metrics");
    expect(response.headers.get("content-type")).toStartWith("text/plain; version=0.0.4");
    return new Map(
      (await response.text())
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("#"))
        .map((line): [string, number] => {
          const space = line.lastIndexOf(" ");
          return [line.slice(0, space), Number(line.slice(space + 1))];
        }),
    );
  };
  const chat = (changes: object = {}) =>
    troupe.post("/gateway/v1/chat/completions", {
      model: "builtin/echo",
      messages: [{ role: "user", content: "one two three" }],
      ...changes,
    });

  test("counts requests, tokens, first tokens and refusals", async () => {
    const before = await samples();
    const grown = async (name: string) => ((await samples()).get(name) ?? 0) - (before.get(name) ?? 0);
    await (await chat()).text();
    await (await chat({ stream: true })).text();
    const key = await troupe.createKey({ name: "tiny", tier: "enterprise", perMinute: 1 });
    for (let call = 0; call < 3; call += 1) await troupe.fetch("/v1/models", { key });

    const labels = 'gen_ai_provider_name="builtin",gen_ai_request_model="echo"';
    expect(
      await grown(
        'http_server_request_duration_seconds_count{surface="gateway",route="/gateway/v1/chat/completions",method="POST",status="200"}',
      ),
    ).toBe(2);
    expect(
      await grown(`gen_ai_client_token_usage_sum{gen_ai_token_type="input",${labels},gen_ai_operation_name="chat"}`),
    ).toBe(6);
    expect(
      await grown(`gen_ai_client_token_usage_count{gen_ai_token_type="output",${labels},gen_ai_operation_name="chat"}`),
    ).toBe(2);
    expect(
      await grown(
        `gen_ai_server_time_to_first_token_seconds_count{surface="gateway",${labels},format="chat",gen_ai_operation_name="chat"}`,
      ),
    ).toBe(1);
    expect(await grown('troupe_rate_limit_refusals_total{surface="orchestrator",tier="enterprise"}')).toBe(2);
    expect(await grown('troupe_overhead_seconds_count{surface="gateway"}')).toBe(2);
  });

  test("callers can't make labels without bound", async () => {
    for (let name = 0; name < 3; name += 1) await troupe.fetch(`/v1/odd-${name}`);
    await troupe.fetch("/v1/models/troupe/odd");
    const names = [...(await samples()).keys()].filter((name) => name.includes("odd"));
    expect(names).toEqual([]);
  });

  test("every scraper can read it: families are whole, and histograms add up", async () => {
    using upstream = new UpstreamServer(() =>
      jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }] }),
    );
    await using other = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } } });
    const messages = [{ role: "user", content: "hi" }];
    for (const model of ['openai/a"b\\c', "openai/plain"]) {
      for (const stream of [true, false])
        await (await other.post("/gateway/v1/chat/completions", { model, messages, stream })).text();
    }
    const families = parsePrometheus(await (await other.fetch("/metrics")).text());
    expect(families.size).toBeGreaterThan(10);
    const models = families.get("gen_ai_server_request_duration_seconds")!.samples.map(({ labels }) => labels);
    expect(new Set(models.map((labels) => labels["gen_ai_request_model"]))).toEqual(new Set(['a"b\\c', "plain"]));
    for (const [name, { type, help, samples }] of families) {
      expect(help).not.toBe("");
      if (type === "counter") expect(name).toEndWith("_total");
      if (type !== "histogram") continue;
      const series = Map.groupBy(samples, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels));
      for (const one of series.values()) {
        const buckets = one.filter((sample) => sample.name.endsWith("_bucket"));
        const bounds = buckets.map(({ labels }) => (labels["le"] === "+Inf" ? Infinity : Number(labels["le"])));
        expect(bounds).toEqual(bounds.toSorted((a, b) => a - b));
        expect(bounds.at(-1)).toBe(Infinity);
        const values = buckets.map(({ value }) => value);
        expect(values).toEqual(values.toSorted((a, b) => a - b));
        expect(one.find((sample) => sample.name.endsWith("_count"))!.value).toBe(values.at(-1)!);
      }
    }
  });
});
