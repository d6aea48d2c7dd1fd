/** The room of what may stop a call, read with the keys: budgets, variants that stop themselves, facts. Ends with the keys in memory. */
import { join } from "node:path";
import { firstKeyName } from "../../store/sqlite/loss-guard.ts";
import { Budgets } from "../../usage/budgets/budgets.ts";
import { LineCounter } from "../../usage/metrics.ts";
import { VariantStops } from "../../usage/variants/stops.ts";
import { openFacts } from "../facts.ts";
import type { Opening } from "./opening.ts";
import type { Stored } from "./stored.ts";

export async function openHeldBack(opening: Opening, { store, limits, keys }: Stored) {
  const { config, options, metrics, own, services, current, clock, log } = opening;
  const lines = new LineCounter(metrics, metrics.models);
  const budgets: Budgets = own(
    new Budgets({
      store: store.budgets,
      clock,
      log,
      settings: () => current().budgets,
      now: () => limits.now(),
      tokensPerMinute: keys.tokensPerMinute.bind(keys),
      price: (attempt, usage) => services().usage.price(attempt, usage),
      onRefusal: (kind) => lines.metrics.refusals.series(kind).add(),
      settleNow: () => services().ledger.settleNow(),
    }),
  );
  const variantStops = own(new VariantStops({ store: store.variants, clock, log }));
  const facts = own(openFacts(store, config.data, services, options));
  keys.beside = async () => void (await Promise.all([budgets.load(), variantStops.load(), facts.besideKeys()]));
  await keys.load();
  const firstKey = await keys.ensureFirstKey(join(config.data, firstKeyName));
  return { lines, budgets, variantStops, facts, firstKey };
}

export type HeldBack = Awaited<ReturnType<typeof openHeldBack>>;
