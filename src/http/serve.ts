/** The boundary of every request: opens its context, answers whatever is thrown, and records its end. */

import { admit } from "../call/admit/admit.ts";
import { type Host, RequestContext, type ServedRoute, type ServerHandle } from "../call/context.ts";
import { asApiError, errorAnswer, respondWhole } from "../call/relay/relay.ts";
import type { ServedSurface } from "../config/config.ts";
import { ApiError } from "../protocols/errors.ts";
import { ClientDisconnected } from "../upstream/client.ts";
import { modelHint } from "./models/hints.ts";
import { allowOrigin, checkHost, namesThisMachine } from "./origins.ts";
import { basePath, type Route } from "./routes.ts";

export type Incoming = { readonly request: Request; readonly server: ServerHandle | null };

/** Checks whether Bun's router matched it, which gives it parameters, be they none. */
export const isRouted = (request: Request): boolean => "params" in request && request.params !== undefined;

/** Runs one handler and closes its request context, whatever happens. */
export async function serve(host: Host, incoming: Incoming, route: ServedRoute, run: Route["run"]): Promise<Response> {
  const context = openContext(host, incoming, route);
  try {
    await checkRequest(host, context);
    const answer = await run(host.services, context);
    return answer instanceof Response ? answer : respondWhole(context, answer);
  } catch (error) {
    return answerFailure(host, context, error);
  }
}

/** Begins a request: from here on it counts as under way, until its context is finished. */
export function openContext(host: Host, { request, server }: Incoming, route: ServedRoute): RequestContext {
  const { services, draining } = host;
  const context = new RequestContext(host, request, server, route);
  services.running += 1;
  const { origins } = services.live.config.cors;
  if (origins.length > 0) allowOrigin(context, origins);
  if (draining) context.headers["connection"] = "close";
  return context;
}

/**
 * Waits for what a request needs and refuses what no route takes.
 * @param takesWebSocket true where the route may go on as one
 * @throws ApiError
 */
export async function checkRequest(host: Host, context: RequestContext, takesWebSocket = false): Promise<void> {
  const { services, checksNames } = host;
  const { area } = context;
  if (area !== "operations") await services.keys.refresh();
  if (area === "orchestrator") await services.loading;
  if (checksNames && !namesThisMachine(context.request)) await checkHost(services, context);
  const upgrade = context.request.headers.get("upgrade");
  if (!takesWebSocket && upgrade !== null && area !== "operations" && webSocket.test(upgrade))
    await refuseWebSocket(host, context, area);
}

/** Answers what was thrown. */
export function answerFailure({ services, surfaces }: Host, context: RequestContext, error: unknown): Response {
  if (error instanceof ClientDisconnected || context.request.signal.aborted) {
    // Nobody reads this; the status is the one that proxies log for it.
    context.finish(499, "cancelled");
    return new Response(null, { status: 499 });
  }
  const failure = asApiError(services, context, error);
  context.trace?.refused(failure.code);
  const hint = failure.model === undefined ? "" : modelHint(services, context, failure.model, surfaces);
  const answer = errorAnswer(context.protocol, hint === "" ? failure : failure.with(hint), context.id);
  return respondWhole(context, answer);
}

/** Other upgrades, as to HTTP/2, are only offered: the request is answered as it is. */
const webSocket = /(?:^|,)\s*websocket\s*(?:,|\/|$)/i;

export const asksForWebSocket = ({ headers }: Request): boolean => webSocket.test(headers.get("upgrade") ?? "");

/** Clients that are given a base address alone open their socket there: they are told where it is. */
async function refuseWebSocket(host: Host, context: RequestContext, area: ServedSurface): Promise<never> {
  const { services, surfaces } = host;
  await admit(services, context, area);
  const isThere = /\/v1\/responses\/?$/.test(context.path);
  const isTaken = area !== "admin" && services.live.config.websockets.enabled && !isThere;
  throw ApiError.websocketsUnsupported(
    isThere ? 426 : 400,
    isTaken ? `${basePath(area, surfaces)}/v1/responses` : undefined,
  );
}
