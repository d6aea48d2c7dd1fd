/** The path of a call from request to response, for both surfaces and every client format. */

import type { Caller } from "../auth/keys.ts";
import { truncate } from "../lib/text/truncate.ts";
import type { Protocol } from "../protocols/protocol.ts";
import { admit } from "./admit/authenticate.ts";
import { beginInBackground, followBegun } from "./background.ts";
import type { RequestContext } from "./context.ts";
import { personaSurface } from "./plan/orchestrator.ts";
import { readCall } from "./read/parse.ts";
import { inOwnNames } from "./relay/errors.ts";
import { respondStream, respondWhole } from "./relay/respond.ts";
import { newEnvelope, streamRules, Writer } from "./relay/writer.ts";
import { runCall, wholeOf } from "./run.ts";
import type { CallScope } from "./scope.ts";
import { logContent } from "./send/attempts.ts";
import { withoutUpstream } from "./send/upstream-headers.ts";
import type { Services } from "./services.ts";
import type { Surface } from "./surface.ts";

/**
 * Answers one call. Its steps, each in the folder of its name: admit, read, plan, send, relay, settle.
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
  const caller = admitted ?? (await admit(services, context, onSurface.name, onSurface.name, true));
  // Read: the body within its bounds, parsed by the client's format. The one cell that holds it is emptied once it was sent.
  const asked = await readCall(services, context, caller, onSurface, protocol);
  const surface = asked.byPersona ? await personaSurface(services, context, caller, onSurface) : onSurface;
  const { request, options } = asked.call;
  const writer = new Writer(protocol, options, newEnvelope(services, context, protocol, request.model));
  const scope: CallScope = { services, context, surface, caller, asked, writer };
  const { streams, log } = services.live.config;
  context.logFields["model"] = truncate(request.model);
  if (log.content) logContent(context, "messages", request.messages);
  const isStream = request.stream === true;
  const keepsAlive = isStream && writer.streamType === undefined;
  context.setIdleTimeout(keepsAlive ? idleTimeoutOf(streams.keepAliveSeconds) : 0);
  // Plan and send, once for each service-request-id (`run.ts`): the targets, then one after the other until one answers. Each attempt
  // begins with its reservation and settles with its ledger line (`settle/observer.ts`).
  const { signal } = context.request;
  const background = protocol.stored?.isBackground(options) === true ? protocol.stored : undefined;
  const begun = background && (await inOwnNames(writer, beginInBackground(scope, background, signal)));
  // Relay: the answer as it comes, in the client's format.
  if (begun !== undefined && !isStream) return respondWhole(context, begun, withoutUpstream(context));
  if (!isStream) return respondWhole(context, wholeOf(await inOwnNames(writer, runCall(scope, signal))));
  context.logFields["stream"] = true;
  const disconnected = abortedWith(signal);
  const rules = streamRules(services, surface, writer, disconnected);
  const answering =
    begun === undefined
      ? inOwnNames(writer, runCall(scope, disconnected.signal))
      : followBegun(scope, begun, disconnected.signal);
  return respondStream(services, context, answering, rules);
}

/** `AbortSignal.any` does the same, at several times the cost. */
function abortedWith(signal: AbortSignal): AbortController {
  const controller = new AbortController();
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
