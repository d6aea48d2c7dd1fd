/**
 * Holds calls to their budgets and to their key's tokens per minute. What a call may cost at most is reserved before it is made, in
 * the store and so for all processes together, and what it really cost is settled after it: a budget is never overspent by more than
 * the calls under way were underestimated. A call that nothing applies to costs a look at two maps.
 */
import type { Config } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import type { Usage } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { asUnavailable } from "../store/require-storage.ts";
import type { BudgetRepository, BudgetRow, Reservation, Reserved, TokenWindow } from "../store/store.ts";
import type { Attempt, AttemptBounds, UsageGate, Reservation as UsageReservation } from "./attempt.ts";
import { BudgetRules, type Payer, type Rule } from "./budget-rules.ts";
import { mostUse, pricedTools } from "./most-use.ts";
import { dollarsFrom, endOf, formatDollars, spanOf } from "./spans.ts";

export type BudgetTools = {
  readonly store: BudgetRepository;
  readonly clock: Clock;
  readonly log: Logger;
  readonly settings: () => Config["budgets"];
  /** A reading in milliseconds that is the same in all processes and never goes back. */
  readonly now: () => number;
  /** Of a key; undefined: no limit. */
  readonly tokensPerMinute: (keyId: string) => number | undefined;
  /** The most that so much use costs, in micro-dollars; undefined: the price is unknown. */
  readonly price: (attempt: Attempt, usage: Usage) => number | undefined;
  /** Told, now and then, of what a budget allows and of what is spent and reserved of it, in dollars. */
  readonly onSpending?: (scope: string, period: string, limit: number, used: number) => void;
  readonly onRefusal?: (kind: RefusalKind) => void;
};

export type RefusalKind = "key" | "tag" | "tier" | "all" | "tokens" | "unknown_price";

const retryMs = 1_000;
/** Settlements that wait for the store at most. */
const maxWaiting = 50_000;
const batchSize = 100;
const hourMs = 3_600_000;
const tellEveryMs = 15_000;
/** How many budgets are told of: those of the configuration, and the first that were set. */
const maxTold = 200;
/** For how long it is known what was spent in a day or a month. */
const keptMs = 400 * 24 * hourMs;

type Settlement = { readonly id: string; readonly spent: number; readonly tokens: number };

export class Budgets implements UsageGate {
  readonly #tools: BudgetTools;
  #rows: readonly BudgetRow[] = [];
  #rules: { readonly of: Config["budgets"]; readonly rules: BudgetRules } | undefined;
  #waiting: Settlement[] = [];
  #settling: Promise<void> | undefined;
  #isClosed = false;
  #cancelRetry = () => {};
  #cancelTidying = () => {};
  #cancelTelling = () => {};

  /** Totals since the start: reservations made, settled, and left to the end of the process. */
  readonly counts = { reserved: 0, settled: 0, lost: 0 };

  constructor(tools: BudgetTools) {
    this.#tools = tools;
  }

  /** Reads the budgets that were set. To be called whenever a key or a budget has changed. @throws StorageError */
  async load(): Promise<void> {
    this.#rows = await this.#tools.store.list();
    this.#rules = undefined;
  }

  /** Ends what dead processes reserved, now and once an hour, and tells what is spent. @throws StorageError */
  async start(): Promise<void> {
    await this.#tools.store.releaseAbandoned();
    this.#tidyLater();
    await this.#tell();
  }

  /** Never rejects: what can't be read now is told the next time. */
  async #tell(): Promise<void> {
    const { store, clock, onSpending } = this.#tools;
    const told = this.rules.all().slice(0, maxTold);
    const now = clock.now();
    try {
      const spans = told.map(({ scope, period }) => ({ scope, span: spanOf(period, now) }));
      const found = told.length === 0 ? [] : await store.spending(spans);
      for (const [at, { scope, period, limit }] of told.entries()) {
        const { spent, reserved } = found[at]!;
        onSpending?.(scope, period, dollarsFrom(limit), dollarsFrom(spent + reserved));
      }
    } catch {
      // The store says elsewhere that it is away.
    }
    if (!this.#isClosed) this.#cancelTelling = clock.setTimer(tellEveryMs, () => void this.#tell());
  }

  #tidyLater(): void {
    this.#cancelTidying = this.#tools.clock.setTimer(hourMs, () => void this.#tidy());
  }

  async #tidy(): Promise<void> {
    const { store, clock, log } = this.#tools;
    try {
      await store.releaseAbandoned();
      await store.forgetSpending(spanOf("day", clock.now() - keptMs));
    } catch (error) {
      log.warn("budgets could not be tidied up", { error });
    }
    this.#tidyLater();
  }

  /** Settles what waits. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTidying();
    this.#cancelTelling();
    await this.#settling;
    await this.#settleAll();
    this.#cancelRetry();
    const calls = this.#waiting.length;
    if (calls > 0) this.#tools.log.error("what calls cost could not be settled with their budgets", { calls });
  }

  get rules(): BudgetRules {
    const of = this.#tools.settings();
    if (this.#rules?.of !== of) this.#rules = { of, rules: new BudgetRules(of, this.#rows) };
    return this.#rules.rules;
  }

  /** Whether anything applies to the calls of a key with these tags. */
  holds(payer: Payer): boolean {
    return this.rules.of(payer).length > 0 || this.#tools.tokensPerMinute(payer.keyId) !== undefined;
  }

  /**
   * @returns undefined where nothing applies to the call. Rejects with ApiError insufficient_quota, rate_limit_exceeded,
   * model_without_price or storage_unavailable
   */
  reserve(attempt: Attempt, at: number): Promise<UsageReservation> | undefined {
    const rules = attempt.bounds?.billed === "nothing" ? [] : this.rules.of(attempt);
    const tokenLimit = this.#tools.tokensPerMinute(attempt.keyId);
    if (rules.length === 0 && tokenLimit === undefined) return undefined;
    return this.#reserve(attempt, at, rules, tokenLimit);
  }

  async #reserve(
    attempt: Attempt,
    at: number,
    rules: readonly Rule[],
    tokenLimit: number | undefined,
  ): Promise<UsageReservation> {
    const { clock, store, now } = this.#tools;
    const amount = this.#amountOf(attempt, rules);
    if (amount === 0 && tokenLimit === undefined) return nothingReserved;
    const tokens = tokensOf(attempt.bounds);
    const reservation: Reservation = {
      id: clock.newId(),
      at,
      amount: amount ?? 0,
      // A call that is known to cost nothing may be made whatever is spent.
      budgets:
        amount === 0 ? [] : rules.map(({ scope, period, limit }) => ({ scope, span: spanOf(period, at), limit })),
      ...(tokenLimit !== undefined && { tokens: { key: attempt.keyId, now: now(), limit: tokenLimit, tokens } }),
    };
    const reserved = await whileStored(() => store.reserve(reservation));
    this.#refuse(reservation, rules, reserved);
    this.counts.reserved += 1;
    return {
      budgets: reservation.budgets,
      headers: reserved.tokens === undefined ? {} : tokenHeaders(tokenLimit!, reserved.tokens),
      settle: ({ cost, counted, tokens: used }) => {
        const spent = cost ?? reservation.amount;
        // Where nobody knows what was used, the estimate stands.
        this.#settle({ id: reservation.id, spent, tokens: counted === "unknown" ? tokens : used.input + used.output });
      },
    };
  }

  /** @returns undefined where the price is unknown, and such calls are allowed. @throws ApiError model_without_price */
  #amountOf(attempt: Attempt, rules: readonly Rule[]): number | undefined {
    if (rules.length === 0) return 0;
    const { settings, price, onRefusal } = this.#tools;
    const { bounds = nothingBounded } = attempt;
    const assumed = settings();
    const amount = bounds.billed === "unknown" ? undefined : price(attempt, mostUse(bounds, assumed));
    if (amount !== undefined) return Math.ceil(amount);
    if (assumed.unknownPrice === "allow") return undefined;
    onRefusal?.("unknown_price");
    throw ApiError.modelWithoutPrice(wordsFor(rules[0]!), bounds.billed === "unknown" ? [] : pricedTools(bounds));
  }

  /** @throws ApiError */
  #refuse(reservation: Reservation, rules: readonly Rule[], { refusedBy, tokens }: Reserved): void {
    const { onRefusal } = this.#tools;
    if (refusedBy !== undefined) {
      const { scope, span, spent, reserved } = refusedBy;
      const rule = rules.find((one) => one.scope === scope && spanOf(one.period, reservation.at) === span)!;
      onRefusal?.(scope.split(":", 1)[0] as RefusalKind);
      throw quotaError(rule, reservation, spent + reserved);
    }
    if (tokens === undefined || tokens.waitMs === 0) return;
    onRefusal?.("tokens");
    const { limit, tokens: asked } = reservation.tokens!;
    throw ApiError.tokensExceeded({ limit, asked, ...tokens }, tokenHeaders(limit, tokens));
  }

  #settle(settlement: Settlement): void {
    if (this.#waiting.length >= maxWaiting) this.counts.lost += 1;
    else this.#waiting.push(settlement);
    this.#settling ??= this.#settleAll();
  }

  /** Never rejects; what the store refuses waits on. */
  async #settleAll(): Promise<void> {
    const { store, clock, log } = this.#tools;
    this.#cancelRetry();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, batchSize);
      const results = await Promise.allSettled(batch.map(({ id, spent, tokens }) => store.settle(id, spent, tokens)));
      const failed = results.find((result) => result.status === "rejected");
      const unsettled = batch.filter((_, at) => results[at]!.status === "rejected");
      this.counts.settled += batch.length - unsettled.length;
      if (failed === undefined) continue;
      this.#waiting.unshift(...unsettled);
      log.warn("what calls cost can't be settled with their budgets now", { error: failed.reason });
      this.#cancelRetry = clock.setTimer(retryMs, () => {
        this.#settling = this.#settleAll();
      });
      return;
    }
    this.#settling = undefined;
  }
}

const nothingBounded: AttemptBounds = { inputBytes: 0 };
const nothingReserved: UsageReservation = { settle: () => {} };

async function whileStored<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asUnavailable(error);
  }
}

/** UTF-8 has three bytes or more for a token of most languages; the true number counts in the end. */
const bytesPerToken = 3;

/** What a call counts as until it is over: what it says, and the longest answer where it sets a bound. */
function tokensOf(bounds: AttemptBounds | undefined): number {
  const { inputBytes = 0, maxOutputTokens = 0, choices = 1 } = bounds ?? {};
  return Math.ceil(inputBytes / bytesPerToken) + maxOutputTokens * choices;
}

/** "the month's budget of the tag 'team-a'" */
export function wordsFor({ scope, period }: Pick<Rule, "scope" | "period">): string {
  const [kind, name] = scope.split(":", 2);
  const whose = kind === "all" ? "of all calls" : kind === "key" ? "of this API key" : `of the ${kind} '${name}'`;
  return `the ${period === "prepaid" ? "prepaid" : `${period}'s`} budget ${whose}`;
}

function quotaError(rule: Rule, { amount, at }: Reservation, taken: number): ApiError {
  const left = Math.max(0, rule.limit - taken);
  const opensAt = endOf(rule.period, at);
  const words = wordsFor(rule);
  const need = amount > 0 && left > 0 ? `, and this call may cost up to ${formatDollars(amount)}` : "";
  const opens = opensAt === undefined ? "" : ` It opens again at ${new Date(opensAt).toISOString().slice(0, 19)}Z.`;
  return ApiError.insufficientQuota(
    `${words[0]!.toUpperCase()}${words.slice(1)} has ${formatDollars(left)} left of ${formatDollars(rule.limit)}${need}.${opens}`,
    opensAt === undefined ? undefined : Math.ceil((opensAt - at) / 1000),
  );
}

/** As OpenAI names them: https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers */
function tokenHeaders(limit: number, { used, emptyMs }: TokenWindow): Record<string, string> {
  return {
    "x-ratelimit-limit-tokens": String(limit),
    "x-ratelimit-remaining-tokens": String(Math.max(0, limit - used)),
    "x-ratelimit-reset-tokens": `${Math.ceil(emptyMs) / 1000}s`,
  };
}
