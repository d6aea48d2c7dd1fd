/** The path of a completion from request to response, for both surfaces and every client format. */

import type { Caller } from "../../auth/keys.ts";
import { truncate } from "../../lib/text/truncate.ts";
import type { Protocol } from "../../protocols/protocol.ts";
import { admit } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { personaSurface } from "../orchestrator.ts";
import { respondStream, respondWhole } from "../respond.ts";
import type { Services } from "../services.ts";
import { logContent } from "./attempts.ts";
import { beginInBackground, followBegun } from "./background.ts";
import { inOwnNames } from "./errors.ts";
import { readCall } from "./parse.ts";
import { runCall, wholeOf } from "./run.ts";
import type { CallScope } from "./scope.ts";
import type { Surface } from "./surface.ts";
import { withoutUpstream } from "./upstream-headers.ts";
import { newEnvelope, streamRules, Writer } from "./writer.ts";

/**
 * Answers one call: finds the caller and counts the hit, reads and parses the body, runs the call or joins the one with its
 * service-request-id, and responds with one JSON or a stream.
 * @param admitted the caller, where it was let in already
 * @throws ApiError
 */
export async function createCompletion(
  services: Services,
  context: RequestContext,
  onSurface: Surface,
  protocol: Protocol,
  admitted?: Caller,
): Promise<Response> {
  const caller = admitted ?? (await admit(services, context, onSurface.name, onSurface.name, true));
  const asked = await readCall(services, context, caller, onSurface, protocol);
  const surface = asked.byPersona ? await personaSurface(services, context, caller, onSurface) : onSurface;
  const { request, options } = asked.call;
  context.logFields["model"] = truncate(request.model);
  const { streams, log } = services.live.config;
  if (log.content) logContent(context, "messages", request.messages);
  const writer = new Writer(protocol, options, newEnvelope(services, context, protocol, request.model));
  const isStream = request.stream === true;
  const keepsAlive = isStream && writer.streamType === undefined;
  context.setIdleTimeout(keepsAlive ? idleTimeoutOf(streams.keepAliveSeconds) : 0);
  const scope: CallScope = { services, context, surface, caller, asked, writer };
  const { signal } = context.request;
  const background = protocol.stored?.isBackground(options) === true ? protocol.stored : undefined;
  const begun = background && (await inOwnNames(writer, beginInBackground(scope, background, signal)));
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
