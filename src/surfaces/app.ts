/** Mounts the surfaces at their bases and turns whatever is thrown into an answer: the one error boundary. */
import { Elysia } from "elysia";
import type { SurfaceName } from "../config/config.ts";
import { truncate } from "../lib/truncate.ts";
import { ClientGone } from "../relay/upstream.ts";
import type { Services } from "../services/services.ts";
import type { FinishedRequest, Telemetry } from "../services/telemetry.ts";
import { ApiError } from "../wire/errors.ts";
import { admitAnyone, showAnonymousLimit } from "./admit.ts";
import { checkHost } from "./allowed-host.ts";
import { baseOf } from "./bases.ts";
import { allowOrigin, preflightAnswer } from "./cors.ts";
import { type Area, Exchange, type ServerHandle } from "./exchange.ts";
import { homeRoute } from "./home.ts";
import { docsRoutes } from "./openapi.ts";
import { opsRoutes } from "./ops.ts";
import { asApiError, errorAnswer, type Finish, respondWhole } from "./respond.ts";
import type { Route } from "./routes.ts";
import { surfaceRoutes } from "./surface-routes.ts";

/** Settings that keep Elysia and Bun from answering, reading or sharing anything on their own. */
const elysiaSettings = {
  normalize: false,
  handler: { standardHostname: false },
} as const;

/** What a listener's answers depend on besides the request. */
export type Host = {
  readonly services: Services;
  /** Absent: nobody is told. */
  readonly telemetry: Telemetry | undefined;
  /** Whether requests must name it by one of the names that it has here. */
  readonly checksNames: boolean;
  /** Whether connections are asked to end after their next answer, as others take the new ones. */
  readonly retiring: boolean;
};

/** One listener's application. */
export function buildApp(host: Host, surfaces: readonly SurfaceName[]) {
  const app = new Elysia(elysiaSettings);
  for (const surface of surfaces) mount(app, host, surfaceRoutes[surface], baseOf(surface, surfaces));
  mount(app, host, [homeRoute(surfaces), ...opsRoutes, ...docsRoutes(surfaces)], "");
  // Registered last, so every route of our own comes before it.
  const lost = ({ request, server }: Context) =>
    serve(host, { request, server }, areaOf(request, surfaces), "(unknown)", notFound);
  app.all("/*", lost as never, { parse: "none", detail: { hide: true } });
  app.onError(({ request, server, error, code }) => {
    const context = { request, server } as Context;
    if (code === "NOT_FOUND") return lost(context);
    return serve(host, context, areaOf(request, surfaces), "(unknown)", () => {
      throw error;
    });
  });
  return app;
}

export type App = ReturnType<typeof buildApp>;
type Context = { readonly request: Request; readonly server: ServerHandle | null };

function mount(app: Elysia, host: Host, routes: readonly Route[], base: string): void {
  const byPath = Map.groupBy(routes, ({ path }) => path);
  for (const [path, sharing] of byPath) {
    const full = base + path;
    for (const { method, area, detail, run } of sharing) {
      // Taken apart here: of a context that is handed on whole, Elysia prepares every part it has, cookies and query too.
      const handler = ({ request, server }: Context) => serve(host, { request, server }, area, full, run);
      app.route(method, full, handler as never, { parse: "none", detail });
      if (method === "GET") app.route("HEAD", full, handler as never, { parse: "none", detail: { hide: true } });
    }
    const allowed = sharing.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
    const refuse = ({ request, server }: Context) =>
      serve(host, { request, server }, sharing[0]!.area, full, (services, exchange) => {
        const allowance = preflightAnswer(exchange, allowed);
        if (allowance !== undefined) {
          showAnonymousLimit(services, exchange);
          return allowance;
        }
        admitAnyone(services, exchange);
        throw ApiError.methodNotAllowed(exchange.request.method, allowed);
      });
    app.all(full, refuse as never, { parse: "none", detail: { hide: true } });
  }
}

function areaOf(request: Request, surfaces: readonly SurfaceName[]): Area {
  if (surfaces.length === 1) return surfaces[0]!;
  return new URL(request.url, "http://localhost").pathname.startsWith("/gateway/") ? "gateway" : "orchestrator";
}

const notFound: Route["run"] = (services, exchange) => {
  admitAnyone(services, exchange);
  throw ApiError.notFound(`There is nothing at ${exchange.request.method} ${truncate(exchange.path)}.`);
};

/** Runs one handler and closes its exchange, whatever happens. */
async function serve(
  host: Host,
  { request, server }: Context,
  area: Area,
  route: string,
  run: Route["run"],
): Promise<Response> {
  const { services, retiring } = host;
  const exchange = new Exchange(services, request, server, area, route);
  beginNote(exchange);
  const finish: Finish = (status, end) => close(host, exchange, status, end);
  services.running += 1;
  allowOrigin(exchange, services.live.config.cors.origins);
  if (retiring) exchange.headers["connection"] = "close";
  try {
    if (services.loading !== undefined && area === "orchestrator") await services.loading;
    if (host.checksNames) checkHost(services, exchange);
    const answer = await run(services, exchange, finish);
    return answer instanceof Response ? answer : respondWhole(exchange, answer, finish);
  } catch (error) {
    if (error instanceof ClientGone || request.signal.aborted) {
      // Nobody reads this; the status is the one that proxies log for it.
      finish(499, "cancelled");
      return new Response(null, { status: 499 });
    }
    return respondWhole(exchange, errorAnswer(asApiError(services, exchange, error)), finish);
  }
}

/** What is known last has its place in the log line before what comes in between. */
function beginNote({ note, id, request, route }: Exchange): void {
  note["request_id"] = id;
  note["method"] = request.method;
  note["route"] = route;
  note["status"] = undefined;
  note["duration_ms"] = undefined;
}

function close({ services, telemetry }: Host, exchange: Exchange, status: number, end?: string): void {
  services.running -= 1;
  exchange.close();
  const milliseconds = services.clock.monotonic() - exchange.startedAt;
  const { note } = exchange;
  note["status"] = status;
  note["duration_ms"] = Math.round(milliseconds * 100) / 100;
  if (end !== undefined) note["stream_end"] = end;
  services.metrics.request(exchange.area, exchange.route, exchange.request.method, status, milliseconds / 1000);
  if (exchange.area !== "operations") telemetry?.finish(finishedRequest(exchange, status, milliseconds));
  const { sample, omit } = services.live.config.log;
  if (status < 400 && !services.logShare.takes(sample)) return;
  const level = exchange.area === "operations" ? "debug" : status >= 500 ? "error" : "info";
  for (const name of omit) delete note[name];
  services.log[level]("request", note);
}

function finishedRequest(exchange: Exchange, status: number, milliseconds: number): FinishedRequest {
  const { id, request, route, area, startedAt, sentAt, note } = exchange;
  return {
    id: id.slice("req_".length),
    method: request.method,
    route,
    surface: area,
    status,
    milliseconds,
    traceparent: request.headers.get("traceparent"),
    sentAfterMs: sentAt === undefined ? undefined : sentAt - startedAt,
    note,
  };
}
