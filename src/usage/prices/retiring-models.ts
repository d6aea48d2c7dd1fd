/** Models in use whose end is announced: for the metrics, the log and alerts. Calls do nothing for it but count, as they do anyway. */

import { endState } from "../../facts/endings.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { SampledTable } from "../../lib/process/metrics.ts";
import { type Clock, repeat } from "../../lib/time/clock.ts";
import type { Accounts } from "../../upstream/accounts.ts";
import { type ModelLists, modelEndOf } from "../../upstream/model-lists.ts";
import type { UsedModel } from "../metrics.ts";

type RetiringModel = {
  readonly provider: string;
  readonly model: string;
  /** YYYY-MM-DD: the first day on which it no longer answers. */
  readonly ends: string;
};

type RetiringTools = {
  /** Models that were called since the start, with how often. */
  readonly used: () => Iterable<UsedModel>;
  readonly accounts: () => Accounts;
  readonly lists: Pick<ModelLists, "find">;
  readonly clock: Clock;
  readonly log: Logger;
};

const everyMs = 60_000;

export class RetiringModels {
  readonly #tools: RetiringTools;
  /** By provider and model: the day on which it was logged last, and the calls that it had then. */
  readonly #logged = new Map<string, { readonly day: string; readonly calls: number }>();
  #stop: (() => Promise<void>) | undefined;

  constructor(tools: RetiringTools) {
    this.#tools = tools;
  }

  start(): void {
    this.#stop = repeat(this.#tools.clock, everyMs, () => this.look());
  }

  async close(): Promise<void> {
    await this.#stop?.();
  }

  /** @returns the day on which an account's model ends; undefined where none is known, or there is no such account */
  endOf(provider: string, model: string): string | undefined {
    const bound = this.#tools.accounts().find(provider);
    return bound && modelEndOf(bound, model, this.#tools.lists.find(bound, model));
  }

  /** Models that were called since the start and have an end. */
  all(): (RetiringModel & UsedModel)[] {
    return [...this.#tools.used()].flatMap((used) => {
      const ends = this.endOf(used.provider, used.model);
      return ends === undefined ? [] : [{ ...used, ends }];
    });
  }

  /** Logs those that have ended, or end within six months: each once a day on which it is called. */
  look(): void {
    const { clock, log } = this.#tools;
    const now = clock.now();
    const day = new Date(now).toISOString().slice(0, 10);
    for (const { provider, model, ends, calls } of this.all()) {
      const state = endState(ends, now);
      const before = this.#logged.get(`${provider}/${model}`);
      if (state === "later" || before?.day === day || before?.calls === calls) continue;
      this.#logged.set(`${provider}/${model}`, { day, calls });
      log.warn(state === "ended" ? "a model is called whose end has come" : "a model is called that ends soon", {
        provider,
        model,
        ends_on: ends,
      });
    }
  }
}

export const retiringMetrics: SampledTable<RetiringModels> = {
  troupe_model_retirement_timestamp_seconds: {
    help: "When a model that was called since the start ends, in Unix time, where that is announced.",
    aggregate: "min",
    labels: ["gen_ai_provider_name", "gen_ai_request_model"],
    series: (models) =>
      models.all().map(({ provider, model, ends }) => ({ labels: [provider, model], value: Date.parse(ends) / 1000 })),
  },
};
