/** The HTTP application of one listener: mounts all routes, and is the one error boundary. */
import { Elysia } from "elysia";
import type { ServedSurface } from "../config/config.ts";
import { truncate } from "../lib/truncate.ts";
import type { FinishedRequest, Telemetry } from "../observability/otlp/telemetry.ts";
import { chat } from "../protocols/chat/chat.ts";
import { ApiError } from "../protocols/errors.ts";
import { ClientDisconnected } from "../upstream/client.ts";
import { checkHost } from "./allowed-host.ts";
import { admit, admitAnyone, showAnonymousLimit } from "./authenticate.ts";
import { type Area, pathOf, RequestContext, type ServedRoute, type ServerHandle } from "./context.ts";
import { allowOrigin, preflightAnswer } from "./cors.ts";
import { modelHint, PathHints } from "./hints.ts";
import { homeRoute } from "./home.ts";
import { type Described, docsRoutes, readDescription } from "./openapi/openapi.ts";
import { opsRoutes } from "./ops.ts";
import { queryCheckOf } from "./query.ts";
import { asApiError, errorAnswer, type Finish, respondWhole } from "./respond.ts";
import { nothingAt, type Route } from "./routes.ts";
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
  readonly surfaces: readonly ServedSurface[];
};

/** One listener's Elysia application. It listens by `app.listen()`, which hands its paths to Bun's router. */
export type App = { readonly app: Elysia; readonly description: Described };

/**
 * Makes one listener's application: a plugin for each surface, one for the operations, one for the documentation, and one boundary
 * for errors.
 *
 * Bun's router compares the target as it was sent. What it does not match has a URL in which `..`, `%2e` and backslashes are resolved,
 * and could pass in Elysia's own router for a route that a proxy in front keeps closed: there it is answered as unknown.
 * Source: https://url.spec.whatwg.org/#path-state
 * @param adminRoutes of the admin API, which is made on a floor above
 */
export function buildApp(host: Host, adminRoutes: readonly Route[]): App {
  const { surfaces } = host;
  /** All that is described. */
  const api: Elysia = new Elysia(elysiaSettings);
  const description: Described = { api, surfaces, adminRoutes };
  const described: Part[] = surfaces.map((surface) => ({
    name: surface,
    routes: surface === "admin" ? adminRoutes : surfaceRoutes[surface],
    base: basePath(surface, surfaces),
  }));
  described.push({ name: "operations", routes: [homeRoute(surfaces), ...opsRoutes], base: "" });
  const docs = { name: "docs", routes: docsRoutes(description), base: "" };
  const notFound = notFoundAmong(new PathHints([...described, docs]));
  const routes: Record<string, Record<string, Handler>> = {};
  const app: Elysia = new Elysia({ ...elysiaSettings, serve: { routes: routes as never } });
  const lost = ({ request, server }: Incoming) => {
    // Bun's router knows the usual methods alone: the others are refused as they are, where there is a path for them.
    const refuse = usualMethods.has(request.method) ? undefined : routes[pathOf(request.url)]?.["TRACE"];
    return refuse?.(request, server!) ?? serve(host, { request, server }, unknownRoute(request, surfaces), notFound);
  };
  app.all("/*", lost as never, { parse: "none", detail: { hide: true } });
  app.onError(({ request, server, error, code }) => {
    const incoming = { request, server } as Incoming;
    if (code === "NOT_FOUND") return lost(incoming);
    return serve(host, incoming, unknownRoute(request, surfaces), () => {
      throw error;
    });
  });
  const plugin = ({ name, routes: table, base }: Part): Elysia => {
    const mounted = new Elysia({ ...elysiaSettings, name, prefix: base }) as unknown as Elysia;
    for (const [path, sharing] of Map.groupBy(table, (route) => route.path)) {
      routes[base + path] = mountPath(host, mounted, base, path, sharing, lost);
    }
    return mounted;
  };
  for (const part of described) api.use(plugin(part));
  app.use(api).use(plugin(docs));
  return { app, description };
}

/** Routes that share a plugin. @property base what stands before their paths */
type Part = { readonly name: string; readonly routes: readonly Route[]; readonly base: string };

/** What answers a request of Bun's router. Source: https://bun.com/docs/runtime/http/routing */
type Handler = (request: Request, server: ServerHandle) => Promise<Response>;

/** Those that Bun's router tells apart. */
const usualMethods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]);

/**
 * Mounts what shares a path on its surface's plugin. Handlers name no more than they need, as Elysia prepares what they name.
 * @returns what Elysia does not hand to Bun's router itself: a refusal of each other method, and paths that end in whatever follows
 */
function mountPath(
  host: Host,
  plugin: Elysia,
  base: string,
  path: string,
  sharing: readonly Route[],
  lost: (incoming: Incoming) => Promise<Response>,
): Record<string, Handler> {
  const allowed: string[] = [];
  const handlers: Record<string, Handler> = {};
  for (const route of sharing) {
    const served = servedRoute(route, base + path);
    const answer = ({ request, server }: Incoming) =>
      isRouted(request) ? serve(host, { request, server }, served(request), route.run) : lost({ request, server });
    for (const method of route.method === "GET" ? ["GET", "HEAD"] : [route.method]) {
      const detail = method === "HEAD" ? { hide: true } : route.detail;
      plugin.route(method, path, answer as never, { parse: "none", detail } as never);
      if (path.endsWith("*")) handlers[method] = (request, server) => answer({ request, server });
      allowed.push(method);
    }
  }
  const served = servedRoute({ ...sharing[0]!, detail: {}, endings: {} }, base + path);
  const refused = refusal(allowed, sharing[0]!.isGuess === true);
  const refuse: Handler = (request, server) => serve(host, { request, server }, served(request), refused);
  for (const method of usualMethods) if (!allowed.includes(method)) handlers[method] = refuse;
  return handlers;
}

/** Whether Bun's router matched it, which gives it parameters, be they none. */
const isRouted = (request: Request): boolean => "params" in request && request.params !== undefined;

/** The API's description, of an application that nobody asks. @param surfaces of one listener: where both share it, the gateway stands below `/gateway` */
export async function openApiDocument(
  surfaces: readonly ServedSurface[] = ["orchestrator", "gateway"],
  adminRoutes: readonly Route[] = [],
): Promise<object> {
  return JSON.parse(await readDescription(buildApp({ surfaces } as Host, adminRoutes).description, "/docs/json"));
}

type Incoming = { readonly request: Request; readonly server: ServerHandle | null };

/** Answers a method that a path has not: a browser's question what it has, or an error. */
function refusal(allowed: readonly string[], isGuess: boolean): Route["run"] {
  return async (services, context) => {
    const allowance = preflightAnswer(context, allowed);
    if (allowance !== undefined) {
      showAnonymousLimit(services, context);
      return allowance;
    }
    await admitAnyone(services, context);
    if (isGuess) throw nothingAt(context);
    throw ApiError.methodNotAllowed(context.request.method, allowed);
  };
}

/** @returns what a request for the route is served as */
function servedRoute(route: Route, path: string): (request: Request) => ServedRoute {
  const { area, protocol, variants = [] } = route;
  const shared = { area, path, queryCheck: queryCheckOf(route) };
  const served: ServedRoute = { ...shared, protocol: protocol ?? chat, ...(protocol && { format: protocol.name }) };
  const others = variants.map(({ header, protocol }) => ({ header, served: { ...shared, protocol } as ServedRoute }));
  return (request) => others.find(({ header }) => request.headers.has(header))?.served ?? served;
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

const notFoundAmong =
  (hints: PathHints): Route["run"] =>
  async (services, context) => {
    const { request, path } = context;
    const location = moved.get(`${request.method} ${path}`);
    if (location !== undefined) {
      showAnonymousLimit(services, context);
      return { kind: "whole", status: 308, headers: { location }, body: "" };
    }
    await admitAnyone(services, context);
    const meant = hints.find(request.method, path);
    const hint = meant === undefined ? "" : ` Did you mean ${truncate(meant)}?`;
    throw ApiError.notFound(`There is nothing at ${request.method} ${truncate(path)}.${hint}`);
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
    const answer = await (wantsWebSocket(context) ? refuseWebSocket : run)(services, context, finish);
    return answer instanceof Response ? answer : respondWhole(context, answer, finish);
  } catch (error) {
    if (error instanceof ClientDisconnected || request.signal.aborted) {
      // Nobody reads this; the status is the one that proxies log for it.
      finish(499, "cancelled");
      return new Response(null, { status: 499 });
    }
    const told = asApiError(services, context, error);
    const hint = told.model === undefined ? "" : modelHint(services, context, told.model, host.surfaces);
    return respondWhole(context, errorAnswer(route.protocol, hint === "" ? told : told.with(hint), context.id), finish);
  }
}

/** Other upgrades, as to HTTP/2, are only offered: the request is answered as it is. */
function wantsWebSocket({ area, request: { headers } }: RequestContext): boolean {
  const upgrade = headers.get("upgrade");
  return upgrade !== null && area !== "operations" && /(?:^|,)\s*websocket\s*(?:,|\/|$)/i.test(upgrade);
}

const refuseWebSocket: Route["run"] = async (services, context) => {
  const { area, path } = context;
  if (area !== "operations") await admit(services, context, area);
  throw ApiError.websocketsUnsupported(/\/v1\/responses\/?$/.test(path) ? 426 : 400);
};

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
