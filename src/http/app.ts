/** The HTTP application of one listener: mounts all routes, and is the one error boundary. */
import { type AnyElysia, Elysia } from "elysia";
import { admitAnyone, showAnonymousLimit } from "../call/admit/admit.ts";
import type { Host } from "../call/context.ts";
import { type Area, pathOf, type RequestContext, type ServedRoute, type ServerHandle } from "../call/context.ts";
import type { ServedSurface, SurfaceName } from "../config/config.ts";
import { truncate } from "../lib/text/truncate.ts";
import { chat } from "../protocols/chat/chat.ts";
import { ApiError } from "../protocols/errors.ts";
import { elysiaSettings } from "./checked-routes.ts";
import { PathHints } from "./models/hints.ts";
import { type Described, docsRoutes, readDescription } from "./openapi/openapi.ts";
import { opsRoutes } from "./ops.ts";
import { preflightAnswer } from "./origins.ts";
import { homeRoutes } from "./pages/home.ts";
import { queryCheckOf } from "./query-check.ts";
import { basePath, isGuess, nothingAt, type Route } from "./routes.ts";
import { answerFailure, type Incoming, isRouted, serve } from "./serve.ts";
import { checkedSurfaceRoutes, protocolAt, surfaceRoutes, vendorFolder } from "./surface-routes.ts";
import { type SocketUpgrade, upgradeAt } from "./websocket/upgrade.ts";

/** One listener's Elysia application. It listens by `app.listen()`, which hands its paths to Bun's router. */
export type App = { readonly app: AnyElysia; readonly description: Described };

/** Makes the plugins of the admin API and of its console, which are a floor above. */
type AdminRoutes = (host: Host, prefix: string) => { readonly api: AnyElysia; readonly console: AnyElysia } | undefined;

/** Makes the plugin of `/account`, likewise. */
type AccountRoutes = (host: Host) => AnyElysia;

/**
 * Makes one listener's application: a plugin for each surface, one for the operations, one for the documentation, and one boundary
 * for errors.
 *
 * Bun's router compares the target as it was sent. What it does not match has a URL in which `..`, `%2e` and backslashes are resolved,
 * and could pass in Elysia's own router for a route that a proxy in front keeps closed: there it is answered as unknown.
 * Source: https://url.spec.whatwg.org/#path-state
 */
export function buildApp(host: Host, adminRoutes: AdminRoutes, accountRoutes?: AccountRoutes): App {
  const { surfaces } = host;
  const table: RouteTable = {};
  const app: AnyElysia = new Elysia({ ...elysiaSettings, serve: { routes: table as never } });
  const description: Described = { app, surfaces };
  const bases = new Set(surfaces.flatMap((surface) => basesOf(basePath(surface, surfaces))));
  const notFound = notFoundAmong(new PathHints(() => app.routes), bases);
  const lost: Answer = ({ request }) => {
    const { server } = host;
    // Bun's router knows the usual methods alone: the others are refused as they are, where there is a path for them.
    const refuse = usualMethods.has(request.method)
      ? undefined
      : (table[pathOf(request.url)]?.["TRACE"] as RefusingHandler);
    return refuse?.(request, server!) ?? serve(host, { request, server }, unknownRoute(request, surfaces), notFound);
  };
  app.all("/*", lost as never, { parse: "none" });
  app.onError((({ request, error, code, context, set }: Failed) => {
    if (context !== undefined) {
      // The answer has a status of its own.
      set.status = 200;
      return answerFailure(host, context, error);
    }
    if (code === "NOT_FOUND") return lost({ request });
    return serve(host, { request, server: host.server }, unknownRoute(request, surfaces), () => {
      throw error;
    });
  }) as never);
  const calls = new Map<string, Served>();
  const open: AnyElysia[] = [homeRoutes(host), opsRoutes(host), docsRoutes(host, description)];
  for (const surface of surfaces) {
    const prefix = basePath(surface, surfaces);
    if (surface === "admin") {
      const admin = adminRoutes(host, prefix);
      if (admin !== undefined) app.use(admin.api);
      if (admin !== undefined) open.push(admin.console);
    } else for (const plugin of checkedSurfaceRoutes(host, surface, prefix)) app.use(plugin);
    if (surface !== "admin") app.use(callsPlugin(host, table, calls, surface, lost));
  }
  if (accountRoutes !== undefined && surfaces.some((name) => name !== "admin")) open.push(accountRoutes(host));
  for (const plugin of open) app.use(plugin);
  const openPaths = new Set(open.flatMap(({ routes }) => routes.map(({ path }) => path)));
  refuseOthers(host, table, app, (path) => {
    const area = openPaths.has(path) ? "operations" : areaOf(path, surfaces);
    const served = { area, path, protocol: protocolAt(path, surfaces) };
    return calls.get(path) ?? (() => served);
  });
  takeWebSockets(host, table, calls);
  return { app, description };
}

/** Chooses how a request for a path is served, by its headers. */
type Served = (request: Request) => ServedRoute;

/**
 * The plugin of a surface's calls of models. Handlers name no more than they need, as Elysia prepares what they name.
 * @param calls gets how each path is served
 */
function callsPlugin(
  host: Host,
  table: RouteTable,
  calls: Map<string, Served>,
  surface: SurfaceName,
  lost: Answer,
): AnyElysia {
  const prefix = basePath(surface, host.surfaces);
  const plugin: AnyElysia = new Elysia({ ...elysiaSettings, name: surface, prefix });
  for (const route of surfaceRoutes[surface]) {
    const path = prefix + route.path;
    const served = servedRoute(route, path);
    // A path's first route says how its refusals are written.
    if (!calls.has(path)) calls.set(path, served);
    const answer: Answer = ({ request }) => {
      if (!isRouted(request)) return lost({ request });
      return serve(host, { request, server: host.server }, served(request), route.run);
    };
    plugin.route(
      route.method,
      route.path,
      answer as never,
      { parse: "none", detail: { describe: route.describe } } as never,
    );
    // Elysia hands no path that ends in whatever follows to Bun's router.
    if (path.endsWith("*")) tableAt(table, path)[route.method] = (request) => answer({ request });
  }
  return plugin;
}

/** Refuses the methods that the application's paths have not. */
function refuseOthers(host: Host, table: RouteTable, { routes }: AnyElysia, servedAt: (path: string) => Served): void {
  for (const [path, sharing] of Map.groupBy(routes, (route) => route.path)) {
    if (path === "/*") continue;
    let served: Served | undefined;
    const allowed = sharing.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
    const refused = refusal(allowed, isGuess(path));
    const refuse: Handler = (request, server) => {
      served ??= servedAt(path);
      return serve(host, { request, server }, served(request), refused);
    };
    const handlers = tableAt(table, path);
    for (const method of usualMethods) if (!allowed.includes(method)) handlers[method] = refuse;
  }
}

/** Lets the routes of Responses take WebSockets too. */
function takeWebSockets(host: Host, table: RouteTable, calls: ReadonlyMap<string, Served>): void {
  for (const surface of host.surfaces) {
    if (surface === "admin") continue;
    const create = surfaceRoutes[surface].find((route) => route.path === responsesPath)!;
    for (const folder of ["", vendorFolder]) {
      const path = basePath(surface, host.surfaces) + folder + responsesPath;
      const handlers = tableAt(table, path);
      handlers["GET"] = upgradeAt(host, surface, create, calls.get(path)!, handlers["GET"]! as RefusingHandler);
    }
  }
}

const responsesPath = "/v1/responses";

function tableAt(table: RouteTable, path: string): Record<string, Handler> {
  table[path] ??= {};
  return table[path];
}

type Answer = (incoming: Pick<Incoming, "request">) => Promise<Response>;

/** A request whose route threw; `context` and `schemas` are there as far as the route came. */
type Failed = Pick<Incoming, "request"> & {
  readonly error: unknown;
  readonly code: unknown;
  readonly context?: RequestContext;
  readonly set: { status?: number | string };
};

/** An answer for a request of Bun's router. Source: https://bun.com/docs/runtime/http/routing */
type Handler = SocketUpgrade;
type RefusingHandler = (request: Request, server: ServerHandle) => Promise<Response>;

/** By path and method, beside what Elysia hands to Bun's router itself: refusals of other methods, and paths that end in whatever follows. */
type RouteTable = Record<string, Record<string, Handler>>;

/** Methods that Bun's router distinguishes. */
const usualMethods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]);

/** The API's description, of an application that nobody asks. @param surfaces of one listener: where both share it, the gateway stands below `/gateway` */
export async function openApiDocument(
  surfaces: readonly ServedSurface[] = ["orchestrator", "gateway"],
  adminRoutes: AdminRoutes = () => undefined,
): Promise<object> {
  return JSON.parse(await readDescription(buildApp({ surfaces } as Host, adminRoutes).description, "/docs/json"));
}

/** Answers a method that a path has not: a browser's question what it has, or an error. */
function refusal(allowed: readonly string[], mayBeAnybodys: boolean): Route["run"] {
  return async (services, context) => {
    const allowance = preflightAnswer(context, allowed);
    if (allowance !== undefined) {
      showAnonymousLimit(services, context);
      return allowance;
    }
    await admitAnyone(services, context);
    if (mayBeAnybodys) throw nothingAt(context);
    throw ApiError.methodNotAllowed(context.request.method, allowed);
  };
}

/** @returns what a request for the route is served as */
function servedRoute(route: Route, path: string): (request: Request) => ServedRoute {
  const { area, protocol, variants = [] } = route;
  const shared = { area, path, queryCheck: queryCheckOf(route) };
  const served: ServedRoute = { ...shared, protocol: protocol ?? chat, ...(protocol && { format: protocol.name }) };
  const others = variants.map(({ header, protocol }) => ({ header, served: { ...shared, protocol } as ServedRoute }));
  if (others.length === 0) return () => served;
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

/** Redirects from where people look for what stands elsewhere: relative, so that they hold below a proxy's prefix too. */
const moved: ReadonlyMap<string, string> = new Map(
  ["docs", "console", "account"].flatMap((page) =>
    ["GET", "HEAD"].map((method) => [`${method} /${page}/`, `../${page}`] as const),
  ),
);

/** Base addresses of a surface's clients: some ask by HEAD whether anybody is there. */
const basesOf = (base: string): string[] => [base, `${base}/`, `${base}/v1`, `${base}/v1/`, `${base}/v1beta`];

const notFoundAmong =
  (hints: PathHints, bases: ReadonlySet<string>): Route["run"] =>
  async (services, context) => {
    const { request, path } = context;
    if (request.method === "HEAD" && bases.has(path)) {
      showAnonymousLimit(services, context);
      return { kind: "whole", status: 200, headers: {}, body: "" };
    }
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
