/**
 * Messages, the format of Anthropic's clients.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import type { Protocol } from "../protocol.ts";
import { apiErrorBody, errorBody, typeOfStatus } from "./errors.ts";
import { messagesNativeEncoder, patchMessages } from "./native.ts";
import { checkMessages, innerRequest } from "./request.ts";
import { type AnswerOptions, messageBody } from "./response.ts";
import { MessagesEncoder, ping } from "./stream.ts";
import { thinkingShown } from "./thinking.ts";

export const messages: Protocol<AnswerOptions> = {
  name: "messages",
  answerIdPrefix: "msg_",
  keepAlive: ping,
  parse({ parsed }) {
    const body = checkMessages(parsed);
    const { request, nativeOnly } = innerRequest(body);
    const options = { thinking: thinkingShown(body), stops: body.stop_sequences ?? [] };
    const { refusal, toolRefusal } = nativeOnly;
    return { request, identity: ["messages", parsed], options, nativeOnly: refusal, nativeTools: toolRefusal };
  },
  native: { patch: patchMessages, encoder: () => messagesNativeEncoder },
  passedRequestHeaders: ["anthropic-version", "anthropic-beta"],
  completion: messageBody,
  encoder: (envelope, options) => new MessagesEncoder(envelope, options),
  responseHeaders: (requestId) => ({ "request-id": requestId }),
  error: apiErrorBody,
  upstreamError: ({ message }, status, requestId) =>
    errorBody(typeOfStatus(status), typeof message === "string" ? message : "", requestId),
};
