/** The routes of each surface, and the base path that they are mounted at. */
import type { AnyElysia } from "elysia";
import { answerCall } from "../call/call.ts";
import type { Host } from "../call/context.ts";
import { gateway } from "../call/plan/gateway.ts";
import { orchestrator } from "../call/plan/orchestrator.ts";
import type { Surface } from "../call/surface.ts";
import type { ServedSurface, SurfaceName } from "../config/config.ts";
import { chat } from "../protocols/chat/chat.ts";
import { completions } from "../protocols/completions/completions.ts";
import { messages, messagesCount } from "../protocols/messages/messages.ts";
import type { Protocol } from "../protocols/protocol.ts";
import { compaction, responses } from "../protocols/responses/responses.ts";
import { accountRoutes } from "./account.ts";
import { generateContentRoutes } from "./generate-content.ts";
import { mcpRoutes } from "./mcp.ts";
import { modelRoutes } from "./models/models.ts";
import { describeCompletion } from "./openapi/chat.ts";
import { describeTextCompletion } from "./openapi/completions.ts";
import { describeCountTokens, describeMessages } from "./openapi/messages.ts";
import { describeCompaction, describeInputTokens, describeResponses } from "./openapi/responses.ts";
import { previewRoutes } from "./preview-routes.ts";
import { operationRoutes } from "./relay/operations.ts";
import { rawRoutes } from "./relay/raw.ts";
import { tokenCountRoute } from "./relay/token-count.ts";
import { responseRoutes } from "./responses.ts";
import { basePath, type Description, type Route } from "./routes.ts";
import { storedRoutes } from "./stored.ts";
import { usageRoutes } from "./usage.ts";

type Format = {
  readonly path: string;
  readonly protocol: Protocol;
  readonly describe: (surface: SurfaceName) => Description;
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

export function completionRoute(
  surface: Surface,
  path: string,
  protocol: Protocol,
  describe: Route["describe"],
): Route {
  const run: Route["run"] = (services, context) => answerCall(services, context, surface, protocol);
  return { method: "POST", path, area: surface.name, protocol, describe, run };
}

/**
 * OpenAI's routes once more, where clients look for them behind whatever address they are given, and where Azure has them:
 * https://github.com/groq/groq-typescript/blob/main/src/resources/chat/completions.ts,
 * https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle
 */
const belowVendor = (routes: readonly Route[]): Route[] =>
  routes
    .filter(({ path, protocol }) => protocol !== messages && !path.startsWith("/v1beta/"))
    .map((route) => ({ ...route, path: `${vendorFolder}${route.path}`, describe: () => ({ hide: true }) }));

export const vendorFolder = "/openai";

function routesOf(surface: Surface): Route[] {
  const { name: area } = surface;
  const models = modelRoutes(area);
  const completing = formats.map(({ path, protocol, describe }) =>
    completionRoute(surface, path, protocol, () => describe(area)),
  );
  const operating = operationRoutes(area);
  const besideResponses = [
    completionRoute(surface, "/v1/responses/compact", compaction, () => describeCompaction(area)),
    tokenCountRoute(surface, "/v1/responses/input_tokens", responses, inputTokens, () => describeInputTokens(area)),
  ];
  return [
    ...models,
    ...completing,
    ...besideResponses,
    ...operating,
    ...belowVendor([...models, ...completing, ...besideResponses, ...operating]),
    tokenCountRoute(surface, "/v1/messages/count_tokens", messagesCount, countedTokens, () =>
      describeCountTokens(area),
    ),
    ...generateContentRoutes(surface),
    ...(area === "gateway" ? rawRoutes : mcpRoutes),
  ];
}

export const surfaceRoutes: Readonly<Record<SurfaceName, readonly Route[]>> = {
  orchestrator: routesOf(orchestrator),
  gateway: routesOf(gateway),
};

/** Plugins of the routes that call no model. */
export const checkedSurfaceRoutes = (host: Host, surface: SurfaceName, prefix: string): readonly AnyElysia[] => [
  ...[prefix, prefix + vendorFolder].flatMap((base) => [
    storedRoutes(host, surface, base),
    responseRoutes(host, surface, base),
  ]),
  usageRoutes(host, surface, prefix),
  accountRoutes(host, surface, prefix),
  ...(surface === "orchestrator" ? [previewRoutes(host, prefix)] : []),
];

/** The folder whose unknown paths are answered in the route's form: a version of the API that no other format has is its format's. */
const folderOf = (path: string): string => (path.startsWith("/v1beta/") ? "/v1beta" : path);

/** The format of the route that has this path, or one above it: paths that do not exist there are answered in its form. */
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
