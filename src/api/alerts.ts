/** Alerts, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull, pageSchema } from "./shape.ts";

const subjectWords =
  "What it is about: a budget's scope, a provider, <provider>/<model>, or <persona>@<version> <variant>; null: the server.";

export const Alert = Type.Object({
  object: Type.Literal("alert"),
  id: Type.String({ description: "The webhook-id." }),
  at: Type.String(),
  kind: Type.String({ description: "provider.down and its like." }),
  subject: OrNull(Type.String(), { description: subjectWords }),
  data: Type.Record(Type.String(), Type.Unknown(), { description: "As it is sent." }),
  deliveries: Type.Array(
    Type.Object({
      target: OrNull(Type.String(), { description: "An address's origin; null: the configuration names it no more." }),
      state: Words(["waiting", "delivered", "given_up", "dropped"], {
        description: "dropped: the configuration names another address now.",
      }),
      attempts: Type.Integer(),
      failure: OrNull(Type.String(), { description: "Why the latest try failed, where this process made it." }),
      at: OrNull(Type.String(), { description: "The time of the latest try, where this process made it." }),
      next_at: OrNull(Type.String()),
    }),
  ),
});
export type Alert = Answer<typeof Alert>;

export const Alerts = Type.Composite([
  pageSchema(Alert),
  Type.Object({
    configured: Type.Boolean({ description: "false: nothing is watched, and nothing is sent." }),
    targets: Type.Array(Type.String(), { description: "The origins of the configured addresses." }),
    remembered_since: Type.String({
      description: "The answering process remembers the latest 200 deliveries, in memory, from then on.",
    }),
    counts: Type.Object(
      {
        delivered: Type.Integer(),
        failed_tries: Type.Integer(),
        lost: Type.Integer({ description: "Given up, or more than could wait." }),
        waiting: Type.Integer({ description: "Of all nodes; the others are of the answering process." }),
      },
      { description: "Messages for one address each, since the start." },
    ),
    active: Type.Array(
      Type.Object({
        cause: Type.String(),
        kind: Type.String(),
        subject: OrNull(Type.String(), { description: subjectWords }),
        since: Type.String({ description: "When it was reported." }),
      }),
      { description: "What was reported on any node and has not ended." },
    ),
  }),
]);
export type Alerts = Answer<typeof Alerts>;
export type ActiveAlert = Alerts["active"][number];

titled({ Alert });
