/** The repositories of what calls use and cost: budgets and the ledger. What `store.ts` says of all repositories holds here too. */
import type { BudgetPeriod, CallEnd, FailureReason, PriceSource } from "../../api/words.ts";
import type { VariantCall } from "./variants.ts";

/** A budget that an operator set while serving. Sums of money are whole micro-dollars, here and below. */
export type BudgetRow = {
  /** `key:<id>`, `tag:<name>`, `tier:<name>` or `all`; of a budget by model with ` model:<pattern>` behind it. */
  readonly scope: string;
  readonly period: BudgetPeriod;
  readonly limit: number;
  readonly updatedAt: number;
};

/** One budget in one span of time: `2026-11-22`, `2026-11`, or `prepaid`. */
export type BudgetSpan = { readonly scope: string; readonly span: string };

export type Spending = BudgetSpan & {
  readonly spent: number;
  /** By calls that are under way. */
  readonly reserved: number;
};

/** A call that is about to be made. */
export type Reservation = {
  /** Line that the ledger has if its process ends before the call does; it names the reservation. */
  readonly line: LedgerLine;
  /** Estimated cost. */
  readonly amount: number;
  /** The budgets that it counts against. */
  readonly budgets: readonly (BudgetSpan & { readonly limit: number })[];
  /** The window of tokens that it counts in. */
  readonly tokens?: {
    readonly key: string;
    /** A reading in milliseconds that never goes back; it is of another clock than `at`. */
    readonly now: number;
    readonly limit: number;
    readonly tokens: number;
  };
};

/** A window of tokens after a reservation was made or refused. */
export type TokenWindow = {
  readonly used: number;
  /** Milliseconds until the window is empty. */
  readonly emptyMs: number;
  /** Milliseconds until the refused tokens fit; 0 where they fit now. Infinity: they never do. */
  readonly waitMs: number;
};

/** Outcome of a reservation: made where neither a budget nor the window of tokens refuses it. */
export type Reserved = {
  /** A budget that is spent goes before one that calls under way hold. */
  readonly refusedBy?: Spending & { readonly limit: number };
  /** Budget with the least left after the reservation, among the budgets of a reservation that was made. */
  readonly tightest?: Spending & { readonly limit: number };
  readonly tokens?: TokenWindow;
};

/**
 * Budgets, what is spent of them, and the reservations of calls under way. Of concurrent reservations in all processes no more
 * are made than fit. A reservation ends when the ledger gets the call's line, in the same transaction: what the line costs is spent, or what was
 * reserved where that is unknown. A span of a day or a month that is asked for the first time begins with what the ledger has of it, and from
 * then on counts every line.
 */
export interface BudgetRepository {
  list(): Promise<BudgetRow[]>;
  /**
   * Replaces the limit of the budget that is there.
   * @param isNew whether nothing was held to it before: one that is prepaid begins with nothing spent
   */
  set(row: BudgetRow, isNew?: boolean): Promise<void>;
  /** Raises the limit. @returns the new one; undefined where there is no such budget */
  add(budget: Pick<BudgetRow, "scope" | "period">, amount: number, at: number): Promise<number | undefined>;
  /** @returns false where there is none */
  remove(budget: Pick<BudgetRow, "scope" | "period">): Promise<boolean>;
  /** Counts the call in all of its budgets and its window, or in none. Fits: a budget that is not spent, with room for all of it. */
  reserve(reservation: Reservation): Promise<Reserved>;
  /** In the order that they are asked in; nothing spent where nothing is known. */
  spending(spans: readonly BudgetSpan[]): Promise<Spending[]>;
  /** Forgets what was spent in spans of days and months that ended before that span of a day (`2026-11-22`). @returns how many */
  forgetSpending(beforeDay: string): Promise<number>;
}

/** Kinds of tokens. In OpenAI's meaning: `input` includes what was cached and heard, `output` what was thought and spoken. */
export const tokenKinds = [
  "input",
  "cacheRead",
  "cacheWrite5m",
  "cacheWrite1h",
  "output",
  "reasoning",
  "audioInput",
  "audioOutput",
] as const;

export type TokenCounts = { readonly [Kind in (typeof tokenKinds)[number]]: number };

/** Kinds of costs. No part is in two of them, and together they are the cost. `other`: tools, images, whole requests. */
export const costKinds = [
  "input",
  "cacheRead",
  "cacheWrite",
  "output",
  "reasoning",
  "audioInput",
  "audioOutput",
  "other",
] as const;

export type CostParts = { readonly [Kind in (typeof costKinds)[number]]: number };

/** One attempt to answer a request, for the accounts. Texts are names: nothing of a message. Costs are micro-dollars. */
export type LedgerLine = {
  readonly requestId: string;
  /** From 1 on; with the request's id it names the line. */
  readonly attempt: number;
  /** When the attempt began. */
  readonly at: number;
  readonly keyId: string;
  readonly tags: readonly string[];
  readonly surface: string;
  /** The client's format. */
  readonly format: string;
  /** Model, as the caller named it. */
  readonly model: string;
  readonly persona: string | null;
  readonly personaVersion: string | null;
  /** The name of the persona's variant. */
  readonly variant: string | null;
  /** The configured provider and the model there; null where none was asked. */
  readonly provider: string | null;
  readonly upstreamModel: string | null;
  /** The format in which it was asked; null where it was asked for no completion. */
  readonly upstreamFormat: string | null;
  /** Of a provider with several keys or endpoints: the fingerprint of the key that was used. */
  readonly upstreamKey: string | null;
  /** Likewise the address that was asked. */
  readonly upstreamEndpoint: string | null;
  readonly ended: CallEnd;
  /** What became of an attempt that an upstream failed or refused; null for all others. */
  readonly failure: FailureReason | null;
  /** The error's code in the upstream's word, or in ours where it is ours; null for all others, and where it has none. */
  readonly errorCode: string | null;
  /** The place that the error names and what it says, as far as that may be kept: without secrets, and cut. */
  readonly errorText: string | null;
  /** The HTTP status of the attempt's answer; null where there was none. */
  readonly status: number | null;
  /** The request whose call this one replayed or joined. */
  readonly callOf: string | null;
  readonly serviceTier: string | null;
  /** The program that called, by its user agent without version. */
  readonly client: string | null;
  /** The end user, as the request names it. */
  readonly user: string | null;
  /** Metadata of the request, under the keys that the configuration names: a JSON object with texts, its keys sorted. */
  readonly metadata: string | null;
  /** Source of the counts; `none`: nothing was asked of an upstream. */
  readonly counted: "upstream" | "estimated" | "unknown" | "none";
  readonly tokens: TokenCounts;
  /** Null: unknown. */
  readonly cost: number | null;
  /** Null where only the sum is known, or not even that. */
  readonly costs: CostParts | null;
  readonly priceSource: PriceSource;
  /** Date of the price list, as YYYY-MM-DD. */
  readonly priceDate: string | null;
  /** Note for people on what the price does not say exactly. */
  readonly priceNote: string | null;
  readonly firstTokenMs: number | null;
  readonly totalMs: number;
  /** Tier of the key. Only a line that is to be written has it; budgets need it. */
  readonly tier?: string;
  /** Of its cost what is other models', which did something beside it. Only a line that is to be written has it; budgets need it. */
  readonly beside?: readonly (readonly [model: string, cost: number])[];
  /** Of a variant that is judged by it, or that others are compared with. Only a line that is to be written has it. */
  readonly variantCall?: VariantCall;
};

export type LedgerFilter = {
  /** Begun at or after that time. */
  readonly since: number;
  /** Begun before that time. */
  readonly until: number;
  /** By the names of `ledgerFilters`; an empty value: those without one. */
  readonly where?: Readonly<Record<string, string>>;
  /** By numbers of the lines' own. Only `search` heeds them: sums and lines by kinds know nothing of single lines' numbers. */
  readonly own?: readonly OwnRange[];
};

/** A line's own number lies in one of the ranges, both ends included. */
export type OwnRange = {
  readonly member: "status" | "firstTokenMs" | "totalMs" | "cost" | "attempt";
  readonly ranges: readonly (readonly [from: number, to: number])[];
};

/** One of `ledgerGroups`, or `metadata.<key>`. A call with two tags counts for both; one without has the empty tag. */
export type LedgerGroup = string;

export type LedgerSum = {
  /** A value for each group, in their order; months, days and hours in UTC (`2026-11-22T10:00Z`), what was null is empty. */
  readonly group: readonly string[];
  /** All lines, however they ended. */
  readonly calls: number;
  readonly ended: { readonly [End in CallEnd]: number };
  readonly tokens: TokenCounts;
  /** Cost of the calls whose cost is known. */
  readonly cost: number;
  readonly costs: CostParts;
  /** Number of calls that `cost` leaves out. */
  readonly unknownCosts: number;
  /** Number of calls with estimated counts. */
  readonly estimated: number;
  /** Calls by the time to their first token, as `firstTokenBounds` part it; only where it was asked for. */
  readonly firstTokens?: readonly number[];
};

/** Place where a page of lines ended. */
export type LedgerPlace = Pick<LedgerLine, "at" | "requestId" | "attempt">;

/** The place of a page of lines that began before that time. */
export const placeBefore = (at: number): LedgerPlace => ({ at, requestId: "req_0", attempt: 0 });

export type LedgerPage = LedgerFilter & {
  /** Only the attempts for that request; the time should be narrowed down. */
  readonly requestId?: string;
  /** The last line of the page before. */
  readonly before?: LedgerPlace;
  /** Ended at or after that time, Unix milliseconds. Only `search` heeds it. */
  readonly endedSince?: number;
  readonly limit: number;
  /** Ends the reading. */
  readonly signal?: AbortSignal;
};

/**
 * Lines that a search found, the latest first.
 * @property reached no line before that time was looked at yet; absent: the page is full, or all were
 */
export type FoundLines = { readonly lines: LedgerLine[]; readonly reached?: number };

/** A page of sums, in the order of their groups. */
export type SumsPage = {
  /** The group of the last sum of the page before. */
  readonly after?: readonly string[];
  readonly limit: number;
  readonly firstTokens?: boolean;
  /** Ends the reading. */
  readonly signal?: AbortSignal;
};

/** Number of lines that were new, and what is spent since of each budget that they were spent of. */
export type Appended = {
  readonly added: number;
  readonly spending: readonly Spending[];
  /** True if a persona's variant was stopped by them. */
  readonly stopped?: boolean;
};

/** `owner`: the process, where the store names it by its data folder's lock. */
export type InterruptedCall = { readonly owner: string; readonly line: LedgerLine };

/** The ledger: what calls used and cost. */
export interface LedgerRepository {
  /**
   * Adds lines, also to what is spent of budgets and counted of variants, and ends the calls' reservations; those that are there already
   * stay as they are.
   * @param begun calls that are under way in this process and have no reservation, which `interrupted` gives once it has ended
   */
  append(lines: readonly LedgerLine[], begun?: readonly LedgerLine[]): Promise<Appended>;
  /** The lines of calls that were under way in processes that have ended, as they are to be added. */
  interrupted(): Promise<InterruptedCall[]>;
  /** Exact sums, in the order of their groups. @param by none: one sum of all. Rejects with the signal's reason */
  sums(filter: LedgerFilter, by: readonly LedgerGroup[], page: SumsPage): Promise<LedgerSum[]>;
  /** Latest first. Rejects with the signal's reason */
  lines(page: LedgerPage): Promise<LedgerLine[]>;
  /**
   * The same, also by the lines' own numbers, which have no index: it looks at so many lines of the time, and says how far it came.
   * Rejects with the signal's reason
   * @param most default: some 100 ms' work
   */
  search(page: LedgerPage, most?: number): Promise<FoundLines>;
}
