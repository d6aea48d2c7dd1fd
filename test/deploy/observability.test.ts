import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PodMonitor, PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";
import { parse } from "yaml";
import { prometheusRule } from "../../deploy/kubernetes/monitoring/make.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";
import { Troupe, testConfig } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Rule = { alert: string; expr: string; annotations: Record<string, string> };
type Panel = {
  id: number;
  title: string;
  /** Absent: a heading. */
  targets?: { expr: string }[];
  gridPos: { x: number; y: number; w: number; h: number };
};

const rules = (parse(readFileSync("deploy/alerts.yaml", "utf8")) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);
const dashboard = JSON.parse(readFileSync("deploy/grafana-dashboard.json", "utf8")) as { panels: Panel[] };
const queries = [
  ...rules.map(({ alert, expr }) => ({ where: alert, expr })),
  ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ where: title, expr }))),
];

const monitoring = "deploy/kubernetes/monitoring";

/** Made by Prometheus itself. */
const foreign = { metrics: ["up"], labels: ["job", "instance", "le"] };

/** Labels by metric, as a node that has seen everything shows them: one of several, with a database, coordination, budgets and alerts. */
const labels = new Map<string, Set<string>>();

const hasServers = hasPostgres && hasRedis;
const usual = testConfig("", {}).budgets;

beforeAll(async () => {
  if (!hasServers) return;
  const chunk =
    'data: {"id":"u","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\ndata: [DONE]\n\n';
  await using postgres = await PostgresServer.start();
  await using redis = await RedisServer.start();
  using upstream = new UpstreamServer(({ json }) => {
    const { model } = json as { model: string };
    if (model === "refused") return jsonResponse({ error: { message: "no" } }, 401);
    if (model === "broken") return jsonResponse({ error: { message: "busy" } }, 503);
    return sseResponse([chunk]);
  });
  const url = await postgres.createDatabase();
  await using troupe = await Troupe.start({
    providers: {
      openai: { baseUrl: upstream.url },
      pooled: {
        ...{ dialect: "openai", baseUrl: upstream.url, apiKey: "a" },
        pool: {
          strategy: "first",
          members: ["a", "b"].map((apiKey) => ({ apiKey, baseUrl: upstream.url, weight: 1 })),
        },
      },
    },
    config: {
      store: { url, pool: 4, statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 },
      coordination: redis.url(),
      metrics: { money: true },
      prices: [{ match: "*/x", input: 1, output: 1 }],
      budgets: {
        ...usual,
        unknownPrice: "allow",
        all: { day: 1_000_000 },
        tiers: { ...usual.tiers, free: { day: 0 } },
      },
      alerts: { urls: [upstream.url], secret: "secret" },
    },
  });
  const messages = [{ role: "user", content: "hi" }];
  const ask = async (path: string, body: object, init: { key?: string; headers?: Record<string, string> } = {}) =>
    (await troupe.post(path, { messages, ...body }, init)).text();
  await ask(
    "/gateway/v1/chat/completions",
    { model: "openai/x", stream: true },
    { headers: { "service-request-id": "a" } },
  );
  await ask("/gateway/v1/chat/completions", { model: "openai/broken" });
  await ask("/gateway/v1/chat/completions", { model: "openai/unpriced" });
  await ask("/gateway/v1/chat/completions", { model: "pooled/refused" });
  await ask("/gateway/v1/chat/completions", { model: "openai/gpt-4o" });
  troupe.setTargets("troupe/guide", ["openai/broken", "openai/x"]);
  await ask("/v1/chat/completions", { model: "troupe/guide" });
  const poor = await troupe.createKey({ name: "poor", tier: "free" });
  await ask("/gateway/v1/chat/completions", { model: "openai/x" }, { key: poor });
  const key = await troupe.createKey({ name: "slow", tier: "enterprise", perMinute: 1 });
  for (let time = 0; time < 2; time += 1) await ask("/v1/chat/completions", { model: "troupe/guide" }, { key });
  const { services } = troupe.server;
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  for (const line of (await (await troupe.fetch("/metrics")).text()).split("\n")) {
    const [, type] = /^# TYPE (\S+)/.exec(line) ?? [];
    if (type !== undefined) labels.set(type, labels.get(type) ?? new Set());
    const [, name = "", inner = ""] = /^([a-z_]+)(?:\{(.*)\})? /.exec(line) ?? [];
    const known = labels.get(name) ?? new Set();
    for (const [, label] of inner.matchAll(/([a-z_]+)="/g)) known.add(label!);
    if (name !== "") labels.set(name, known);
  }
});
afterAll(() => labels.clear());

/** Selectors with the labels they name, and what is grouped by. */
function partsOf(expr: string): { metric: string; used: string[] }[] {
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) =>
    list!.split(",").map((name) => name.trim()),
  );
  const bare = expr.replace(/\bby \([^)]*\)/g, "").replace(/\[[^\]]*\]/g, "");
  return [...bare.matchAll(/\b((?:troupe|gen_ai|http|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?/g)]
    .filter(([, name]) => !grouped.includes(name!) || labels.has(name!))
    .map(([, metric, inner = ""]) => ({
      metric: metric!,
      used: [...grouped, ...[...inner.matchAll(/([a-z_]+)\s*[=!]/g)].map(([, name]) => name!)],
    }));
}

describe("dashboard and alerts", () => {
  test.skipIf(!hasServers)("ask only for metrics that there are, by labels that they have", () => {
    const wrong = queries.flatMap(({ where, expr }) => {
      const parts = partsOf(expr);
      if (parts.length === 0) return [`${where}: no metric in ${expr}`];
      return parts.flatMap(({ metric, used }) => {
        if (foreign.metrics.includes(metric)) return [];
        const known = labels.get(metric);
        if (known === undefined) return [`${where}: there is no ${metric}`];
        const unknown = used.filter((name) => !known.has(name) && !foreign.labels.includes(name));
        return unknown.map((name) => `${where}: ${metric} has no label ${name}`);
      });
    });
    expect(wrong).toEqual([]);
    expect(queries.length).toBeGreaterThan(25);
  });

  test.skipIf(!hasServers)("the pages name only metrics that there are", () => {
    const pages = globSync("docs/**/*.md").map((path) => readFileSync(path, "utf8"));
    const named = pages.flatMap((page) => page.match(/\btroupe_[a-z_]+\b/g) ?? []);
    expect(named.length).toBeGreaterThan(50);
    // What a supervisor adds has tests of its own, with workers.
    const known = new Set([...labels.keys(), "troupe_workers", "troupe_worker_restarts_total"]);
    expect([...new Set(named)].filter((name) => !known.has(name))).toEqual([]);
  });

  test("take the rate or the increase of what only grows, and of nothing else", () => {
    const wrong = queries.flatMap(({ where, expr }) =>
      partsOf(expr).flatMap(({ metric }) => {
        const grows = /_(total|bucket|sum|count)$/.test(metric);
        const isRate = new RegExp(`\\b(rate|increase)\\(${metric}\\b`).test(expr);
        return grows === isRate ? [] : [`${where}: ${expr}`];
      }),
    );
    expect(wrong).toEqual([]);
  });

  test("every metric of ours that is counted is shown or watched", () => {
    const used = new Set(
      queries.flatMap(({ expr }) => partsOf(expr).map(({ metric }) => metric.replace(/_(bucket|count|sum)$/, ""))),
    );
    for (const metric of [
      "troupe_active_streams",
      "troupe_overhead_seconds",
      "gen_ai_client_token_usage",
      "troupe_upstream_errors_total",
    ])
      expect([...used]).toContain(metric);
  });

  test("each alert says what to do, and leads to a runbook", () => {
    const page = readFileSync("docs/runbooks.md", "utf8");
    const headings = [...page.matchAll(/^## (.*)$/gm)].map(([, heading]) =>
      heading!.toLowerCase().replaceAll(" ", "-"),
    );
    const ofKubernetes = parse(readFileSync(join(monitoring, "prometheusrule-kubernetes.yaml"), "utf8")) as {
      spec: { groups: { rules: Rule[] }[] };
    };
    const all = [...rules, ...ofKubernetes.spec.groups.flatMap((group) => group.rules)];
    expect(all.length).toBeGreaterThan(30);
    for (const { alert, annotations } of all) {
      expect(annotations["advice"], alert).toBeString();
      const [file, anchor] = annotations["runbook_url"]!.split("#");
      expect([alert, file, headings.includes(anchor!)]).toEqual([alert, "docs/runbooks.md", true]);
    }
  });

  test("a server that is away altogether is noticed", () => {
    expect(rules.find(({ alert }) => alert === "TroupeAbsent")!.expr).toContain("absent(");
  });

  test("Kubernetes has the same rules, and all that is there is applied", () => {
    const made = readFileSync(join(monitoring, "prometheusrule.yaml"), "utf8");
    expect(made).toBe(prometheusRule(readFileSync("deploy/alerts.yaml", "utf8")));
    const { resources } = parse(readFileSync(join(monitoring, "kustomization.yaml"), "utf8")) as {
      resources: string[];
    };
    const files = readdirSync(monitoring).filter((file) => file.endsWith(".yaml") && file !== "kustomization.yaml");
    expect(files.toSorted()).toEqual(resources.toSorted());
    for (const file of files) {
      const { kind, apiVersion, ...rest } = parse(readFileSync(join(monitoring, file), "utf8"));
      expect(apiVersion).toBe("monitoring.coreos.com/v1");
      expect(["PodMonitor", "PrometheusRule"]).toContain(kind);
      const Model = kind === "PodMonitor" ? PodMonitor : PrometheusRule;
      expect(() => new Model(rest).validate()).not.toThrow();
    }
  });

  test("panels do not lie on each other", () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(Math.max(...dashboard.panels.map(({ gridPos: { x, w } }) => x + w))).toBeLessThanOrEqual(24);
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  });
});
