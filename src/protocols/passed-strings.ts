/**
 * Strings of users' turns that are sent on without a look at more than their beginning, as no upstream's format has other words for
 * them: texts, and bytes in base64. The body is not checked yet.
 */
import { isObject, type JsonObject, listOf } from "../lib/json/json.ts";
import { ownMember } from "../lib/own-member.ts";

/** The members that lead to a part's string, by its type: `text` to a text, others to bytes. */
type Places = Readonly<Record<string, readonly string[]>>;

export function passedOfUsers(turns: unknown, places: Places): string[] {
  return listOf(turns).flatMap((turn) => {
    if (!isObject(turn) || turn["role"] !== "user") return [];
    const { content } = turn;
    if (!Array.isArray(content)) return passedText(content);
    return content.flatMap((part) => (isObject(part) ? passedOf(part, places) : []));
  });
}

function passedOf(part: JsonObject, places: Places): string[] {
  const path = ownMember(places, String(part["type"])) ?? [];
  const value = path.reduce<unknown>((holder, name) => (isObject(holder) ? holder[name] : undefined), part);
  return path[0] === "text" ? passedText(value) : passedBytes(value);
}

/** An empty text is left out by some. */
export function passedText(text: unknown): string[] {
  return typeof text === "string" && /^.{0,200}?\S/s.test(text) ? [text] : [];
}

/** No web address, which may have to be fetched, and no text in a data URL. */
function passedBytes(bytes: unknown): string[] {
  return typeof bytes === "string" && /^(?:data:[^,]{0,200};base64,|[A-Za-z0-9+/]{200})/i.test(bytes) ? [bytes] : [];
}
