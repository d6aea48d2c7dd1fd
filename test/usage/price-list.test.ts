import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { compiledList, findIn, pricesAt } from "../../src/facts/prices/list.ts";
import { PriceListFile, parsePriceList } from "../../src/facts/prices/list-format.ts";
import type { Match, PricedModel } from "../../src/facts/prices/listed.ts";
import packages from "../tools/prices/packages.json" with { type: "json" };

test("the price list says of which day it is, and which packages it was made of", () => {
  const list = JSON.parse(readFileSync("src/facts/prices/list.txt", "utf8")) as Record<string, unknown>;
  expect(list["sources"]).toEqual(Object.entries(packages).map(([name, one]) => ({ name, ...one })));
  expect(list["as_of"]).toBe(
    Object.values(packages)
      .map(({ released }) => released)
      .sort()
      .at(-1),
  );
  expect(parsePriceList(JSON.stringify(list), "2027-01-01").providers).toEqual(compiledList.content.providers as never);
});

test("docs/prices.schema.json is the form of a list", () => {
  expect(JSON.parse(readFileSync("docs/prices.schema.json", "utf8"))).toEqual({
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "A price list of Troupe",
    ...JSON.parse(JSON.stringify(PriceListFile)),
  });
});

const now = Date.UTC(2026, 10, 22);

function namesOf({ id, match }: PricedModel): string[] {
  const literals = (one: Match): string[] => {
    if ("or" in one) return one.or.flatMap(literals);
    if ("and" in one) return one.and.flatMap(literals);
    return "equals" in one ? [one.equals] : [];
  };
  return [...new Set([id, ...literals(match)].map((name) => name.toLowerCase()))];
}

test("no -latest name costs anything but what its newest dated name costs", () => {
  const judged: string[] = [];
  for (const { id: provider, models } of compiledList.content.providers) {
    const names = models.flatMap(namesOf);
    const families = new Set(
      names.flatMap((name) => /^(.+)-(?:latest|\d{4}|\d{8}|\d{4}-\d\d-\d\d)$/.exec(name)?.[1] ?? []),
    );
    for (const family of families) {
      // In the order of their dates: of one family all are written alike.
      const dated = names
        .filter((name) => /^-(?:20\d\d-\d\d-\d\d|20\d{6}|2[2-9](?:0[1-9]|1[0-2]))$/.test(name.slice(family.length)))
        .filter((name) => name.startsWith(family))
        .sort();
      const newest = dated.at(-1);
      const alias = `${family}-latest`;
      if (newest === undefined) continue;
      const found = findIn(models, alias);
      const priced = JSON.stringify(pricesAt(found!, now));
      if (priced === JSON.stringify(pricesAt(findIn(models, newest)!, now))) judged.push(`${provider}/${alias}`);
      // Or its own price is newer than that name: Mistral Medium 3.5 has no date in its name.
      else expect([`${provider}/${alias}`, newest]).toBeOneOf(newerThanDated);
    }
  }
  expect(judged.length).toBeGreaterThan(30);
  for (const name of ["mistral-large", "mistral-small", "codestral", "ministral-8b", "devstral-small", "ministral-3b"])
    expect(judged).toContain(`mistral/${name}-latest`);
});

const newerThanDated = [
  ["mistral/mistral-medium-latest", "mistral-medium-2508"],
  ["mistral/mistral-ocr-latest", "mistral-ocr-2512"],
];

test.each([
  // https://mistral.ai/pricing#api-pricing
  ["mistral", "mistral-large-latest", { input_mtok: 0.5, cache_read_mtok: 0.05, output_mtok: 1.5 }],
  ["mistral", "mistral-large-2411", { input_mtok: 2, output_mtok: 6 }],
  ["mistral", "mistral-medium-latest", { input_mtok: 1.5, cache_read_mtok: 0.15, output_mtok: 7.5 }],
  ["mistral", "mistral-medium", { input_mtok: 1.5, cache_read_mtok: 0.15, output_mtok: 7.5 }],
  ["mistral", "mistral-medium-2604", { input_mtok: 1.5, cache_read_mtok: 0.15, output_mtok: 7.5 }],
  ["mistral", "mistral-medium-2508", { input_mtok: 0.4, cache_read_mtok: 0.04, output_mtok: 2 }],
  ["mistral", "mistral-small-latest", { input_mtok: 0.15, cache_read_mtok: 0.015, output_mtok: 0.6 }],
  ["mistral", "ministral-3b-latest", { input_mtok: 0.1, cache_read_mtok: 0.01, output_mtok: 0.1 }],
  // https://api-docs.deepseek.com/quick_start/pricing, on a Sunday
  ["deepseek", "deepseek-flash", { input_mtok: 0.15, cache_read_mtok: 0.003, output_mtok: 0.6 }],
  ["deepseek", "deepseek-chat", { input_mtok: 0.15, cache_read_mtok: 0.003, output_mtok: 0.6 }],
  ["deepseek", "deepseek-reasoner", { input_mtok: 0.15, cache_read_mtok: 0.003, output_mtok: 0.6 }],
  ["deepseek", "deepseek-v4-pro", { input_mtok: 0.66, cache_read_mtok: 0.022, output_mtok: 1.98 }],
] as const)("%s/%s costs what the public page says", (provider, model, prices) => {
  expect(compiledList.find(provider, "", model)?.at(now + 2 * 3_600_000)).toEqual(prices);
});

test.each([
  ["2026-11-22T02:00:00Z", 0.15],
  ["2026-11-23T00:59:59Z", 0.15],
  ["2026-11-23T01:00:00Z", 0.3],
  ["2026-11-23T03:59:59Z", 0.3],
  ["2026-11-23T04:00:00Z", 0.15],
  ["2026-11-27T09:59:59Z", 0.3],
  ["2026-11-28T09:59:59Z", 0.15],
])("DeepSeek's input at %s", (time, dollars) => {
  expect(compiledList.find("deepseek", "", "deepseek-flash")?.at(Date.parse(time))).toMatchObject({
    input_mtok: dollars,
  });
});
