/**
 * Strings that are sent on without a look at more than their beginning: those of users' turns to every upstream, as no format has other
 * words for them (texts, and bytes in base64), and all that is said to those that speak the client's own format. The body is not checked yet.
 */
import { isObject, type JsonObject, listOf } from "../lib/json/json.ts";
import { minVisibleBytes } from "../lib/json/large-strings.ts";
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

/** Looks no further than a placeholder shows. */
const saysSomething = new RegExp(`^.{0,${minVisibleBytes - 1}}?\\S`, "s");

/** An empty text is left out by some. */
export function passedText(text: unknown): string[] {
  return typeof text === "string" && saysSomething.test(text) ? [text] : [];
}

/** No web address, which may have to be fetched, and no text in a data URL. */
function passedBytes(bytes: unknown): string[] {
  return typeof bytes === "string" && /^(?:data:[^,]{0,200};base64,|[A-Za-z0-9+/]{200})/i.test(bytes) ? [bytes] : [];
}

/**
 * Texts of all turns, but for an assistant's last one, as some upstreams begin their answer with it.
 * @param textsIn finds others in a turn, or in a part of one
 */
export function textsOfTurns(turns: unknown, textsIn: (said: JsonObject) => readonly unknown[]): string[] {
  const list = listOf(turns);
  return list.flatMap((turn, at) => {
    if (!isObject(turn) || (at === list.length - 1 && turn["role"] === "assistant")) return [];
    return [...textsOf(turn["content"], textsIn), ...textsIn(turn).flatMap(passedText)];
  });
}

/** Of a text, or of a list of parts. */
export function textsOf(content: unknown, textsIn: (part: JsonObject) => readonly unknown[] = noTexts): string[] {
  if (!Array.isArray(content)) return passedText(content);
  return content.flatMap((part) =>
    isObject(part) ? [...passedText(part["text"]), ...textsIn(part).flatMap(passedText)] : [],
  );
}

const noTexts = () => [];
