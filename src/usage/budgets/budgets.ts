/**
 * Holds calls to their budgets and to their key's tokens per minute. What a call is estimated to cost is reserved before it is made, in
 * the store and so for all processes together. What it really cost is spent by its line of the ledger, in one transaction with it, which also
 * ends the reservation: a budget knows what the ledger has, whatever becomes of the process. A call that nothing applies to costs a look
 * at two maps.
 */
import type { Config } from "../../config/config.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { hourMs } from "../../lib/time/duration.ts";
import type { Usage } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import type {
  BudgetRepository,
  BudgetRow,
  BudgetSpan,
  LedgerLine,
  Reservation,
  Reserved,
  TokenWindow,
} from "../../store/contract/usage.ts";
import { asUnavailable } from "../../store/require-storage.ts";
import type { Attempt, AttemptBounds, ReservedAttempt } from "../attempt.ts";
import { dollarsFrom, formatDollars } from "../money.ts";
import { estimateUse, inputTokensOf, pricedTools } from "../prices/cost-estimate.ts";
import { periodEndOf, spanOf } from "../spans.ts";
import { kindOf, scopeNameOf } from "./forecast.ts";
import { BudgetQueue } from "./queue.ts";
import { BudgetRules, type Payer, type Rule } from "./rules.ts";
import { budgetId, budgetStates, leftOf } from "./states.ts";

export type BudgetTools = {
  readonly store: BudgetRepository;
  readonly clock: Clock;
  readonly log: Logger;
  readonly settings: () => Config["budgets"];
  /** A reading in milliseconds that is the same in all processes and never goes back. */
  readonly now: () => number;
  /** Limit of a key in tokens per minute; undefined: none. */
  readonly tokensPerMinute: (keyId: string) => number | undefined;
  /** The most that so much use costs, in micro-dollars; undefined: the price is unknown. */
  readonly price: (attempt: Attempt, usage: Usage) => number | undefined;
  readonly onRefusal?: (kind: RefusalKind) => void;
  /** Writes lines of this process' calls that are over, as their reservations end by it. Resolves with whether there were any. */
  readonly settleNow?: () => Promise<boolean>;
};

/** `held`: by calls under way alone. */
type RefusalKind = "key" | "tag" | "tier" | "all" | "held" | "tokens" | "unknown_price";

/** A budget in dollars. */
type KnownBudget = Pick<Rule, "scope" | "period" | "limit"> & {
  /** Spent, and reserved. */
  readonly used: number;
  readonly reserved: number;
};

const readEveryMs = 15_000;
/** Maximum number of budgets that are reported: those of the configuration, and the first that were set. */
const maxShown = 200;
/** Clients whose call found no room are asked to come again after so long. */
const heldRetrySeconds = 3;
/** For how long it is known what was spent in a day or a month. */
const keptMs = 400 * 24 * hourMs;

export class Budgets {
  readonly #tools: BudgetTools;
  readonly #queue: BudgetQueue<Asked>;
  #rows: readonly BudgetRow[] = [];
  #rules: { readonly of: Config["budgets"]; readonly rules: BudgetRules } | undefined;
  #isClosed = false;
  #known: readonly KnownBudget[] = [];
  #cancelTidying = () => {};
  #cancelReading = () => {};

  constructor(tools: BudgetTools) {
    this.#tools = tools;
    this.#queue = new BudgetQueue(tools.clock, heldBy);
  }

  /** Reads the budgets that were set. To be called whenever a key or a budget has changed. @throws StorageError */
  async load(): Promise<void> {
    this.#rows = await this.#tools.store.list();
    this.#rules = undefined;
  }

  /** States last read of the budgets that the configuration names or that were set, for as many as metrics report. */
  get known(): readonly KnownBudget[] {
    return this.#known;
  }

  /** Number of calls that wait for room. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Lines of calls that are over were written: there may be room for those that wait. */
  settled(): void {
    this.#queue.wake();
  }

  async start(): Promise<void> {
    this.#tidyLater();
    await this.#read();
  }

  /** Never rejects: what can't be read now is read the next time. */
  async #read(): Promise<void> {
    const { store, clock } = this.#tools;
    const shown = this.rules.all().slice(0, maxShown);
    try {
      const states = await budgetStates(store, shown, clock.now());
      this.#known = states.map(({ scope, period, limit, spent, reserved }) => {
        const used = dollarsFrom(spent + reserved);
        return { scope, period, limit: dollarsFrom(limit), used, reserved: dollarsFrom(reserved) };
      });
    } catch {
      // The store says elsewhere that it is away.
    }
    if (!this.#isClosed) this.#cancelReading = clock.setTimer(readEveryMs, () => void this.#read());
  }

  #tidyLater(): void {
    this.#cancelTidying = this.#tools.clock.setTimer(hourMs, () => void this.#tidy());
  }

  async #tidy(): Promise<void> {
    const { store, clock, log } = this.#tools;
    try {
      await store.forgetSpending(spanOf("day", clock.now() - keptMs));
    } catch (error) {
      log.warn("budgets could not be tidied up", { error });
    }
    this.#tidyLater();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTidying();
    this.#cancelReading();
  }

  get rules(): BudgetRules {
    const of = this.#tools.settings();
    if (this.#rules?.of !== of) this.#rules = { of, rules: new BudgetRules(of, this.#rows) };
    return this.#rules.rules;
  }

  /** True if a budget, or a limit of tokens, applies to the calls of a key with these tags. */
  holds({ keyId, tier }: Omit<Payer, "tags">, tags: Payer["tags"]): boolean {
    return this.#tools.tokensPerMinute(keyId) !== undefined || this.rules.of({ keyId, tier, tags }).length > 0;
  }

  /**
   * Sets aside what the call is estimated to cost.
   * @param line as it stands in the ledger if nobody lives to end it
   * @param signal ends a wait for room; then it rejects with ClientDisconnected
   * @returns undefined where nothing applies to the call
   * @throws ApiError insufficient_quota, rate_limit_exceeded, model_without_price or storage_unavailable
   */
  async reserve(attempt: Attempt, line: LedgerLine, signal?: AbortSignal): Promise<ReservedAttempt | undefined> {
    const { rules: known } = this;
    const rules =
      attempt.bounds?.billed === "nothing" ? [] : known.isByModel ? known.ofAttempt(attempt) : known.of(attempt);
    const tokenLimit = this.#tools.tokensPerMinute(attempt.keyId);
    if (rules.length === 0 && tokenLimit === undefined) return undefined;
    const { store, now } = this.#tools;
    const amount = this.#amountOf(attempt, rules);
    if (amount === 0 && tokenLimit === undefined) return nothingReserved;
    const tokens = tokensOf(attempt.bounds);
    const reservation = (): Reservation => ({
      line,
      amount: amount ?? 0,
      // A call that is known to cost nothing may be made whatever is spent.
      budgets:
        amount === 0 ? [] : rules.map(({ scope, period, limit }) => ({ scope, span: spanOf(period, line.at), limit })),
      ...(tokenLimit !== undefined && { tokens: { key: attempt.keyId, now: now(), limit: tokenLimit, tokens } }),
    });
    const ask = async () => {
      const reserve = () => whileStored(() => store.reserve(reservation()));
      let answer = await reserve();
      // Calls of this process that are over make room before any is refused.
      if (isRefused(answer)) {
        if ((await this.#tools.settleNow?.()) === true) answer = await reserve();
      }
      return { ...answer, amount: amount ?? 0 };
    };
    const reserved = await this.#queue.ask(ask, signal);
    const { hidesUpstream } = attempt;
    if (isRefused(reserved)) throw this.#refusal(reservation(), rules, reserved, hidesUpstream);
    return {
      isStored: true,
      headers: {
        ...(reserved.tightest &&
          budgetHeaders(ruleOf(rules, reserved.tightest, line.at, hidesUpstream), reserved.tightest)),
        ...(reserved.tokens && tokenHeaders(tokenLimit!, reserved.tokens)),
      },
    };
  }

  /** @returns undefined where the price is unknown, and such calls are allowed. @throws ApiError model_without_price */
  #amountOf(attempt: Attempt, rules: readonly Rule[]): number | undefined {
    if (rules.length === 0) return 0;
    const { settings, price, onRefusal } = this.#tools;
    const { bounds = nothingBounded } = attempt;
    const assumed = settings();
    const amount = bounds.billed === "unknown" ? undefined : price(attempt, estimateUse(bounds, assumed));
    if (amount !== undefined) return Math.ceil(amount * assumed.estimateFactor);
    if (assumed.unknownPrice === "allow") return undefined;
    onRefusal?.("unknown_price");
    throw ApiError.modelWithoutPrice(
      wordsFor(named(rules[0]!, attempt.hidesUpstream)),
      bounds.billed === "unknown" ? [] : pricedTools(bounds),
      bounds.unbounded,
    );
  }

  #refusal(
    reservation: Reservation,
    rules: readonly Rule[],
    { refusedBy, tokens }: Reserved,
    hidesUpstream: boolean | undefined,
  ): ApiError {
    const { onRefusal } = this.#tools;
    if (refusedBy !== undefined) {
      const rule = ruleOf(rules, refusedBy, reservation.line.at, hidesUpstream);
      const isHeld = heldBy({ refusedBy, amount: reservation.amount }) !== undefined;
      onRefusal?.(isHeld ? "held" : (kindOf(rule.scope) as RefusalKind));
      return isHeld ? heldError(rule, reservation, refusedBy) : quotaError(rule, reservation, refusedBy);
    }
    onRefusal?.("tokens");
    const { limit, tokens: asked } = reservation.tokens!;
    return ApiError.tokensExceeded({ limit, asked, ...tokens! }, tokenHeaders(limit, tokens!));
  }
}

const nothingBounded: AttemptBounds = { inputBytes: 0 };
const nothingReserved: ReservedAttempt = { isStored: false, headers: {} };

type Asked = Reserved & { readonly amount: number };

const isRefused = ({ refusedBy, tokens }: Reserved) => refusedBy !== undefined || (tokens?.waitMs ?? 0) > 0;

/** Names the budget that would have room, were it not for calls under way. */
function heldBy({ refusedBy, amount }: Asked): string | undefined {
  if (refusedBy === undefined) return undefined;
  const { scope, span, spent, limit } = refusedBy;
  return spent < limit && spent + amount <= limit ? `${span} ${scope}` : undefined;
}

async function whileStored<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asUnavailable(error);
  }
}

/** Tokens that a call counts as until it is over: those of its input, and of the longest answer where it sets a bound. */
function tokensOf(bounds = nothingBounded): number {
  const { maxOutputTokens = 0, choices = 1 } = bounds;
  return inputTokensOf(bounds) + maxOutputTokens * choices;
}

/** "the month's budget of the tag 'team-a'" */
function wordsFor({ scope, model, period }: Named): string {
  const kind = kindOf(scope);
  const whose =
    kind === "all" ? "of all calls" : kind === "key" ? "of this API key" : `of the ${kind} '${scopeNameOf(scope)}'`;
  const models = model === undefined ? "" : model === unnamed ? " for the model that answers" : ` for '${model}'`;
  return `the ${period === "prepaid" ? "prepaid" : `${period}'s`} budget ${whose}${models}`;
}

/** A rule as its caller may have it. */
type Named = Pick<Rule, "scope" | "model" | "period" | "limit">;
/** In the place of models, where a caller is not to know which of them answers. */
const unnamed = "";

const named = (rule: Rule, hidesUpstream: boolean | undefined): Named =>
  hidesUpstream === true && rule.model !== undefined ? { ...rule, model: unnamed } : rule;

const capital = (words: string) => words[0]!.toUpperCase() + words.slice(1);

type Refusal = NonNullable<Reserved["refusedBy"]>;

function quotaError(rule: Named, { amount, line }: Reservation, refusedBy: Refusal): ApiError {
  const { spent } = refusedBy;
  const left = Math.max(0, rule.limit - spent);
  const opensAt = periodEndOf(rule.period, line.at);
  const need = amount > 0 && left > 0 ? `, and this call may cost up to ${formatDollars(amount)}` : "";
  const opens = opensAt === undefined ? "" : ` It opens again at ${new Date(opensAt).toISOString().slice(0, 19)}Z.`;
  return ApiError.insufficientQuota(
    `${capital(wordsFor(rule))} has ${formatDollars(left)} left of ${formatDollars(rule.limit)}${need}.${opens}`,
    opensAt === undefined ? undefined : Math.ceil((opensAt - line.at) / 1000),
    budgetHeaders(rule, refusedBy),
    rule.model !== undefined,
  );
}

function heldError(rule: Named, { amount }: Reservation, refusedBy: Refusal): ApiError {
  const { spent, reserved } = refusedBy;
  const left = rule.limit - spent;
  return ApiError.budgetHeld(
    `${capital(wordsFor(rule))} has ${formatDollars(left)} left of ${formatDollars(rule.limit)}, but calls under way hold ${formatDollars(reserved)} of it until they end, and this call may cost up to ${formatDollars(amount)}. Retry in ${heldRetrySeconds} s.`,
    heldRetrySeconds,
    budgetHeaders(rule, refusedBy),
    rule.model !== undefined,
  );
}

/** The rule of a budget that the store names. @param at when the call began */
const ruleOf = (
  rules: readonly Rule[],
  { scope, span }: BudgetSpan,
  at: number,
  hidesUpstream: boolean | undefined,
): Named => named(rules.find((one) => one.scope === scope && spanOf(one.period, at) === span)!, hidesUpstream);

/** Headers with the tightest budget of a call and the micro-dollars that the call leaves of it, or would have found there. */
function budgetHeaders(rule: Named, state: NonNullable<Reserved["tightest"]>): Record<string, string> {
  if (rule.model === unnamed) return {};
  return { "x-troupe-budget": budgetId(rule), "x-troupe-budget-remaining": String(leftOf(state)) };
}

/** Rate limit headers with OpenAI's names: https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers */
function tokenHeaders(limit: number, { used, emptyMs }: TokenWindow): Record<string, string> {
  return {
    "x-ratelimit-limit-tokens": String(limit),
    "x-ratelimit-remaining-tokens": String(Math.max(0, limit - used)),
    "x-ratelimit-reset-tokens": `${Math.ceil(emptyMs) / 1000}s`,
  };
}
