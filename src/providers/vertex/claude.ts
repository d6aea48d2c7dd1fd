/**
 * Claude on Vertex AI: the Messages API, with the model in the address and the format's version in the body.
 * Source: https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai
 */
import { cloudOf } from "../../facts/clouds.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { native as anthropicNative, countPrompt } from "../anthropic/native.ts";
import { onCloud } from "../anthropic/on-cloud.ts";
import { encodeRequest } from "../anthropic/request.ts";
import { AnthropicStream, decodeAnswer } from "../anthropic/stream.ts";
import { oldestVersion } from "../anthropic/versions.ts";
import type { Call, NativeBody, TokenCounter, UpstreamRequest } from "../provider.ts";
import { asksForThoughts } from "../thinking-options.ts";
import { methodUrl } from "./address.ts";
import type { Family } from "./families.ts";

const cloud = cloudOf("vertex");

/** The version stands in the body. */
const versionFor = (asked = oldestVersion) => ({ anthropic_version: cloud.versionAs(asked) });

/** Extensions stand in their header, as at Anthropic; the version does not. */
function headersOf({ headers = {} }: UpstreamRequest): Pick<UpstreamRequest, "headers"> {
  const betas = headers["anthropic-beta"];
  return betas === undefined ? {} : { headers: { "anthropic-beta": betas } };
}

const answerUrl = (call: Call): string =>
  methodUrl(call.account, "anthropic", call.model, call.request.stream === true ? "streamRawPredict" : "rawPredict");

/** One address for all models, which are named in the body there: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/count-tokens */
const counterAt = ({ request, ...counter }: TokenCounter, { account }: Call): TokenCounter => ({
  ...counter,
  request: {
    ...headersOf(request),
    body: request.body!,
    url: methodUrl(account, "anthropic", "count-tokens", "rawPredict"),
  },
});

const native = onCloud(
  {
    ...anthropicNative,
    encode: (body, call, headers) => ({
      url: answerUrl(call),
      ...headersOf(anthropicNative.encode(body, call, headers)),
      body,
    }),
    fit(body, call, headers) {
      const { model: _, ...rest } = anthropicNative.fit?.(body, call, headers) ?? body;
      return { ...versionFor(headers["anthropic-version"]), ...rest };
    },
    // Some of what answers take is refused there: https://github.com/BerriAI/litellm/pull/39597
    counter: (body, call) => counterAt(anthropicNative.counter!(withModel(body, call.model), call, {}), call),
  },
  cloud,
);

/** @param body that begins with its brace, as it was written anew */
function withModel(body: NativeBody, model: string): NativeBody {
  const pieces = typeof body === "string" || body instanceof Uint8Array ? [body] : body;
  const [first = "{", ...rest] = pieces;
  const behind = typeof first === "string" ? first.slice(1) : first.subarray(1);
  return [`{"model":${JSON.stringify(model)},`, behind, ...rest];
}

export const claude: Family = {
  format: "messages",
  wantsThoughts: asksForThoughts,
  encode(call) {
    const request = encodeRequest(call);
    const { model: _, ...rest } = JSON.parse(request.body as string) as JsonObject;
    return { url: answerUrl(call), body: JSON.stringify({ ...versionFor(), ...rest }) };
  },
  decode: decodeAnswer,
  streamDecoder: (call) => new AnthropicStream(call),
  counter: (call) => counterAt(countPrompt(call), call),
  native: (format) => (format === "messages" ? native : undefined),
};
