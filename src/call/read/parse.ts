/** Parses the body of a call in its client format, with the stored answers and the prompt that it refers to. */
import type { Caller } from "../../auth/keys.ts";
import type { Holder } from "../../conversations/conversations.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { EarlierAnswers, Protocol } from "../../protocols/protocol.ts";
import type { Source } from "../../protocols/source.ts";
import { labelsOf } from "../../usage/labels.ts";
import type { RequestContext } from "../context.ts";
import { isIdentified } from "../identified.ts";
import { holderOf } from "../plan/conversation.ts";
import { withPrompt } from "../plan/prompt.ts";
import type { Asked } from "../scope.ts";
import type { Services } from "../services.ts";
import type { Surface } from "../surface.ts";
import { checkMetadata, checkPlain } from "./plain-values.ts";
import { readJson } from "./request-body.ts";

/** Reads the request's body and parses it. @throws ApiError */
export async function readCall(
  services: Services,
  context: RequestContext,
  caller: Caller,
  surface: Surface,
  protocol: Protocol,
): Promise<Asked> {
  const { limits, log } = services.live.config;
  const source = await readJson(context, limits);
  if (source.large !== undefined && (log.content || isIdentified(context))) await source.large.restore([source.parsed]);
  return parseCall(services, context, caller, surface, protocol, source);
}

/** @throws ApiError with the path of the value in the format's own body */
export async function parseCall(
  services: Services,
  context: RequestContext,
  caller: Caller,
  surface: Surface,
  protocol: Protocol,
  source: Source,
): Promise<Asked> {
  const ids = protocol.references?.(source.parsed);
  const earlier = ids?.length
    ? await earlierAnswers(services, holderOf(caller, surface.name), protocol, ids)
    : undefined;
  const parsed = protocol.parse(source, context, earlier);
  checkPlain("model", parsed.request.model);
  const { metadata } = parsed.request;
  if (metadata != null) checkMetadata(metadata);
  context.labels = labelsOf(context.labels, parsed.request, services.live.config.usage.metadata);
  const prompt = protocol.prompt?.(parsed.options);
  if (prompt === undefined) return { call: parsed, source, byPersona: false };
  const { answeredBy, ...call } = await withPrompt(services, caller, surface, parsed, prompt);
  return { call, source, byPersona: answeredBy === "persona" };
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
