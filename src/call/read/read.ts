/** Reads a call: parses its body in its client format, with the stored answers and the prompt that it refers to. */
import type { KeyHolder } from "../../conversations/conversations.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { restoreLarge, type Source } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { EarlierAnswers, Protocol } from "../../protocols/protocol.ts";
import { labelsOf } from "../../usage/ledger/labels.ts";
import { isIdentified } from "../once.ts";
import { keyHolderOf } from "../plan/conversation.ts";
import { personaSurface } from "../plan/orchestrator.ts";
import { withPrompt } from "../plan/prompt.ts";
import { CallEnvelope, Writer } from "../relay/writer.ts";
import type { Admitted, Asked, CallScope } from "../scope.ts";
import { logContent } from "../send/send.ts";
import type { Services } from "../services.ts";
import { checkMetadata, checkPlain } from "./plain-values.ts";
import { readJson } from "./request-body.ts";

/** Reads and parses the request's body. @returns all that is known of the call by then @throws ApiError */
export async function readCall(admitted: Admitted, protocol: Protocol): Promise<CallScope> {
  const { services, context } = admitted;
  const { limits, log } = services.live.config;
  const source = await readJson(context, limits);
  if (source.large !== undefined && (log.content || isIdentified(context))) await restoreLarge(source);
  const asked = await parseCall(admitted, protocol, source);
  const surface = asked.byPersona ? await personaSurface(admitted) : admitted.surface;
  const { request, options } = asked.call;
  const writer = new Writer(protocol, options, new CallEnvelope(services, context, protocol, request.model));
  context.logFields["model"] = truncate(request.model);
  if (log.content) logContent(context, "messages", request.messages);
  return { services, context, surface, caller: admitted.caller, asked, writer };
}

/** @throws ApiError with the path of the value in the format's own body */
export async function parseCall(admitted: Admitted, protocol: Protocol, source: Source): Promise<Asked> {
  const { services, context, caller, surface } = admitted;
  const ids = protocol.references?.(source.parsed);
  const earlier = ids?.length
    ? await earlierAnswers(services, keyHolderOf(caller, surface.name), protocol, ids)
    : undefined;
  const parsed = protocol.parse(source, context, earlier);
  checkPlain("model", parsed.request.model);
  const { metadata } = parsed.request;
  if (metadata != null) checkMetadata(metadata);
  context.labels = labelsOf(context.labels, parsed.request, services.live.config.usage.metadata);
  const prompt = protocol.prompt?.(parsed.options);
  if (prompt === undefined) return { call: parsed, source, byPersona: false };
  const { answeredBy, ...call } = await withPrompt(admitted, parsed, prompt);
  return { call, source, byPersona: answeredBy === "persona" };
}

/** The most earlier answers that one request may refer to: each is read from the store. */
const maxReferences = 1000;

/** @returns those that are kept, and are the key holder's */
async function earlierAnswers(
  { conversations }: Services,
  keyHolder: KeyHolder,
  { name }: Protocol,
  ids: readonly string[],
): Promise<EarlierAnswers> {
  const found = new Map<string, JsonObject>();
  for (const id of ids.slice(0, maxReferences)) {
    try {
      found.set(id, (await conversations.getShown(keyHolder, id, name)).answer);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }
  return found;
}
