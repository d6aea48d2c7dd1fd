/** Content of messages in the formats of OpenAI's APIs, as text. */
import { isObject, textOf } from "../../../lib/json/json.ts";
import { ImportError } from "./source.ts";

/** @param place of the content @throws ImportError for parts that are no text */
export function contentText(content: unknown, place: string): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw new ImportError(place, "must be text, or a list of parts of text");
  return content
    .map((part, at) => {
      const text = typeof part === "string" ? part : isObject(part) ? textOf(part["text"]) : undefined;
      if (text === undefined)
        throw new ImportError(`${place}[${at}]`, "is no text, which a persona's prompt is made of");
      return text;
    })
    .join("\n");
}

/** @throws ImportError for a role that examples can't have */
export function roleOf(role: unknown, place: string): "system" | "user" | "assistant" {
  if (role === "system" || role === "developer") return "system";
  if (role === "user" || role === "assistant") return role;
  throw new ImportError(place, `has the role ${JSON.stringify(role)}, which a persona's prompt can't have`);
}
