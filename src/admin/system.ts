import { Configuration, SystemHealth } from "../api/system.ts";
import type { LastReload, Services } from "../call/services.ts";
import { formatAddress } from "../config/listeners.ts";
import { configVersion } from "../config/version.ts";
import { serverHealthOf } from "../http/ops.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";

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
        const { body } = await serverHealthOf(services, true);
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
