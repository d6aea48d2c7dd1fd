/**
 * Chat completions, the format of OpenAI's chat endpoint, which is also the inner form.
 * Source: https://platform.openai.com/docs/api-reference/chat
 */

import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import { keepAliveComment } from "../../lib/streams/sse.ts";
import { eachTurn, OmittableTexts } from "../body/omittable-texts.ts";
import type { ApiError } from "../errors.ts";
import type { Protocol } from "../protocol.ts";
import { chatError } from "./errors.ts";
import { checkChatRequest } from "./request.ts";
import { chatCompletion } from "./response.ts";
import type { ChatRequest } from "./schema.ts";
import { ChatEncoder } from "./stream.ts";

type ChatOptions = {
  /** True where a stream's last chunk has the counts. */
  readonly includeUsage: boolean;
};

const omittablePlaces = {
  text: ["text"],
  image_url: ["image_url", "url"],
  input_audio: ["input_audio", "data"],
  file: ["file", "file_data"],
};

const functionOf = (called: unknown) => objectOf(objectOf(called)?.["function"]);

/** @returns the first error of what upstreams of this format judge by themselves, too @throws ApiError of what is wrong everywhere */
function checkLoosely(parsed: JsonObject): [request: ChatRequest, outOfRange: ApiError | undefined] {
  let outOfRange: ApiError | undefined;
  const request = checkChatRequest(parsed, (error) => {
    outOfRange ??= error;
  });
  return [request, outOfRange];
}

export const chat: Protocol<ChatOptions> = {
  name: "chat",
  answerIdPrefix: "chatcmpl-",
  keepAlive: keepAliveComment,
  omittableTexts({ messages, tools }) {
    const omittable = new OmittableTexts();
    eachTurn(messages, ({ role, content, tool_calls: calls }, isLast) => {
      if (role === "user") omittable.asked(content, omittablePlaces);
      else if (role === "system" || role === "developer") omittable.said(content);
      else if (role === "tool") omittable.result(content);
      else if (role === "assistant" && !isLast) {
        omittable.answered(content);
        for (const call of listOf(calls)) omittable.answered(functionOf(call)?.["arguments"]);
      }
    });
    for (const tool of listOf(tools)) omittable.said(functionOf(tool)?.["description"]);
    return omittable;
  },
  parse({ parsed }) {
    let request: ChatRequest;
    let outOfRange: ApiError | undefined;
    try {
      request = checkChatRequest(parsed);
    } catch {
      [request, outOfRange] = checkLoosely(parsed);
    }
    const includeUsage = request.stream_options?.include_usage === true || request.usage?.include === true;
    return { request, identity: request, options: { includeUsage }, outOfRange };
  },
  completion: chatCompletion,
  encoder: (envelope, { includeUsage }) => new ChatEncoder(envelope, includeUsage),
  error: chatError,
};
