/** Bounds of what a call may use, for the budgets that reserve it before. */
import type { Caller } from "../auth/keys.ts";
import { isObject } from "../lib/json/json.ts";
import type { ChatRequest, Message } from "../protocols/chat/schema.ts";
import { bodyBytes, type Source } from "../protocols/source.ts";
import type { AttemptBounds } from "../usage/attempt.ts";
import type { RequestContext } from "./context.ts";
import type { Services } from "./services.ts";

/** Whether a budget, or a limit of tokens, applies to the caller's calls. */
export const isHeldToBudgets = ({ budgets }: Services, { tags }: RequestContext, { keyId, tier }: Caller): boolean =>
  budgets.holds({ keyId, tier, tags });

/**
 * @param request as the client sent it @param sent as it goes to the upstream: with a persona, and with earlier turns of its conversation
 * @returns little where nothing applies to the caller
 */
export function chatBounds(
  isHeld: boolean,
  source: Source,
  request: ChatRequest,
  sent: ChatRequest,
): AttemptBounds | undefined {
  if (!isHeld) return undefined;
  const { max_completion_tokens, max_tokens, n } = sent;
  return {
    inputBytes: bodyBytes(source) + addedBytes(request, sent) + linkedTokens(sent.messages),
    maxOutputTokens: max_completion_tokens ?? max_tokens ?? undefined,
    choices: n ?? 1,
  };
}

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

const countIn = (body: unknown, ...names: string[]): number | undefined => {
  let value = body;
  for (const name of names) value = isObject(value) ? value[name] : undefined;
  return typeof value === "number" && value >= 0 ? value : undefined;
};

/** Of a JSON body that is passed on, in the format of any provider. */
export function operationBounds(source: Source): AttemptBounds {
  const { parsed } = source;
  const limits = ["max_completion_tokens", "max_output_tokens", "max_tokens", "max_tokens_to_sample"];
  return {
    inputBytes: bodyBytes(source),
    maxOutputTokens:
      limits.map((name) => countIn(parsed, name)).find((count) => count !== undefined) ??
      countIn(parsed, "generationConfig", "maxOutputTokens"),
    choices: Math.max(1, countIn(parsed, "n") ?? countIn(parsed, "generationConfig", "candidateCount") ?? 1),
  };
}
