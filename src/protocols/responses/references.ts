/**
 * Items that a request names by their id instead of repeating them (`item_reference`), which clients do with what they think is
 * kept. The ids of our items name the answer that they are of.
 */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { EarlierAnswers, UpstreamItem } from "../protocol.ts";
import { answerIdPrefix, answerOfItem } from "./ids.ts";
import { holdsThoughts } from "./reasoning.ts";

/** @returns the ids of the answers that a body refers to by their items, each once */
export function referredAnswers(body: JsonObject): readonly string[] {
  const ids = listOf(body["input"]).flatMap((item) => {
    const answer = isReference(item) ? answerOfItem(item["id"]) : undefined;
    return answer === undefined ? [] : [`${answerIdPrefix}${answer}`];
  });
  return ids.length > 1 ? [...new Set(ids)] : ids;
}

/**
 * Finds what a body names by its id alone, where the upstream keeps it: references, and items without what they hold.
 * Source: https://platform.openai.com/docs/guides/image-generation#multi-turn-image-generation
 */
export function namedItems(body: JsonObject): readonly UpstreamItem[] {
  return listOf(body["input"]).flatMap((item, at) => {
    if (!isObject(item) || typeof item["id"] !== "string") return [];
    const { id, type } = item;
    const isEmpty =
      (type === "reasoning" && !holdsThoughts(item)) || (type === "image_generation_call" && !item["result"]);
    if (!isEmpty && !isReference(item)) return [];
    const own = answerOfItem(id);
    return [{ id, answer: own === undefined ? own : `${answerIdPrefix}${own}`, path: `input[${at}].id` }];
  });
}

/** A reference may come with its id alone. */
export function isReference(item: unknown): item is JsonObject {
  if (!isObject(item) || typeof item["id"] !== "string") return false;
  return item["type"] === "item_reference" || (item["type"] == null && item["role"] === undefined);
}

/**
 * @returns the item itself; undefined where its answer is not kept; null where the answer is kept in fewer items than it was
 *   streamed in, and others say what this one did
 */
export function referredItem(id: string, earlier: EarlierAnswers): JsonObject | undefined | null {
  const answer = earlier.get(`${answerIdPrefix}${answerOfItem(id)}`);
  if (answer === undefined) return undefined;
  const items = listOf(answer["output"]).map((item) => objectOf(item) ?? {});
  return items.find((item) => textOf(item["id"]) === id) ?? null;
}

const changes: ReadonlySet<unknown> = new Set(["additional_tools", "configuration_update"]);

/** True for an item that says nothing itself, and changes what is said from there on: makers other than OpenAI know none of them. */
export const isChange = (item: unknown): boolean => isObject(item) && changes.has(item["type"]);
