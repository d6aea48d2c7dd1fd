/** The routes of each surface, and the base path that they are mounted at. */
import type { SurfaceName } from "../config/config.ts";
import { type ChatSurface, createCompletion } from "./chat.ts";
import { gateway } from "./gateway.ts";
import { modelRoutes } from "./models.ts";
import { describeCompletion } from "./openapi/descriptions.ts";
import { orchestrator } from "./orchestrator.ts";
import type { Route } from "./routes.ts";
import { storedRoutes } from "./stored.ts";

function routesOf(surface: ChatSurface): Route[] {
  const { name: area } = surface;
  return [
    ...modelRoutes(area),
    {
      method: "POST",
      path: "/v1/chat/completions",
      area,
      detail: describeCompletion(area),
      run: (services, context, finish) => createCompletion(services, context, surface, finish),
    },
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
