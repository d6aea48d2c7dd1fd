/** The admin API's route of audit lines. */
import { AuditEntry } from "../api/audit.ts";
import { pageSchema } from "../api/shape.ts";
import { queryOf } from "../http/openapi/describe.ts";
import { timeParameter } from "../http/usage.ts";
import { isoTime } from "../lib/time/clock.ts";
import type { AuditRow } from "../store/contract/audit.ts";
import type { KeyNames } from "../usage/ledger/report.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, page, pageParameters, text } from "./pages.ts";

const actJson = ({ id, at, actor, act, subject, before, after }: AuditRow, names: KeyNames): AuditEntry => ({
  object: "act",
  id,
  at: isoTime(at),
  actor,
  actor_name: names.get(actor) ?? null,
  act,
  subject,
  // A budget of a key is key:<id>/<period>.
  subject_name: names.get(subject.replace(/^key:([^/]+).*$/, "$1")) ?? null,
  before: before === null ? null : JSON.parse(before),
  after: after === null ? null : JSON.parse(after),
});

const noNames: KeyNames = new Map();

const time =
  "A day (2026-11-22), a time, Unix seconds, or a duration (7d, 24h, 10m): days are whole ones in UTC, with today's.";
const times = { since: text(`Only from then on. ${time}`), until: text("Only before then. Likewise.") };

export const auditRoutes = (plugin: AdminPlugin) =>
  plugin.get(
    "/v1/audit",
    async ({ services, query: { after = null, actor = null, act = null, subject = null, limit, ...times } }) => {
      const since = timeParameter(services, "since", times.since);
      const until = timeParameter(services, "until", times.until);
      const asked = { before: after, limit: limit + 1, actor, act, subject, since, until };
      const rows = await services.store.audit.list(asked);
      const names = rows.length === 0 ? noNames : await services.keys.names();
      const acts = rows.map((row) => actJson(row, names));
      return page(acts, limit, ({ id }) => id);
    },
    adminOperation({
      operationId: "adminListActs",
      summary: "What was done here, a page at a time, the newest first",
      query: queryOf({ actor: text(), act: text(), subject: text(), ...times, ...pageParameters(100, 20) }),
      response: pageSchema(AuditEntry),
      errors: [400],
    }),
  );
