/** Parses the body of a call in its client format, with the stored answers and the prompt that it refers to. */
import type { Caller } from "../../auth/keys.ts";
import type { Holder } from "../../conversations/conversations.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { EarlierAnswers, Protocol } from "../../protocols/protocol.ts";
import type { Source } from "../../protocols/source.ts";
import { labelsOf } from "../../usage/labels.ts";
import type { RequestContext } from "../context.ts";
import { holderOf } from "../conversation.ts";
import { checkMetadata, checkPlain } from "../plain-values.ts";
import type { Services } from "../services.ts";
import { type PromptedCall, withPrompt } from "./prompt.ts";
import type { Surface } from "./surface.ts";

/**
 * @param earlier the stored answers that the request refers to; absent: they are read
 * @returns a promise only where something stored has to be read first
 * @throws ApiError with the path of the value in the format's own body, or rejects with it
 */
export function parseCall(
  services: Services,
  context: RequestContext,
  caller: Caller,
  surface: Surface,
  protocol: Protocol,
  source: Source,
  earlier?: EarlierAnswers,
): PromptedCall | Promise<PromptedCall> {
  const ids = earlier === undefined ? protocol.references?.(source.parsed) : undefined;
  if (ids !== undefined && ids.length > 0)
    return parseReferring(ids, services, context, caller, surface, protocol, source);
  const parsed = protocol.parse(source, context, earlier);
  checkPlain("model", parsed.request.model);
  const { metadata } = parsed.request;
  if (metadata != null) checkMetadata(metadata);
  context.labels = labelsOf(context.labels, parsed.request, services.live.config.usage.metadata);
  const prompt = protocol.prompt?.(parsed.options);
  return prompt === undefined ? parsed : withPrompt(services, caller, surface, parsed, prompt);
}

async function parseReferring(ids: readonly string[], ...call: Parameters<typeof parseCall>): Promise<PromptedCall> {
  const [services, context, caller, surface, protocol, source] = call;
  const earlier = await earlierAnswers(services, holderOf(caller, surface.name), protocol, ids);
  return parseCall(services, context, caller, surface, protocol, source, earlier);
}

/** The most earlier answers that one request may refer to: each is read from the store. */
const maxReferences = 1000;

/** @returns those that are kept, and are the holder's */
async function earlierAnswers(
  { conversations }: Services,
  holder: Holder,
  { name }: Protocol,
  ids: readonly string[],
): Promise<EarlierAnswers> {
  const found = new Map<string, JsonObject>();
  for (const id of ids.slice(0, maxReferences)) {
    try {
      found.set(id, (await conversations.getShown(holder, id, name)).answer);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }
  return found;
}
