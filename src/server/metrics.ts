/** Registers the metrics of a server's parts that are read when somebody scrapes: the table of each, and what it is read from. */
import { knowledgeSizes } from "../call/plan/knowledge.ts";
import type { Services } from "../call/services.ts";
import { servicesMetrics } from "../call/settle/metrics.ts";
import { idempotencyMetrics } from "../idempotency/metrics.ts";
import { storedLimitMetrics } from "../limits/stored.ts";
import { mcpMetrics } from "../mcp/metrics.ts";
import { comparisonMetrics } from "../observability/node-versions.ts";
import type { Store } from "../store/contract/store.ts";
import { type CoordinationState, coordinationMetrics, databaseMetrics, storeMetrics } from "../store/metrics.ts";
import { type Sweeper, sweepMetrics } from "../store/sweeper.ts";
import { learnedMetrics } from "../upstream/learned/learned.ts";
import { poolMetrics } from "../upstream/pool/metrics.ts";
import { budgetMetrics, ledgerMetrics } from "../usage/metrics.ts";
import { variantStopMetrics } from "../usage/variants/stops.ts";

type SampledParts = {
  readonly sweeper: Sweeper;
  /** The connections to Valkey or Redis; none where there is no such server. */
  readonly coordination: readonly (() => CoordinationState)[];
};

export async function sampleServices(services: Services, { sweeper, coordination }: SampledParts): Promise<void> {
  const { metrics, store, budgets, ledger, idempotency, storedLimits, comparison } = services;
  metrics.sample(servicesMetrics, services);
  metrics.sample(poolMetrics, () => ({
    sticky: services.pools.sticky,
    pools: services.pools.view(services.live.accounts),
  }));
  metrics.sample(learnedMetrics, services.learned);
  metrics.sample(knowledgeSizes, services.knowledge);
  metrics.sample(budgetMetrics, budgets);
  metrics.sample(variantStopMetrics, services.variantStops);
  metrics.sample(ledgerMetrics, ledger);
  metrics.sample(idempotencyMetrics, idempotency);
  metrics.sample(mcpMetrics, services.mcp);
  metrics.sample(sweepMetrics, sweeper);
  metrics.sample(storeMetrics, await storeSize(store));
  if (storedLimits !== undefined) metrics.sample(storedLimitMetrics, storedLimits);
  if (comparison !== undefined) metrics.sample(comparisonMetrics, comparison);
  if (store.database !== undefined) metrics.sample(databaseMetrics, store.database);
  if (coordination.length > 0) metrics.sample(coordinationMetrics, () => coordination.map((state) => state()));
}

/** @returns what gives the size in bytes as it was when last asked, and asks anew */
async function storeSize({ maintenance }: Store): Promise<() => number> {
  let { bytes } = await maintenance.size();
  const ask = async () => {
    ({ bytes } = await maintenance.size());
  };
  return () => {
    ask().catch(() => {});
    return bytes;
  };
}
