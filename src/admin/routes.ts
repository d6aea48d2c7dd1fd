/** The routes of the admin API. */
import type { Route } from "../http/routes.ts";
import { auditRoutes } from "./audit.ts";
import { budgetRoutes } from "./budgets.ts";
import { callRoutes } from "./calls.ts";
import { keyRoutes } from "./keys.ts";
import { usageRoutes } from "./usage.ts";

export const adminRoutes: readonly Route[] = [
  ...keyRoutes,
  ...budgetRoutes,
  ...usageRoutes,
  ...callRoutes,
  ...auditRoutes,
];
