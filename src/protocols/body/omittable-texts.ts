/**
 * Strings that are sent on without a look at more than their beginning: what is said, and bytes in base64, as no format has other words for
 * them. Answers and calls of tools stay so only where the upstream speaks the client's own format. The body is not checked yet.
 */

import { isTextType, isUntyped, typeOfBase64 } from "../../lib/files/media-types.ts";
import { isObject, type JsonObject, listOf, textOf } from "../../lib/json/json.ts";
import { withoutPlaceholder } from "../../lib/json/large-strings.ts";
import { ownMember } from "../../lib/json/own-member.ts";

/** The members that lead to a part's string, by its type: `text` to a text, others to bytes. */
type Places = Readonly<Record<string, readonly string[]>>;

export class OmittableTexts {
  /** Whoever the upstream is. */
  readonly everywhere: string[] = [];
  /** Beyond those, where it speaks the client's format. */
  readonly natively: string[] = [];

  /** A text, or the texts of parts. An empty one is left out by some. */
  said(content: unknown): void {
    this.#addTexts(content, this.everywhere);
  }

  /** The same, of an answer: some look for thoughts in it, or cut blanks off its end. */
  answered(content: unknown): void {
    this.#addTexts(content, this.natively);
  }

  /** The same, of a tool's result: where it is an object of JSON, some send that. */
  result(content: unknown): void {
    if (Array.isArray(content)) for (const part of content) this.result(isObject(part) ? part["text"] : undefined);
    else
      this.#addTexts(content, typeof content === "string" && /^\s*\{/.test(content) ? this.natively : this.everywhere);
  }

  /** What a user says, by the types of its parts. */
  asked(content: unknown, places: Places): void {
    if (!Array.isArray(content)) this.said(content);
    else for (const part of content) if (isObject(part)) this.#addPart(part, places);
  }

  #addPart(part: JsonObject, places: Places): void {
    const path = ownMember(places, textOf(part["type"]) ?? "") ?? [];
    const value = path.reduce<unknown>((object, name) => (isObject(object) ? object[name] : undefined), part);
    if (path[0] === "text") this.said(value);
    else if (isLeftOut(value) && isBytes(value, /image|audio/.test(textOf(part["type"]) ?? "")))
      this.everywhere.push(value);
  }

  #addTexts(content: unknown, to: string[]): void {
    if (Array.isArray(content))
      for (const part of content) this.#addTexts(isObject(part) ? part["text"] : undefined, to);
    else if (isLeftOut(content) && /\S/.test(withoutPlaceholder(content))) to.push(content);
  }
}

/** True for a text that is not all there: no other is told. */
const isLeftOut = (value: unknown): value is string =>
  typeof value === "string" && withoutPlaceholder(value).length < value.length;

/** No web address, which may have to be fetched, and no text, which is read where its charset is another. */
function isBytes(value: string, isNamed: boolean): boolean {
  const type = /^data:([^,;]{0,100})[^,]{0,100};base64,/i.exec(value)?.[1]?.trim().toLowerCase();
  if (type !== undefined) return !isUntyped(type) && !isTextType(type);
  return /^[A-Za-z0-9+/]{200}/.test(value) && (isNamed || typeOfBase64(value) !== undefined);
}

/**
 * @param turns of a conversation, or items of it
 * @param visit takes each turn; `isLast`: nobody else speaks behind it, so that some upstreams begin their answer with it
 */
export function eachTurn(turns: unknown, visit: (turn: JsonObject, isLast: boolean) => void): void {
  const list = listOf(turns);
  const end = list.findLastIndex((turn) => isObject(turn) && !isOfModel(turn));
  for (let at = 0; at < list.length; at += 1) {
    const turn = list[at];
    if (isObject(turn)) visit(turn, at > end);
  }
}

const isOfModel = ({ role, type }: JsonObject) =>
  role === "assistant" || role === "model" || (role === undefined && textOf(type)?.endsWith("_output") !== true);
