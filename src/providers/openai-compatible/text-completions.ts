/**
 * Legacy completions of upstreams that have them, read as chat completions whose words stand in `text`.
 * Source: https://platform.openai.com/docs/api-reference/completions
 */
import { isObject, type JsonObject, parseJson } from "../../lib/json/json.ts";
import { idsFor } from "../made-ids.ts";
import type { Account, NativeRoute, StreamDecoder } from "../provider.ts";
import { completionOf } from "./answer.ts";
import { ChatStream } from "./stream.ts";

export function textCompletions(
  url: (operation: string, model: string, account: Account) => string,
  authorization: (account: Account) => Record<string, string>,
): NativeRoute {
  return {
    encode: (body, { model, account }) => ({
      url: url("completions", model, account),
      headers: authorization(account),
      body,
    }),
    decode: (body, text, call) => completionOf(asChat(body, "message"), text, {}, idsFor(call), undefined),
    streamDecoder(call): StreamDecoder {
      const chat = new ChatStream({}, idsFor(call), undefined);
      return {
        push(event) {
          const chunk = parseJson(event.data);
          return chat.push(isObject(chunk) ? { ...event, data: JSON.stringify(asChat(chunk, "delta")) } : event);
        },
        end: () => chat.end(),
        get finished() {
          return chat.finished;
        },
        get closing() {
          return chat.closing;
        },
      };
    },
  };
}

/** @param holder where a chat's choice has its words @returns what is no completion as it is */
function asChat(body: unknown, holder: "message" | "delta"): unknown {
  if (!isObject(body) || !Array.isArray(body["choices"])) return body;
  return {
    ...body,
    choices: body["choices"].map((choice) => (isObject(choice) ? chatChoice(choice, holder) : choice)),
  };
}

function chatChoice({ text, logprobs: _, ...choice }: JsonObject, holder: string): JsonObject {
  return typeof text === "string" ? { ...choice, [holder]: { role: "assistant", content: text } } : choice;
}
