/** The admin API's route of sums over the ledger. */
import type { Services } from "../http/services.ts";
import { questionOf, usageJson, usageOperation } from "../http/usage.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { KeyNames } from "../usage/report.ts";
import type { AdminPlugin } from "./act.ts";

export async function keyNames({ keys }: Services): Promise<KeyNames> {
  const all = await needsStorage(() => keys.list());
  return new Map(all.map(({ id, name }) => [id, name]));
}

export const usageRoutes = (plugin: AdminPlugin) =>
  plugin.get(
    "/v1/usage",
    ({ services, request, query }) => usageJson(services, request.signal, questionOf(query), () => keyNames(services)),
    usageOperation({
      tag: "Admin",
      operationId: "adminUsage",
      summary: "What all calls used and cost",
      description: "By the ledger, in the words of /v1/usage. Rows are in the order of their groups.",
    }),
  );
