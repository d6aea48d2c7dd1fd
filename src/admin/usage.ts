/** The admin API's route of sums over the ledger. */
import { Type } from "@sinclair/typebox";
import { AllUsage } from "../api/usage.ts";
import { respondText } from "../call/relay/respond-text.ts";
import type { Services } from "../call/services.ts";
import { oneOf } from "../http/openapi/describe.ts";
import { questionOf, usageJson, usageOperation, usageQuery } from "../http/usage.ts";
import { isoTime } from "../lib/time/clock.ts";
import { dayMs } from "../lib/time/duration.ts";
import { periodName, usageCsv } from "../usage/ledger/report.ts";
import type { AdminPlugin } from "./act.ts";

async function ledgerState({ store, ledger, clock, live }: Services) {
  const [newest] = await store.ledger.lines({ since: 0, until: clock.now() + dayMs, limit: 1 });
  return {
    newest_call_at: isoTime(newest?.at),
    lines_waiting: ledger.waiting,
    lag_seconds: Math.round(ledger.lagSeconds * 1000) / 1000,
    retention_days: live.config.usage.retentionDays,
  };
}

export const usageRoutes = (plugin: AdminPlugin) =>
  plugin.get(
    "/v1/usage",
    async ({ services, context, request, query: given }) => {
      const { format, ...question } = questionOf(given);
      const namesOf = () => services.keys.names();
      if (format !== "csv") {
        const page = await usageJson(services, request.signal, question, namesOf);
        return { ...page, ledger: await ledgerState(services) };
      }
      const { query, names } = await usageQuery(services, question, namesOf);
      return respondText(context, usageCsv(services.store.ledger, query, names, request.signal), {
        "content-type": "text/csv; charset=utf-8",
        "content-disposition": `attachment; filename="troupe-usage_${periodName(query.filter)}.csv"`,
      });
    },
    usageOperation({
      tag: "Admin",
      operationId: "adminUsage",
      summary: "What all calls used and cost",
      description:
        "By the ledger, in the words of /v1/usage. Rows are in the order of their groups. As CSV all rows come at once, with dollars to the micro-dollar.",
      response: AllUsage,
      also: { "text/csv": { schema: { type: "string" } } },
      parameters: { format: Type.Optional(oneOf(["json", "csv"], { description: "Default: json." })) },
    }),
  );
