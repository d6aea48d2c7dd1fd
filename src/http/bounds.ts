/** Bounds of what a call may use, for the budgets that reserve it before. */
import type { Caller } from "../auth/keys.ts";
import type { JsonObject } from "../lib/json/json.ts";
import type { ChatRequest, Message } from "../protocols/chat/schema.ts";
import { bodyBytes, type Source } from "../protocols/source.ts";
import type { Call, Operation } from "../providers/provider.ts";
import type { AttemptBounds, HostedTool, TextMeter } from "../usage/attempt.ts";
import { bodyMeter } from "../usage/text-meter.ts";
import type { RequestContext } from "./context.ts";
import { countIn, hostedToolsIn } from "./hosted-tools.ts";
import { contentLength } from "./request-body.ts";
import type { Services } from "./services.ts";

/** Checks whether a budget, or a limit of tokens, applies to the caller's calls. */
export const isHeldToBudgets = ({ budgets }: Services, { tags }: RequestContext, { keyId, tier }: Caller): boolean =>
  budgets.holds({ keyId, tier, tags });

/**
 * @param source the request as it was sent @param request the same in the inner form
 * @param call as it goes to the upstream: with a persona, and with earlier turns of its conversation
 * @param isNative whether the upstream gets the client's own body
 * @param namedBytes of what the call names in the provider's own store
 */
export function chatBounds(
  source: Source,
  request: ChatRequest,
  { request: sent, extras }: Call,
  isNative: boolean,
  namedBytes = 0,
): AttemptBounds {
  const { max_completion_tokens, max_tokens, n } = sent;
  const tools = [...hostedToolsIn(sent), ...hostedToolsIn({ tools: extras["server_tools"] })];
  return {
    ...inputOf(bodyBytes(source) + addedBytes(request, sent) + namedBytes, sent.messages, source),
    maxOutputTokens: max_completion_tokens ?? max_tokens ?? undefined,
    choices: n ?? 1,
    ...tierIn(source.parsed),
    ...(isNative ? hosted([...tools, ...hostedToolsIn(source.parsed)], source.parsed) : hosted(tools)),
  };
}

/** @param body that may bound the uses of all of them together, in the format of Responses alone */
function hosted(tools: readonly HostedTool[], body?: JsonObject): Pick<AttemptBounds, "hosted"> {
  if (tools.length === 0) return {};
  // https://platform.openai.com/docs/api-reference/responses/create#responses-create-max_tool_calls
  return { hosted: { tools, maxUses: countIn(body, "max_tool_calls") } };
}

const dearTiers: ReadonlySet<string> = new Set(["priority", "fast", "ultrafast"]);

/** Finds tiers and surcharges that cost more: others cost less, or may cost as much as the usual one. Anthropic's region and speed are named as prices name them. */
function tierIn({ service_tier, inference_geo, speed }: JsonObject): Pick<AttemptBounds, "serviceTier" | "surcharges"> {
  const surcharges = [
    ...(typeof inference_geo === "string" && inference_geo !== "global" ? [`inference_geo_${inference_geo}`] : []),
    ...(speed === "fast" ? ["speed_fast"] : []),
  ];
  return {
    ...(typeof service_tier === "string" && dearTiers.has(service_tier) && { serviceTier: service_tier }),
    ...(surcharges.length > 0 && { surcharges }),
  };
}

/** Counts the bytes of messages that did not come with the request. */
function addedBytes({ messages: own }: ChatRequest, { messages }: ChatRequest): number {
  if (messages === own) return 0;
  const came = new Set<Message>(own);
  let bytes = 0;
  for (const message of messages) if (!came.has(message)) bytes += Buffer.byteLength(JSON.stringify(message));
  return bytes;
}

/** A large image, as https://platform.claude.com/docs/en/build-with-claude/vision has it; and of what is there by its address, a book. */
const imageTokens = 5_000;
const linkedFileTokens = 100_000;
/** Bytes of base64 for each token: a page of a PDF has some 50 KB, and takes up to 3,000 tokens. */
const bytesPerFileToken = 25;

/** @param bytes of all that is said, media in base64 among it, which is no text */
function inputOf(bytes: number, messages: readonly Message[], { large }: Source) {
  let inputBytes = bytes;
  let inputTokens = 0;
  for (const { content } of messages) {
    if (!Array.isArray(content)) continue;
    for (const part of content as Record<string, unknown>[]) {
      const { type, data } = mediumIn(part);
      // A text in base64 is one all the same.
      if (type === undefined || (typeof data === "string" && data.startsWith("data:text/"))) continue;
      const size = isLink(data) || typeof data !== "string" ? undefined : (large?.sizeOf(data) ?? data.length);
      inputBytes -= size ?? 0;
      if (type === "image_url") inputTokens += imageTokens;
      else inputTokens += size === undefined ? linkedFileTokens : Math.ceil(size / bytesPerFileToken);
    }
  }
  return { inputBytes: Math.max(0, inputBytes), inputTokens };
}

function mediumIn({ type, image_url, file, input_audio }: Record<string, unknown>) {
  if (type === "image_url") return { type, data: (image_url as { url?: unknown } | undefined)?.url };
  if (type === "file") return { type, data: (file as { file_data?: unknown } | undefined)?.file_data };
  if (type === "input_audio") return { type, data: (input_audio as { data?: unknown } | undefined)?.data };
  return {};
}

const isLink = (text: unknown) => typeof text === "string" && /^https?:/i.test(text);

/** Bounds a JSON body that is passed on, in the format of any provider. @param path of the operation that it asks for */
export function operationBounds(source: Source, path: Operation | string): AttemptBounds {
  const { parsed } = source;
  const inputBytes = bodyBytes(source);
  const choices = Math.max(1, countIn(parsed, "n") ?? countIn(parsed, "generationConfig", "candidateCount") ?? 1);
  const limits = ["max_completion_tokens", "max_output_tokens", "max_tokens", "max_tokens_to_sample"];
  return {
    inputBytes,
    maxOutputTokens: answersWithoutTokens.test(path)
      ? 0
      : (limits.map((name) => countIn(parsed, name)).find((count) => count !== undefined) ??
        countIn(parsed, "generationConfig", "maxOutputTokens")),
    choices,
    ...mediaBounds(path, inputBytes, choices),
    ...tierIn(parsed),
    ...hosted(hostedToolsIn(parsed), parsed),
  };
}

/** Measures a body that is passed on, for an estimate of its tokens. */
export const inputMeter = (source: Source): TextMeter =>
  source.large === undefined ? bodyMeter(source.parsed) : { length: bodyBytes(source), sample: [] };

/** Their answers are numbers, and their models have no price for answers. */
const answersWithoutTokens = /(?:^|[/:])(?:embeddings|rerank|moderations|embedContent|batchEmbedContents)$/;

/** More images no provider makes in one call: https://platform.openai.com/docs/api-reference/images/createEdit */
const mostImages = 10;
/** The fewest bytes of a second that can be understood: half of what Opus needs at its lowest rate. */
const leastBytesPerSecond = 375;

/** Bounds a form that streams through, by its size. */
export function formBounds({ request }: RequestContext, operation: Operation): AttemptBounds {
  const inputBytes = contentLength(request.headers);
  if (inputBytes === undefined) return { inputBytes: 0, billed: "unknown" };
  return { inputBytes, choices: mostImages, ...mediaBounds(operation, inputBytes, mostImages) };
}

function mediaBounds(path: string, bytes: number, images: number): AttemptBounds | object {
  if (/(?:^|\/)images\/\w+$/.test(path)) return { images };
  if (/(?:^|\/)audio\/trans\w+$/.test(path)) return { audioSeconds: Math.ceil(bytes / leastBytesPerSecond) };
  return {};
}
