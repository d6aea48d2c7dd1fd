import { expect, test } from "bun:test";
import { parseFilter, timeOf } from "../../src/usage/ledger/report.ts";

const now = Date.parse("2026-11-28T19:41:07Z");
const at = (text: string) => new Date(timeOf("since", text, now)).toISOString();

test("a duration in days is of whole UTC days with today's, one in hours or minutes ends now", () => {
  expect(at("1d")).toBe("2026-11-28T00:00:00.000Z");
  expect(at("30d")).toBe("2026-10-30T00:00:00.000Z");
  expect(at("2w")).toBe(at("14d"));
  expect(at("24h")).toBe("2026-11-27T19:41:07.000Z");
  expect(at("10m")).toBe("2026-11-28T19:31:07.000Z");
});

test("30 days are the same whether they are asked for or not, and spans meet", () => {
  const spanOf = (question: Record<string, string>) => {
    const { since, until } = parseFilter(question, now, 30);
    return [since, until];
  };
  expect(spanOf({ since: "30d" })).toEqual(spanOf({}));
  expect(spanOf({ since: "14d", until: "7d" })[1]).toBe(spanOf({ since: "7d" })[0]!);
});
