/** Runs a call once for each service-request-id: plans it, and sends it. */
import { withEndCallback } from "../lib/streams/flow.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Protocol } from "../protocols/protocol.ts";
import { type Answer, type EventSource, isUpstreamError, type WholeAnswer } from "../upstream/answer.ts";
import { refusedBy } from "../usage/error-note.ts";
import type { RequestContext } from "./context.ts";
import { idempotentAnswer, identifiedIn, serviceRequestId } from "./identified.ts";
import { versionHeaders } from "./plan/persona-version.ts";
import { type Planned, planCall } from "./plan/plan.ts";
import { variantHeaders } from "./plan/variant.ts";
import { describeFailure } from "./relay/errors.ts";
import type { CallScope } from "./scope.ts";
import { callTargets } from "./send/attempts.ts";
import { upstreamHeaders } from "./send/upstream-headers.ts";
import type { Services } from "./services.ts";
import { nextAttempt } from "./settle/observer.ts";
import type { Surface } from "./surface.ts";

/** Runs the call, or joins or replays the one with its service-request-id. @param signal aborts it @throws ApiError */
export function runCall(scope: CallScope, signal: AbortSignal): Promise<Answer> {
  const requestId = serviceRequestId(scope.context);
  return requestId === undefined ? planAndCall(scope, signal) : runIdentified(scope, requestId, signal);
}

function runIdentified(scope: CallScope, requestId: string, signal: AbortSignal): Promise<Answer> {
  const { services, context, caller } = scope;
  const produce = async (until: AbortSignal) => {
    const identified = {
      ...scope,
      effects: services.idempotency.effectsOf({ scope: `${caller.keyId} ${context.area}`, requestId }),
    };
    const calling = whileRetained(context, until, () => planAndCall(identified, until));
    const made = await calling.catch((error) => {
      throw error instanceof ApiError ? error.withHeaders(upstreamHeaders(context)) : error;
    });
    const headers = { ...upstreamHeaders(context), ...versionHeaders(context), ...variantHeaders(context) };
    return { ...made, headers: { ...made.headers, ...headers } };
  };
  return idempotentAnswer(identifiedIn(scope), requestId, signal, produce);
}

/** Counts the request's body as in memory until the call ends, as it may outlive its client. @param until aborts on cancel */
export async function whileRetained(
  context: RequestContext,
  until: AbortSignal,
  call: () => Promise<Answer<EventSource>>,
): Promise<Answer<EventSource>> {
  const release = context.retain();
  until.addEventListener("abort", release, { once: true });
  try {
    const answered = await call();
    if (answered.kind === "stream") return { ...answered, events: withEndCallback(answered.events, release) };
    release();
    return answered;
  } catch (error) {
    release();
    throw error;
  }
}

/** Does not await the call itself: it would hold the request, which is to be free once it is sent. */
async function planAndCall(scope: CallScope, signal: AbortSignal): Promise<Answer<EventSource>> {
  let planned: Planned;
  try {
    planned = await planCall(scope);
  } catch (error) {
    recordRefusal(scope, error);
    throw error;
  }
  return callPlanned(scope, planned, signal);
}

/** Writes the line of a request that was refused before any upstream was asked. */
function recordRefusal({ services, context, caller, asked }: CallScope, error: unknown): void {
  services.usage.record(nextAttempt(context, caller, asked.call.request.model), refusedBy(error));
}

/** Calls the planned targets. @returns the answer, or the upstream's error as this surface's callers get it @throws ApiError */
export function callPlanned(scope: CallScope, planned: Planned, signal: AbortSignal): Promise<Answer<EventSource>> {
  const { services, context, surface, writer } = scope;
  return answerOf(services, context, surface, writer.protocol, callTargets(scope, planned, signal));
}

/** Does not take the request, as an asynchronous function holds its arguments until it settles. */
async function answerOf(
  services: Services,
  context: RequestContext,
  surface: Surface,
  protocol: Protocol,
  calling: Promise<Answer<EventSource>>,
): Promise<Answer<EventSource>> {
  let called: Answer<EventSource>;
  try {
    called = await calling;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    Object.assign(context.logFields, describeFailure(services, error));
    throw surface.failure(error);
  }
  if (!isUpstreamError(called)) return called;
  Object.assign(context.logFields, describeFailure(services, called));
  return surface.upstreamErrorAnswer(called, protocol, context.id);
}

export function wholeOf(answered: Answer): WholeAnswer {
  if (answered.kind === "whole") return answered;
  throw new Error("a stream in place of a plain answer");
}
