/** Price lists from outside: checked, brought into the form that is stored, and compared with what is in use. */
import { type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { isObject, type JsonObject, parseJson } from "../../lib/json/json.ts";
import { formatPath, schemaErrors } from "../../lib/schema-errors.ts";
import { pricesAt } from "./list.ts";
import type { ListedModel, ListedPrice, ListedPrices, ListedPricesOf, ListedProvider, Match } from "./listed.ts";

/** Error of a text that is no price list, in words that name the place. */
export class ListError extends Error {
  override readonly name = "ListError";
}

const price = Type.Number({ minimum: 0, maximum: 1_000_000 });
const prices = Type.Record(
  Type.String(),
  Type.Union([price, Type.Object({ base: price, tiers: Type.Array(Type.Object({ start: price, price })) })]),
);
const clock = Type.String({ pattern: "^\\d\\d:\\d\\d:\\d\\d" });
const constraint = Type.Union([
  Type.Object({ start_date: Type.String({ pattern: "^\\d{4}-\\d\\d-\\d\\d" }) }),
  Type.Object({
    start_time: clock,
    end_time: clock,
    weekdays: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 7 }))),
  }),
]);
const model: TSchema = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 256 }),
  match: Type.Object({}),
  prices: Type.Union([
    prices,
    Type.Array(Type.Object({ constraint: Type.Optional(constraint), prices }), { minItems: 1 }),
  ]),
});
const provider = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 64 }),
  models: Type.Array(model),
});
const own = Type.Object({
  date: Type.String({ pattern: "^\\d{4}-\\d\\d-\\d\\d$" }),
  providers: Type.Array(provider, { minItems: 1 }),
});
const others = Type.Array(provider, { minItems: 1 });

/**
 * Takes a list in the form of the one in the executable, or genai-prices' `data.json` or `data_slim.json`.
 * @param today the date of a list that has none
 * @throws ListError
 */
export function parseList(text: string, today: string): ListedPricesOf {
  const value = parseJson(text);
  if (value === undefined) throw new ListError("it is no JSON");
  if (!Array.isArray(value) && !isObject(value)) throw new ListError("it is neither a list nor an object");
  const schema: TSchema = Array.isArray(value) ? others : own;
  if (!Value.Check(schema, value)) {
    const [first] = schemaErrors(schema, value, 1);
    throw new ListError(`${formatPath(first!.path)} ${first!.message}`);
  }
  const root = Array.isArray(value) ? [] : ["providers"];
  const given = (Array.isArray(value) ? value : value["providers"]) as readonly JsonObject[];
  const providers = given.map((one, at) => providerFrom(one, [...root, at]));
  return { date: Array.isArray(value) ? today : (value["date"] as string), providers };
}

function providerFrom(given: JsonObject, path: readonly (string | number)[]): ListedProvider {
  const api = given["api"] ?? given["api_pattern"];
  const fallbacks = given["fallbacks"] ?? given["fallback_model_providers"] ?? [];
  if (typeof api !== "string") throw at([...path, "api"], "must be a pattern of addresses");
  if (!Array.isArray(fallbacks) || !fallbacks.every((one) => typeof one === "string"))
    throw at([...path, "fallbacks"], "must be a list of providers");
  assertPattern(api, [...path, "api"]);
  return {
    id: given["id"] as string,
    api,
    fallbacks,
    models: (given["models"] as readonly JsonObject[]).map((one, index) => modelFrom(one, [...path, "models", index])),
  };
}

function modelFrom({ id, match, prices }: JsonObject, path: readonly (string | number)[]): ListedModel {
  assertMatch(match, [...path, "match"], 0);
  return {
    id: id as string,
    match: match as Match,
    prices: Array.isArray(prices) ? prices.map(withType) : prices,
  } as ListedModel;
}

/** Some forms leave out which kind a constraint is. */
function withType({ constraint, prices }: JsonObject): JsonObject {
  if (!isObject(constraint)) return { prices };
  return { constraint: { ...constraint, type: "start_date" in constraint ? "start_date" : "time_of_date" }, prices };
}

const maxNesting = 8;

function assertMatch(match: unknown, path: readonly (string | number)[], depth: number): void {
  const [[kind, value] = ["", undefined], ...more] = isObject(match) ? Object.entries(match) : [];
  if (more.length > 0 || depth > maxNesting) throw at(path, "must have one of or, and, equals, starts_with, contains…");
  if ((kind === "or" || kind === "and") && Array.isArray(value)) {
    for (const [index, one] of value.entries()) assertMatch(one, [...path, kind, index], depth + 1);
  } else if (!["equals", "starts_with", "ends_with", "contains", "regex"].includes(kind) || typeof value !== "string") {
    throw at(path, "must have one of or, and, equals, starts_with, ends_with, contains, regex");
  } else if (kind === "regex") assertPattern(value, [...path, kind]);
}

function assertPattern(pattern: string, path: readonly (string | number)[]): void {
  try {
    new RegExp(pattern);
  } catch (error) {
    throw at(path, `is no regular expression: ${(error as Error).message}`);
  }
}

const at = (path: readonly (string | number)[], message: string) => new ListError(`${formatPath(path)} ${message}`);

export type PriceChange = {
  readonly model: string;
  readonly change: "added" | "removed" | "changed";
  /** By the list's own names, as they are at the time of the comparison. */
  readonly prices: Readonly<Record<string, { readonly before?: ListedPrice; readonly after?: ListedPrice }>>;
};

export function changesBetween(before: ListedPricesOf, after: ListedPricesOf, now: number): PriceChange[] {
  const [old, next] = [modelsOf(before), modelsOf(after)];
  const names = [...new Set([...old.keys(), ...next.keys()])].sort();
  return names.flatMap((name): PriceChange[] => {
    const [was, is] = [old.get(name), next.get(name)];
    if (JSON.stringify(was?.prices) === JSON.stringify(is?.prices)) return [];
    const change = was === undefined ? "added" : is === undefined ? "removed" : "changed";
    return [{ model: name, change, prices: difference(was && pricesAt(was, now), is && pricesAt(is, now)) }];
  });
}

const modelsOf = ({ providers }: ListedPricesOf) =>
  new Map(providers.flatMap(({ id, models }) => models.map((one) => [`${id}/${one.id}`, one] as const)));

function difference(before: ListedPrices = {}, after: ListedPrices = {}): PriceChange["prices"] {
  const kinds = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = kinds.filter((kind) => JSON.stringify(before[kind]) !== JSON.stringify(after[kind]));
  return Object.fromEntries(
    changed.map((kind) => [
      kind,
      {
        ...(before[kind] !== undefined && { before: before[kind] }),
        ...(after[kind] !== undefined && { after: after[kind] }),
      },
    ]),
  );
}
