/**
 * Messages, the format of Anthropic's clients.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import { isObject, type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import { eachTurn, OmittableTexts } from "../body/omittable-texts.ts";
import { NativeOnly } from "../native-only.ts";
import type { ParsedCall, Protocol } from "../protocol.ts";
import { apiErrorBody, errorBody, typeOfStatus } from "./errors.ts";
import { longNamesOf } from "./names.ts";
import { messagesNativeEncoder, patchMessages, patchPrompt, withSignatures } from "./native.ts";
import { checkCount, checkMessages, innerRequest } from "./request.ts";
import { type AnswerOptions, messageBody } from "./response.ts";
import { MessagesEncoder, ping } from "./stream.ts";
import { thinkingShown } from "./thinking.ts";

function parsed(given: JsonObject, check: typeof checkMessages, kind: string): ParsedCall<AnswerOptions> {
  const nativeOnly = new NativeOnly();
  const body = check(given, nativeOnly);
  const { request } = innerRequest(body, nativeOnly);
  const names = longNamesOf(body);
  const options = { thinking: thinkingShown(body), stops: body.stop_sequences ?? [], ...(names && { names }) };
  const { refusal, toolRefusal, hosted } = nativeOnly;
  return { request, identity: [kind, given], options, nativeOnly: refusal, nativeTools: toolRefusal, hosted };
}

/** A source that is no base64 holds none, or text. */
const omittablePlaces = { text: ["text"], image: ["source", "data"], document: ["source", "data"] };

export const messages: Protocol<AnswerOptions> = {
  name: "messages",
  answerIdPrefix: "msg_",
  keepAlive: ping,
  namesAnswer: true,
  omittableTexts({ messages: turns, system, tools }) {
    const omittable = new OmittableTexts();
    omittable.said(system);
    eachTurn(turns, ({ role, content }, isLast) => {
      if (role === "user") {
        omittable.asked(content, omittablePlaces);
        for (const block of listOf(content))
          if (isObject(block) && block["type"] === "tool_result") omittable.result(block["content"]);
      } else if (role === "assistant" && !isLast) omittable.answered(content);
    });
    for (const tool of listOf(tools)) omittable.said(objectOf(tool)?.["description"]);
    return omittable;
  },
  parse: ({ parsed: body }) => parsed(body, checkMessages, "messages"),
  native: { patch: patchMessages, encoder: messagesNativeEncoder, shownWhole: withSignatures },
  passedRequestHeaders: ["anthropic-version", "anthropic-beta"],
  completion: messageBody,
  encoder: (envelope, options) => new MessagesEncoder(envelope, options),
  responseHeaders: (requestId) => ({ "request-id": requestId }),
  error: apiErrorBody,
  upstreamError: ({ message }, status, requestId) =>
    errorBody(typeOfStatus(status), typeof message === "string" ? message : "", requestId),
};

/** The same for prompts that are counted and not answered: https://platform.claude.com/docs/en/api/messages-count-tokens */
export const messagesCount: Protocol<AnswerOptions> = {
  ...messages,
  parse: ({ parsed: body }) => parsed(body, checkCount, "messages count"),
  native: { ...messages.native!, patch: patchPrompt },
};
