/** The admin API's route of audit lines. */
import { Type } from "@sinclair/typebox";
import { describeOperation } from "../http/openapi/describe.ts";
import { jsonAnswer } from "../http/respond.ts";
import type { Route } from "../http/routes.ts";
import { isoTime } from "../lib/clock.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { AuditRow } from "../store/store.ts";
import { admitAdmin } from "./act.ts";
import { Query } from "./bodies.ts";
import { keyed, listParameters, page, pageSchema } from "./pages.ts";

const Act = Type.Object({
  object: Type.Literal("act"),
  id: Type.String(),
  at: Type.String(),
  actor: Type.String({
    description: "A key's id, user:<name> as a proxy names it, or cli:<name> of whoever ran a command.",
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

export const auditRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/audit",
    area: "admin",
    detail: describeOperation({
      tag: "Admin",
      operationId: "adminListActs",
      summary: "What was done here, a page at a time, the newest first",
      parameters: listParameters(["actor", "act", "subject"], 100, 20),
      response: { schema: pageSchema(Act) },
      errors: [400, ...keyed],
    }),
    run: async (services, context) => {
      await admitAdmin(services, context);
      const query = new Query(context);
      const limit = query.limit(20, 100);
      const rows = await needsStorage(() =>
        services.store.audit.list({
          before: query.text("after") ?? null,
          limit: limit + 1,
          actor: query.text("actor") ?? null,
          act: query.text("act") ?? null,
          subject: query.text("subject") ?? null,
        }),
      );
      return jsonAnswer(page(rows.map(actJson), limit, ({ id }) => id));
    },
  },
];
