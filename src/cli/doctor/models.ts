/** `troupe doctor --call --models`: plays a small set of calls of each model. */
import type { Config } from "../../config/config.ts";
import { systemClock } from "../../lib/time/clock.ts";
import type { Check } from "../../operate/doctor/check.ts";
import { planModels, playModels } from "../../operate/doctor/models.ts";
import { Upstream } from "../../upstream/client.ts";
import { Prices } from "../../usage/prices/prices.ts";
import { modelsInUse } from "../commands/price-update.ts";
import { listFor } from "../commands/prices.ts";
import type { Context } from "../context.ts";
import { signedAccounts } from "./installation.ts";

/** Says how many calls it will make, and what they cost at most, before it makes them. */
export async function examineModels(
  context: Context,
  config: Config,
  models: "used" | readonly string[],
): Promise<Check[]> {
  const { io } = context;
  const accounts = signedAccounts(config, io.env);
  const tools = {
    ...{ accounts, upstream: new Upstream(systemClock), now: () => systemClock.now(), budgets: config.budgets },
    prices: new Prices(config.prices, listFor(context, config).list),
  };
  const ids = models === "used" ? await modelsInUse(context, config) : [...new Set(models)];
  const plan = planModels(ids, tools);
  if (plan.planned.length > 0) io.stderr.write(`Calls ${plan.words}.\n`);
  return playModels(plan, tools);
}
