/** The most that tests can cost, before they are run: by prices, the length of what is sent, and the bound of the answers. */
import type { Config } from "../../config/config.ts";
import { systemClock } from "../../lib/clock.ts";
import { numberOf } from "../../lib/json/json.ts";
import { gradingMessages } from "../../personas/tests/rubric.ts";
import type { Assertion, AssertionSet } from "../../personas/tests/suite.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { estimateUse } from "../../usage/cost-estimate.ts";
import { countedOf } from "../../usage/counts.ts";
import { Prices } from "../../usage/prices/prices.ts";
import { listInUse } from "../../usage/prices/stored-list.ts";
import type { PreparedTest } from "./answers.ts";

export type Estimate = {
  readonly calls: number;
  /** Dollars, of the calls whose price is known. */
  readonly most: number;
  /** Calls whose price is unknown. */
  readonly unknown: number;
};

/** A test and the models that answer it, in order of preference. */
type Asked = { readonly prepared: PreparedTest; readonly models: readonly string[]; readonly times: number };

export function estimateCost(tests: readonly Asked[], config: Config): Estimate {
  const estimator = new Estimator(config);
  for (const { prepared, models, times } of tests) estimator.addTest(prepared, models, times);
  return { calls: estimator.calls, most: estimator.most, unknown: estimator.unknown };
}

class Estimator {
  calls = 0;
  most = 0;
  unknown = 0;
  readonly #config: Config;
  readonly #accounts: Accounts;
  readonly #prices: Prices;

  constructor(config: Config) {
    this.#config = config;
    this.#accounts = new Accounts(config.providers, providers);
    this.#prices = new Prices(config.prices, listInUse(config.data).list);
  }

  addTest({ rendered, test }: PreparedTest, models: readonly string[], times: number): void {
    const bound = numberOf(rendered["max_completion_tokens"]) ?? numberOf(rendered["max_tokens"]);
    const bytes = sizeOf([rendered["messages"], rendered["tools"]]);
    const model = models.find((one) => this.#accounts.find(parseModelId(one)?.namespace ?? "") !== undefined);
    this.#add(model, bytes, bound, times);
    const output = "x".repeat(4 * (bound ?? this.#config.budgets.assumedOutputTokens));
    for (const { grader, value } of test.assertions.flatMap(gradersIn)) {
      const given = numberOf(grader!.fields["max_completion_tokens"]) ?? numberOf(grader!.fields["max_tokens"]);
      this.#add(grader!.model, sizeOf(gradingMessages(value as string, output)), given, times);
    }
  }

  #add(model: string | undefined, inputBytes: number, maxOutputTokens: number | undefined, times: number): void {
    this.calls += times;
    const usage = estimateUse({ inputBytes, maxOutputTokens }, this.#config.budgets);
    const target = model === undefined ? undefined : this.#targetOf(model);
    const cost = target && this.#prices.bound(target, countedOf(usage), undefined, systemClock.now());
    if (cost === undefined) this.unknown += times;
    else this.most += (cost / 1e6) * times;
  }

  #targetOf(model: string) {
    const id = parseModelId(model);
    const bound = id && this.#accounts.find(id.namespace);
    if (id === undefined || bound === undefined) return undefined;
    return {
      provider: id.namespace,
      dialect: bound.provider.name,
      baseUrl: bound.account.baseUrl,
      model: id.name,
      isLocal: bound.provider.kind === "local",
      isListed: false,
    };
  }
}

const sizeOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

const gradersIn = (one: Assertion | AssertionSet): Assertion[] =>
  ("assertions" in one ? one.assertions : [one]).filter(({ grader }) => grader !== undefined);

/** Dollars, with as many digits as mean something. */
export function dollars(amount: number): string {
  if (amount === 0) return "$0";
  return `$${amount >= 1 ? amount.toFixed(2) : Number(amount.toPrecision(2)).toFixed(Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(amount)))))}`;
}

export function estimateWords({ calls, most, unknown }: Estimate): string {
  const count = `${calls} ${calls === 1 ? "call" : "calls"}`;
  if (unknown === calls) return `${count}, whose prices are unknown`;
  return `${count}, ${dollars(most)} at most${unknown === 0 ? "" : `, and ${unknown} of them at unknown prices`}`;
}
