/**
 * OpenAI's Responses as a format of clients.
 * Source: https://platform.openai.com/docs/api-reference/responses
 */
import { objectOf } from "../../lib/json/json.ts";
import { keepAliveComment } from "../../lib/streams/sse.ts";
import { eachTurn, OmittableTexts } from "../body/omittable-texts.ts";
import { chatError } from "../chat/errors.ts";
import type { Protocol } from "../protocol.ts";
import { compactionOf } from "./compaction.ts";
import { upstreamErrorBody } from "./errors.ts";
import { answerIdPrefix } from "./ids.ts";
import { native } from "./native.ts";
import type { ResponsesOptions } from "./options.ts";
import { placeHere } from "./places.ts";
import { namedItems, referredAnswers } from "./references.ts";
import { parseResponsesRequest } from "./request.ts";
import { responseOf } from "./response.ts";
import { storedResponses } from "./stored.ts";
import { ResponsesEncoder } from "./stream.ts";

const omittablePlaces = {
  input_text: ["text"],
  input_image: ["image_url"],
  input_file: ["file_data"],
  input_audio: ["input_audio", "data"],
};

export const responses: Protocol<ResponsesOptions> = {
  name: "responses",
  answerIdPrefix,
  keepAlive: keepAliveComment,
  omittableTexts({ input }) {
    const omittable = new OmittableTexts();
    if (typeof input === "string") omittable.said(input);
    eachTurn(input, ({ type = "message", role, content, output, arguments: written }, isLast) => {
      if (type === "function_call_output") omittable.result(output);
      else if (type === "function_call") omittable.answered(written);
      else if (type !== "message") return;
      else if (role === "user") omittable.asked(content, omittablePlaces);
      else if (role === "system" || role === "developer") omittable.said(content);
      else if (role === "assistant" && !isLast) omittable.answered(content);
    });
    return omittable;
  },
  references: referredAnswers,
  upstreamItems: namedItems,
  parse({ parsed }, _client, earlier) {
    const { request, options, nativeOnly } = parseResponsesRequest(parsed, earlier);
    const { refusal, toolRefusal, hosted } = nativeOnly;
    return { request, options, nativeOnly: refusal, nativeTools: toolRefusal, hosted, identity: ["responses", parsed] };
  },
  native,
  // Codex's own, such as the one by which its models are told of tools in the input:
  // https://github.com/openai/codex/blob/main/codex-rs/core/src/client.rs
  passedRequestHeaders: ["openai-beta", "x-openai-internal-codex-*"],
  param: (inner, { places }) => (places === undefined ? inner : placeHere(inner, places)),
  completion: responseOf,
  encoder: (envelope, options) => new ResponsesEncoder(envelope, options),
  prompt({ prompt }) {
    const { id, version } = objectOf(prompt) ?? {};
    return typeof id === "string" ? { id, version } : undefined;
  },
  stored: storedResponses,
  error: chatError,
  sharesErrors: ["chat"],
  upstreamError: upstreamErrorBody,
};

export const compaction = compactionOf(responses);
