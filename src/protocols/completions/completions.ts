/**
 * Legacy completions: a prompt and its continuation. They pass as they are to upstreams that have them; elsewhere, and for personas,
 * the prompt becomes the user's message.
 * Source: https://platform.openai.com/docs/api-reference/completions
 */
import { keepAliveComment } from "../../lib/streams/sse.ts";
import { chatError } from "../chat/errors.ts";
import type { Protocol } from "../protocol.ts";
import { type CompletionsOptions, textCompletion } from "./answer.ts";
import { checkCompletions, innerRequest, promptText, refusalOf } from "./request.ts";
import { CompletionsEncoder, nativeEncoder } from "./stream.ts";

export const completions: Protocol<CompletionsOptions> = {
  name: "completions",
  answerIdPrefix: "cmpl-",
  keepAlive: keepAliveComment,
  parse({ parsed }) {
    const given = checkCompletions(parsed);
    return {
      request: innerRequest(given),
      identity: ["completions", parsed],
      nativeOnly: refusalOf(given),
      options: {
        includeUsage: given.stream_options?.include_usage === true,
        echo: given.echo === true ? (promptText(given) ?? "") : "",
      },
    };
  },
  native: {
    // A persona's words have no place before a prompt.
    patch: (body, { model, before, fields }) =>
      before.length > 0 || Object.keys(fields).some((name) => name !== "store") ? undefined : { ...body, model },
    encoder: nativeEncoder,
  },
  param: (inner) => inner.replace(/^messages(?:\[0\](?:\.content)?)?/, "prompt").replace(/^top_logprobs/, "logprobs"),
  completion: textCompletion,
  encoder: (envelope, options) => new CompletionsEncoder(envelope, options),
  error: chatError,
};
