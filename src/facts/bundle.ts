/**
 * The file by which facts are renewed: those of models and the prices, in one, as `facts-<sha256>.json`. Its form is that of the two
 * files in the executable. Data of a later form are taken as far as they are known here: what is unknown beside is kept and not used, while
 * a value that is none of the known behaviours is an error.
 */
import type { TSchema } from "@sinclair/typebox";
import { Check } from "@sinclair/typebox/value";
import { isObject, type JsonObject, parseJson } from "../lib/json/json.ts";
import { elementsAt, membersAt, valueAt } from "../lib/json/ranges.ts";
import { formatPath, type PathPart, schemaErrors } from "../lib/json/schema-errors.ts";
import { FactsFile } from "./file.ts";
import { ListError, pricesFrom } from "./prices/list-format.ts";
import type { ListedPricesOf } from "./prices/listed.ts";

/** A file of more is none of ours: those of 3,000 models have a megabyte. */
export const maxBundleBytes = 16 * 1024 * 1024;

/** @property as_of the day on which it was made, YYYY-MM-DD; its parts may be of earlier ones */
export type Bundle = { readonly as_of: string; readonly models: FactsFile; readonly prices: ListedPricesOf };

/** Error of a file that holds no facts, in words that name the place. */
export class FactsError extends Error {
  override readonly name = "FactsError";
}

const day = /^20\d\d-[01]\d-[0-3]\d$/;

/**
 * @param file its name, for errors
 * @param today as YYYY-MM-DD
 * @throws FactsError
 */
export function readBundle(bytes: Uint8Array, file: string, today: string): Bundle {
  if (bytes.length > maxBundleBytes) throw new FactsError(`${file} has more than ${maxBundleBytes} bytes`);
  const text = textIn(bytes, file);
  const value = parseJson(text);
  const failed = (path: readonly PathPart[], message: string) =>
    new FactsError([placeIn(text, file, path), formatPath(path), message].filter((part) => part !== "").join(": "));
  if (!isObject(value)) throw new FactsError(`${file}: ${wordsFor(text)}`);
  const { as_of: asOf, models, prices } = value;
  if (typeof value["schema"] !== "number") throw failed([], "does not say by which form it is (schema)");
  if (typeof asOf !== "string" || !day.test(asOf) || Number.isNaN(Date.parse(asOf)))
    throw failed(["as_of"], "must be a day, YYYY-MM-DD");
  if (asOf > today) throw failed(["as_of"], `it is of ${asOf}, which is yet to come`);
  if (!isObject(models)) throw failed(["models"], "must be the facts of models");
  const facts = { ...models, schema: 1 };
  if (!Check(openForm, facts)) {
    const [first] = schemaErrors(openForm, facts, 1);
    throw failed(["models", ...first!.path], first!.message);
  }
  const twice = statedTwice(facts as unknown as FactsFile);
  if (twice !== undefined) throw failed(["models", ...twice.path], twice.message);
  const listed = pricesIn(prices, today, failed);
  for (const [part, of] of [
    ["models", (facts as unknown as FactsFile).as_of] as const,
    ["prices", listed.as_of] as const,
  ])
    if (of > asOf) throw failed([part, "as_of"], `is of ${of}, later than the file, which is of ${asOf}`);
  return { as_of: asOf, models: facts as unknown as FactsFile, prices: listed };
}

/** @throws FactsError */
function textIn(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new FactsError(`${file}: it is no text in UTF-8`);
  }
}

/** Of an answer that should be JSON. */
export function wordsFor(text: string): string {
  const start = text.trimStart().slice(0, 1);
  if (start === "") return "it is empty";
  if (start === "<") return "it is a web page, not JSON";
  return start === "{" ? "it is damaged or cut off: no JSON" : "it is no JSON object";
}

function pricesIn(
  prices: unknown,
  today: string,
  failed: (path: readonly PathPart[], message: string) => FactsError,
): ListedPricesOf {
  if (!isObject(prices)) throw failed(["prices"], "must be a price list");
  try {
    return pricesFrom(prices, today);
  } catch (error) {
    if (!(error instanceof ListError)) throw error;
    const { path = [], message } = error;
    throw failed(["prices", ...path], path.length === 0 ? message : message.slice(formatPath(path).length + 1));
  }
}

/** The form of facts, but that any object may hold more than is known. */
const openForm = opened(FactsFile) as TSchema;

function opened(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(opened);
  if (typeof schema !== "object" || schema === null) return schema;
  const isFree = "properties" in schema;
  return Object.fromEntries(
    // TypeBox marks its schemas by symbols.
    Reflect.ownKeys(schema).flatMap((name) => {
      if (isFree && name === "additionalProperties") return [];
      const value = (schema as Record<string | symbol, unknown>)[name];
      return [[name, typeof name === "symbol" ? value : opened(value)] as const];
    }),
  );
}

/** Two rows that say the same of one model: nobody would know which is meant. */
function statedTwice({ providers }: FactsFile): { readonly path: PathPart[]; readonly message: string } | undefined {
  for (const [provider, { models = [] }] of Object.entries(providers)) {
    const stated = new Map<string, number>();
    for (const [index, { model, source: _, note: _n, counts_as: _c, ...facts }] of models.entries()) {
      for (const name of typeof model === "string" ? [model] : model) {
        for (const fact of Object.keys(facts)) {
          const before = stated.get(`${name} ${fact}`);
          if (before !== undefined && before !== index) {
            const path = ["providers", provider, "models", index, "model"];
            return { path, message: `'${name}' has ${fact} by models[${before}] too` };
          }
          stated.set(`${name} ${fact}`, index);
        }
      }
    }
  }
  return undefined;
}

/** `facts.json:12:3`: where a value stands; of one that is absent, what it should be in. */
function placeIn(text: string, file: string, path: readonly PathPart[]): string {
  if (path.length === 0) return file;
  const bytes = Buffer.from(text);
  let start = valueAt(bytes, 0)?.start ?? 0;
  for (const part of path) {
    let [found, index] = [-1, 0];
    elementsAt(bytes, start, (element) => {
      if (index === part) found = element.start;
      index += 1;
    });
    membersAt(bytes, start, (name, { value }) => {
      if (name === part) found = value;
    });
    if (found < 0) break;
    start = found;
  }
  const lines = bytes.toString("utf8", 0, start).split("\n");
  return `${file}:${lines.length}:${lines.at(-1)!.length + 1}`;
}

/** The text of a file of facts: a row a line, so that people can read what has changed. */
export function bundleText(asOf: string, models: JsonObject, prices: JsonObject): string {
  return `${rowText({ schema: 1, as_of: asOf, models, prices }, "")}\n`;
}

/** Objects within lists stand on one line each. */
function rowText(value: unknown, indent: string): string {
  if (!isObject(value)) {
    if (!Array.isArray(value) || !value.some(isObject)) return JSON.stringify(value);
    const rows = value.map((row) => `${indent} ${hasRows(row) ? rowText(row, `${indent} `) : JSON.stringify(row)}`);
    return `[\n${rows.join(",\n")}\n${indent}]`;
  }
  const members = Object.entries(value).map(
    ([name, one]) => `${indent} ${JSON.stringify(name)}: ${rowText(one, `${indent} `)}`,
  );
  return members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n${indent}}`;
}

const hasRows = (row: unknown): boolean => isObject(row) && Array.isArray(row["models"]);
