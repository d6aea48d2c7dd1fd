/**
 * Money of budgets in pools, so that a call of a busy budget needs no statement of the database. The database counts
 * what was granted to a pool as reserved; the *counter*, a faster store that may forget, counts the calls under way against it.
 *
 * A budget (scope and span) has one open pool at most. What nodes have spent of it is written to the database as sums that only grow, one
 * for each node, so it may be told twice, late, and by any node: by the one that spent it, or by another that found it at the counter.
 * A pool that was closed takes no calls, gives back what is free, and ends when its last call is over. One of which nobody has told
 * for ten minutes ends by itself: so a counter that forgot it costs a budget nothing for longer.
 *
 * A counter that forgot a pool never gets it back: a pool is brought there once, by the node that opened it, in an exchange that counts once.
 */
import type { BudgetSpan, TokenWindow } from "./store.ts";

/** What a node wants for a budget. Sums are whole micro-dollars, here and below. */
export type FillAsk = BudgetSpan & {
  readonly limit: number;
  /** Less than this is not worth a pool: the budget is near its limit. */
  readonly needs: number;
  /** The pool that the node knows; null: whichever there is. */
  readonly pool: string | null;
  /** How much shall have been granted to it altogether; for a new pool its first grant. */
  readonly upTo: number;
  /** The name of a new pool, where there is none. */
  readonly fresh: string;
};

/** The open pool after it was filled. */
export type Grant = {
  readonly pool: string;
  /** Altogether. */
  readonly granted: number;
  /** Whether it is the new one, which its node brings to the counter. */
  readonly isNew: boolean;
};

/** What is known of a pool. Numbers of another time are harmless: the greatest count. */
export type PoolAccount = {
  readonly pool: string;
  /** By node, all that it has spent since the pool began. */
  readonly sums: Readonly<Record<string, number>>;
  /** Altogether given back; of a closed pool. */
  readonly returned?: number;
  /** By calls under way at the moment: to be shown. */
  readonly held?: number;
  /** Whether the pool shall take no more calls. */
  readonly isClosed?: boolean;
  /** Whether the counter does not know it: it is closed, unless it was opened a moment ago and is on its way there. */
  readonly isLost?: boolean;
  /** Whether no call is left, and nothing untold. */
  readonly isEnded?: boolean;
};

export type PoolState = "open" | "closed" | "ended" | "unknown";

export interface PoolRepository {
  /**
   * Opens or fills pools: each gets up to half of what is free of its budget.
   * @returns in their order; null where a budget is near its limit
   */
  fill(asks: readonly FillAsk[]): Promise<readonly (Grant | null)[]>;
  /** Moves what was spent from reserved to spent, and frees what was given back. @returns the pools' states, in their order */
  account(accounts: readonly PoolAccount[]): Promise<readonly PoolState[]>;
  /** Pools that are not ended, and of which nobody has told for that long. */
  quiet(quietMs: number): Promise<readonly string[]>;
  /** Ends the pools of which nobody told for ten minutes, and forgets those that ended a day ago. @returns how many ended */
  endLapsed(): Promise<number>;
}

/** Of a counter. The database ends a pool of which nobody told for ten minutes. */
export type PoolTimes = {
  /** For how long a node that says nothing holds what its calls hold. */
  readonly lapseMs: number;
  /** Nothing more is admitted from a pool of which the database has not heard for so long: less than it waits. */
  readonly goodMs: number;
  /** A pool that no call was reserved from for so long is closed. */
  readonly idleMs: number;
};

export const poolTimes: PoolTimes = { lapseMs: 600_000, goodMs: 300_000, idleMs: 5_000 };

/** What a node tells the counter of one pool, and wants to know of it. */
export type PoolWord = {
  readonly pool: string;
  /** What this node has spent of it altogether, and what its calls under way hold. */
  readonly spent: number;
  readonly held: number;
  /** The budget's limit as the node knows it: a pool that was opened under a higher one is closed. */
  readonly limit?: number;
  /** Of a pool that the node has opened; it begins to be good at `at`, a reading of the counter's clock. */
  readonly install?: { readonly at: number; readonly granted: number; readonly limit: number; readonly step: number };
  /** More was granted, altogether; `step` is how much at once. */
  readonly raise?: { readonly granted: number; readonly step: number; readonly limit: number };
  readonly close?: boolean;
  /** Whether the account is wanted even if another node was given it a moment ago. */
  readonly look?: boolean;
  /** What the database has been told: of the account that the counter gave at `at`. */
  readonly recorded?: {
    readonly at: number;
    readonly sums: Readonly<Record<string, number>>;
    readonly returned: number;
    readonly isEnded: boolean;
  };
};

export type CounterCall = {
  readonly amount: number;
  /** Places in `pools`. */
  readonly pools: readonly number[];
  /** Its place in `windows` and its tokens. */
  readonly window?: number;
  readonly tokens?: number;
};

export type WindowWord = {
  readonly key: string;
  readonly limit: number;
  /** Tokens that were used without asking: their age in milliseconds, and how many. */
  readonly uses: readonly (readonly [ageMs: number, tokens: number])[];
  /** Corrections of earlier answers: `at` as it was told, and how many more or less. */
  readonly fixes: readonly (readonly [at: number, tokens: number])[];
};

/**
 * One exchange of a node with the counter. A node numbers them, has one under way at a time, and sends one without an answer again as it
 * was: it counts once. All that is told is heeded before the calls, which are decided in their order.
 */
export type CounterExchange = {
  readonly node: string;
  readonly number: number;
  /** Whether the node begins: such a one tells nothing. */
  readonly isNew: boolean;
  readonly pools: readonly PoolWord[];
  readonly windows: readonly WindowWord[];
  readonly calls: readonly CounterCall[];
};

/** What an account of a pool says: to be told to the database, and then to the counter. */
export type DueAccount = {
  readonly sums: Readonly<Record<string, number>>;
  readonly returned: number;
  readonly held: number;
  readonly isEnded: boolean;
};

export type PoolReply = {
  /** Whether calls may be reserved from it. */
  readonly isOpen: boolean;
  readonly granted: number;
  /** How much was granted at once the last time, and how long ago. */
  readonly step: number;
  readonly filledMs: number;
  /** Whether this node is to fill it. */
  readonly fill: boolean;
  /** Whether the database knows all that this node has spent of it. */
  readonly isRecorded: boolean;
  /** Present where this node is to tell the database. */
  readonly due?: DueAccount;
};

/** `short`: a pool has too little left; `gone`: one can't be used any more; `tokens`: refused by the window. */
export type CallReply =
  | { readonly kind: "reserved"; readonly window?: TokenWindow & { readonly at: number } }
  | { readonly kind: "tokens"; readonly window: TokenWindow }
  | { readonly kind: "short"; readonly pool: number }
  | { readonly kind: "gone"; readonly pool: number };

export type CounterReply = {
  /** The counter's clock. */
  readonly now: number;
  /** Another one than before: the windows were lost. For how long it has been this one. */
  readonly epoch: string;
  readonly epochMs: number;
  /** Undefined: the counter does not know it. */
  readonly pools: readonly (PoolReply | undefined)[];
  readonly calls: readonly CallReply[];
};

export interface PoolCounter {
  /** Where it is, for messages. */
  readonly place: string;
  /** @returns `lapsed` where the counter does not know the node: nothing was done. Rejects where it can't be asked in time; it may have been done */
  exchange(exchange: CounterExchange): Promise<CounterReply | "lapsed">;
  close(): Promise<void>;
}
