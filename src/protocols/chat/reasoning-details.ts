/**
 * `reasoning_details`, in which OpenRouter and gateways like it carry thoughts.
 * Source: https://openrouter.ai/docs/use-cases/reasoning-tokens
 */
import { type JsonObject, listOf, objectOf, saysNothing } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/own-member.ts";

/** The kinds that come in pieces, and the field that holds the text. */
const textFields: Readonly<Record<string, string>> = { "reasoning.text": "text", "reasoning.summary": "summary" };

/**
 * The entries whole, as they must go back: a stream gives them in pieces, which clients merely collect.
 * @param value what a message carries; anything else than a list of objects is none
 */
export function wholeDetails(value: unknown): JsonObject[] {
  const whole: JsonObject[] = [];
  for (const entry of listOf(value)) {
    const piece = objectOf(entry);
    if (piece === undefined) continue;
    const last = whole.at(-1);
    const field = ownMember(textFields, String(piece["type"]));
    if (last === undefined || field === undefined || !isOneEntry(last, piece)) whole.push(piece);
    else whole[whole.length - 1] = joined(last, piece, field);
  }
  return whole;
}

/** Ignores what is missing or empty: an id, or a signature, which ends an entry. */
function isOneEntry(first: JsonObject, second: JsonObject): boolean {
  const sameId = saysNothing(first["id"]) || saysNothing(second["id"]) || first["id"] === second["id"];
  const numbered = typeof first["index"] === "number" && first["index"] === second["index"];
  return numbered && first["type"] === second["type"] && sameId && saysNothing(first["signature"]);
}

function joined(first: JsonObject, second: JsonObject, field: string): JsonObject {
  const added = Object.fromEntries(Object.entries(second).filter(([, value]) => !saysNothing(value)));
  return { ...first, ...added, [field]: `${first[field] ?? ""}${second[field] ?? ""}` };
}
