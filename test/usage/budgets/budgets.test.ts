import { describe, expect, test } from "bun:test";
import type { Config } from "../../../src/config/config.ts";
import { BudgetRules } from "../../../src/usage/budgets/rules.ts";
import { formatDollars, microsFrom } from "../../../src/usage/money.ts";
import { periodEndOf, spanOf } from "../../../src/usage/spans.ts";
import { Random } from "../../helpers/random.ts";

describe("spans", () => {
  test.each([
    ["2026-11-30T23:59:59.999Z", "2026-11-30", "2026-12-01T00:00:00.000Z", "2026-11", "2026-12-01T00:00:00.000Z"],
    ["2026-12-31T00:00:00.000Z", "2026-12-31", "2027-01-01T00:00:00.000Z", "2026-12", "2027-01-01T00:00:00.000Z"],
    ["2028-02-28T12:00:00.000Z", "2028-02-28", "2028-02-29T00:00:00.000Z", "2028-02", "2028-03-01T00:00:00.000Z"],
  ])("of %s", (time, day, dayEnd, month, monthEnd) => {
    const at = Date.parse(time);
    expect([spanOf("day", at), new Date(periodEndOf("day", at)!).toISOString()]).toEqual([day, dayEnd]);
    expect([spanOf("month", at), new Date(periodEndOf("month", at)!).toISOString()]).toEqual([month, monthEnd]);
    expect([spanOf("prepaid", at), periodEndOf("prepaid", at)]).toEqual(["prepaid", undefined]);
  });

  test("money is whole micro-dollars, and people see all of it", () => {
    expect([microsFrom(0.1 + 0.2), microsFrom(1e9), microsFrom(0.000001)]).toEqual([300_000, 1e15, 1]);
    expect([0, 10_000, 12_340_000, 1, 1_500_001].map(formatDollars)).toEqual([
      "$0.00",
      "$0.01",
      "$12.34",
      "$0.000001",
      "$1.500001",
    ]);
  });
});

test("a time's span is its own, whatever was asked for before", () => {
  const random = Random.fromEnvironment("SPAN_SEED");
  const dayMs = 86_400_000;
  for (let round = 0; round < 500; round++) {
    const at = random.pick([20_000, 20_001, 20_030]) * dayMs + random.pick([-1, 0, 1, random.below(dayMs)]);
    const text = new Date(at).toISOString();
    expect([spanOf("day", at), spanOf("month", at)]).toEqual([text.slice(0, 10), text.slice(0, 7)]);
  }
});

describe("rules", () => {
  const settings: Pick<Config["budgets"], "all" | "tiers" | "tags" | "keys"> = {
    all: { month: 100 },
    tiers: { free: { day: 1 }, pro: {}, enterprise: {} },
    tags: { constructor_: { day: 2 } },
    keys: { day: 5 },
  };
  const row = (scope: string, period: "day" | "month" | "prepaid", limit: number) => ({
    scope,
    period,
    limit,
    updatedAt: 1,
  });
  const names = (rules: readonly { scope: string; period: string; limit: number }[]) =>
    rules.map(({ scope, period, limit }) => `${scope}/${period} ${limit}`);

  test("a call counts for its key, its tags, its tier and all; what was set goes before what is configured", () => {
    const rules = new BudgetRules(settings, [
      row("key:k", "day", 7),
      row("tag:a", "prepaid", 3),
      row("tag:b", "day", 1),
    ]);
    expect(names(rules.of({ keyId: "k", tier: "free", tags: ["a", "constructor"] }))).toEqual([
      "key:k/day 7",
      "tag:a/prepaid 3",
      "tier:free/day 1000000",
      "all/month 100000000",
    ]);
    expect(names(rules.of({ keyId: "other", tier: "pro", tags: [] }))).toEqual([
      "key:other/day 5000000",
      "all/month 100000000",
    ]);
  });

  test("a key keeps the default for what was not set of its own", () => {
    const rules = new BudgetRules({ ...settings, tags: { a: { day: 2 } } }, [row("key:k", "month", 7)]);
    expect(names(rules.of({ keyId: "k", tier: "pro", tags: ["b"] }))).toEqual([
      "key:k/day 5000000",
      "key:k/month 7",
      "all/month 100000000",
    ]);
    expect(names(rules.all())).toEqual([
      "all/month 100000000",
      "tier:free/day 1000000",
      "tag:a/day 2000000",
      "key:k/day 5000000",
      "key:k/month 7",
    ]);
  });

  test("nothing applies where there is nothing", () => {
    const none = { all: {}, keys: {}, tags: {}, tiers: { free: {}, pro: {}, enterprise: {} } };
    expect(new BudgetRules(none, []).of({ keyId: "k", tier: "pro", tags: ["a"] })).toEqual([]);
  });
});
