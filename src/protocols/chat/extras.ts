/**
 * The extra options (specification §4). They are read at the top level of the body, in a literal `extra_body` object, and
 * under the name of their provider (`{"google":{…}}`), in that order; the first place wins. Options of other providers
 * are ignored, and none of them travels upstream as it came.
 */
import type { TObject } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { objectOf } from "../../lib/json/json.ts";
import { formatPath, schemaErrors } from "../../lib/json/schema-errors.ts";
import { ApiError } from "../errors.ts";
import type { ChatRequest } from "./schema.ts";

/** The extra options of one call (specification §4), checked against the provider's schema. */
export type Extras = Readonly<Record<string, unknown>>;

/** The names that mean something beside the standard fields: built once from all providers. */
export type ExtrasCatalog = {
  /** Every option name of every provider. */
  readonly options: ReadonlySet<string>;
  /** Every namespace that may hold options. */
  readonly namespaces: ReadonlySet<string>;
};

/** Standard request fields that are extra options of some provider too: they stay in the request. */
const sharedWithStandard = new Set(["store"]);

type Split = { request: ChatRequest; extras: Extras };

/**
 * @param namespaces the names under which this target's options may stand, the most specific first
 * @param schema the options of the target's provider
 * @returns the request as upstreams may see it (itself where it holds no extras), and the checked options
 * @throws ApiError invalid_value naming the option of wrong type
 */
export function splitExtras(
  request: ChatRequest,
  namespaces: readonly string[],
  schema: TObject,
  catalog: ExtrasCatalog,
): Split {
  return mentionsExtras(request, catalog)
    ? splitMentioned(request, namespaces, schema, catalog)
    : { request, extras: noExtras };
}

function splitMentioned(
  request: ChatRequest,
  namespaces: readonly string[],
  schema: TObject,
  catalog: ExtrasCatalog,
): Split {
  const body = request as Record<string, unknown>;
  const literal = objectOf(body["extra_body"]) ?? {};
  const places: [string, Record<string, unknown>][] = [
    ["", body],
    ["extra_body.", literal],
    ...namespaces.flatMap((name): [string, Record<string, unknown>][] => [
      [`${name}.`, objectOf(body[name]) ?? {}],
      [`extra_body.${name}.`, objectOf(literal[name]) ?? {}],
    ]),
  ];
  const extras: Record<string, unknown> = {};
  for (const name of Object.keys(schema.properties)) {
    const place = places.find(([, values]) => values[name] != null);
    if (place === undefined) continue;
    const [prefix, values] = place;
    checkOption(`${prefix}${name}`, schema.properties[name]!, values[name]);
    extras[name] = values[name];
  }
  return { request: withoutExtras(body, literal, catalog), extras };
}

const noExtras: Extras = {};

/** Most requests hold no option at all, and nothing that would have to be taken out. */
function mentionsExtras(body: Record<string, unknown>, { options, namespaces }: ExtrasCatalog): boolean {
  for (const key in body) {
    if (body[key] === null || key === "extra_body" || options.has(key) || namespaces.has(key)) return true;
  }
  return false;
}

function withoutExtras(
  body: Record<string, unknown>,
  literal: Record<string, unknown>,
  catalog: ExtrasCatalog,
): ChatRequest {
  const kept: Record<string, unknown> = {};
  const keep = (key: string, value: unknown) => {
    const isOption = catalog.options.has(key) && !sharedWithStandard.has(key);
    const isNamespace = catalog.namespaces.has(key) && typeof value === "object";
    if (!isOption && !isNamespace && key !== "extra_body" && value !== null) kept[key] = value;
  };
  for (const key in literal) keep(key, literal[key]);
  for (const key in body) keep(key, body[key]);
  return kept as ChatRequest;
}

function checkOption(param: string, schema: TObject["properties"][string], value: unknown): void {
  if (Value.Check(schema, value)) return;
  const fault = schemaErrors(schema, value, 1)[0];
  const inner = formatPath(fault?.path ?? []);
  const at = inner === "" ? param : `${param}.${inner}`;
  throw ApiError.invalidValue(at, `${at} ${fault?.message ?? "has a wrong value"}.`);
}
