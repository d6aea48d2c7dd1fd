/** How the maintainers' script makes one list of several, and what it never takes by itself. */
import { expect, test } from "bun:test";
import type { ListedPricesOf, PricedModel } from "../../../src/facts/prices/listed.ts";
import { staleOf } from "./fresh.ts";
import { guard } from "./guard.ts";
import { type Family, merge } from "./merge.ts";
import { sheetOf } from "./sheet.ts";

const now = Date.parse("2026-11-20T12:00:00Z");
const model = (id: string, input: number, output = 10, more: Partial<PricedModel> = {}): PricedModel => ({
  ...{ id, match: { equals: id }, prices: { input_mtok: input, output_mtok: output } },
  ...more,
});
const list = (...models: PricedModel[]): ListedPricesOf => ({
  as_of: "2026-11-20",
  providers: [{ id: "x-ai", api: "https://api\\.x\\.ai", fallbacks: [], models }],
});
const nameOf = (name: string) => ({ xai: "x-ai" })[name] ?? name;
const row = (input: number, output = 10) => ({ input, output });
const family = (rows: Family[string]): Family => ({ xai: rows });
const modelsIn = (found: ListedPricesOf) => found.providers[0]!.models;

test("what two families price alike is taken where the base lacks it, or has it otherwise", () => {
  const dated = [
    { prices: { input_mtok: 9, output_mtok: 10, web_searches_kcount: 5 } },
    {
      constraint: { type: "start_date" as const, start_date: "2026-06-01" },
      prices: { input_mtok: 3, output_mtok: 10, web_searches_kcount: 5 },
    },
  ];
  const base = list(
    model("wrong", 3, 10, { prices: dated }),
    model("left", 3),
    model("group", 3, 10, { match: { or: [{ equals: "one" }, { equals: "other" }] } }),
  );
  const one = { wrong: row(2), left: row(2), new: row(1), alone: row(1), free: row(0, 0), one: row(4) };
  const { alone: _, ...rest } = one;
  const { list: merged, notes } = merge(base, [family(one), family({ ...rest, left: row(5) })], nameOf, now);
  expect(modelsIn(merged).map(({ id }) => id)).toEqual(["one", "wrong", "left", "group", "new"]);
  expect(modelsIn(merged)[1]!.prices).toEqual([
    dated[0],
    { ...dated[1], prices: { ...dated[1]!.prices, input_mtok: 2 } },
  ] as never);
  expect(modelsIn(merged)[0]).toEqual(model("one", 4));
  expect(notes.filter(({ what }) => what !== "dissent")).toEqual([
    { model: "x-ai/wrong", what: "corrected", words: "input $3 → input $2" },
    { model: "x-ai/new", what: "added", words: "input $1, output $10" },
    { model: "x-ai/one", what: "corrected", words: "input $3 → input $4" },
  ]);
});

test("one family's word alone changes nothing, and is told", () => {
  const { list: merged, notes } = merge(list(model("grok", 3)), [family({ grok: row(2) }), {}], nameOf, now);
  expect(modelsIn(merged)).toEqual([model("grok", 3)]);
  expect(notes).toEqual([{ model: "x-ai/grok", what: "dissent", words: "input $3, and elsewhere input $2" }]);
});

test.each([
  [
    "a price of a named model that moves by more than a fifth",
    model("grok-4.7", 3.7),
    "input would go from $3 to $3.7",
  ],
  ["a price that would be nothing", model("grok-4.7", 0, 0), "it would cost nothing"],
])("%s is kept until somebody decides", (_, next, why) => {
  const judged = { now, named: "model: xai/grok-4.7", passed: {} };
  const { list: guarded, kept } = guard(list(model("grok-4.7", 3)), list(next), judged);
  expect(modelsIn(guarded)).toEqual([model("grok-4.7", 3)]);
  expect(kept).toEqual([`x-ai/grok-4.7: ${why}`]);
  const passed = { "x-ai/grok-4.7": "https://docs.x.ai/developers/models" };
  expect(guard(list(model("grok-4.7", 3)), list(next), { ...judged, passed })).toEqual({ list: list(next), kept: [] });
});

test("a price that is gone stays, for the names that lost it alone", () => {
  const old = model("grok", 3, 10, { match: { or: [{ equals: "grok-4" }, { equals: "grok-4-latest" }] } });
  const { list: guarded, kept } = guard(list(old), list(model("grok-4", 3)), { now, named: "", passed: {} });
  expect(kept).toEqual(["x-ai/grok: its price is gone (grok-4-latest)"]);
  expect(modelsIn(guarded)).toEqual([model("grok-4", 3), { ...old, match: { or: [{ equals: "grok-4-latest" }] } }]);
});

test("small moves, and models that nobody names, pass", () => {
  const judged = { now, named: "grok-4.7-mini is another, as is xgrok-4.7", passed: {} };
  for (const next of [model("grok-4.7", 9), model("grok-4.7", 3.5)])
    expect(guard(list(model("grok-4.7", 3)), list(next), judged)).toEqual({ list: list(next), kept: [] });
});

test("a new model that costs nothing is left out", () => {
  const { list: guarded, kept } = guard(list(), list(model("free", 0, 0)), { now, named: "", passed: {} });
  expect([modelsIn(guarded), kept]).toEqual([[], ["x-ai/free: it would cost nothing"]]);
});

test("the sheet holds what at least two say, and nobody denies", () => {
  const genai = list(model("two", 3), model("three", 3), model("alone", 3));
  const families = [family({ two: row(3), three: row(3) }), family({ three: row(4), two: row(3) })];
  expect(sheetOf(genai, families, nameOf, now)).toEqual({ "xai/two": { input: 3, output: 10 } });
});

test("a release has nothing older than fourteen days", () => {
  const now = Date.parse("2026-12-05T12:00:00Z");
  expect(staleOf({ prices: "2026-11-21", facts: "2026-11-20" }, now)).toEqual([
    "facts are of 2026-11-20, 15 days old: more than 14",
  ]);
});
