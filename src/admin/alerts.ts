/** The admin API's route of alerts: what is on, and what was sent. */

import { Alerts } from "../api/alerts.ts";
import { queryOf } from "../http/openapi/describe.ts";
import { isoTime } from "../lib/time/clock.ts";
import type { Notice } from "../observability/alerts/alerts.ts";
import type { Delivery, SentAlert } from "../observability/alerts/history.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, pageOf, pageParameters } from "./pages.ts";

const kinds: Readonly<Record<string, string>> = {
  storage: "storage.down",
  ledger: "ledger.behind",
  clock: "clock.wrong",
  provider: "provider.down",
  key: "provider.key_refused",
  budget: "budget.reached",
  variant: "variant.stopped",
  model: "model.retiring",
  price: "model.without_price",
};

/** @param cause such as `provider:openai` or `budget:tag:team-a:month:80` */
function causeJson([cause, since]: readonly [string, number]) {
  const [, kind = cause, rest = ""] = /^(\w+):(.*)$/.exec(cause) ?? [];
  const subject = kind === "budget" ? rest.replace(/:\w+:\d+$/, "") : rest;
  return { cause, kind: kinds[kind] ?? kind, subject: subject || null, since: isoTime(since) };
}

function subjectOf({
  scope,
  provider,
  model,
  persona,
  persona_version,
  variant,
  machine,
}: Notice["data"]): string | null {
  if (typeof machine === "string") return machine;
  if (typeof scope === "string") return scope;
  if (typeof persona === "string") return `${persona}@${persona_version} ${variant}`;
  if (typeof provider === "string") return typeof model === "string" ? `${provider}/${model}` : provider;
  return null;
}

const alertJson = ({ id, at, body, deliveries }: SentAlert) => {
  const { type, data } = JSON.parse(body) as Notice;
  const sent = { kind: type, subject: subjectOf(data), data };
  return { object: "alert" as const, id, at: isoTime(at), ...sent, deliveries: deliveries.map(deliveryJson) };
};

const timeOrNull = (at: number | undefined) => (at === undefined ? null : isoTime(at));

const deliveryJson = ({ target = null!, state, attempts, failure = null!, at, nextAt }: Delivery) => ({
  ...{ target, state, attempts, failure },
  at: timeOrNull(at),
  next_at: timeOrNull(nextAt),
});

export const alertRoutes = (plugin: AdminPlugin) =>
  plugin.get(
    "/v1/alerts",
    async ({ services, query: { after, limit } }) => {
      const { targets, counts, causes, since, messages } = await services.alerts.view();
      const { data, ...rest } = pageOf(messages, after, limit);
      const { delivered, failed, lost, waiting } = counts;
      return {
        configured: targets.length > 0,
        targets: [...targets],
        remembered_since: isoTime(since),
        counts: { delivered, failed_tries: failed, lost, waiting },
        active: [...causes].toSorted(([, a], [, b]) => b - a).map(causeJson),
        ...rest,
        data: data.map(alertJson),
      };
    },
    adminOperation({
      operationId: "adminListAlerts",
      summary: "What operators were alerted of: what has not ended, and the latest messages, the newest first",
      query: queryOf({ ...pageParameters(200, 50) }),
      response: Alerts,
      errors: [400, 404],
    }),
  );
