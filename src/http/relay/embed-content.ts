/** Embeddings of Gemini's clients, on the gateway: to Google as they came, to other providers in OpenAI's form. */

import { type Caller, mayUseProvider } from "../../auth/keys.ts";
import { admit } from "../../call/admit/admit.ts";
import { checkNamedModels, standsFor } from "../../call/admit/named.ts";
import type { RequestContext } from "../../call/context.ts";
import { idempotentAnswer, serviceRequestId } from "../../call/once.ts";
import { heldBounds, inputMeter } from "../../call/plan/bounds.ts";
import { findPersona } from "../../call/plan/personas.ts";
import { readWhole } from "../../call/read/request-body.ts";
import { errorObjectIn } from "../../call/relay/error-fields.ts";
import { bodyTextOf, jsonAnswer, wholeOf } from "../../call/relay/relay.ts";
import { writtenAs } from "../../call/send/native.ts";
import type { Services } from "../../call/services.ts";
import type { Surface } from "../../call/surface.ts";
import { parseJson } from "../../lib/json/json.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { filledText, type Source } from "../../protocols/body/source.ts";
import { ApiError, readingError } from "../../protocols/errors.ts";
import { addressOf } from "../../protocols/generate-content/address.ts";
import { embeddingBody, embeddingOf, namedEmbedding } from "../../protocols/generate-content/embeddings.ts";
import { generateContent } from "../../protocols/generate-content/generate-content.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import { resolveModel } from "../../upstream/target.ts";
import { embed } from "./embeddings.ts";
import { askVia, relayTo } from "./relay.ts";

/** @throws ApiError */
export async function embedContent(
  services: Services,
  context: RequestContext,
  surface: Surface,
): Promise<WholeAnswer> {
  const caller = await admit(services, context, surface.name);
  const source = await readWhole(context, services.live.config.limits);
  const { model, method } = addressOf(context.path);
  if (surface.name === "orchestrator") return refuse(services, caller, model);
  context.setIdleTimeout(0);
  const asked = { caller, model, isBatch: method === "batchEmbedContents", source };
  const requestId = serviceRequestId(context);
  if (requestId === undefined) return answer(services, context, asked, context.request.signal);
  const identity = ["generate-content", method, model, source.parsed];
  const identified = { services, context, caller, call: { identity, request: { model } }, source };
  const produce = (until: AbortSignal) => answer(services, context, asked, until);
  return wholeOf(await idempotentAnswer(identified, requestId, context.request.signal, produce));
}

function refuse(services: Services, caller: Caller, model: string): never {
  if (findPersona(services, caller, model) === undefined) throw ApiError.modelNotFound(model);
  throw ApiError.unsupported("model", "A persona has no embeddings. Ask the gateway, with <provider>/<model>.");
}

type Asked = {
  readonly caller: Caller;
  readonly model: string;
  readonly isBatch: boolean;
  readonly source: Source;
};

function answer(services: Services, context: RequestContext, asked: Asked, signal: AbortSignal): Promise<WholeAnswer> {
  return context.retainWhile(async () => {
    const mayName = (provider: string) => mayUseProvider(asked.caller, provider);
    const { bound } = resolveModel(services.live.accounts, standsFor(services, asked.model), mayName);
    const isNative = bound.provider.kind === "remote" && bound.provider.methodAddress !== undefined;
    return await (isNative ? passed : translated)(services, context, asked, signal);
  });
}

/** The caller's own body, for an upstream that has the format. */
async function passed(
  services: Services,
  context: RequestContext,
  { caller, model, isBatch, source }: Asked,
  signal: AbortSignal,
): Promise<WholeAnswer> {
  const method = isBatch ? "batchEmbedContents" : "embedContent";
  const bounds = heldBounds(services, context, caller, source, method, isBatched);
  const relay = relayTo({ services, context, caller }, model, bounds, inputMeter(source));
  const { provider, bound } = relay;
  const url = provider.methodAddress?.(generateContent.name, method, relay.model, bound.account);
  if (url === undefined) throw ApiError.unsupported("model", `${bound.account.name} has no ${method}.`);
  checkNamedModels(caller, bound.account.name, "gateway", source, isBatched);
  const next = namedEmbedding(source.parsed, relay.model);
  const body = filledText(source, writtenAs(source, next), next);
  return askVia(relay, { url, body }, signal, "embeddings");
}

/** Each text of a batch names the model once more; one may stand for a list of one. */
const isBatched = ([list, ...rest]: readonly PathPart[]) =>
  list === "requests" &&
  rest.at(-1) === "model" &&
  (rest.length === 1 || (rest.length === 2 && typeof rest[0] === "number"));

async function translated(
  services: Services,
  context: RequestContext,
  { caller, model, isBatch, source }: Asked,
  signal: AbortSignal,
): Promise<WholeAnswer> {
  const embedding = embeddingOf(source.parsed, isBatch);
  const parsed = { model, ...embedding, encoding_format: "float" };
  const given = await embed(services, context, caller, { body: JSON.stringify(parsed), parsed }, signal);
  if (given.status >= 300) {
    const error = generateContent.upstreamError!(errorObjectIn(given.body), given.status, context.id);
    return jsonAnswer(error, given.status, given.headers);
  }
  try {
    return jsonAnswer(embeddingBody(parseJson(bodyTextOf(given)), embedding.input.length, isBatch));
  } catch (error) {
    throw readingError(error, model);
  }
}
