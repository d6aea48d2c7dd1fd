/** What is not known of models in use: their prices, and their facts. For the log once a day, and the metrics. Calls do nothing for it. */

import { factsOf } from "../../facts/facts.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { SampledTable } from "../../lib/process/metrics.ts";
import { type Clock, repeat } from "../../lib/time/clock.ts";
import { formatModelId, parseModelId } from "../../protocols/model-id.ts";
import type { Accounts } from "../../upstream/accounts.ts";
import type { UsedModel } from "../metrics.ts";
import { ageOf, billedTarget, priceAhead } from "./outlook.ts";
import type { Prices } from "./prices.ts";

type PriceWatchTools = {
  readonly prices: () => Prices;
  readonly accounts: () => Accounts;
  /** Those that the ledger has calls of, as `<provider>/<model>`: looked up once a day. */
  readonly called: () => Promise<readonly string[]>;
  /** Models that were called since the start. */
  readonly used: () => Iterable<UsedModel>;
  /** Those that personas and the configuration name, as `<provider>/<model>`. */
  readonly named: () => Iterable<string>;
  readonly clock: Clock;
  readonly log: Logger;
};

const everyMs = 60_000;
/** The most models that a line names, and that have series of their own. */
const maxNamed = 100;
/** Of the ledger: callers choose names freely. */
const maxCalled = 1000;

type Model = { readonly provider: string; readonly model: string };

export class PriceWatch {
  readonly #tools: PriceWatchTools;
  /** Models that a budget refused as they have no price: by their ids. */
  readonly #refused = new Map<string, Model>();
  #called: readonly string[] = [];
  #day: string | undefined;
  #stop: (() => Promise<void>) | undefined;

  constructor(tools: PriceWatchTools) {
    this.#tools = tools;
  }

  start(): void {
    this.#stop = repeat(this.#tools.clock, everyMs, () => this.look());
  }

  async close(): Promise<void> {
    await this.#stop?.();
  }

  /** To be called with the model of a call that was refused as it has no price. */
  refused(provider: string, model: string): void {
    const id = formatModelId({ namespace: provider, name: model });
    // Callers choose names freely.
    if (this.#refused.size < maxNamed) this.#refused.set(id, { provider, model });
  }

  /** True if it has a price, or nobody would bill it. */
  isPriced({ provider, model }: Model): boolean {
    const target = billedTarget(this.#tools.accounts(), formatModelId({ namespace: provider, name: model }));
    return target === undefined || this.#tools.prices().find(target) !== undefined;
  }

  /** Those that were refused and have no price yet. */
  stillRefused(): Model[] {
    for (const [id, one] of this.#refused) if (this.isPriced(one)) this.#refused.delete(id);
    return [...this.#refused.values()];
  }

  /** Models in use without a price. */
  unpriced(): Model[] {
    const found = [...this.#inUse().values()].filter((one) => !this.isPriced(one));
    return found.slice(0, maxNamed);
  }

  /** Changes of prices that the list announces for models in use. */
  ahead(): (Model & { readonly on: string; readonly words: string })[] {
    const { accounts, prices, clock } = this.#tools;
    const found = [...this.#inUse()].flatMap(([id, model]) => {
      const target = billedTarget(accounts(), id);
      const change = target && priceAhead(prices(), target, clock.now());
      return change === undefined ? [] : [{ ...model, ...change }];
    });
    return found.slice(0, maxNamed);
  }

  /** Models in use that nobody knows, and for which known one each is taken. */
  assumed(): (Model & { readonly as: string })[] {
    const { accounts } = this.#tools;
    const found = [...this.#inUse().values()].flatMap((one) => {
      const dialect = accounts().find(one.provider)?.provider.name;
      const { assumed, ends } = dialect === undefined ? {} : factsOf(dialect, one.model);
      // Of one whose end is known by its name no more is to be known.
      return assumed === undefined || ends !== undefined ? [] : [{ ...one, as: assumed }];
    });
    return found.slice(0, maxNamed);
  }

  get listedAt(): number {
    return Date.parse(this.#tools.prices().list.asOf);
  }

  #inUse(): Map<string, Model> {
    const { used, named } = this.#tools;
    const ids = [...named(), ...this.#called].flatMap((id): [string, Model][] => {
      const { namespace, name } = parseModelId(id) ?? {};
      return namespace === undefined ? [] : [[id, { provider: namespace, model: name! }]];
    });
    const called = [...used()].map(({ provider, model }): [string, Model] => [
      formatModelId({ namespace: provider, name: model }),
      { provider, model },
    ]);
    return new Map([...ids, ...called, ...this.#refused]);
  }

  /** Says it in one line a day, if there is anything to say. */
  async look(): Promise<void> {
    const { called, clock, log, prices } = this.#tools;
    const now = clock.now();
    const day = new Date(now).toISOString().slice(0, 10);
    if (this.#day === day) return;
    this.#day = day;
    try {
      this.#called = (await called()).slice(0, maxCalled);
    } catch (error) {
      log.warn("the ledger can't be asked which models are in use", { error });
    }
    const { asOf, days, isOld } = ageOf(prices(), now);
    const [unpriced, assumed, ahead] = [this.unpriced(), this.assumed(), this.ahead()];
    if (!isOld && unpriced.length + assumed.length + ahead.length === 0) return;
    log.warn("not all is known of models in use", {
      prices_as_of: asOf,
      days_old: days,
      without_a_price: unpriced.map(({ provider, model }) => formatModelId({ namespace: provider, name: model })),
      assumed: assumed.map(
        ({ provider, model, as }) => `${formatModelId({ namespace: provider, name: model })} as ${as}`,
      ),
      changing: ahead.map(
        ({ provider, model, on }) => `${formatModelId({ namespace: provider, name: model })} on ${on}`,
      ),
    });
  }
}

export const priceMetrics: SampledTable<PriceWatch> = {
  troupe_price_list_timestamp_seconds: {
    help: "Of which day the price list in use is, in Unix time.",
    aggregate: "min",
    read: ({ listedAt }) => listedAt / 1000,
  },
  troupe_model_without_price: {
    help: "1 for each model in use that has no price.",
    aggregate: "max",
    labels: ["gen_ai_provider_name", "gen_ai_request_model"],
    series: (watch) => watch.unpriced().map(({ provider, model }) => ({ labels: [provider, model], value: 1 })),
  },
  troupe_model_assumed: {
    help: "1 for each model in use that nobody knows: it is called as the newest known of its line.",
    aggregate: "max",
    labels: ["gen_ai_provider_name", "gen_ai_request_model"],
    series: (watch) => watch.assumed().map(({ provider, model }) => ({ labels: [provider, model], value: 1 })),
  },
  troupe_price_change_timestamp_seconds: {
    help: "When the price of a model in use changes, in Unix time, where the list says so and it is within 60 days.",
    aggregate: "min",
    labels: ["gen_ai_provider_name", "gen_ai_request_model"],
    series: (watch) =>
      watch.ahead().map(({ provider, model, on }) => ({ labels: [provider, model], value: Date.parse(on) / 1000 })),
  },
};
