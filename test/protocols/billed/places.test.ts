/** The places where answers tell what is billed: each is read, has its source, and stands in the documentation. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { billedPlaces, type Place, tierHeaders } from "../../../src/protocols/billed/places.ts";
import { toldIn } from "../../../src/protocols/billed/reading.ts";

const docs = readFileSync(join(import.meta.dir, "../../../docs/costs.md"), "utf8");

/** An answer that has a value at one place alone. */
function answerWith(at: string, value: unknown): Record<string, unknown> {
  const [, name = "", each, member, kind] = /^(\w+)(\[(?:(\w+)=(\w+))?\])?/.exec(at)!;
  const rest = at.slice(at.indexOf(".") < 0 ? at.length : at.indexOf(".") + 1);
  const inner = rest === "" ? value : answerWith(rest, value);
  if (each === undefined) return { [name]: inner };
  return { [name]: [member === undefined ? inner : { ...(inner as object), [member]: kind }] };
}

const words = ["serviceTier", "surcharge"];
const objects = ["counts of", "served", "attempt"];
const valueFor = ({ is, at }: Place): unknown => {
  if (words.includes(is)) return "special";
  if (objects.some((one) => is.startsWith(one))) return { input_tokens: 5, output_tokens: 7 };
  if (at.endsWith("[]")) return "a search";
  return /\[[^\]]+\]$/.test(at) ? {} : 5;
};

describe.each(Object.entries(billedPlaces))("%s", (_, places: readonly Place[]) => {
  test.each(places.map((place) => [place.at, place] as const))("%s", (at, place) => {
    expect(place.source).toStartWith("https://");
    expect(docs).toContain(`\`${at}\``);
    expect(Object.keys(toldIn(places, answerWith(at, valueFor(place))))).toHaveLength(1);
    for (const nothing of [0, "", null, -1, [], 1e300]) {
      const told = toldIn(places, answerWith(at, nothing));
      if (place.is !== "attempt" && !at.endsWith("]")) expect([nothing, told]).toEqual([nothing, {}]);
    }
  });
});

test("the headers are documented", () => {
  expect(docs).toContain(tierHeaders.google);
});

test("of several places the first that tells more than nothing counts, and lists have an end", () => {
  const usage = { prompt_tokens_details: { cached_tokens: 0 }, num_cached_tokens: 7, cached_tokens: 5 };
  expect(toldIn(billedPlaces.chat, { usage })).toEqual({ cached: 5 });
  const output = Array.from({ length: 20_000 }, () => ({ type: "file_search_call" }));
  expect(toldIn(billedPlaces.responses, { output })).toEqual({ tools: { file_search: 10_000 } });
  expect(toldIn(billedPlaces.messages, { usage: { __proto__: { service_tier: "x" } } })).toEqual({});
});
