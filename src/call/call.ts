/** The path of a call from request to response, for both surfaces and every client format. */

import type { Caller } from "../auth/keys.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type { Answer, EventSource } from "../upstream/answer.ts";
import { refusedBy } from "../usage/ledger/error-note.ts";
import { admit } from "./admit/admit.ts";
import { answerInBackground } from "./background.ts";
import type { RequestContext } from "./context.ts";
import { once } from "./once.ts";
import { type Planned, planCall } from "./plan/plan.ts";
import { readCall } from "./read/read.ts";
import { inOwnNames } from "./relay/errors.ts";
import { respondStream, respondWhole, wholeOf } from "./relay/relay.ts";
import { streamRules } from "./relay/writer.ts";
import type { CallScope } from "./scope.ts";
import { sendCall } from "./send/send.ts";
import type { Services } from "./services.ts";
import { nextAttempt } from "./settle/settle.ts";
import type { Surface } from "./surface.ts";

/**
 * Answers one call. Its steps are admit, read, plan, send, relay and settle, each in the folder of its name.
 * @param admitted the caller, where it was let in already
 * @throws ApiError
 */
export async function answerCall(
  services: Services,
  context: RequestContext,
  onSurface: Surface,
  protocol: Protocol,
  admitted?: Caller,
): Promise<Response> {
  // Admit: whose key it is, and whether it may call now; the hit is counted.
  const caller = admitted ?? (await admit(services, context, onSurface.name, { mayPreview: true }));
  // Read: the body within its bounds, parsed by the client's format. The cell that holds it is emptied once it was sent.
  const scope = await readCall({ services, context, surface: onSurface, caller }, protocol);
  const leaving = leavingOf(scope);
  const { stored } = protocol;
  if (stored?.isBackground(scope.asked.call.options) === true) return await answerInBackground(scope, stored, leaving);
  // Plan and send, once for each service-request-id.
  const answering = once(scope, leaving?.signal ?? context.request.signal, planAndSend);
  const relayed = protocol.param === undefined ? answering : inOwnNames(scope.writer, answering);
  // Relay: the answer as it comes, in the client's format.
  if (leaving === undefined) return respondWhole(context, wholeOf(await relayed));
  return await respondStream(services, context, relayed, streamRules(services, scope.surface, scope.writer, leaving));
}

/** The middle of the path. @param until aborts the call @throws ApiError */
export async function planAndSend(scope: CallScope, until: AbortSignal): Promise<Answer<EventSource>> {
  // Plan: the targets, the conversation that it continues, and the tools that are called meanwhile.
  let planned: Planned;
  try {
    planned = await planCall(scope);
  } catch (error) {
    recordRefusal(scope, error);
    throw error;
  }
  // Send: to one target after the other until one answers. Each attempt begins with its reservation and settles, by its
  // observer (`settle/settle.ts`), with its ledger line.
  return await sendCall(scope, planned, until);
}

/** Writes the line of a request that was refused before any upstream was asked. */
function recordRefusal({ services, context, caller, asked }: CallScope, error: unknown): void {
  services.usage.record(nextAttempt(context, caller, asked.call.request.model), refusedBy(error));
}

/** @returns what ends a streamed call when its client leaves; undefined for a plain one, which the request's own signal ends */
function leavingOf({ services, context, asked, writer }: CallScope): AbortController | undefined {
  const isStream = asked.call.request.stream === true;
  const keepsAlive = isStream && writer.streamType === undefined;
  context.setIdleTimeout(keepsAlive ? idleTimeoutOf(services.live.config.streams.keepAliveSeconds) : 0);
  if (!isStream) return undefined;
  context.logFields["stream"] = true;
  // `AbortSignal.any` does the same, at several times the cost.
  const controller = new AbortController();
  const { signal } = context.request;
  if (signal.aborted) controller.abort();
  else signal.addEventListener("abort", () => controller.abort());
  return controller;
}

/**
 * The connection's idle timeout in seconds; 0: none. A stream with keep-alive comments that makes no progress has lost its client;
 * without comments, and for plain answers, silence is normal.
 */
export const idleTimeoutOf = (keepAliveSeconds: number): number =>
  keepAliveSeconds > 0 ? Math.min(255, Math.max(60, 4 * keepAliveSeconds)) : 0;
