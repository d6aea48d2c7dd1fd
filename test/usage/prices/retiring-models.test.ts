/** Models in use whose end is announced: in the log once a day, and as a metric. */
import { expect, test } from "bun:test";
import { Registry } from "../../../src/lib/process/metrics.ts";
import { providers } from "../../../src/providers/registry.ts";
import { Accounts } from "../../../src/upstream/accounts.ts";
import { RetiringModels, retiringMetrics } from "../../../src/usage/prices/retiring-models.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { testConfig } from "../../helpers/troupe.ts";
import { WatchedLog } from "../../helpers/watched-log.ts";

const dayMs = 86_400_000;

function scene() {
  const clock = new ManualClock(Date.parse("2026-12-01T12:00:00Z"));
  const log = new WatchedLog();
  const used = new Map([
    ["gpt-4o", 1],
    ["gpt-5.5", 1],
    ["listed", 1],
    ["far", 1],
  ]);
  const { providers: configured } = testConfig("", { providers: { openai: { baseUrl: "http://127.0.0.1:9" } } });
  const accounts = new Accounts(configured, providers);
  const listed: Readonly<Record<string, string>> = { listed: "2026-11-01", far: "2030-01-01" };
  const models = new RetiringModels({
    used: () => [
      ...[...used].map(([model, calls]) => ({ provider: "openai", model, calls })),
      { provider: "gone", model: "gpt-4o", calls: 1 },
    ],
    accounts: () => accounts,
    lists: { find: (_, model) => (listed[model] === undefined ? undefined : { id: model, endsOn: listed[model] }) },
    clock,
    log: log.log,
  });
  return { clock, log, models, call: (model: string) => used.set(model, used.get(model)! + 1) };
}

test("one line for each model and day on which it is called", async () => {
  const { clock, log, models, call } = scene();
  models.start();
  clock.advance(10 * 60_000);
  const soon = {
    message: "a model is called that ends soon",
    fields: { provider: "openai", model: "gpt-4o", ends_on: "2027-01-14" },
  };
  const ended = {
    message: "a model is called whose end has come",
    fields: { provider: "openai", model: "listed", ends_on: "2026-11-01" },
  };
  expect(log.lines).toEqual([soon, ended]);
  // Nobody calls it on the next day; on the third it is called twice.
  await clock.advanceSlowly(60_000);
  clock.advance(2 * dayMs);
  call("gpt-4o");
  clock.advance(60_000);
  call("gpt-4o");
  clock.advance(120_000);
  expect(log.lines).toEqual([soon, ended, soon]);
  await models.close();
});

test("the metric has every end that is known of what was called", () => {
  const { models } = scene();
  const registry = new Registry();
  registry.sample(retiringMetrics, models);
  const [family] = registry.snapshot();
  expect(family).toMatchObject({ type: "gauge", labelNames: ["gen_ai_provider_name", "gen_ai_request_model"] });
  expect(family!.series).toEqual(
    [
      ["gpt-4o", "2027-01-14"],
      ["listed", "2026-11-01"],
      ["far", "2030-01-01"],
    ].map(([model, ends]) => ({ labels: ["openai", model!], value: Date.parse(ends!) / 1000 })),
  );
});
