/** The room of what calls use: its lines, prices and alerts, and the sweeper that ends what is old. Closed after all that makes calls. */

import { namedModels } from "../../operate/checks/named-models.ts";
import { Sweeper, sweepRulesOf } from "../../store/sweeper.ts";
import { hasNoPrice } from "../../upstream/failures.ts";
import { factsMetrics } from "../../usage/facts/renewal.ts";
import { LedgerJournal } from "../../usage/ledger/journal.ts";
import { LedgerWriter } from "../../usage/ledger/writer.ts";
import { calledModels } from "../../usage/prices/concerns.ts";
import { PriceWatch, priceMetrics } from "../../usage/prices/price-watch.ts";
import { RetiringModels, retiringMetrics } from "../../usage/prices/retiring-models.ts";
import { Tokenizer } from "../../usage/tokens/tokenizer.ts";
import { UsageRecorder } from "../../usage/usage.ts";
import { openAlerts } from "../alerts.ts";
import type { HeldBack } from "./held-back.ts";
import type { Opening } from "./opening.ts";
import type { PersonaParts } from "./personas.ts";
import type { Stored } from "./stored.ts";

export function openLedger(
  { config, options, metrics, own, opened, services, current, clock, log }: Opening,
  { store, keys }: Stored,
  { lines, budgets, variantStops, facts }: HeldBack,
  { personas }: PersonaParts,
) {
  const sweeper = opened.adopt(new Sweeper(store, clock, () => sweepRulesOf(current()), log), (one) => one.stop());
  const ledger = own(
    new LedgerWriter({
      ledger: store.ledger,
      clock,
      log,
      openJournal: () => LedgerJournal.open(config.data, store.processName?.()),
      isShared: store.nodes !== undefined,
      onWritten: () => budgets.settled(),
      // The other processes learn of it by the version of the keys; this one at once. What can't be read now is read then.
      onStopped: () => void variantStops.load().catch(() => {}),
    }),
  );
  const tokenizer = options.tokenizer ?? own(new Tokenizer(clock, log));
  const usage = own(
    new UsageRecorder({
      clock,
      log,
      writer: ledger,
      tokenizer,
      prices: () => services().live.prices,
      onLine: (line, attempt) => {
        lines.count(line, attempt);
        attempt.trace?.ended(line);
        alerts.attempted(line);
        const { provider, upstreamModel, errorCode } = line;
        if (errorCode !== null && provider !== null && upstreamModel !== null && hasNoPrice({ code: errorCode }))
          priceWatch.refused(provider, upstreamModel);
      },
    }),
  );
  const servedVersion = (id: string) => (services().loading === undefined ? personas.find(id)?.version : null);
  const retiring = own(
    new RetiringModels({
      used: () => lines.used(),
      accounts: () => services().live.accounts,
      lists: { find: (bound, model) => services().modelLists.find(bound, model) },
      clock,
      log,
    }),
  );
  metrics.sample(retiringMetrics, retiring);
  const priceWatch = own(
    new PriceWatch({
      called: () => calledModels(store.ledger, clock.now()),
      used: () => lines.used(),
      named: () => namedModels(personas.list(), current()),
      accounts: () => services().live.accounts,
      prices: () => services().live.prices,
      clock,
      log,
    }),
  );
  metrics.sample(priceMetrics, priceWatch);
  metrics.sample(factsMetrics, facts);
  const alerts = own(
    openAlerts(
      {
        store,
        config: current,
        budgets,
        keys,
        ledger,
        metrics,
        variantStops,
        servedVersion,
        retiring,
        priceWatch,
        comparison: () => services().comparison,
      },
      options,
    ),
  );
  return { sweeper, ledger, tokenizer, usage, retiring, priceWatch, alerts };
}
