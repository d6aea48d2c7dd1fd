/** The routes of the admin API. */
import type { Route } from "../http/routes.ts";

export const adminRoutes: readonly Route[] = [];
