/** Price lists from outside: checked, brought into the form that is stored, and compared with what is in use. */
import { type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { isObject, type JsonObject, parseJson } from "../../lib/json/json.ts";
import { formatPath, type PathPart, schemaErrors } from "../../lib/json/schema-errors.ts";
import { pricesAt, tiersAt } from "./list.ts";
import type { ListedPrice, ListedPrices, ListedPricesOf, ListedProvider, Match, PricedModel } from "./listed.ts";

/** Error of a text that is no price list, in words that name the place. */
export class ListError extends Error {
  override readonly name = "ListError";
  /** Of the value; absent where it is the list as a whole. */
  readonly path: readonly PathPart[] | undefined;

  constructor(message: string, path?: readonly PathPart[]) {
    super(path === undefined ? message : `${formatPath(path)} ${message}`);
    this.path = path;
  }
}

const price = Type.Number({ minimum: 0, maximum: 1_000_000 });
const prices = Type.Record(
  Type.String(),
  Type.Union([price, Type.Object({ base: price, tiers: Type.Array(Type.Object({ start: price, price })) })]),
  {
    description:
      "Dollars by the kind: input_mtok, cache_read_mtok, cache_write_mtok, cache_write_1h_mtok, output_mtok, output_reasoning_mtok, input_audio_mtok, cache_audio_read_mtok, output_audio_mtok, input_image_mtok, output_image_mtok (per million tokens), requests_kcount, web_searches_kcount, storage_searches_kcount (per thousand), input_audio_hours. Tiers: for an input of more tokens than `start`.",
  },
);
const day = (description: string) => Type.String({ pattern: "^20\\d\\d-[01]\\d-[0-3]\\d$", description });
const clock = Type.String({ pattern: "^\\d\\d:\\d\\d:\\d\\d" });
const constraint = Type.Union(
  [
    Type.Object({ start_date: Type.String({ pattern: "^\\d{4}-\\d\\d-\\d\\d" }) }),
    Type.Object({
      start_time: clock,
      end_time: clock,
      weekdays: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 7 }), { description: "1: Monday." })),
    }),
    Type.Null(),
  ],
  { description: "From midnight UTC of a day on, or in these hours, in UTC. The last one that holds counts." },
);
const conditions = { constraint: Type.Optional(constraint), prices };
const model: TSchema = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 256 }),
  match: Type.Object(
    {},
    { description: "One of equals, starts_with, ends_with, contains, regex (a text), or, and (lists of such)." },
  ),
  prices: Type.Union([prices, Type.Array(Type.Object(conditions), { minItems: 1 })]),
  variants: Type.Optional(
    Type.Array(Type.Object({ tier: Type.String({ minLength: 1 }), ...conditions }), {
      description: "What differs by a service tier, `batch`, or another option that answers name.",
    }),
  ),
  price_variants: Type.Optional(
    Type.Union([
      Type.Null(),
      Type.Array(Type.Object({ when: Type.Record(Type.String(), Type.String()), ...conditions })),
    ]),
  ),
});
const provider = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 64 }),
  models: Type.Array(model),
});
const others = Type.Array(provider, { minItems: 1 });
/** The form of a price list (docs/prices.schema.json). */
export const PriceListFile = Type.Object({
  as_of: Type.Optional(day("The day of which the prices are; a list without it needs --as-of.")),
  date: Type.Optional(day("An earlier name of as_of.")),
  providers: others,
});

/**
 * Takes a list in the form of the one in the executable, or genai-prices' `data.json` or `data_slim.json` of any version.
 * @param today as YYYY-MM-DD
 * @param asOf the day of a list that does not say its own
 * @throws ListError
 */
export function parsePriceList(text: string, today: string, asOf?: string): ListedPricesOf {
  const value = parseJson(text);
  if (value === undefined) throw new ListError("it is no JSON");
  return pricesFrom(value, today, asOf);
}

/** The same of a parsed value. @throws ListError */
export function pricesFrom(value: unknown, today: string, asOf?: string): ListedPricesOf {
  if (!Array.isArray(value) && !isObject(value)) throw new ListError("it is neither a list nor an object");
  const schema: TSchema = Array.isArray(value) ? others : PriceListFile;
  if (!Value.Check(schema, value)) {
    const [first] = schemaErrors(schema, value, 1);
    throw new ListError(first!.message, first!.path);
  }
  const { as_of, date, providers: named } = Array.isArray(value) ? ({ providers: value } as JsonObject) : value;
  const said = (as_of ?? date) as string | undefined;
  if (said !== undefined && asOf !== undefined && said !== asOf)
    throw new ListError(`it is of ${said}, by its own word`);
  const found = said ?? asOf;
  if (found === undefined) throw new ListError(noDate);
  if (Number.isNaN(Date.parse(found))) throw new ListError(`${found} is no day`);
  if (found > today) throw new ListError(`it is of ${found}, which is yet to come`);
  const root = Array.isArray(value) ? [] : ["providers"];
  const given = named as readonly JsonObject[];
  return { as_of: found, providers: given.map((one, index) => providerFrom(one, [...root, index])) };
}

const noDate =
  "it does not say of which day it is (as_of): look up when it was published, and say so with --as-of <YYYY-MM-DD>";

function providerFrom(given: JsonObject, path: readonly (string | number)[]): ListedProvider {
  const api = given["api"] ?? given["api_pattern"];
  const fallbacks = given["fallbacks"] ?? given["fallback_model_providers"] ?? [];
  if (typeof api !== "string") throw at([...path, "api"], "must be a pattern of addresses");
  if (!Array.isArray(fallbacks) || !fallbacks.every((one) => typeof one === "string"))
    throw at([...path, "fallbacks"], "must be a list of providers");
  assertPattern(api, [...path, "api"]);
  const seen = new Map<unknown, number>();
  const models = (given["models"] as readonly JsonObject[]).map((one, index) => {
    const before = seen.get(one["id"]);
    if (before !== undefined) throw at([...path, "models", index, "id"], `is that of models[${before}] too`);
    seen.set(one["id"], index);
    return modelFrom(one, [...path, "models", index]);
  });
  return { id: given["id"] as string, api, fallbacks, models };
}

function modelFrom(given: JsonObject, path: readonly (string | number)[]): PricedModel {
  const { id, match, prices } = given;
  assertMatch(match, [...path, "match"], 0);
  const variants = ((given["variants"] ?? given["price_variants"] ?? []) as readonly JsonObject[]).flatMap(variantFrom);
  return {
    id: id as string,
    match: match as Match,
    prices: Array.isArray(prices) ? prices.map(withType) : prices,
    ...(variants.length > 0 && { variants }),
  } as unknown as PricedModel;
}

/** Options that are named as a tier is: their values need no name. */
const tierNames = new Set(["service_tier", "processing"]);

/** genai-prices says the option and its value: `{"speed": "fast"}` is ours `speed_fast`. What depends on two is left out, and what changes no price. */
function variantFrom({ tier, when = {}, constraint, prices }: JsonObject): JsonObject[] {
  const [[option, value] = [], ...more] = Object.entries(when as Readonly<Record<string, string>>);
  const name = tier ?? (option === undefined || tierNames.has(option) ? value : `${option}_${value}`);
  if (name === undefined || more.length > 0 || Object.keys(prices as JsonObject).length === 0) return [];
  return [{ tier: (name as string).toLowerCase(), ...withType({ constraint, prices }) }];
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

const at = (path: readonly PathPart[], message: string) => new ListError(message, path);

export type PriceChange = {
  readonly model: string;
  readonly change: "added" | "removed" | "changed";
  /** By the list's own names, as they are at the time of the comparison. */
  readonly prices: Readonly<Record<string, { readonly before?: ListedPrice; readonly after?: ListedPrice }>>;
};

export function priceChanges(before: ListedPricesOf, after: ListedPricesOf, now: number): PriceChange[] {
  const [old, next] = [modelsOf(before), modelsOf(after)];
  const names = [...new Set([...old.keys(), ...next.keys()])].sort();
  return names.flatMap((name): PriceChange[] => {
    const [was, is] = [old.get(name), next.get(name)];
    if (termsOf(was) === termsOf(is)) return [];
    const change = was === undefined ? "added" : is === undefined ? "removed" : "changed";
    return [{ model: name, change, prices: difference(was && allAt(was, now), is && allAt(is, now)) }];
  });
}

const termsOf = (model: PricedModel | undefined) => model && JSON.stringify([model.prices, model.variants]);

/** With those of service tiers, by the tier and the kind: `batch input_mtok`. */
const allAt = (model: PricedModel, now: number): ListedPrices => ({
  ...pricesAt(model, now),
  ...Object.fromEntries(
    Object.entries(tiersAt(model, now)).flatMap(([tier, prices]) =>
      Object.entries(prices).map(([kind, price]) => [`${tier} ${kind}`, price]),
    ),
  ),
});

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
