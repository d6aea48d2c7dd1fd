/** The admin API's routes of the installation: the configuration in force, and the health of the node that answers. */
import { Type } from "@sinclair/typebox";
import type { LastReload, Services } from "../call/services.ts";
import { formatAddress } from "../config/listeners.ts";
import { configVersion } from "../config/version.ts";
import { healthOf } from "../http/ops.ts";
import { Open, titled, Words } from "../lib/json/schemas.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, OrNull } from "./pages.ts";

const Configuration = Type.Object({
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

const SystemHealth = Open({
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
  checks: Type.Record(Type.String(), Open({ status: Words(["ok", "failing"]) })),
});

titled({ Configuration, SystemHealth });

const reloadJson = ({ at, changed, error }: LastReload) => ({
  at: new Date(at).toISOString(),
  changed: [...changed],
  error: error ?? null,
});

async function databaseBytes({ store }: Services): Promise<number | null> {
  try {
    return (await store.maintenance.size()).bytes;
  } catch {
    // The check of the storage says why.
    return null;
  }
}

export const systemRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/configuration",
      async ({ services }) => {
        const { config } = services.live;
        // Imported late: it loads the YAML library.
        const { configJson } = await import("../config/print.ts");
        const { origins, ...values } = configJson({ config, origins: services.originsOf(config) });
        return { object: "configuration" as const, version: configVersion(config), values, origins };
      },
      adminOperation({
        operationId: "adminGetConfiguration",
        summary: "The configuration in force, and where each value came from",
        response: Configuration,
      }),
    )
    .get(
      "/v1/health",
      async ({ services }) => {
        const { body } = await healthOf(services, true);
        const { workers } = body.checks;
        const { build, clock, ledger, store, running, draining, startedAt, lastReload } = services;
        const { version, commit, builtAt, runtime } = build;
        return {
          object: "health" as const,
          status: body.status,
          ...{ version, commit, built_at: builtAt, runtime },
          started_at: new Date(clock.now() - (clock.monotonic() - startedAt)).toISOString(),
          uptime_seconds: body.uptime_seconds,
          store: store.database === undefined ? ("sqlite" as const) : ("postgres" as const),
          database_bytes: await databaseBytes(services),
          memory_bytes: process.memoryUsage.rss(),
          listeners: services.live.config.listen.map(({ address, tls, surfaces }) => ({
            address: formatAddress(address),
            tls: tls !== undefined,
            surfaces: [...surfaces],
          })),
          requests_under_way: running,
          draining,
          ledger: {
            lines_waiting: ledger.waiting,
            lag_seconds: Math.round(ledger.lagSeconds * 1000) / 1000,
            lines_lost: ledger.counts.lost,
          },
          workers: workers !== undefined && "workers" in workers ? workers.workers : null,
          last_reload: lastReload === undefined ? null : reloadJson(lastReload),
          persona_faults: services.personaFaults().length,
          checks: body.checks,
        };
      },
      adminOperation({
        operationId: "adminGetHealth",
        summary: "The health of the node that answers: 200 also where it is degraded",
        response: SystemHealth,
      }),
    );
