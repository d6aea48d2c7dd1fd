/** The orchestrator surface: personas called as models. Errors never name the provider behind a persona. */

import type { Caller } from "../../auth/keys.ts";
import { retryAfterMs } from "../../lib/http/retry-after.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { type ComposedRequest, changedFields, compose } from "../../personas/compose/compose.ts";
import type { Additions } from "../../personas/knowledge/additions.ts";
import type { Persona } from "../../personas/persona.ts";
import type { Source } from "../../protocols/body/source.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import type { Accounts } from "../../upstream/accounts.ts";
import type { UpstreamError } from "../../upstream/answer.ts";
import { classifyFailure } from "../../upstream/failures.ts";
import { resolveTarget, type Target } from "../../upstream/target.ts";
import { attemptVariant } from "../../usage/variants/stops.ts";
import { countHit } from "../admit/admit.ts";
import type { Admitted } from "../scope.ts";
import type { Services } from "../services.ts";
import type { Plan, Surface } from "../surface.ts";
import { findAdditions } from "./knowledge.ts";
import { findPersona, preparePersona } from "./personas.ts";
import { variantFor } from "./variant.ts";

export const orchestrator: Surface = {
  name: "orchestrator",
  showsUpstream: false,
  plan: planPersona,
  upstreamErrorAnswer(error) {
    throw mapUpstreamError(error);
  },
  failure: hideProvider,
  fault(fault) {
    const ours = fault instanceof ApiError ? hideProvider(fault) : unavailable(false);
    return ours.fields();
  },
};

/** The surface of a persona's call that came on the gateway, where a prompt named it: the key's hits on the orchestrator count it too. */
const personaOnGateway: Surface = { ...orchestrator, name: "gateway" };

/** @throws ApiError rate_limit_exceeded, or rejects with it */
export async function personaSurface({ services, context, caller, surface }: Admitted): Promise<Surface> {
  if (surface.name === "orchestrator") return surface;
  await countHit(services, context, "orchestrator", caller);
  return personaOnGateway;
}

async function planPersona(services: Services, caller: Caller, request: ChatRequest, source: Source): Promise<Plan> {
  await preparePersona(services, request.model);
  const found = findPersona(services, caller, request.model);
  if (found === undefined) throw ApiError.modelNotFound(request.model);
  const chosen = found.variants && variantFor(services, found, found.variants, caller, request);
  const persona = chosen?.persona ?? found;
  const variant = chosen && attemptVariant(found, chosen);
  const isAdding = persona.knowledge !== undefined || persona.lorebook !== undefined;
  const additions = isAdding ? await findAdditions(services.knowledge, persona, request, source) : undefined;
  // A persona's conversations are stored here only, never upstream.
  const { store, ...composed } = compose(persona, request, additions);
  return {
    persona,
    ...targetsOf(services, persona, composed, source),
    store: store === true,
    upstreamMayHold: false,
    ...((persona.mcp ?? persona.skills) !== undefined && {
      mcp: {
        grants: persona.mcp ?? [],
        skills: persona.skills,
        bounds: { ...services.live.config.mcp, ...persona.mcpLimits },
      },
    }),
    ...(additions !== undefined && { additions }),
    change: () => changeOf(persona, request, composed, additions),
    ...(variant !== undefined && { variant }),
  };
}

function changeOf(persona: Persona, request: ChatRequest, composed: ComposedRequest, additions?: Additions) {
  const [system] = composed.messages;
  const fields = { ...changedFields(request, composed), store: false };
  const before = [...(system === undefined ? [] : [system]), ...persona.examples];
  return { before, fields, ...(additions !== undefined && { within: additions.within }) };
}

/** The persona's models whose provider is set up, in its order of preference. */
function targetsOf(
  services: Services,
  { id: persona, targets, strategy, weights }: Persona,
  composed: ComposedRequest,
  source: Source,
): Pick<Plan, "targets" | "strategy" | "weights"> {
  const { accounts } = services.live;
  const isSetUp = (id: string) => {
    const provider = parseModelId(id)?.namespace;
    return provider !== undefined && accounts.find(provider) !== undefined;
  };
  const models = targets.filter(isSetUp);
  if (models.length === 0) {
    services.log.error("none of a persona's models has a provider that is set up", { persona });
    throw unavailable(false);
  }
  const planned = models.map((id) => targetOf(accounts, id, composed, source));
  if (strategy === undefined) return { targets: planned };
  return { targets: planned, strategy, weights: weights?.filter((_, at) => isSetUp(targets[at]!)) };
}

/** The call to one of a persona's models. @param composed without `store` @throws ApiError as `resolveTarget` does */
export const targetOf = (accounts: Accounts, id: string, composed: ComposedRequest, source?: Source): Target =>
  resolveTarget(accounts, id, { ...composed, model: id }, source, { isPersonas: true });

const inputMessages = {
  context_length_exceeded: "The conversation is too long for this model. Shorten it and try again.",
  content_filter: "The model refused this conversation because of its content policy.",
  invalid_value: "The model does not accept this request as it is.",
} as const;

/** Maps an upstream's error to one of our own; the log has the original. */
function mapUpstreamError(error: UpstreamError): ApiError {
  const found = classifyFailure(error);
  switch (found.kind) {
    case "input":
      return ApiError.refusedInput(found.code, inputMessages[found.code]);
    case "configuration":
      return ApiError.internal(`${error.provider} answered ${error.status}: its key, address or model name is wrong`);
    case "transient":
      return unavailable(found.timedOut, error.headers["retry-after"]);
  }
}

/** Replaces the messages of our own errors that name the provider. */
function hideProvider(error: ApiError): ApiError {
  if (error.status === 504) return unavailable(true);
  if (error.code === "upstream_unavailable") return unavailable(false, error.headers["retry-after"]);
  return error.status === 503 && error.code.startsWith("upstream_") ? unavailable(false) : error;
}

function unavailable(timedOut: boolean, retryAfter?: string): ApiError {
  if (timedOut) return ApiError.upstreamTimeout("The model took too long to answer.");
  const seconds = Math.ceil((retryAfterMs(retryAfter, systemClock.now()) ?? 0) / 1000);
  return ApiError.unavailable("upstream_unavailable", "The model is not available at the moment. Try again later.", {
    ...(seconds > 0 && { retryAfterSeconds: seconds }),
  });
}
