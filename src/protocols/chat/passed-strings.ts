/**
 * Strings of users' messages that are sent on without a look at more than their beginning: texts, and bytes in base64. No
 * upstream's format wants them in other words.
 */
import { isObject, type JsonObject, listOf } from "../../lib/json/json.ts";

/** @param body nobody has checked it yet */
export function passedStrings(body: JsonObject): string[] {
  return listOf(body["messages"]).flatMap((message) => {
    if (!isObject(message) || message["role"] !== "user") return [];
    const { content } = message;
    return Array.isArray(content) ? content.flatMap(stringsOf) : textsOf(content);
  });
}

function stringsOf(part: unknown): string[] {
  if (!isObject(part)) return [];
  switch (part["type"]) {
    case "text":
      return textsOf(part["text"]);
    case "image_url":
      return bytesOf(memberOf(part["image_url"], "url"));
    case "input_audio":
      return bytesOf(memberOf(part["input_audio"], "data"));
    case "file":
      return bytesOf(memberOf(part["file"], "file_data"));
    default:
      return [];
  }
}

const memberOf = (value: unknown, name: string) => (isObject(value) ? value[name] : undefined);

/** An empty text is left out by some. */
function textsOf(text: unknown): string[] {
  return typeof text === "string" && /^.{0,200}?\S/s.test(text) ? [text] : [];
}

/** No web address, which may have to be fetched, and no text in a data URL. */
function bytesOf(bytes: unknown): string[] {
  return typeof bytes === "string" && /^(?:data:[^,]{0,200};base64,|[A-Za-z0-9+/]{200})/i.test(bytes) ? [bytes] : [];
}
