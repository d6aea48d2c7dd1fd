/** The boundary of every request: opens its context, answers whatever is thrown, and records its end. */
import type { ServedSurface } from "../config/config.ts";
import type { FinishedRequest, Telemetry } from "../observability/otlp/telemetry.ts";
import { ApiError } from "../protocols/errors.ts";
import type { StreamEnd } from "../upstream/answer.ts";
import { ClientDisconnected } from "../upstream/client.ts";
import { checkHost } from "./allowed-host.ts";
import { admit } from "./authenticate.ts";
import { RequestContext, type ServedRoute, type ServerHandle } from "./context.ts";
import { allowOrigin } from "./cors.ts";
import { modelHint } from "./hints.ts";
import { asApiError, errorAnswer, respondWhole } from "./respond.ts";
import type { Route } from "./routes.ts";
import type { Services } from "./services.ts";

/** The listener that an application answers for. */
export type Host = {
  readonly services: Services;
  /** Absent: nothing is exported. */
  readonly telemetry: Telemetry | undefined;
  /** Whether `Host` must be an allowed name. */
  readonly checksNames: boolean;
  /** Whether connections close after their next answer. */
  readonly draining: boolean;
  readonly surfaces: readonly ServedSurface[];
};

export type Incoming = { readonly request: Request; readonly server: ServerHandle | null };

/** Whether Bun's router matched it, which gives it parameters, be they none. */
export const isRouted = (request: Request): boolean => "params" in request && request.params !== undefined;

/** Runs one handler and closes its request context, whatever happens. */
export async function serve(host: Host, incoming: Incoming, route: ServedRoute, run: Route["run"]): Promise<Response> {
  const context = openContext(host, incoming, route);
  try {
    const checking = checkRequest(host, context);
    if (checking !== undefined) await checking;
    const answer = await run(host.services, context);
    return answer instanceof Response ? answer : respondWhole(context, answer);
  } catch (error) {
    return answerFailure(host, context, error);
  }
}

/** Begins a request: from here on it counts as under way, until its context is finished. */
export function openContext(host: Host, { request, server }: Incoming, route: ServedRoute): RequestContext {
  const { services, draining } = host;
  const context = new RequestContext(services, request, server, route, (ended, status, end) =>
    close(host, ended, status, end),
  );
  startLogFields(context);
  services.running += 1;
  allowOrigin(context, services.live.config.cors.origins);
  if (draining) context.headers["connection"] = "close";
  return context;
}

/** Waits for what a request needs and refuses what no route takes. @returns undefined where that is done. @throws ApiError, or rejects with it */
export function checkRequest({ services, checksNames }: Host, context: RequestContext): Promise<void> | undefined {
  const { area } = context;
  const refreshing = area === "operations" ? undefined : services.keys.refresh();
  const isLoading = services.loading !== undefined && area === "orchestrator";
  if (refreshing === undefined && !isLoading && !wantsWebSocket(context))
    return checksNames ? checkHost(services, context) : undefined;
  return (async () => {
    await refreshing;
    if (isLoading) await services.loading;
    if (checksNames) await checkHost(services, context);
    if (wantsWebSocket(context)) await refuseWebSocket(services, context);
  })();
}

/** Answers what was thrown. */
export function answerFailure({ services, surfaces }: Host, context: RequestContext, error: unknown): Response {
  if (error instanceof ClientDisconnected || context.request.signal.aborted) {
    // Nobody reads this; the status is the one that proxies log for it.
    context.finish(499, "cancelled");
    return new Response(null, { status: 499 });
  }
  const failure = asApiError(services, context, error);
  const hint = failure.model === undefined ? "" : modelHint(services, context, failure.model, surfaces);
  const answer = errorAnswer(context.protocol, hint === "" ? failure : failure.with(hint), context.id);
  return respondWhole(context, answer);
}

/** Other upgrades, as to HTTP/2, are only offered: the request is answered as it is. */
function wantsWebSocket({ area, request: { headers } }: RequestContext): boolean {
  const upgrade = headers.get("upgrade");
  return upgrade !== null && area !== "operations" && /(?:^|,)\s*websocket\s*(?:,|\/|$)/i.test(upgrade);
}

async function refuseWebSocket(services: Services, context: RequestContext): Promise<never> {
  const { area, path } = context;
  if (area !== "operations") await admit(services, context, area);
  throw ApiError.websocketsUnsupported(/\/v1\/responses\/?$/.test(path) ? 426 : 400);
}

/** Gives fields that are known last their place in the log line. */
function startLogFields({ logFields, id, request, route }: RequestContext): void {
  logFields["request_id"] = id;
  logFields["method"] = request.method;
  logFields["route"] = route;
  logFields["status"] = undefined;
  logFields["duration_ms"] = undefined;
}

function close({ services, telemetry }: Host, context: RequestContext, status: number, end?: StreamEnd): void {
  services.running -= 1;
  context.close();
  const milliseconds = services.clock.monotonic() - context.startedAt;
  const { logFields } = context;
  logFields["status"] = status;
  logFields["duration_ms"] = Math.round(milliseconds * 100) / 100;
  if (end !== undefined) logFields["stream_end"] = end;
  context.series.request(context.request.method, status, milliseconds / 1000);
  if (context.area !== "operations") telemetry?.finish(finishedRequest(context, status, milliseconds));
  const { sample, omit } = services.live.config.log;
  if (status < 400 && !services.logSampler.takes(sample)) return;
  const level = context.area === "operations" ? "debug" : status >= 500 ? "error" : "info";
  for (const name of omit) delete logFields[name];
  services.log[level]("request", logFields);
}

function finishedRequest(context: RequestContext, status: number, milliseconds: number): FinishedRequest {
  const { id, request, route, area, startedAt, sentAt, logFields } = context;
  return {
    id: id.slice("req_".length),
    method: request.method,
    route,
    surface: area,
    status,
    milliseconds,
    traceparent: request.headers.get("traceparent"),
    sentAfterMs: sentAt === undefined ? undefined : sentAt - startedAt,
    logFields,
  };
}
