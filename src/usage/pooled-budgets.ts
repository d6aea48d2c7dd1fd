/**
 * Budgets whose busy part is counted elsewhere than in the database: calls are reserved from pools of money (`src/store/budget-pools.ts`),
 * and tokens per minute are counted there too. Near a budget's limit, and whenever the counter can't be asked, calls go by the database, which
 * counts pools as reserved: so no more is admitted than the limit, whichever way. Before it refuses, pools give back what is free.
 */
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { OnceAMinute } from "../lib/once-a-minute.ts";
import type { FillAsk, PoolCounter, PoolReply, PoolRepository } from "../store/budget-pools.ts";
import type { BudgetRepository, BudgetSpan, OpenPool, Reservation, Reserved, TokenWindow } from "../store/store.ts";
import { CounterLink, type LinkCall, type LinkReserved } from "./counter-link.ts";
import type { NodePool } from "./node-pool.ts";
import type { NodeTokens, TokenUse } from "./node-tokens.ts";
import { PoolAccounts } from "./pool-accounts.ts";

export type PooledBudgetTools = {
  readonly store: BudgetRepository;
  readonly poolRepository: PoolRepository;
  /** Absent: nothing is counted elsewhere by this node; others may. */
  readonly counter?: PoolCounter;
  readonly clock: Clock;
  readonly log: Logger;
  /** How many nodes there are: each has its share of tokens while the counter is away. */
  readonly nodes: () => number;
};

/** A budget in one span, as this node knows it. */
type Budget = BudgetSpan & {
  /** As the last call knew it. */
  limit: number;
  pool: NodePool | undefined;
  /** A monotonic reading: until then calls go by the database. */
  exactUntil: number;
  opening: Promise<void> | undefined;
  usedAt: number;
};

/** Tokens of a call under way. `countedAt`: when the counter counted them; absent: it did not. */
type HeldTokens = {
  readonly window: NodeTokens;
  readonly use: TokenUse;
  readonly reserved: number;
  readonly countedAt?: number;
};

type Held = {
  readonly amount: number;
  readonly pools: readonly NodePool[];
  /** Whether the database has a reservation too. */
  readonly isStored: boolean;
  readonly tokens?: HeldTokens;
};

type Limited = BudgetSpan & { readonly limit: number };
type Tokens = NonNullable<Reservation["tokens"]>;
/** What became of a call's tokens; without `held` they were refused. */
type Counted = { readonly window: TokenWindow; readonly held?: HeldTokens };
type Withdrawal = { readonly at: number; readonly done: Promise<void>; isOver?: boolean };

const tickMs = 250;
const beatMs = 1_000;
/** A new pool, and what is added at once at least, has room for so many of the calls that are asked for. */
const stepCalls = 32;
/** Where less than so many fit, it is not worth it. */
const worthCalls = 8;
/** In micro-dollars: of calls that cost next to nothing. */
const leastStep = 100_000;
/** A pool that is filled again within that time gets twice as much at once; after the other one half. */
const busyMs = 2_000;
const calmMs = 30_000;
/** For how long calls go by the database once a budget was found to be near its limit, or a pool is not there yet. */
const nearMs = 1_000;
const unsureMs = 300;
/** What waits for another node to fill a pool asks again so often, and so many times. */
const refillMs = 15;
const maxTries = 30;
/** Pools that were made to give back are asked again only after that time. */
const withdrawMs = 100;
/** A pool of which was told within it is one that a node can make give back. */
const aliveMs = 2_500;
const recallMs = 200;
const recalls = 10;
/** All nodes together look for pools that nobody tells of once in that time. */
const adoptMs = 30_000;
const adoptEveryMs = 1_000;
/** Budgets known at once; calls of others go by the database. */
const maxBudgets = 50_000;
const forgetMs = 60_000;

export class PooledBudgets implements BudgetRepository {
  readonly #tools: PooledBudgetTools;
  readonly #link: CounterLink | undefined;
  readonly #accounts: PoolAccounts;
  readonly #budgets = new Map<string, Budget>();
  /** By pool. */
  readonly #filling = new Map<string, Promise<void>>();
  readonly #byPool = new Map<string, Budget>();
  readonly #withdrawals = new Map<string, Withdrawal>();
  readonly #held = new Map<string, Held>();
  #isClosed = false;
  readonly #warnings: OnceAMinute;
  #nextAdoptAt = Number.NEGATIVE_INFINITY;
  #nextTellAt = Number.NEGATIVE_INFINITY;
  #cancelTick = () => {};

  /** Totals since the start: calls reserved from pools, those that went by the database, and times the counter was lost. */
  readonly counts = { pooled: 0, stored: 0, lost: 0, byShare: 0 };

  constructor(tools: PooledBudgetTools) {
    this.#tools = tools;
    this.#warnings = new OnceAMinute(tools.clock);
    const { counter, poolRepository, clock } = tools;
    this.#accounts = new PoolAccounts(poolRepository, clock, (error) =>
      this.#warn("pools of budgets can't be accounted for now", error),
    );
    this.#link =
      counter &&
      new CounterLink({
        counter,
        clock,
        onPool: (pool, reply, at) => this.#told(pool, reply, at),
        onLost: (error) => this.#lost(error),
        onBack: () => tools.log.info("budgets are counted in pools again", { place: counter.place }),
      });
    if (this.#link !== undefined) this.#tickLater();
  }

  /** Whether calls of budgets are counted in pools. */
  get isPooled(): boolean {
    return this.#link?.isAway === false;
  }

  /** Pools of which the database is yet to be told. */
  get waiting(): number {
    return this.#accounts.waiting;
  }

  list = () => this.#tools.store.list();
  set: BudgetRepository["set"] = (row, isNew) => this.#tools.store.set(row, isNew);
  add: BudgetRepository["add"] = (budget, amount, at) => this.#tools.store.add(budget, amount, at);
  remove: BudgetRepository["remove"] = (budget) => this.#tools.store.remove(budget);
  spending: BudgetRepository["spending"] = (spans) => this.#tools.store.spending(spans);
  forgetSpending: BudgetRepository["forgetSpending"] = (beforeDay) => this.#tools.store.forgetSpending(beforeDay);

  async releaseAbandoned(): Promise<number> {
    await this.#tools.poolRepository.endLapsed();
    return this.#tools.store.releaseAbandoned();
  }

  async reserve(reservation: Reservation): Promise<Reserved> {
    const link = this.#link;
    if (link === undefined) return this.#reserveStored(reservation);
    if (this.#held.has(reservation.id)) return {};
    if (reservation.budgets.length === 0) return this.#byDatabase(link, reservation);
    for (let tries = 0; tries < maxTries && !link.isAway; tries += 1) {
      const budgets = await this.#pooled(link, reservation);
      if (budgets === undefined) break;
      const call = callOf(link, reservation, budgets);
      const reply = await link.ask(call);
      if (reply.kind === "away") break;
      if (reply.kind === "tokens") return { tokens: reply.window! };
      if (reply.kind === "short") await this.#moreIn(reply.pool);
      else if (reply.kind === "gone") this.#unlink(reply.pool);
      else return this.#reserved(link, reservation, call, reply);
    }
    return this.#byDatabase(link, reservation);
  }

  async settle(id: string, spent: number, tokens: number): Promise<boolean> {
    const held = this.#held.get(id);
    if (held === undefined) return this.#tools.store.settle(id, spent, tokens);
    // It rejects: then all of this comes again.
    if (held.isStored) await this.#tools.store.settle(id, spent, 0);
    if (!this.#held.delete(id)) return false;
    for (const pool of held.pools) {
      pool.held -= held.amount;
      pool.spent += spent;
      if (pool.isLost) this.#tellDatabase(pool);
      else this.#link!.tellSoon(pool);
    }
    if (held.tokens !== undefined) this.#correct(held.tokens, tokens);
    return true;
  }

  /** Tells the counter and the database what was spent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTick();
    const link = this.#link;
    if (link === undefined) return;
    await link.told();
    for (const pool of link.pools.values()) if (pool.spent > pool.told) this.#tellDatabase(pool);
    await this.#accounts.close();
    const pools = this.#accounts.waiting;
    if (pools > 0) this.#tools.log.error("what calls cost could not be told to the database", { pools });
  }

  /** @returns the call's budgets, all with a pool; undefined where it has to go by the database */
  async #pooled(link: CounterLink, { amount, budgets: asked }: Reservation): Promise<readonly Budget[] | undefined> {
    const now = this.#tools.clock.monotonic();
    const budgets = asked.flatMap((one) => this.#budgetOf(one, now) ?? []);
    if (budgets.length < asked.length || budgets.some(({ exactUntil }) => exactUntil > now)) return undefined;
    const missing = budgets.filter(({ pool }) => pool === undefined);
    if (missing.length > 0) await this.#open(link, missing, amount);
    return budgets.every(({ pool }) => pool !== undefined) ? budgets : undefined;
  }

  #budgetOf({ scope, span, limit }: Limited, now: number): Budget | undefined {
    const name = `${scope}|${span}`;
    let budget = this.#budgets.get(name);
    if (budget === undefined) {
      if (this.#budgets.size >= maxBudgets) return undefined;
      const exactUntil = Number.NEGATIVE_INFINITY;
      budget = { scope, span, limit, pool: undefined, exactUntil, opening: undefined, usedAt: now };
      this.#budgets.set(name, budget);
    }
    budget.usedAt = now;
    budget.limit = limit;
    return budget;
  }

  /** Never rejects. Each budget is asked for once at a time. */
  async #open(link: CounterLink, budgets: readonly Budget[], amount: number): Promise<void> {
    const own = budgets.filter(({ opening }) => opening === undefined);
    if (own.length > 0) {
      const opening = this.#openNow(link, own, amount).finally(() => {
        for (const budget of own) budget.opening = undefined;
      });
      for (const budget of own) budget.opening = opening;
    }
    await Promise.all(budgets.map(({ opening }) => opening));
  }

  async #openNow(link: CounterLink, budgets: readonly Budget[], amount: number): Promise<void> {
    const { poolRepository, clock } = this.#tools;
    // A pool is good from before the database knows of it.
    if (link.counterTime === undefined) await link.told();
    const at = link.counterTime;
    if (at === undefined) return;
    const step = stepOf(amount);
    const needs = amount * worthCalls;
    const asks = budgets.map(
      ({ scope, span, limit }): FillAsk => ({
        scope,
        span,
        limit,
        needs,
        pool: null,
        upTo: step,
        fresh: clock.newId(),
      }),
    );
    const grants = await poolRepository.fill(asks).catch(() => undefined);
    const now = clock.monotonic();
    for (const [place, budget] of budgets.entries()) {
      const grant = grants?.[place];
      if (grant == null) {
        budget.exactUntil = now + (grants === undefined ? unsureMs : nearMs);
        continue;
      }
      const pool = link.poolOf(grant.pool);
      // It can't be used, and the database does not know it yet.
      if (pool.isLost || pool.reply?.isOpen === false) {
        budget.exactUntil = now + unsureMs;
        continue;
      }
      if (grant.isNew && pool.reply === undefined) {
        pool.install = { at: Math.floor(at), granted: grant.granted, limit: budget.limit, step };
      }
      budget.pool = pool;
      this.#byPool.set(pool.id, budget);
    }
  }

  /** Never rejects. Waits until there may be more in a pool. */
  async #moreIn(pool: NodePool): Promise<void> {
    await (this.#filling.get(pool.id) ?? this.#wait(refillMs));
  }

  /** Never rejects. */
  async #fill(link: CounterLink, pool: NodePool, { granted, step: last, filledMs }: PoolReply): Promise<void> {
    const { poolRepository, clock } = this.#tools;
    const budget = this.#byPool.get(pool.id);
    if (budget === undefined) return;
    const { scope, span, limit } = budget;
    const { largest } = pool;
    pool.largest = 1;
    const pace = filledMs < busyMs ? last * 2 : filledMs > calmMs ? last / 2 : last;
    const step = Math.ceil(Math.max(stepOf(largest), pace));
    const ask = {
      scope,
      span,
      limit,
      needs: largest * worthCalls,
      pool: pool.id,
      upTo: granted + step,
      fresh: clock.newId(),
    };
    const grants = await poolRepository.fill([ask]).catch(() => undefined);
    const grant = grants?.[0];
    if (grant?.pool === pool.id) pool.raise = { granted: grant.granted, step, limit };
    else {
      budget.exactUntil = clock.monotonic() + (grants === undefined ? unsureMs : nearMs);
      if (grants === undefined) return;
      // Near the limit what is left is counted by the database alone.
      this.#unlink(pool);
      pool.isClosing = true;
    }
    link.tell(pool);
  }

  #unlink(pool: NodePool): void {
    const budget = this.#byPool.get(pool.id);
    if (budget?.pool === pool) budget.pool = undefined;
    if (budget !== undefined) this.#byPool.delete(pool.id);
  }

  #reserved(
    link: CounterLink,
    { id, amount, tokens }: Reservation,
    call: LinkCall,
    { window, use }: LinkReserved,
  ): Reserved {
    const pools = call.pools.map(({ pool }) => pool);
    const held = { amount, pools, isStored: false };
    if (tokens === undefined) {
      this.counts.pooled += 1;
      this.#held.set(id, held);
      return {};
    }
    const counted = window && use ? counting(link, tokens, window, use) : this.#byShare(link, tokens);
    if (counted.held === undefined) {
      for (const pool of pools) {
        pool.held -= amount;
        link.tellSoon(pool);
      }
      return { tokens: counted.window };
    }
    this.counts.pooled += 1;
    this.#held.set(id, { ...held, tokens: counted.held });
    return { tokens: counted.window };
  }

  /** Tokens are counted first, as they can be given back without asking anybody. */
  async #byDatabase(link: CounterLink, reservation: Reservation): Promise<Reserved> {
    const { id, tokens, ...rest } = reservation;
    const counted = tokens && (await this.#countTokens(link, tokens));
    if (counted !== undefined && counted.held === undefined) return { tokens: counted.window };
    const isStored = rest.budgets.length > 0;
    if (isStored) {
      this.counts.stored += 1;
      let reserved: Reserved | undefined;
      try {
        reserved = await this.#reserveStored({ id, ...rest });
      } finally {
        if (counted?.held !== undefined && (reserved === undefined || reserved.refusedBy !== undefined)) {
          this.#correct(counted.held, 0);
        }
      }
      if (reserved.refusedBy !== undefined) return reserved;
    }
    if (counted === undefined) return {};
    this.#held.set(id, { amount: 0, pools: [], isStored, tokens: counted.held! });
    return { tokens: counted.window };
  }

  async #countTokens(link: CounterLink, tokens: Tokens): Promise<Counted> {
    if (!link.goesByShare) {
      const of = link.windowOf(tokens.key, tokens.limit);
      const reply = await link.ask({ amount: 0, pools: [], window: { of, tokens: tokens.tokens } });
      if (reply.kind === "tokens") return { window: reply.window! };
      if (reply.kind === "reserved") return counting(link, tokens, reply.window!, reply.use!);
    }
    return this.#byShare(link, tokens);
  }

  /** All nodes' shares together are the limit. */
  #byShare(link: CounterLink, tokens: Tokens): Counted {
    this.counts.byShare += 1;
    const of = link.windowOf(tokens.key, tokens.limit);
    const now = this.#tools.clock.monotonic();
    const share = Math.floor(tokens.limit / Math.max(1, this.#tools.nodes()));
    const window = of.byShare(now, share, tokens.tokens);
    if (window.waitMs > 0) return { window };
    const use = of.use(now, tokens.tokens, false);
    link.tellSoon(of);
    return { window, held: { window: of, use, reserved: tokens.tokens } };
  }

  #correct({ window, use, reserved, countedAt }: HeldTokens, used: number): void {
    window.correct(use, this.#tools.clock.monotonic(), used - reserved, countedAt);
    this.#link!.tellSoon(window);
  }

  /** Before a budget refuses, its pools give back what is free. */
  async #reserveStored(reservation: Reservation): Promise<Reserved> {
    const { store } = this.#tools;
    let reserved = await store.reserve(reservation);
    for (let tries = 0; tries < recalls; tries += 1) {
      const pools = reserved.refusedBy?.pools;
      if (pools === undefined || !(await this.#withdraw(pools, tries === 0))) break;
      reserved = await store.reserve(reservation);
    }
    return reserved;
  }

  /** Never rejects. @returns whether something may have been given back */
  async #withdraw(pools: readonly OpenPool[], isFirst: boolean): Promise<boolean> {
    const link = this.#link;
    if (link === undefined || link.isAway) return this.#recall(pools, isFirst);
    const now = this.#tools.clock.monotonic();
    const due = pools.filter(
      ({ pool }) => now >= (this.#withdrawals.get(pool)?.at ?? Number.NEGATIVE_INFINITY) + withdrawMs,
    );
    if (due.length > 0) {
      const done = this.#withdrawNow(
        link,
        due.map(({ pool }) => link.poolOf(pool)),
      );
      for (const { pool } of due) this.#withdrawals.set(pool, { at: now, done });
    }
    const underWay = pools.flatMap(({ pool }) => {
      const one = this.#withdrawals.get(pool);
      return one === undefined || one.isOver === true ? [] : [one.done];
    });
    if (underWay.length === 0) return false;
    await Promise.all(underWay);
    return true;
  }

  async #withdrawNow(link: CounterLink, pools: readonly NodePool[]): Promise<void> {
    for (const pool of pools) {
      this.#unlink(pool);
      pool.isClosing = true;
      pool.wantsLook = true;
      link.tell(pool);
    }
    await link.told();
    await this.#accounts.flushed();
    for (const { id } of pools) {
      const one = this.#withdrawals.get(id);
      if (one !== undefined) one.isOver = true;
    }
  }

  /** By way of the database: nodes that reach the pools close them. */
  async #recall(pools: readonly OpenPool[], isFirst: boolean): Promise<boolean> {
    const alive = pools.filter(({ quietMs }) => quietMs < aliveMs);
    if (alive.length === 0) return false;
    if (isFirst) {
      const accounts = alive.map(({ pool }) => ({ pool, sums: {}, isClosed: true }));
      if ((await this.#tools.poolRepository.account(accounts).catch(() => undefined)) === undefined) return false;
    }
    await this.#wait(recallMs);
    return true;
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#tools.clock.setTimer(ms, resolve));
  }

  #told(pool: NodePool, reply: PoolReply | undefined, at: number): void {
    const link = this.#link!;
    if (reply === undefined) {
      const budget = this.#byPool.get(pool.id);
      // Where it was opened a moment ago it is on its way there.
      if (budget !== undefined) budget.exactUntil = this.#tools.clock.monotonic() + unsureMs;
      this.#unlink(pool);
      pool.isLost = true;
      this.#tellDatabase(pool);
      return;
    }
    if (!reply.isOpen) this.#unlink(pool);
    const { due } = reply;
    if (due !== undefined) {
      this.#accounts.tell({ pool: pool.id, ...due, ...(!reply.isOpen && { isClosed: true }) }, (_, state) => {
        pool.recorded = { at, sums: due.sums, returned: due.returned, isEnded: due.isEnded };
        if (state !== "open" && reply.isOpen) {
          this.#unlink(pool);
          pool.isClosing = true;
        }
        link.tell(pool);
      });
    } else if (!reply.isOpen && !pool.isAtStake) link.pools.delete(pool.id);
    if (!reply.fill || this.#filling.has(pool.id)) return;
    const filling = this.#fill(link, pool, reply).finally(() => this.#filling.delete(pool.id));
    this.#filling.set(pool.id, filling);
  }

  /** Straight from this node, as the counter can't. */
  #tellDatabase(pool: NodePool): void {
    const { spent } = pool;
    const sums: Record<string, number> = spent > 0 ? { [this.#link!.node]: spent } : {};
    this.#accounts.tell({ pool: pool.id, sums, ...(pool.isLost && { isLost: true }) }, () => {
      pool.told = Math.max(pool.told, spent);
      if (pool.isLost && !pool.isAtStake) this.#link!.pools.delete(pool.id);
    });
  }

  #lost(error: unknown): void {
    this.counts.lost += 1;
    this.#warn("budgets can't be counted in pools; calls go by the database", error);
  }

  #warn(words: string, error: unknown): void {
    if (!this.#warnings.takes()) return;
    this.#tools.log.error(words, { place: this.#tools.counter?.place, error });
  }

  #tickLater(): void {
    this.#cancelTick = this.#tools.clock.setTimer(tickMs, () => this.#tick(this.#link!));
  }

  #tick(link: CounterLink): void {
    const now = this.#tools.clock.monotonic();
    link.tick(beatMs);
    if (now >= this.#nextTellAt) {
      this.#nextTellAt = now + beatMs;
      for (const pool of link.pools.values()) if (link.isAway && pool.spent > pool.told) this.#tellDatabase(pool);
      for (const [name, budget] of this.#budgets) {
        if (budget.usedAt > now - forgetMs || budget.opening !== undefined) continue;
        this.#budgets.delete(name);
        if (budget.pool !== undefined) this.#unlink(budget.pool);
      }
      for (const [pool, { at }] of this.#withdrawals) if (at < now - forgetMs) this.#withdrawals.delete(pool);
    }
    if (now >= this.#nextAdoptAt) {
      this.#nextAdoptAt = now + Math.max(adoptMs, this.#tools.nodes() * adoptEveryMs);
      void this.#adopt(link);
    }
    if (!this.#isClosed) this.#tickLater();
  }

  /** Never rejects. Pools that nobody tells of, as their nodes are gone, are brought to their end. */
  async #adopt(link: CounterLink): Promise<void> {
    const { poolRepository } = this.#tools;
    await poolRepository.endLapsed().catch(() => 0);
    const left = await poolRepository.quiet(adoptMs / 3).catch(() => []);
    for (const pool of left) link.tell(link.poolOf(pool));
  }
}

const stepOf = (amount: number) => Math.max(leastStep, amount * stepCalls);

function callOf(link: CounterLink, { amount, budgets, tokens }: Reservation, known: readonly Budget[]): LinkCall {
  const pools = known.map(({ pool }, at) => ({ pool: pool!, limit: budgets[at]!.limit }));
  if (tokens === undefined || link.goesByShare) return { amount, pools };
  return { amount, pools, window: { of: link.windowOf(tokens.key, tokens.limit), tokens: tokens.tokens } };
}

function counting(
  link: CounterLink,
  { key, limit, tokens }: Tokens,
  found: TokenWindow & { at: number },
  use: TokenUse,
): Counted {
  const { at, ...window } = found;
  return { window, held: { window: link.windowOf(key, limit), use, reserved: tokens, countedAt: at } };
}
