/** The texts of messages. */
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { AssistantMessage } from "./schema.ts";

/** @returns all text of it, without what separates its parts */
export const textOfContent = (content: unknown): string =>
  typeof content === "string"
    ? content
    : listOf(content)
        .map((part) => textOf(objectOf(part)?.["text"]) ?? "")
        .join("");

/** The text of an assistant's message, a refusal too. */
export function spokenText({ content, refusal }: AssistantMessage): string {
  if (typeof content === "string") return content || (refusal ?? "");
  const texts = (content ?? []).map((part) => {
    const { text, refusal: refused, type } = part as JsonObject;
    return type === "text" || type === "refusal" ? (textOf(text) ?? textOf(refused) ?? "") : "";
  });
  return texts.join("") || (refusal ?? "");
}
