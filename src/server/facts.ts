/** What the renewal of facts asks of a server's other parts. */

import type { Services } from "../call/services.ts";
import { namedModels } from "../operate/checks/named-models.ts";
import type { Store } from "../store/contract/store.ts";
import { FactsRenewal, type RenewalTools } from "../usage/facts/renewal.ts";
import { calledModels, concernsOf } from "../usage/prices/concerns.ts";
import { liveFrom } from "./live.ts";

/** @param services asked for once they are there */
export function openFacts(
  store: Pick<Store, "facts" | "ledger">,
  data: string,
  services: () => Services,
  { clock, log, factsKeys = [] }: Pick<RenewalTools, "clock" | "log"> & { readonly factsKeys?: readonly string[] },
): FactsRenewal {
  return new FactsRenewal({
    facts: store.facts,
    settings: () => services().live.config.facts,
    keys: factsKeys,
    data,
    concerns: async (after) => {
      const { live, personas } = services();
      const called = await calledModels(store.ledger, clock.now());
      const models = new Set([...namedModels(personas.list(), live.config), ...called]);
      return concernsOf({ before: live.prices.list, after }, live.config, live.accounts, [...models], clock.now());
    },
    onChange: () => {
      services().live = liveFrom(services().live.config, log, services());
    },
    clock,
    log,
  });
}
