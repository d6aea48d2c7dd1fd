/** A node and its settings, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { Open, titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";

export const Configuration = Type.Object({
  object: Type.Literal("configuration"),
  version: Type.String({ description: "By which nodes compare what they serve." }),
  values: Type.Record(Type.String(), Type.Unknown(), {
    description: "As a file would give them, its secrets masked.",
  }),
  origins: Type.Record(
    Type.String(),
    Type.Object({ where: Words(["file", "environment", "command line"]), name: Type.String() }),
    { description: "Where a value came from, by its path such as log.level; absent: it is the default." },
  ),
});
export type Configuration = Answer<typeof Configuration>;

const HealthCheck = Open({
  status: Words(["ok", "failing"]),
  message: Type.Optional(Type.String()),
  set_up: Type.Optional(Type.Integer({ description: "Of providers: how many are." })),
});

export const SystemHealth = Open({
  object: Type.Literal("health"),
  status: Words(["ok", "degraded"]),
  version: Type.String(),
  commit: Type.String(),
  built_at: Type.String(),
  runtime: Type.String(),
  started_at: Type.String(),
  uptime_seconds: Type.Integer(),
  store: Words(["sqlite", "postgres"]),
  database_bytes: OrNull(Type.Integer(), { description: "null: it can't be asked." }),
  memory_bytes: Type.Integer({ description: "What the answering process holds." }),
  listeners: Type.Array(
    Type.Object({ address: Type.String(), tls: Type.Boolean(), surfaces: Type.Array(Type.String()) }),
    { description: "As they are configured." },
  ),
  requests_under_way: Type.Integer(),
  draining: Type.Boolean(),
  ledger: Type.Object({
    lines_waiting: Type.Integer(),
    lag_seconds: Type.Number({ description: "How long the oldest of them has waited." }),
    lines_lost: Type.Integer({ description: "Since the start." }),
  }),
  workers: OrNull(Type.Integer(), { description: "null: a single process." }),
  last_reload: OrNull(
    Type.Object({
      at: Type.String(),
      changed: Type.Array(Type.String(), { description: "Settings." }),
      error: OrNull(Type.String(), { description: "Why the configuration in force stays." }),
    }),
    { description: "When this process read its configuration anew; null: not since its start." },
  ),
  persona_faults: Type.Integer({ description: "Errors that the latest reading of the personas' folder found." }),
  checks: Type.Record(Type.String(), HealthCheck),
});
export type SystemHealth = Answer<typeof SystemHealth>;

titled({ Configuration, SystemHealth });
