/** Accounts for each attempt to answer a request: reserves before it, prices it after it, and writes its line. */
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import type { Usage } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import type { LedgerLine } from "../store/store.ts";
import type { Attempt, Outcome, Reservation, UsageEntry, UsageGate } from "./attempt.ts";
import { noTokens, tokensOf } from "./counts.ts";
import type { LedgerWriter } from "./ledger-writer.ts";

export type UsageTools = {
  readonly clock: Clock;
  readonly log: Logger;
  readonly writer: LedgerWriter;
  /** Told of each line when it is final. */
  readonly onLine?: (line: LedgerLine) => void;
};

export class UsageRecorder {
  readonly #tools: UsageTools;
  /** Budgets: they must agree before an attempt. */
  gate: UsageGate | undefined;

  constructor(tools: UsageTools) {
    this.#tools = tools;
  }

  /**
   * Opens the entry of an attempt. Whoever begins it settles it, whatever happens.
   * @returns a promise only where a budget has to be waited for
   * @throws ApiError where a budget has no room for it, and then a line tells of the refusal; rejects with the same
   */
  begin(attempt: Attempt): UsageEntry | Promise<UsageEntry> {
    const entry = new Entry(this.#tools, attempt);
    const reserving = this.gate?.reserve(attempt);
    return reserving === undefined ? entry : this.#reserve(entry, reserving);
  }

  async #reserve(entry: Entry, reserving: Promise<Reservation>): Promise<UsageEntry> {
    try {
      entry.reserved(await reserving);
    } catch (error) {
      entry.settle({ ended: "refused", status: error instanceof ApiError ? error.status : 500 });
      throw error;
    }
    return entry;
  }

  /** What an answer with these counts would cost, in micro-dollars; undefined where unknown. */
  price(attempt: Attempt, usage: Usage): number | undefined {
    return new Entry(this.#tools, attempt).price(usage);
  }

  /** Writes the line of an attempt that asks no upstream: a refusal, a replay, a join. Nothing is reserved for it. */
  record(attempt: Attempt, outcome: Outcome): void {
    new Entry(this.#tools, attempt).settle(outcome);
  }
}

class Entry implements UsageEntry {
  readonly #tools: UsageTools;
  readonly #attempt: Attempt;
  readonly #at: number;
  readonly #startedAt: number;
  #firstTokenMs: number | null = null;
  #reservation: Reservation | undefined;
  #isSettled = false;

  constructor(tools: UsageTools, attempt: Attempt) {
    this.#tools = tools;
    this.#attempt = attempt;
    this.#at = tools.clock.now();
    this.#startedAt = tools.clock.monotonic();
  }

  reserved(reservation: Reservation): void {
    this.#reservation = reservation;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#reservation?.headers ?? {};
  }

  firstToken(): void {
    this.#firstTokenMs ??= this.#elapsedMs;
  }

  price(_usage: Usage, _serviceTier?: string): number | undefined {
    return undefined;
  }

  settle(outcome: Outcome): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    const line = this.#line(outcome);
    this.#reservation?.settle(line);
    this.#tools.onLine?.(line);
    this.#tools.writer.push(line);
  }

  get #elapsedMs(): number {
    return Math.round(this.#tools.clock.monotonic() - this.#startedAt);
  }

  #line({ ended, status, usage, serviceTier, seen, callOf }: Outcome): LedgerLine {
    const { target, ...attempt } = this.#attempt;
    const isBilled = usage !== undefined || seen !== undefined;
    return {
      requestId: attempt.requestId,
      attempt: attempt.number,
      at: this.#at,
      keyId: attempt.keyId,
      tags: attempt.tags,
      surface: attempt.surface,
      format: attempt.format,
      model: attempt.model,
      persona: attempt.persona ?? null,
      personaVersion: attempt.personaVersion ?? null,
      provider: target?.provider ?? null,
      upstreamModel: target?.model ?? null,
      ended,
      status: status ?? null,
      callOf: callOf ?? null,
      serviceTier: serviceTier ?? null,
      counted: usage !== undefined ? "upstream" : isBilled ? "unknown" : "none",
      tokens: usage === undefined ? noTokens : tokensOf(usage),
      cost: isBilled ? null : 0,
      costs: null,
      priceSource: isBilled ? "unknown" : "none",
      priceDate: null,
      priceNote: null,
      firstTokenMs: this.#firstTokenMs,
      totalMs: this.#elapsedMs,
    };
  }
}
