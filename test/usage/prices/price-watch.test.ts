/** What is not known of the prices of models in use: in the log once a day, as metrics, and in words. */
import { expect, test } from "bun:test";
import { PriceList } from "../../../src/facts/prices/list.ts";
import { Registry } from "../../../src/lib/process/metrics.ts";
import { providers } from "../../../src/providers/registry.ts";
import { Accounts } from "../../../src/upstream/accounts.ts";
import { ageOf, ageWords, billedTarget, priceAhead } from "../../../src/usage/prices/outlook.ts";
import { PriceWatch, priceMetrics } from "../../../src/usage/prices/price-watch.ts";
import { Prices } from "../../../src/usage/prices/prices.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { testConfig } from "../../helpers/troupe.ts";
import { WatchedLog } from "../../helpers/watched-log.ts";

const dayMs = 86_400_000;
const start = Date.parse("2026-11-28T12:00:00Z");
const { providers: configured } = testConfig("", { providers: { google: { baseUrl: "https://example.com" } } });
const accounts = new Accounts(configured, providers);
const argon = [
  { prices: { input_mtok: 2, output_mtok: 10 } },
  { constraint: { type: "start_date", start_date: "2026-12-01" }, prices: { input_mtok: 4, output_mtok: 20 } },
];
const list = new PriceList(
  JSON.stringify({
    as_of: "2026-11-20",
    providers: [
      {
        ...{ id: "google", api: "https://example\\.com", fallbacks: [] },
        models: [
          { id: "gemini-4-argon", match: { equals: "gemini-4-argon" }, prices: argon },
          { id: "steady", match: { equals: "steady" }, prices: { input_mtok: 1, output_mtok: 1 } },
        ],
      },
    ],
  }),
);
const prices = new Prices([{ match: "google/mine", input: 1, output: 1 }], list);

const ofTheLedger = async () => ["google/of-last-week", "google/gemini-9-flash", "gone/model", "google/steady"];

function scene(called: () => Promise<readonly string[]> = ofTheLedger) {
  const clock = new ManualClock(start);
  const log = new WatchedLog();
  const used = ["steady", "called-only"];
  const watch = new PriceWatch({
    prices: () => prices,
    accounts: () => accounts,
    called,
    used: () => used.map((model) => ({ provider: "google", model, calls: 1 })),
    named: () => ["google/gemini-4-argon", "google/mine", "google/named", "nobody/model", "builtin/echo"],
    clock,
    log: log.log,
  });
  return { clock, log, watch, used };
}

test("a line a day names models without a price, and changes to come", async () => {
  const { clock, log, watch } = scene();
  watch.start();
  await clock.advanceSlowly(60_000);
  const fields = {
    ...{ prices_as_of: "2026-11-20", days_old: 8 },
    without_a_price: ["google/named", "google/of-last-week", "google/gemini-9-flash", "google/called-only"],
    assumed: ["google/gemini-9-flash as gemini-3.8-flash"],
    changing: ["google/gemini-4-argon on 2026-12-01"],
  };
  expect(log.lines).toEqual([expect.objectContaining({ fields })]);
  await clock.advanceSlowly(120_000);
  expect(log.lines).toHaveLength(1);
  await clock.advanceSlowly(dayMs);
  expect(log.lines).toHaveLength(2);
  await watch.close();
});

test("metrics have them, and the day of the list", async () => {
  const { watch } = scene();
  await watch.look();
  watch.refused("google", "refused");
  const registry = new Registry();
  registry.sample(priceMetrics, watch);
  const series = registry.snapshot().map(({ name, series: all }) => [name, all]);
  const of = (model: string) => ["google", model];
  expect(series).toEqual([
    ["troupe_price_list_timestamp_seconds", [{ labels: [], value: Date.parse("2026-11-20") / 1000 }]],
    [
      "troupe_model_without_price",
      ["named", "of-last-week", "gemini-9-flash", "called-only", "refused"].map((model) => ({
        ...{ labels: of(model), value: 1 },
      })),
    ],
    ["troupe_model_assumed", [{ labels: of("gemini-9-flash"), value: 1 }]],
    [
      "troupe_price_change_timestamp_seconds",
      [{ labels: of("gemini-4-argon"), value: Date.parse("2026-12-01") / 1000 }],
    ],
  ]);
});

test("a ledger that can't be asked leaves what is known without it", async () => {
  const { log, watch } = scene(() => Promise.reject(new Error("away")));
  await watch.look();
  expect(log.lines.map(({ message }) => message)).toEqual([
    "the ledger can't be asked which models are in use",
    "not all is known of models in use",
  ]);
  expect(watch.unpriced().map(({ model }) => model)).toEqual(["named", "called-only"]);
});

test("a model that was refused is told of until it has a price, and no more than a hundred are", () => {
  const { watch } = scene();
  watch.refused("google", "steady");
  watch.refused("google", "unknown");
  watch.refused("gone", "unknown");
  expect(watch.stillRefused()).toEqual([{ provider: "google", model: "unknown" }]);
  for (let at = 0; at < 300; at += 1) watch.refused("google", `any-${at}`);
  expect(watch.stillRefused()).toHaveLength(100);
});

test("a list is old after thirty days, and a change is told sixty days before", () => {
  expect(ageWords(ageOf(prices, Date.parse("2026-11-21T12:00:00Z")))).toBe("of 2026-11-20, 1 day old");
  expect([30, 31].map((days) => ageOf(prices, Date.parse("2026-11-20") + days * dayMs).isOld)).toEqual([false, true]);
  const target = billedTarget(accounts, "google/gemini-4-argon")!;
  const ahead = { on: "2026-12-01", words: "input $2 → $4, output $10 → $20" };
  expect(priceAhead(prices, target, start)).toEqual(ahead);
  expect(priceAhead(prices, target, Date.parse("2026-10-01"))).toBeUndefined();
  expect(priceAhead(prices, target, Date.parse("2026-12-01"))).toBeUndefined();
});
