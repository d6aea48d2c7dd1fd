/** The routes of each surface, and the base path that they are mounted at. */
import type { ServedSurface, SurfaceName } from "../config/config.ts";
import { chat } from "../protocols/chat/chat.ts";
import { completions } from "../protocols/completions/completions.ts";
import { messages, messagesCount } from "../protocols/messages/messages.ts";
import type { Protocol } from "../protocols/protocol.ts";
import { responses } from "../protocols/responses/responses.ts";
import { createCompletion } from "./call/complete.ts";
import type { Surface } from "./call/surface.ts";
import { gateway } from "./gateway.ts";
import { generateContentRoutes } from "./generate-content.ts";
import { modelRoutes } from "./models.ts";
import { describeTextCompletion } from "./openapi/completions.ts";
import { describeCompletion } from "./openapi/descriptions.ts";
import { describeCountTokens, describeMessages } from "./openapi/messages.ts";
import { describeResponses } from "./openapi/responses.ts";
import { describeInputTokens } from "./openapi/stored-responses.ts";
import { operationRoutes } from "./operations.ts";
import { orchestrator } from "./orchestrator.ts";
import { rawRoutes } from "./raw.ts";
import { responseRoutes } from "./responses.ts";
import type { Route } from "./routes.ts";
import { storedRoutes } from "./stored.ts";
import { tokenCountRoute } from "./token-count.ts";
import { usageRoutes } from "./usage.ts";

type Format = {
  readonly path: string;
  readonly protocol: Protocol;
  readonly describe: (surface: SurfaceName) => Route["detail"];
};

/** The client formats, each with the path by which it asks for completions. */
const formats: readonly Format[] = [
  { path: "/v1/chat/completions", protocol: chat, describe: describeCompletion },
  { path: "/v1/responses", protocol: responses, describe: describeResponses },
  { path: "/v1/messages", protocol: messages, describe: describeMessages },
  { path: "/v1/completions", protocol: completions, describe: describeTextCompletion },
];

const countedTokens = (tokens: number) => ({ input_tokens: tokens });
const inputTokens = (tokens: number) => ({ object: "response.input_tokens", input_tokens: tokens });

export function completionRoute(surface: Surface, path: string, protocol: Protocol, detail: Route["detail"]): Route {
  const run: Route["run"] = (services, context, finish) =>
    createCompletion(services, context, surface, protocol, finish);
  return { method: "POST", path, area: surface.name, protocol, detail, run };
}

function routesOf(surface: Surface): Route[] {
  const { name: area } = surface;
  return [
    ...modelRoutes(area),
    ...formats.map(({ path, protocol, describe }) => completionRoute(surface, path, protocol, describe(area))),
    ...storedRoutes(area),
    ...usageRoutes(area),
    ...operationRoutes(area),
    tokenCountRoute(surface, "/v1/responses/input_tokens", responses, inputTokens, describeInputTokens(area)),
    tokenCountRoute(surface, "/v1/messages/count_tokens", messagesCount, countedTokens, describeCountTokens(area)),
    ...generateContentRoutes(surface),
    ...responseRoutes(area),
    ...(area === "gateway" ? rawRoutes : []),
  ];
}

export const surfaceRoutes: Readonly<Record<SurfaceName, readonly Route[]>> = {
  orchestrator: routesOf(orchestrator),
  gateway: routesOf(gateway),
};

/** The gateway is mounted at `/gateway` where it shares a listener with the orchestrator; the admin API always stands apart. */
export function basePath(surface: ServedSurface, surfaces: readonly ServedSurface[]): string {
  if (surface === "admin") return "/admin";
  return surface === "gateway" && surfaces.includes("orchestrator") ? "/gateway" : "";
}

/** What all below it is told in the route's form: a version of the API that no other format has is its format's. */
const folderOf = (path: string): string => (path.startsWith("/v1beta/") ? "/v1beta" : path);

/** The format of the route that has this path, or one above it: what does not exist there is told in its form. */
export function protocolAt(path: string, surfaces: readonly ServedSurface[]): Protocol {
  for (const surface of surfaces) {
    if (surface === "admin") continue;
    const base = basePath(surface, surfaces);
    const isAt = ({ path: own }: Route) => path === base + own || path.startsWith(`${base}${folderOf(own)}/`);
    const found = surfaceRoutes[surface].find((route) => route.protocol !== undefined && isAt(route));
    if (found !== undefined) return found.protocol!;
  }
  return chat;
}
