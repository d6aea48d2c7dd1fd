/** Bounds of what a call may use, for the budgets that reserve it before. */
import type { Caller } from "../auth/keys.ts";
import type { JsonObject } from "../lib/json/json.ts";
import type { ChatRequest, Message } from "../protocols/chat/schema.ts";
import { bodyBytes, type Source } from "../protocols/source.ts";
import type { Call, Operation } from "../providers/provider.ts";
import type { AttemptBounds, HostedTool } from "../usage/attempt.ts";
import type { RequestContext } from "./context.ts";
import { countIn } from "./counts-in.ts";
import { hostedToolsIn } from "./hosted-tools.ts";
import type { Services } from "./services.ts";

/** Whether a budget, or a limit of tokens, applies to the caller's calls. */
export const isHeldToBudgets = ({ budgets }: Services, { tags }: RequestContext, { keyId, tier }: Caller): boolean =>
  budgets.holds({ keyId, tier, tags });

/**
 * @param source the request as it was sent @param request the same in the inner form
 * @param call as it goes to the upstream: with a persona, and with earlier turns of its conversation
 * @param isNative whether the upstream gets the client's own body
 * @returns little where nothing applies to the caller
 */
export function chatBounds(
  isHeld: boolean,
  source: Source,
  request: ChatRequest,
  { request: sent, extras }: Call,
  isNative: boolean,
): AttemptBounds | undefined {
  if (!isHeld) return undefined;
  const { max_completion_tokens, max_tokens, n } = sent;
  const tools = [...hostedToolsIn(sent), ...hostedToolsIn({ tools: extras["server_tools"] })];
  return {
    inputBytes: bodyBytes(source) + addedBytes(request, sent) + linkedTokens(sent.messages),
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

/** The tier that costs more; others cost less, or may cost as much as the usual one. */
const tierIn = ({ service_tier }: JsonObject): Pick<AttemptBounds, "serviceTier"> =>
  service_tier === "priority" ? { serviceTier: service_tier } : {};

/** What of the messages did not come with the request. */
function addedBytes({ messages: own }: ChatRequest, { messages }: ChatRequest): number {
  if (messages === own) return 0;
  const came = new Set<Message>(own);
  let bytes = 0;
  for (const message of messages) if (!came.has(message)) bytes += Buffer.byteLength(JSON.stringify(message));
  return bytes;
}

/** What is there by its address or its id is as large as a large image, or a book. */
const linkedImage = 5_000;
const linkedFile = 100_000;

function linkedTokens(messages: readonly Message[]): number {
  let tokens = 0;
  for (const { content } of messages) {
    if (!Array.isArray(content)) continue;
    for (const part of content as Record<string, unknown>[]) tokens += linkedIn(part);
  }
  return tokens;
}

function linkedIn({ type, image_url, file }: Record<string, unknown>): number {
  if (type === "image_url") return isData((image_url as { url?: unknown } | undefined)?.url) ? 0 : linkedImage;
  if (type === "file") return isData((file as { file_data?: unknown } | undefined)?.file_data) ? 0 : linkedFile;
  return 0;
}

const isData = (text: unknown) => typeof text === "string" && !/^https?:/i.test(text);

/** Of a JSON body that is passed on, in the format of any provider. @param path that tells what it asks for */
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

/** Their answers are numbers, and their models have no price for answers. */
const answersWithoutTokens = /(?:^|[/:])(?:embeddings|rerank|moderations|embedContent|batchEmbedContents)$/;

/** More images no provider makes in one call: https://platform.openai.com/docs/api-reference/images/createEdit */
const mostImages = 10;
/** The fewest bytes of a second that can be understood: half of what Opus needs at its lowest rate. */
const leastBytesPerSecond = 375;

/** Of a form that streams through: what its size tells. */
export function formBounds({ request }: RequestContext, operation: Operation): AttemptBounds {
  const declared = request.headers.get("content-length");
  if (declared === null) return { inputBytes: 0, billed: "unknown" };
  const inputBytes = Number(declared);
  return { inputBytes, choices: mostImages, ...mediaBounds(operation, inputBytes, mostImages) };
}

function mediaBounds(path: string, bytes: number, images: number): AttemptBounds | object {
  if (/(?:^|\/)images\/\w+$/.test(path)) return { images };
  if (/(?:^|\/)audio\/trans\w+$/.test(path)) return { audioSeconds: Math.ceil(bytes / leastBytesPerSecond) };
  return {};
}
