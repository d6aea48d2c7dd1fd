/**
 * JSON whose numbers are written again as they stood: 1234567890123456789 and not 1234567890123456800, 1.0 and not 1. Such a number is
 * an object that `JSON.stringify` knows: https://tc39.es/proposal-json-parse-with-source/. It stands only where nobody counts with it: in
 * what a function is called with, in what it returned, in schemas; and anywhere in place of an integer that a double does not hold.
 */
import { isObject, type JsonObject, parseJson } from "./json.ts";
import { hasOddNumbers } from "./scan.ts";

type Raw = { readonly rawJSON: string };
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): Raw;
  isRawJSON(value: unknown): value is Raw;
};

export { isRawJSON as isExactNumber };

/** Matches numbers that `JSON.stringify` would write otherwise: a last zero, an exponent, many digits… */
const oddNumber = /\d\.\d*0(?!\d)|\d[eE][-+\d]|-0(?!\.)|0\.0{6}|[\d.]{16}/;

/** @returns true only where each number in this JSON text is written as `JSON.stringify` writes it; 0.2 ns a character */
export function keepsSpelling(text: string): boolean {
  return !oddNumber.test(text);
}

/** The same as `parseJson`, with each number as it stands: for a text of which all is passed on. */
export function parseExact(text: string): unknown {
  return keepsSpelling(text) ? parseJson(text) : parseSpelled(text);
}

/** Puts the numbers of the text where what it was parsed to has them among what is passed on as it is. Changed in place. */
export function keepNumbers(parsed: unknown, text: string): void {
  if (mayDiffer(text)) graft(parsed, parseSpelled(text));
}

/** @returns false only where `keepNumbers` has nothing to do */
export const mayDiffer = (text: string): boolean =>
  oddNumber.test(text) &&
  (exactMember.test(text) || (longRun.test(text) && longInteger.test(text))) &&
  hasOddNumbers(text);

/** The fate of numbers: all of them stay as written; those of a schema do that a double does not hold; or it is looked for where either holds. */
export type Keeping = "all" | "schema" | "where";

export function exactIn(text: string, keeping: Keeping): unknown {
  const exact = parseSpelled(text);
  return keeping === "schema" ? withoutEqual(exact) : exact;
}

/** @returns what holds within a member */
export function keepingOf(container: JsonObject, name: string): Keeping {
  if (name === "partialArgs") return "all";
  if (!isObject(container[name])) return "where";
  if (values.has(name) && typeof container["name"] === "string") return "all";
  return schemas.has(name) ? "schema" : "where";
}

/** Finds what an integer may be that a double does not hold: 0.5 ns a character. */
export const longRun = /\d{16}/;
/** As a value, or an element. */
const longInteger = /[:,[]\s*-?\d{16,}\s*[,\]}]/;

/** Members that are counted with, checked to be numbers, or read as times: they stay numbers. */
const counted = new Set([
  ...["max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "max_tokens_to_sample"],
  ...["n", "seed", "random_seed", "top_k", "topK", "budget_tokens", "thinking_budget", "thinkingBudget"],
  ...["created", "created_at", "index"],
]);

function parseSpelled(text: string): unknown {
  const revive = (_: string, value: unknown, context?: { readonly source?: string }) => {
    const source = typeof value === "number" ? context?.source : undefined;
    return source === undefined || source === String(value) ? value : rawJSON(source);
  };
  try {
    return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
  } catch {
    return undefined;
  }
}

/** Members that hold what a function of any format is called with, or returned, where the same object names the function. */
const values = new Set(["args", "input", "arguments", "response"]);
/** Those that hold a schema. */
const schemas = new Set([
  ...["parameters", "input_schema", "inputSchema", "schema", "parametersJsonSchema", "parameters_json_schema"],
  ...["responseSchema", "response_schema", "responseJsonSchema", "response_json_schema"],
]);

/** How any of them begins: the ends of their names, as most answers have another number in a text, and whole names take four times as long. */
const exactMember = /(?:gs|ut|ts|se|rs|ma)"\s*:\s*[[{]/;

function graft(parsed: unknown, exact: unknown): void {
  if (typeof parsed !== "object" || parsed === null) return;
  const [container, other] = [parsed as JsonObject, exact as JsonObject];
  for (const name in container) {
    const value = container[name];
    if (typeof value === "number") {
      if (Number.isInteger(value) && !Number.isSafeInteger(value) && !counted.has(name)) container[name] = other[name];
      continue;
    }
    if (typeof value !== "object" || value === null) continue;
    const keeping = keepingOf(container, name);
    if (keeping === "where") graft(value, other[name]);
    else container[name] = keeping === "all" ? other[name] : withoutEqual(other[name]);
  }
}

/** A number that is the same in another spelling is one, as those who rewrite schemas look at their numbers. */
function withoutEqual(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (isRawJSON(value)) return isSame(value.rawJSON) ? Number(value.rawJSON) : value;
  const container = value as JsonObject;
  for (const name in container) container[name] = withoutEqual(container[name]);
  return value;
}

/** True where a double surely holds the number: so many digits it always does. */
function isSame(source: string): boolean {
  const [digits = ""] = source.replace("-", "").split(/[eE]/);
  return Number.isFinite(Number(source)) && digits.replace(".", "").replace(/^0+/, "").length <= 15;
}
