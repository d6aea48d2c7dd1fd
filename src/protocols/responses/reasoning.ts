/** Reads reasoning of this format: its texts, and the state that continues it. */
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";

/** State as a message carries it. `id` is the upstream's, where it gives one; `call_id` names the call that it led to; absent: it led to the text. */
export type Reasoning = { id?: string; encrypted_content: string; summary: string[]; call_id?: string | undefined };

/** The texts of an item's parts. */
export function textsOf(parts: unknown): string[] {
  return listOf(parts)
    .map((part) => textOf(objectOf(part)?.["text"]) ?? "")
    .filter((text) => text !== "");
}

/** The texts of an item's summary, or those of the raw reasoning where there is no summary. */
export function thoughtsOf({ summary, content }: JsonObject): string[] {
  const texts = textsOf(summary);
  return texts.length > 0 ? texts : textsOf(content);
}

/**
 * True for a reasoning item that says what it holds, sealed or in clear text; false for one that only names what may be kept elsewhere.
 * Where items are kept by their ids clear text is refused, so nobody looks for such an item:
 * https://github.com/router-for-me/CLIProxyAPI/issues/5825 (`array_above_max_length`)
 */
export const holdsThoughts = ({ encrypted_content, content }: JsonObject): boolean =>
  Boolean(encrypted_content) || textsOf(content).length > 0;

/** @param entry whose summary may hold texts alone @returns nothing where it has no encrypted content */
export function reasoningOf(entry: unknown): Reasoning[] {
  const { id, encrypted_content, summary, call_id } = objectOf(entry) ?? {};
  if (typeof encrypted_content !== "string" || encrypted_content === "") return [];
  const texts = listOf(summary).map((part) => textOf(part) ?? textOf(objectOf(part)?.["text"]) ?? "");
  const named = textOf(id) ? { id: textOf(id)! } : {};
  return [{ ...named, encrypted_content, summary: texts.filter((text) => text !== ""), call_id: textOf(call_id) }];
}
