/** Opens the alerts of a server, with their sources and metrics. */
import type { Keys } from "../auth/keys.ts";
import type { Config } from "../config/config.ts";
import type { Logger } from "../lib/process/log.ts";
import type { Registry } from "../lib/process/metrics.ts";
import { type Clock, isoTime } from "../lib/time/clock.ts";
import { Alerts, alertMetrics } from "../observability/alerts/alerts.ts";
import { AlertWatch, type Watched, type WatchedBudget } from "../observability/alerts/watch.ts";
import type { NodeComparison } from "../observability/node-versions.ts";
import type { Store } from "../store/contract/store.ts";
import type { Budgets } from "../usage/budgets/budgets.ts";
import type { LedgerWriter } from "../usage/ledger/writer.ts";
import { dollarsFrom } from "../usage/money.ts";
import type { PriceWatch } from "../usage/prices/price-watch.ts";
import type { RetiringModels } from "../usage/prices/retiring-models.ts";
import { periodEndOf, spanOf } from "../usage/spans.ts";
import { stopFields, type VariantStops } from "../usage/variants/stops.ts";

type AlertParts = {
  readonly store: Store;
  readonly config: () => Config;
  readonly budgets: Budgets;
  readonly keys: Keys;
  readonly ledger: LedgerWriter;
  readonly variantStops: VariantStops;
  readonly servedVersion: Watched["servedVersion"];
  readonly retiring: RetiringModels;
  readonly priceWatch: PriceWatch;
  readonly comparison: () => NodeComparison | undefined;
  readonly metrics: Registry;
};

export function openAlerts(
  parts: AlertParts,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): AlertWatch {
  const { store, metrics, config, ledger, variantStops, servedVersion, retiring: models, priceWatch } = parts;
  const alerts = new Alerts({ store: store.alerts, clock, log, settings: () => config().alerts });
  metrics.sample(alertMetrics, alerts);
  const budgets = () => budgetStates(parts, clock.now());
  const checkStorage = () => store.maintenance.check();
  const variants = async () => {
    await variantStops.load();
    return variantStops.all.map((one) => ({ ...one, fields: stopFields(one) }));
  };
  const ledgerLagSeconds = () => ledger.lagSeconds;
  const clockState = () => {
    const comparison = parts.comparison();
    const state = comparison?.clockState;
    return state && { ...state, machines: comparison!.machines };
  };
  const retiring = () => models.all();
  const endOf = (provider: string, model: string) => models.endOf(provider, model);
  const unpriced = () => priceWatch.stillRefused();
  const isPriced = (provider: string, model: string) => priceWatch.isPriced({ provider, model });
  const ofModels = { retiring, endOf, unpriced, isPriced };
  const watched = { budgets, variants, servedVersion, ledgerLagSeconds, clockState, checkStorage, ...ofModels };
  return new AlertWatch(alerts, watched, clock);
}

async function budgetStates({ store, budgets, keys }: AlertParts, now: number): Promise<WatchedBudget[]> {
  const { rules } = budgets;
  const common = rules.all();
  const known = new Set(common.map(({ scope }) => scope));
  // The default of keys applies to each that has no budget of its own.
  const ofKeys = keys.ids.flatMap((id) => rules.ofAnyModel(`key:${id}`).filter(({ scope }) => !known.has(scope)));
  const all = [...common, ...ofKeys];
  const found =
    all.length === 0
      ? []
      : await store.budgets.spending(all.map(({ scope, period }) => ({ scope, span: spanOf(period, now) })));
  return all.map(({ scope, period, limit }, at) => ({
    scope,
    period,
    limit: dollarsFrom(limit),
    spent: dollarsFrom(found[at]!.spent),
    resetsAt: isoTime(periodEndOf(period, now)),
  }));
}
