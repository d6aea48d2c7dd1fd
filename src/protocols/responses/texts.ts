/** The text of a message's content. */
import { listOf, objectOf, textOf } from "../../lib/json/json.ts";

/** @returns all text of it, without what separates its parts */
export const textIn = (content: unknown): string =>
  typeof content === "string"
    ? content
    : listOf(content)
        .map((part) => textOf(objectOf(part)?.["text"]) ?? "")
        .join("");
