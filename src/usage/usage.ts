/** Accounts for each attempt to answer a request: reserves before it, prices it after it, and writes its line. */

import type { Link } from "../lib/process/linked-list.ts";
import type { Logger } from "../lib/process/log.ts";
import type { Clock } from "../lib/time/clock.ts";
import { billed, type Usage } from "../protocols/chat/schema.ts";
import type { LedgerLine } from "../store/contract/usage.ts";
import { ClientDisconnected } from "../upstream/client.ts";
import type { Attempt, Outcome, ReservedAttempt, Seen, UsageEntry } from "./attempt.ts";
import type { Budgets } from "./budgets/budgets.ts";
import { refusedBy } from "./ledger/error-note.ts";
import type { LedgerWriter } from "./ledger/writer.ts";
import { pricedWithParts, tokensWithParts } from "./prices/parts.ts";
import type { Priced, Prices } from "./prices/prices.ts";
import { countedOf, noTokens } from "./tokens/counts.ts";
import { type Estimate, type Estimating, estimateMeter } from "./tokens/estimate.ts";
import type { TextCounter } from "./tokens/tokenizer.ts";

type UsageTools = {
  readonly clock: Clock;
  readonly log: Logger;
  readonly writer: LedgerWriter;
  /** Read for each call, as a reload may change them. */
  readonly prices: () => Prices;
  readonly tokenizer: TextCounter;
  /** Called with each line when it is final. */
  readonly onLine?: (line: LedgerLine, attempt: Attempt) => void;
};

export class UsageRecorder {
  readonly #tools: UsageTools;
  /** Budgets: they must agree before an attempt. */
  gate: Budgets | undefined;
  /** Estimates under way. */
  readonly #estimates = new Set<Promise<void>>();

  constructor(tools: UsageTools) {
    this.#tools = tools;
  }

  /**
   * Opens the entry of an attempt. Whoever begins it settles it, whatever happens.
   * @param signal ends a wait for room in a budget
   * @throws ApiError where a budget has no room for it, and then a line records the refusal; ClientDisconnected
   */
  async begin(attempt: Attempt, signal?: AbortSignal): Promise<UsageEntry> {
    const entry = new Entry(this.#tools, this.#estimates, attempt);
    try {
      // Bounds are found for calls that a budget applies to.
      const reserved = attempt.bounds && (await this.gate?.reserve(attempt, entry.begun, signal));
      entry.begin(reserved);
    } catch (error) {
      if (error instanceof ClientDisconnected) entry.settle({ ended: "abandoned" });
      else entry.settle(refusedBy(error));
      throw error;
    }
    return entry;
  }

  /** The most that an answer with these counts would cost, in micro-dollars; undefined where unknown. */
  price({ target, bounds }: Attempt, usage: Usage): number | undefined {
    if (target === undefined) return undefined;
    const { clock, prices } = this.#tools;
    const costOf = (model: string) =>
      prices().bound({ ...target, model }, countedOf(usage), usage[billed]?.serviceTier, clock.now());
    let most = costOf(target.model);
    for (const model of bounds?.otherModels ?? []) {
      const cost = costOf(model);
      most = most === undefined || cost === undefined ? undefined : Math.max(most, cost);
    }
    return most;
  }

  /** Writes the line of an attempt that asks no upstream: a refusal, a replay, a join. Nothing is reserved for it. */
  record(attempt: Attempt, outcome: Outcome): void {
    new Entry(this.#tools, this.#estimates, attempt).settle(outcome);
  }

  /** Waits for the lines that are still being estimated. Never rejects. */
  async close(): Promise<void> {
    while (this.#estimates.size > 0) await Promise.all(this.#estimates);
  }
}

class Entry implements UsageEntry {
  readonly #tools: UsageTools;
  readonly #estimates: Set<Promise<void>>;
  readonly #attempt: Attempt;
  /** The line as it is if the process ends before the call does. */
  readonly begun: LedgerLine;
  readonly #startedAt: number;
  #firstTokenMs: number | null = null;
  #totalMs = 0;
  /** About what is left of budgets. Set by `begin`. */
  headers: Readonly<Record<string, string>> = noHeaders;
  /** What its line ends. */
  #link: Link<LedgerLine> | undefined;
  #isSettled = false;

  constructor(tools: UsageTools, estimates: Set<Promise<void>>, attempt: Attempt) {
    this.#tools = tools;
    this.#estimates = estimates;
    this.#attempt = attempt;
    this.begun = begunLine(attempt, tools.clock.now());
    this.#startedAt = tools.clock.monotonic();
  }

  begin(reserved?: ReservedAttempt): void {
    if (reserved !== undefined) this.headers = reserved.headers;
    this.#link = this.#tools.writer.begin(this.begun, reserved?.isStored === true);
  }

  firstToken(): void {
    this.#firstTokenMs ??= this.#elapsedMs;
  }

  price(usage: Usage, serviceTier?: string): number | undefined {
    const { target } = this.#attempt;
    const counted = countedOf(usage);
    if (target === undefined || (saysNothing(usage) && !counted.cost)) return undefined;
    const prices = this.#tools.prices();
    const { servedBy, parts = [], serviceTier: told = serviceTier } = usage[billed] ?? {};
    const own = prices.price({ ...target, model: servedBy ?? target.model }, counted, told, this.begun.at);
    return pricedWithParts(own, parts, prices, target, this.begun.at).cost ?? undefined;
  }

  settle(outcome: Outcome): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#totalMs = this.#elapsedMs;
    const { usage, seen } = outcome;
    const isCounted = usage !== undefined && usage.prompt_tokens > 0 && usage.completion_tokens > 0;
    if (isCounted || seen === undefined || (usage !== undefined && isTold(outcome, usage, seen)))
      this.#close(this.#line(outcome, "upstream"));
    // Nothing is known of what was asked for, and the upstream may have done all of it.
    else if (saysNothing(usage) && isLeft(outcome) && seen.output.length === 0)
      this.#close(this.#line({ ...outcome, usage: undefined }, "unknown"));
    else this.#settleByEstimate(outcome, seen);
  }

  get #elapsedMs(): number {
    return Math.round(this.#tools.clock.monotonic() - this.#startedAt);
  }

  /** Estimates what the upstream did not count: all, or the output alone. */
  #settleByEstimate(outcome: Outcome, { input, output }: Seen): void {
    const deadlineMs = outcome.ended === "finished" ? finishedEstimateMs : estimateMs;
    const how: Estimating = { counter: this.#tools.tokenizer, deadlineMs };
    const estimate = async () => {
      const { prompt_tokens = 0, completion_tokens = 0 } = outcome.usage ?? {};
      // Nothing is known where even the input is not.
      if (prompt_tokens === 0 && input === undefined) return this.#line({ ...outcome, usage: undefined }, "unknown");
      const [prompt, completion] = await Promise.all([
        prompt_tokens > 0 ? exactly(prompt_tokens) : estimateMeter(input!, how),
        completion_tokens > 0 ? exactly(completion_tokens) : estimateMeter(output, how),
      ]);
      return this.#estimated(outcome, prompt, completion);
    };
    const settling = estimate()
      .catch((error) => {
        this.#tools.log.error("the tokens of a call could not be estimated", { error });
        return this.#line(outcome, "unknown");
      })
      .then((line) => {
        this.#close(line);
        this.#estimates.delete(settling);
        if (this.#elapsedMs - this.#totalMs > lateMs) void this.#tools.writer.flush();
      });
    this.#estimates.add(settling);
  }

  #estimated(outcome: Outcome, prompt: Estimate, completion: Estimate): LedgerLine {
    const usage = usageOf(outcome.usage, prompt, completion);
    return this.#line({ ...outcome, usage }, "estimated", prompt.isReckoned || completion.isReckoned);
  }

  #close(line: LedgerLine): void {
    this.#tools.onLine?.(line, this.#attempt);
    this.#tools.writer.push(line, this.#link);
  }

  /** @param source where counts come from, if there are any */
  #line(outcome: Outcome, source: "upstream" | "estimated" | "unknown", isReckoned = false): LedgerLine {
    const { usage, seen } = outcome;
    const { target: asked } = this.#attempt;
    const more = usage?.[billed];
    const named = asked?.model === "" && outcome.model !== undefined ? { ...asked, model: outcome.model } : asked;
    const target = named !== undefined && more?.servedBy !== undefined ? { ...named, model: more.servedBy } : named;
    const tier = more?.serviceTier ?? outcome.serviceTier;
    const isBilled = target !== undefined && (usage !== undefined || seen !== undefined);
    const counted = usage === undefined ? undefined : countedOf(usage);
    const own = !isBilled
      ? nothing
      : this.#tools.prices().price(target, counted ?? countedOf(someUsage), tier, this.begun.at);
    const priced: ReturnType<typeof pricedWithParts> =
      more?.parts === undefined || named === undefined
        ? own
        : pricedWithParts(own, more.parts, this.#tools.prices(), named, this.begun.at);
    // The cost of a call whose counts are unknown is known only if it is nothing.
    const told = counted === undefined && priced.cost !== 0 ? unknown : priced;
    const price: typeof priced = outcome.errorCode === "model_without_price" ? refusedForPrice : told;
    const line: LedgerLine = {
      ...this.begun,
      provider: target?.provider ?? null,
      upstreamModel: target?.model ?? null,
      ended: outcome.ended,
      failure: outcome.failure ?? null,
      errorCode: outcome.errorCode ?? null,
      errorText: outcome.errorText ?? null,
      status: outcome.status ?? null,
      callOf: outcome.callOf ?? null,
      serviceTier: tier ?? null,
      counted: counted !== undefined ? source : isBilled ? "unknown" : "none",
      tokens:
        counted === undefined || more?.parts === undefined
          ? (counted?.tokens ?? noTokens)
          : tokensWithParts(counted.tokens, more.parts),
      cost: price.cost,
      costs: price.costs,
      priceSource: price.priceSource,
      priceDate: price.priceDate,
      priceNote: isReckoned ? withNote(price.priceNote) : price.priceNote,
      firstTokenMs: this.#firstTokenMs,
      totalMs: this.#totalMs,
      ...(price.beside && { beside: price.beside }),
    };
    const variantCall = outcome.variantOutcome && this.#attempt.variant?.calls?.[outcome.variantOutcome];
    return variantCall === undefined ? line : { ...line, variantCall };
  }
}

/** Line of an attempt that begins: one that asks nobody, or nothing that is billed, is known to cost nothing. */
function begunLine(attempt: Attempt, at: number): LedgerLine {
  const { target, bounds, labels } = attempt;
  const isFree = target === undefined || target.isLocal || bounds?.billed === "nothing";
  return {
    requestId: attempt.requestId,
    attempt: attempt.number,
    at,
    keyId: attempt.keyId,
    tags: attempt.tags,
    surface: attempt.surface,
    format: attempt.format,
    model: attempt.model,
    persona: attempt.persona ?? null,
    personaVersion: attempt.personaVersion ?? null,
    variant: attempt.variant?.name ?? null,
    provider: target?.provider ?? null,
    upstreamModel: target?.model ?? null,
    upstreamFormat: target?.upstreamFormat ?? null,
    upstreamKey: target?.key ?? null,
    upstreamEndpoint: target?.endpoint ?? null,
    ended: "interrupted",
    failure: null,
    errorCode: null,
    errorText: null,
    status: null,
    callOf: null,
    serviceTier: null,
    client: labels.client,
    user: labels.user,
    metadata: labels.metadata,
    counted: isFree ? "none" : "unknown",
    tokens: noTokens,
    cost: isFree ? 0 : null,
    costs: null,
    priceSource: isFree ? "none" : "unknown",
    priceDate: null,
    priceNote: isFree ? null : interruptedNote,
    firstTokenMs: null,
    totalMs: 0,
    tier: attempt.tier,
  };
}

/** True if nothing was counted. */
const saysNothing = (usage: Usage | undefined): boolean =>
  usage === undefined || (usage.prompt_tokens === 0 && usage.completion_tokens === 0);

/**
 * True if the counts say what was used. A zero says nothing beside a text: some upstreams fill in the member without counting. Images and
 * recordings may be counted otherwise, and a cost that is told needs no counts.
 */
function isTold({ ended }: Outcome, usage: Usage, { input, output }: Seen): boolean {
  const { images, audioSeconds, cost } = countedOf(usage);
  if (images > 0 || audioSeconds > 0 || (cost ?? 0) > 0) return true;
  const isInputTold = usage.prompt_tokens > 0 || input === undefined || input.length === 0;
  return isInputTold && (usage.completion_tokens > 0 || (ended === "finished" && output.length === 0));
}

const interruptedNote = "the process ended while the call was under way";
const noHeaders: Readonly<Record<string, string>> = {};

/** True if nobody waited for the answer: the client left, or we gave it up. */
const isLeft = ({ ended, status }: Outcome) => ended === "abandoned" || (ended === "broken" && status === 504);

/** Longest time that the line of a finished call waits for its estimate: with its write it is in the ledger within a second. */
const finishedEstimateMs = 400;
/** Longest time that the line of a call that broke off waits: as long as the tokenizer takes to start. */
const estimateMs = 2_000;
/** After so long it waits for no other lines. */
const lateMs = 200;

const exactly = (tokens: number): Estimate => ({ tokens, isReckoned: false });

/** Usage by estimated tokens; other counts that the upstream did return stay, but for a cost of nothing. */
function usageOf(
  counted: Usage | undefined,
  { tokens: prompt_tokens }: Estimate,
  { tokens: completion_tokens }: Estimate,
): Usage {
  const { cost: _cost, cost_in_usd_ticks: _ticks, ...rest }: Partial<Usage> = counted ?? {};
  return { ...rest, prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

const estimatedNote = "tokens reckoned by the length of the text";
const withNote = (note: string | null) => (note === null ? estimatedNote : `${note}; ${estimatedNote}`);

/** Whoever asks nothing for these asks nothing. */
const someUsage: Usage = { prompt_tokens: 1e6, completion_tokens: 1e6, total_tokens: 2e6 };
const nothing: Priced = { cost: 0, costs: null, priceSource: "none", priceDate: null, priceNote: null };
const unknown: Priced = {
  cost: null,
  costs: null,
  priceSource: "unknown",
  priceDate: null,
  priceNote: "the upstream told no counts",
};
/** Nobody was asked, as nobody knows what it would cost: sums count it with the calls that were made without a price. */
const refusedForPrice: Priced = { ...unknown, priceNote: "refused, as it has no price" };
