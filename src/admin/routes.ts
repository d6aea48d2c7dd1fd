/** The admin API: one plugin, to which each part adds its routes. */
import type { AnyElysia } from "elysia";
import type { Host } from "../http/context.ts";
import { adminPlugin } from "./act.ts";
import { auditRoutes } from "./audit.ts";
import { budgetRoutes } from "./budgets.ts";
import { callRoutes } from "./calls.ts";
import { consoleRoutes } from "./console/page.ts";
import { keyRoutes } from "./keys.ts";
import { modelRoutes } from "./models.ts";
import { personaRoutes } from "./personas.ts";
import { providerRoutes } from "./providers.ts";
import { systemRoutes } from "./system.ts";
import { usageRoutes } from "./usage.ts";
import { variantRoutes } from "./variants.ts";

/** @param prefix of all paths of the API */
export function adminRoutes(host: Host, prefix: string): { readonly api: AnyElysia; readonly console: AnyElysia } {
  const plugin = adminPlugin(host, prefix);
  const parts = [
    keyRoutes,
    budgetRoutes,
    usageRoutes,
    callRoutes,
    providerRoutes,
    modelRoutes,
    personaRoutes,
    variantRoutes,
    systemRoutes,
  ];
  for (const add of [...parts, auditRoutes]) add(plugin);
  return { api: plugin, console: consoleRoutes(host) };
}
