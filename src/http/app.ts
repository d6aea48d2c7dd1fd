/** The HTTP application of one listener: mounts all routes, and is the one error boundary. */
import { Elysia } from "elysia";
import type { ServedSurface } from "../config/config.ts";
import { truncate } from "../lib/truncate.ts";
import type { FinishedRequest, Telemetry } from "../observability/otlp/telemetry.ts";
import { chat } from "../protocols/chat/chat.ts";
import { ApiError } from "../protocols/errors.ts";
import { ClientDisconnected } from "../upstream/client.ts";
import { checkHost } from "./allowed-host.ts";
import { admitAnyone, showAnonymousLimit } from "./authenticate.ts";
import { type Area, RequestContext, type ServedRoute, type ServerHandle } from "./context.ts";
import { allowOrigin, preflightAnswer } from "./cors.ts";
import { homeRoute } from "./home.ts";
import { docsRoutes } from "./openapi/openapi.ts";
import { opsRoutes } from "./ops.ts";
import { asApiError, errorAnswer, type Finish, respondWhole } from "./respond.ts";
import type { Route } from "./routes.ts";
import type { Services } from "./services.ts";
import { basePath, protocolAt, surfaceRoutes } from "./surface-routes.ts";

/** Settings that keep Elysia and Bun from answering, reading or sharing anything on their own. */
const elysiaSettings = {
  normalize: false,
  strictPath: true,
  handler: { standardHostname: false },
} as const;

/** The listener that an application answers for. */
export type Host = {
  readonly services: Services;
  /** Absent: nothing is exported. */
  readonly telemetry: Telemetry | undefined;
  /** Whether `Host` must be an allowed name. */
  readonly checksNames: boolean;
  /** Whether connections close after their next answer. */
  readonly draining: boolean;
};

/**
 * One listener's application. @param adminRoutes of the admin API, which is made on a floor above
 * @returns the routes for Bun's router, and what answers whatever it does not match
 */
export function buildApp(host: Host, surfaces: readonly ServedSurface[], adminRoutes: readonly Route[]) {
  const ofSurfaces = surfaces.flatMap((surface) => {
    const routes = surface === "admin" ? adminRoutes : surfaceRoutes[surface];
    return mounted(host, routes, basePath(surface, surfaces));
  });
  const ofNone = mounted(host, [homeRoute(surfaces), ...opsRoutes, ...docsRoutes(surfaces, adminRoutes)], "");
  const app = new Elysia(elysiaSettings);
  const lost = ({ request, server }: Incoming) =>
    serve(host, { request, server }, unknownRoute(request, surfaces), notFound);
  app.all("/*", lost as never, { parse: "none", detail: { hide: true } });
  app.onError(({ request, server, error, code }) => {
    const incoming = { request, server } as Incoming;
    if (code === "NOT_FOUND") return lost(incoming);
    return serve(host, incoming, unknownRoute(request, surfaces), () => {
      throw error;
    });
  });
  return { routes: Object.fromEntries([...ofSurfaces, ...ofNone]), app };
}

export type App = ReturnType<typeof buildApp>;
type Incoming = { readonly request: Request; readonly server: ServerHandle | null };

/** Answers the requests for one path, whatever their method. Source: https://bun.com/docs/runtime/http/routing */
type PathHandler = (request: Request, server: ServerHandle) => Promise<Response>;

/**
 * Bun's router compares the target as it was sent. What it did not match reaches Elysia with a URL in which `..`, `%2e` and
 * backslashes are resolved, and so could pass for a route that a proxy in front keeps closed: no route of ours is there.
 * Source: https://url.spec.whatwg.org/#path-state
 * @returns the handlers by path
 */
function mounted(host: Host, routes: readonly Route[], base: string): [path: string, handler: PathHandler][] {
  const byPath = [...Map.groupBy(routes, ({ path }) => path)];
  return byPath.map(([path, sharing]) => [base + path, pathHandler(host, sharing, base + path)]);
}

/** @param sharing the routes of the path, one for each method that is allowed */
function pathHandler(host: Host, sharing: readonly Route[], path: string): PathHandler {
  const answers = new Map<string, (incoming: Incoming) => Promise<Response>>();
  for (const route of sharing) {
    const served = servedRoute(route, path);
    const answer = (incoming: Incoming) => serve(host, incoming, served(incoming), route.run);
    for (const method of route.method === "GET" ? ["GET", "HEAD"] : [route.method]) answers.set(method, answer);
  }
  const refused = servedRoute(sharing[0]!, path);
  const refuse = (incoming: Incoming) => serve(host, incoming, refused(incoming), refusal([...answers.keys()]));
  return (request, server) => (answers.get(request.method) ?? refuse)({ request, server });
}

/** Answers a method that a path has not: a browser's question what it has, or an error. */
function refusal(allowed: readonly string[]): Route["run"] {
  return async (services, context) => {
    const allowance = preflightAnswer(context, allowed);
    if (allowance !== undefined) {
      showAnonymousLimit(services, context);
      return allowance;
    }
    await admitAnyone(services, context);
    throw ApiError.methodNotAllowed(context.request.method, allowed);
  };
}

/** @returns what a request for the route is served as */
function servedRoute({ area, protocol, variants = [] }: Route, path: string): (incoming: Incoming) => ServedRoute {
  const served: ServedRoute = { area, path, protocol: protocol ?? chat, ...(protocol && { format: protocol.name }) };
  const others = variants.map(({ header, protocol }) => ({ header, served: { area, path, protocol } as ServedRoute }));
  return ({ request }) => others.find(({ header }) => request.headers.has(header))?.served ?? served;
}

function unknownRoute(request: Request, surfaces: readonly ServedSurface[]): ServedRoute {
  const { pathname } = new URL(request.url, "http://localhost");
  return { area: areaOf(pathname, surfaces), path: "(unknown)", protocol: protocolAt(pathname, surfaces) };
}

function areaOf(path: string, surfaces: readonly ServedSurface[]): Area {
  const below = surfaces.find((surface) => {
    const base = basePath(surface, surfaces);
    return base !== "" && path.startsWith(`${base}/`);
  });
  return below ?? surfaces.find((surface) => basePath(surface, surfaces) === "") ?? surfaces[0]!;
}

/** Where people look for what stands elsewhere: relative, so that it holds below a proxy's prefix too. */
const moved: ReadonlyMap<string, string> = new Map(["GET", "HEAD"].map((method) => [`${method} /docs/`, "../docs"]));

const notFound: Route["run"] = async (services, context) => {
  const location = moved.get(`${context.request.method} ${context.path}`);
  if (location !== undefined) {
    showAnonymousLimit(services, context);
    return { kind: "whole", status: 308, headers: { location }, body: "" };
  }
  await admitAnyone(services, context);
  throw ApiError.notFound(`There is nothing at ${context.request.method} ${truncate(context.path)}.`);
};

/** Runs one handler and closes its request context, whatever happens. */
async function serve(
  host: Host,
  { request, server }: Incoming,
  route: ServedRoute,
  run: Route["run"],
): Promise<Response> {
  const { services, draining } = host;
  const context = new RequestContext(services, request, server, route);
  startLogFields(context);
  const finish: Finish = (status, end) => close(host, context, status, end);
  services.running += 1;
  allowOrigin(context, services.live.config.cors.origins);
  if (draining) context.headers["connection"] = "close";
  try {
    const refreshing = route.area === "operations" ? undefined : services.keys.refresh();
    if (refreshing !== undefined) await refreshing;
    if (services.loading !== undefined && route.area === "orchestrator") await services.loading;
    const refusing = host.checksNames ? checkHost(services, context) : undefined;
    if (refusing !== undefined) await refusing;
    const answer = await run(services, context, finish);
    return answer instanceof Response ? answer : respondWhole(context, answer, finish);
  } catch (error) {
    if (error instanceof ClientDisconnected || request.signal.aborted) {
      // Nobody reads this; the status is the one that proxies log for it.
      finish(499, "cancelled");
      return new Response(null, { status: 499 });
    }
    return respondWhole(context, errorAnswer(route.protocol, asApiError(services, context, error), context.id), finish);
  }
}

/** What is known last has its place in the log line before what comes in between. */
function startLogFields({ logFields, id, request, route }: RequestContext): void {
  logFields["request_id"] = id;
  logFields["method"] = request.method;
  logFields["route"] = route;
  logFields["status"] = undefined;
  logFields["duration_ms"] = undefined;
}

function close({ services, telemetry }: Host, context: RequestContext, status: number, end?: string): void {
  services.running -= 1;
  context.close();
  const milliseconds = services.clock.monotonic() - context.startedAt;
  const { logFields } = context;
  logFields["status"] = status;
  logFields["duration_ms"] = Math.round(milliseconds * 100) / 100;
  if (end !== undefined) logFields["stream_end"] = end;
  services.metrics.request(context.area, context.route, context.request.method, status, milliseconds / 1000);
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
