/** The admin API's route of sums over the ledger. */
import { describeAdminUsage } from "../http/openapi/usage.ts";
import { jsonAnswer } from "../http/respond.ts";
import type { Route } from "../http/routes.ts";
import type { Services } from "../http/services.ts";
import { questionOf, usageJson } from "../http/usage.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { KeyNames } from "../usage/report.ts";
import { admitAdmin } from "./act.ts";

export async function keyNames({ keys }: Services): Promise<KeyNames> {
  const all = await needsStorage(() => keys.list());
  return new Map(all.map(({ id, name }) => [id, name]));
}

export const usageRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/usage",
    area: "admin",
    detail: describeAdminUsage(),
    run: async (services, context) => {
      await admitAdmin(services, context);
      return jsonAnswer(await usageJson(services, context, questionOf(context), () => keyNames(services)));
    },
  },
];
