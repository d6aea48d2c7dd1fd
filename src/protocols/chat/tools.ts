/**
 * Tools, their calls and the choice among them: each says what it is in one of two members, `function` or `custom`. Some
 * clients and servers write both of them, one empty, so that the presence of a member means nothing.
 */
import { parseExact } from "../../lib/json/exact.ts";
import { isObject, isTooDeep, type JsonObject, objectOf, saysNothing, textOf } from "../../lib/json/json.ts";

export type ToolKind = "function" | "custom";
type Called = { readonly kind: ToolKind; readonly said: JsonObject };

export const toolKinds: readonly ToolKind[] = ["function", "custom"];

/**
 * Reads what a tool or a call says of itself. Its `type` decides; where that is missing or names an empty member, what is not empty.
 * @param type of a fragment the one that the call is known to be of
 * @returns undefined where both members are empty
 */
export function calledIn(entry: JsonObject, type = entry["type"]): Called | undefined {
  let kind: ToolKind | undefined;
  for (const one of toolKinds) {
    const isFull = isObject(entry[one]) && !saysNothing(entry[one]);
    if (isFull && (kind === undefined || one === type)) kind = one;
  }
  return kind === undefined ? undefined : { kind, said: entry[kind] as JsonObject };
}

/**
 * @returns whether a tool or a call is of a type that this build doesn't know, and says in a member of its own what it is:
 *   it is passed on as it came
 */
export function isOtherKind(entry: JsonObject): boolean {
  const type = entry["type"];
  return (
    typeof type === "string" &&
    type !== "" &&
    calledIn(entry) === undefined &&
    !(toolKinds as readonly string[]).includes(type)
  );
}

/**
 * The name of a tool or of an entry of `allowed_tools`, which the Responses format writes flat: `{"type":"function","name":…}`.
 * Tools of other types may have none: then their type stands for them.
 */
export function toolName(tool: JsonObject): string | undefined {
  const name = textOf(calledIn(tool)?.said["name"]) ?? textOf(tool["name"]);
  return name ?? (toolKinds.some((kind) => kind === tool["type"]) ? undefined : textOf(tool["type"]));
}

/**
 * Spellings of no arguments at all: no text, Groq's for a function without parameters, and what R and PHP make of an empty list of names.
 * https://console.groq.com/docs/tool-use
 */
const maxNothing = 16;
const noArguments = /^\s*(?:null|\[\s*\])?\s*$/;

/** True for a function's arguments, as a model or a client gave them, that are none, in whatever spelling. */
export const saysNoArguments = (written: string): boolean => written.length <= maxNothing && noArguments.test(written);

/** Arguments as a JSON object where they are none; else as they were written. */
export const writtenArguments = (written: string): string => (saysNoArguments(written) ? "{}" : written);

/** @param written a function's arguments, as a model or a client gave them @returns undefined where they are no JSON object */
export function argumentsIn(written: string): JsonObject | undefined {
  if (saysNoArguments(written)) return {};
  return objectOf(isTooDeep(written) ? undefined : parseExact(written));
}

type Custom = { readonly name: string; readonly description?: string | null; readonly format?: unknown };

/** A tool with free text as a function of one text. A grammar can only be asked for. */
export function customAsFunction({ name, description, format }: Custom) {
  const isGrammar = isObject(format) && format["type"] !== "text";
  const grammar = isGrammar ? `The input must follow this grammar: ${JSON.stringify(format)}` : "";
  const words = [description ?? "", grammar].filter((text) => text !== "").join("\n\n");
  const parameters = { type: "object" as const, properties: { input: { type: "string" } }, required: ["input"] };
  return { name, ...(words !== "" && { description: words }), parameters };
}
