/**
 * OpenAI's Responses as a format of clients.
 * Source: https://platform.openai.com/docs/api-reference/responses
 */
import { keepAliveComment } from "../../lib/sse.ts";
import { chatError } from "../chat/errors.ts";
import type { Protocol } from "../protocol.ts";
import { answerIdPrefix } from "./ids.ts";
import type { ResponsesOptions } from "./options.ts";
import { parseResponsesRequest } from "./request.ts";
import { responseOf } from "./response.ts";
import { storedResponses } from "./stored.ts";
import { ResponsesEncoder } from "./stream.ts";

export const responses: Protocol<ResponsesOptions> = {
  name: "responses",
  answerIdPrefix,
  keepAlive: keepAliveComment,
  parse({ parsed }) {
    const { request, options, foreign } = parseResponsesRequest(parsed);
    if (foreign !== undefined) throw foreign;
    return { request, options, identity: ["responses", parsed] };
  },
  completion: responseOf,
  encoder: (envelope, options) => new ResponsesEncoder(envelope, options),
  stored: storedResponses,
  error: chatError,
};
