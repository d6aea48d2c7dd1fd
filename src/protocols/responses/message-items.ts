/** Messages of the inner form as items of this format, as they stand in an input. */
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { Message } from "../chat/schema.ts";
import { textOfContent } from "../chat/texts.ts";

/** @returns the items of one message; what has no place here is left out */
export function itemsOf(message: Message): JsonObject[] {
  const { role } = message;
  if (role === "tool") {
    return [{ type: "function_call_output", call_id: message.tool_call_id, output: textOfContent(message.content) }];
  }
  const content = message.content ?? "";
  if (role !== "assistant") {
    return [{ role, content: typeof content === "string" ? content : listOf(content).flatMap(partOf) }];
  }
  const text = textOfContent(content);
  const calls = (message.tool_calls ?? []).flatMap((call) => {
    if (call.type !== "function") return [];
    return [{ type: "function_call", call_id: call.id, ...call.function }];
  });
  return [...(text === "" ? [] : [{ role, content: text }]), ...calls] as JsonObject[];
}

function partOf(part: unknown): JsonObject[] {
  const { type, text, image_url } = objectOf(part) ?? {};
  if (type === "text") return [inputText(textOf(text) ?? "")];
  const image = objectOf(image_url);
  return type === "image_url" && image !== undefined
    ? [{ type: "input_image", image_url: image["url"], detail: image["detail"] ?? "auto" }]
    : [];
}

export const inputText = (text: string) => ({ type: "input_text", text });
