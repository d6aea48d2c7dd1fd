/**
 * `reasoning_details`, in which OpenRouter and gateways like it carry thoughts.
 * Source: https://openrouter.ai/docs/use-cases/reasoning-tokens
 */
import { type JsonObject, listOf, objectOf, saysNothing, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";

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
    const field = ownMember(textFields, textOf(piece["type"]) ?? "");
    const isNumbered = typeof piece["index"] === "number";
    if (last === undefined || field === undefined || !isNumbered || !isOneEntry(last, piece)) whole.push(piece);
    else whole[whole.length - 1] = joined(last, piece, field);
  }
  return whole;
}

/**
 * Numbers the entries of one message: pieces of one share a number, and no two entries do. Helpers of clients join a stream's lists by
 * it: one throws where it is missing, others make one entry of two with the same.
 * https://github.com/openai/openai-python/blob/main/src/openai/lib/streaming/_deltas.py
 */
export class DetailNumbers {
  readonly #taken = new Set<unknown>();
  /** As it came, and the number that it has here. */
  #last: { readonly piece: JsonObject; readonly index: unknown } | undefined;

  number(pieces: readonly JsonObject[]): JsonObject[] {
    return pieces.map((piece) => {
      const index = this.#indexOf(piece);
      this.#last = { piece, index };
      this.#taken.add(index);
      return piece["index"] === index ? piece : { ...piece, index };
    });
  }

  #indexOf(piece: JsonObject): unknown {
    const last = this.#last;
    if (last !== undefined && ownMember(textFields, textOf(piece["type"]) ?? "") && isOneEntry(last.piece, piece))
      return last.index;
    const given = piece["index"];
    if (typeof given === "number" && !this.#taken.has(given)) return given;
    let free = this.#taken.size;
    while (this.#taken.has(free)) free += 1;
    return free;
  }
}

/** Ignores what is missing or empty: an id, or a signature, which ends an entry. */
function isOneEntry(first: JsonObject, second: JsonObject): boolean {
  const sameId = saysNothing(first["id"]) || saysNothing(second["id"]) || first["id"] === second["id"];
  return (
    first["index"] === second["index"] && first["type"] === second["type"] && sameId && saysNothing(first["signature"])
  );
}

function joined(first: JsonObject, second: JsonObject, field: string): JsonObject {
  const added = Object.fromEntries(Object.entries(second).filter(([, value]) => !saysNothing(value)));
  return { ...first, ...added, [field]: `${first[field] ?? ""}${second[field] ?? ""}` };
}
