/** Strings of a body, not checked yet, that are sent on without a look at more than their beginning. */
import { isObject, type JsonObject, listOf } from "../lib/json/json.ts";

/** A text; an empty one is left out by some. */
export function passedText(text: unknown): string[] {
  return typeof text === "string" && /^.{0,200}?\S/s.test(text) ? [text] : [];
}

/** Bytes in base64: no web address, which may have to be fetched, and no text in a data URL. */
export function passedBytes(bytes: unknown): string[] {
  return typeof bytes === "string" && /^(?:data:[^,]{0,200};base64,|[A-Za-z0-9+/]{200})/i.test(bytes) ? [bytes] : [];
}

export const memberOf = (value: unknown, name: string) => (isObject(value) ? value[name] : undefined);

/** The strings of users' turns: a text, or what `ofPart` finds in the parts. */
export function passedOfUsers(turns: unknown, ofPart: (part: JsonObject) => string[]): string[] {
  return listOf(turns).flatMap((turn) => {
    if (!isObject(turn) || turn["role"] !== "user") return [];
    const { content } = turn;
    if (!Array.isArray(content)) return passedText(content);
    return content.flatMap((part) => (isObject(part) ? ofPart(part) : []));
  });
}
