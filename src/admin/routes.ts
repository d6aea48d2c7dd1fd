/** The admin API: one plugin, to which each part adds its routes. */
import { type AnyElysia, Elysia } from "elysia";
import type { Host } from "../call/context.ts";
import { elysiaSettings } from "../http/checked-routes.ts";
import { adminPlugin } from "./act.ts";
import { alertRoutes } from "./alerts.ts";
import { auditRoutes } from "./audit.ts";
import { budgetRoutes } from "./budgets.ts";
import { callContentRoutes } from "./call-content.ts";
import { callRoutes } from "./calls.ts";
import { consoleRoutes } from "./console/page.ts";
import { doctorRoutes } from "./doctor.ts";
import { factsRoutes } from "./facts.ts";
import { keyRoutes } from "./keys.ts";
import { modelRoutes } from "./models.ts";
import { nodeRoutes } from "./nodes.ts";
import { personaSourceRoutes } from "./persona-source.ts";
import { personaTestRoutes } from "./persona-test-routes.ts";
import { personaTestSourceRoutes } from "./persona-test-source.ts";
import { personaVersionRoutes } from "./persona-versions.ts";
import { personaRoutes } from "./personas.ts";
import { playgroundRoutes } from "./playground/routes.ts";
import { previewRoutes } from "./previews.ts";
import { providerRoutes } from "./providers.ts";
import { sessionRoutes, signInRoutes } from "./sessions.ts";
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
    callContentRoutes,
    providerRoutes,
    modelRoutes,
    factsRoutes,
    personaRoutes,
    personaSourceRoutes,
    personaVersionRoutes,
    previewRoutes,
    personaTestRoutes(host),
    personaTestSourceRoutes,
    variantRoutes,
    playgroundRoutes(host),
    systemRoutes,
    nodeRoutes,
    alertRoutes,
    doctorRoutes,
    sessionRoutes,
  ];
  for (const add of [...parts, auditRoutes]) add(plugin);
  const api: AnyElysia = new Elysia({ ...elysiaSettings }).use(plugin).use(signInRoutes(host, prefix));
  return { api, console: consoleRoutes(host) };
}
