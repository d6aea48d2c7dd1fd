/**
 * Legacy completions of upstreams that have them, read as chat completions whose words stand in `text`.
 * Source: https://platform.openai.com/docs/api-reference/completions
 */
import { isObject, type JsonObject, parseJson } from "../../lib/json/json.ts";
import type { SseEvent } from "../../lib/streams/sse.ts";
import type { ChunkBody } from "../../protocols/chat/schema.ts";
import { idsFor } from "../made-ids.ts";
import type { Account, NativeRoute } from "../provider.ts";
import { textAt, textIn } from "../reading.ts";
import { completionOf } from "./answer.ts";
import { saysError } from "./faults.ts";
import { ChatStream } from "./stream.ts";

export function textCompletions(url: (operation: string, model: string, account: Account) => string): NativeRoute {
  return {
    encode: (body, { model, account }) => ({ url: url("completions", model, account), body }),
    decode: (body, text, call) => completionOf(asChat(body, wholeChoice), text, {}, idsFor(call), undefined),
    streamDecoder: (call) => new TextStream({}, idsFor(call)),
  };
}

class TextStream extends ChatStream {
  override push(event: SseEvent): ChunkBody[] {
    const chunk = parseJson(event.data);
    return super.push(isObject(chunk) ? { ...event, data: JSON.stringify(asChat(chunk, fragment)) } : event);
  }
}

/** @returns what is no completion as it is @throws InvalidAnswer for a text that is none */
function asChat(body: unknown, choiceOf: (choice: JsonObject) => JsonObject): unknown {
  if (!isObject(body) || !Array.isArray(body["choices"])) return body;
  return { ...body, choices: body["choices"].map((choice) => (isObject(choice) ? choiceOf(choice) : choice)) };
}

function wholeChoice(choice: JsonObject): JsonObject {
  const { text: _, logprobs: _l, ...rest } = choice;
  // An error may stand in place of the text.
  if (saysError(choice["error"])) return rest;
  return { ...rest, message: { role: "assistant", content: textAt(choice, "text") } };
}

function fragment(choice: JsonObject): JsonObject {
  const { text: _, logprobs: _l, ...rest } = choice;
  const content = textIn(choice, "text");
  return content === undefined ? rest : { ...rest, delta: { role: "assistant", content } };
}
