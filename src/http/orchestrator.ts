/** The orchestrator: personas called as models. What answers behind them is not the caller's business. */

import { type Caller, mayUseModel } from "../auth/keys.ts";
import { type ComposedRequest, compose } from "../personas/compose.ts";
import type { Persona } from "../personas/persona.ts";
import { ApiError } from "../protocols/errors.ts";
import { parseModelId } from "../protocols/model-id.ts";
import type { Source } from "../protocols/source.ts";
import type { UpstreamError } from "../upstream/call.ts";
import { classifyFailure } from "../upstream/fallback.ts";
import { resolveTarget, type Target } from "../upstream/target.ts";
import type { ChatSurface } from "./chat.ts";
import type { Services } from "./services.ts";

export const orchestrator: ChatSurface = {
  name: "orchestrator",
  plan(services, caller, request, source) {
    const persona = findPersona(services, caller, request.model);
    if (persona === undefined) throw ApiError.modelNotFound(request.model);
    // A persona's exchanges are kept here and nowhere else: its upstream is nobody's business.
    const { store, ...composed } = compose(persona, request);
    return { targets: targetsOf(services, persona, composed, source), store: store === true, upstreamMayHold: false };
  },
  refusal(error) {
    throw asOurs(error);
  },
  failure: withoutNames,
  fault(fault) {
    const ours = fault instanceof ApiError ? withoutNames(fault) : passing(false);
    return { ...ours.body().error };
  },
};

/** What the key's tier and globs hide does not exist. */
export function findPersona(services: Services, caller: Caller, id: string): Persona | undefined {
  return mayUseModel(caller, id) ? services.personas.visibleTo(caller.tier).find(id) : undefined;
}

export function visiblePersonas(services: Services, caller: Caller): Persona[] {
  return services.personas
    .visibleTo(caller.tier)
    .list()
    .filter(({ id }) => mayUseModel(caller, id));
}

/** The persona's models whose provider is set up, in its order of preference. */
function targetsOf(services: Services, persona: Persona, composed: ComposedRequest, source: Source): Target[] {
  const { accounts } = services.live;
  const models = persona.targets.filter((id) => {
    const provider = parseModelId(id)?.namespace;
    return provider !== undefined && accounts.find(provider) !== undefined;
  });
  if (models.length === 0) {
    services.log.error("none of a persona's models has a provider that is set up", { persona: persona.id });
    throw passing(false);
  }
  return models.map((id) => resolveTarget(accounts, id, { ...composed, model: id }, source));
}

const inputWords = {
  context_length_exceeded: "The conversation is too long for this model. Shorten it and try again.",
  content_filter: "The model refused this conversation because of its content policy.",
  invalid_value: "The model does not accept this request as it is.",
} as const;

/** An upstream's error in our own words; the log has the upstream's. */
function asOurs(error: UpstreamError): ApiError {
  const found = classifyFailure(error);
  switch (found.kind) {
    case "input":
      return ApiError.refusedInput(found.code, inputWords[found.code]);
    case "configuration":
      return ApiError.internal(`${error.provider} answered ${error.status}: its key, address or model name is wrong`);
    case "passing":
      return passing(found.timedOut, error.headers["retry-after"]);
  }
}

/** Our own errors of the relay name the provider: not here. */
function withoutNames(error: ApiError): ApiError {
  if (error.status === 504) return passing(true);
  return error.status === 503 && error.code.startsWith("upstream_") ? passing(false) : error;
}

function passing(timedOut: boolean, retryAfter?: string): ApiError {
  if (timedOut) return ApiError.upstreamTimeout("The model took too long to answer.");
  const seconds = Number(retryAfter);
  return ApiError.unavailable("upstream_unavailable", "The model is not available at the moment. Try again later.", {
    ...(Number.isInteger(seconds) && seconds > 0 ? { retryAfterSeconds: seconds } : {}),
  });
}
