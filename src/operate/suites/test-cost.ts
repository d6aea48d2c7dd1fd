/** The most that tests can cost, before they are run: by prices, the length of what is sent, and the bound of the answers. */
import type { Config } from "../../config/config.ts";
import { numberOf } from "../../lib/json/json.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { dollars } from "../../personas/suites/dollars.ts";
import { gradingMessages } from "../../personas/suites/rubric.ts";
import type { Assertion, AssertionSet } from "../../personas/suites/suite.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { estimateUse } from "../../usage/prices/cost-estimate.ts";
import { Prices } from "../../usage/prices/prices.ts";
import { listInUse } from "../../usage/prices/stored-list.ts";
import { countedOf } from "../../usage/tokens/counts.ts";
import type { PreparedTest } from "./answers.ts";

type Estimate = {
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

/** What calls cost at most. */
export class CallPrices {
  readonly #config: Config;
  readonly #accounts: Accounts;
  readonly #prices: Prices;

  /** @param accounts absent: those of the configuration */
  constructor(config: Config, accounts = new Accounts(config.providers, providers)) {
    this.#config = config;
    this.#accounts = accounts;
    this.#prices = new Prices(config.prices, listInUse(config.data).list);
  }

  /** The first of the models that is set up. */
  modelIn(models: readonly string[]): string | undefined {
    return models.find((one) => this.#accounts.find(parseModelId(one)?.namespace ?? "") !== undefined);
  }

  /** @returns dollars; undefined where no price is known */
  most(model: string | undefined, inputBytes: number, maxOutputTokens: number | undefined): number | undefined {
    const usage = estimateUse({ inputBytes, maxOutputTokens }, this.#config.budgets);
    const target = model === undefined ? undefined : this.#targetOf(model);
    const cost = target && this.#prices.bound(target, countedOf(usage), undefined, systemClock.now());
    return cost === undefined ? undefined : cost / 1e6;
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

/** What bounds the cost of a rendered request. */
export const boundsOf = (rendered: Readonly<Record<string, unknown>>) => ({
  inputBytes: sizeOf([rendered["messages"], rendered["tools"]]),
  maxOutputTokens: numberOf(rendered["max_completion_tokens"]) ?? numberOf(rendered["max_tokens"]),
});

class Estimator {
  calls = 0;
  most = 0;
  unknown = 0;
  readonly #assumedOutputTokens: number;
  readonly #prices: CallPrices;

  constructor(config: Config) {
    this.#assumedOutputTokens = config.budgets.assumedOutputTokens;
    this.#prices = new CallPrices(config);
  }

  addTest({ rendered, test }: PreparedTest, models: readonly string[], times: number): void {
    const { inputBytes, maxOutputTokens } = boundsOf(rendered);
    this.#add(this.#prices.modelIn(models), inputBytes, maxOutputTokens, times);
    const output = "x".repeat(4 * (maxOutputTokens ?? this.#assumedOutputTokens));
    for (const { grader, value } of test.assertions.flatMap(gradersIn)) {
      const given = numberOf(grader!.fields["max_completion_tokens"]) ?? numberOf(grader!.fields["max_tokens"]);
      this.#add(grader!.model, sizeOf(gradingMessages(value as string, output)), given, times);
    }
  }

  #add(model: string | undefined, inputBytes: number, maxOutputTokens: number | undefined, times: number): void {
    this.calls += times;
    const cost = this.#prices.most(model, inputBytes, maxOutputTokens);
    if (cost === undefined) this.unknown += times;
    else this.most += cost * times;
  }
}

const sizeOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

const gradersIn = (one: Assertion | AssertionSet): Assertion[] =>
  ("assertions" in one ? one.assertions : [one]).filter(({ grader }) => grader !== undefined);

export function estimateWords({ calls, most, unknown }: Estimate): string {
  const count = `${calls} ${calls === 1 ? "call" : "calls"}`;
  if (unknown === calls) return `${count}, whose prices are unknown`;
  return `${count}, ${dollars(most)} at most${unknown === 0 ? "" : `, and ${unknown} of them at unknown prices`}`;
}
