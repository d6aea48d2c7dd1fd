/** The admin API's route of audit lines. */
import { Type } from "@sinclair/typebox";
import { queryOf } from "../http/openapi/describe.ts";
import { isoTime } from "../lib/clock.ts";
import type { AuditRow } from "../store/audit.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, page, pageParameters, pageSchema, text } from "./pages.ts";

const Act = Type.Object({
  object: Type.Literal("act"),
  id: Type.String(),
  at: Type.String(),
  actor: Type.String({
    description:
      "A key's id, user:<name> as a proxy names it, cli:<name> of whoever ran a command, or file:<name> for a change of a file.",
  }),
  act: Type.String({ description: "key.create and its like." }),
  subject: Type.String(),
  before: Type.Unknown(),
  after: Type.Unknown(),
});

const actJson = ({ id, at, actor, act, subject, before, after }: AuditRow) => ({
  object: "act",
  id,
  at: isoTime(at),
  actor,
  act,
  subject,
  before: before === null ? null : JSON.parse(before),
  after: after === null ? null : JSON.parse(after),
});

export const auditRoutes = (plugin: AdminPlugin) =>
  plugin.get(
    "/v1/audit",
    async ({ services, query: { after = null, actor = null, act = null, subject = null, limit } }) => {
      const asked = { before: after, limit: limit + 1, actor, act, subject };
      const rows = await needsStorage(() => services.store.audit.list(asked));
      return page(rows.map(actJson), limit, ({ id }) => id);
    },
    adminOperation({
      operationId: "adminListActs",
      summary: "What was done here, a page at a time, the newest first",
      query: queryOf({ actor: text(), act: text(), subject: text(), ...pageParameters(100, 20) }),
      response: pageSchema(Act),
      errors: [400],
    }),
  );
