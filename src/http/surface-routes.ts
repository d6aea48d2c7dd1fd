/** The routes of each surface, and the base path that they are mounted at. */
import type { SurfaceName } from "../config/config.ts";
import { chat } from "../protocols/chat/chat.ts";
import type { Protocol } from "../protocols/protocol.ts";
import { createCompletion, type Surface } from "./completion.ts";
import { gateway } from "./gateway.ts";
import { modelRoutes } from "./models.ts";
import { describeCompletion } from "./openapi/descriptions.ts";
import { orchestrator } from "./orchestrator.ts";
import type { Route } from "./routes.ts";
import { storedRoutes } from "./stored.ts";

/** The client formats, each with the path by which it asks for completions. */
const formats = [{ path: "/v1/chat/completions", protocol: chat, describe: describeCompletion }] as const;

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
  ];
}

export const surfaceRoutes: Readonly<Record<SurfaceName, readonly Route[]>> = {
  orchestrator: routesOf(orchestrator),
  gateway: routesOf(gateway),
};

/** The gateway is mounted at `/gateway` where it shares a listener with the orchestrator. */
export function basePath(surface: SurfaceName, surfaces: readonly SurfaceName[]): string {
  return surface === "gateway" && surfaces.length > 1 ? "/gateway" : "";
}
