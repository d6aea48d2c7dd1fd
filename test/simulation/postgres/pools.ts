/** Pools of money, as the database's functions keep them. */
import type { FillAsk, Grant, PoolAccount, PoolState } from "../../../src/store/budget-pools.ts";
import type { Mutation } from "../mutations.ts";
import type { Spending } from "./budgets.ts";
import type { Statement } from "./server.ts";

type Pool = {
  readonly pool: string;
  readonly scope: string;
  readonly span: string;
  granted: number;
  spent: number;
  returned: number;
  held: number;
  state: "open" | "closed" | "ended";
  readonly openedAt: number;
  toldAt: number;
  readonly sums: Map<string, number>;
};

const abandonedMs = 600_000;
const onItsWayMs = 2_000;

export class PoolTables {
  readonly #now: () => number;
  readonly #spendingOf: (scope: string, span: string) => Spending;
  readonly #broken: ReadonlySet<Mutation>;
  readonly #pools = new Map<string, Pool>();
  /** Those that are not ended, by budget. */
  readonly #left = new Map<string, Set<Pool>>();

  constructor(now: () => number, spendingOf: (scope: string, span: string) => Spending, broken: ReadonlySet<Mutation>) {
    this.#now = now;
    this.#spendingOf = spendingOf;
    this.#broken = broken;
  }

  /** Of a budget that refuses: its pools. */
  leftOf(scope: string, span: string): readonly { readonly pool: string; readonly quietMs: number }[] {
    return this.#of(scope, span).map(({ pool, toldAt }) => ({ pool, quietMs: Math.floor(this.#now() - toldAt) }));
  }

  /** What no call holds of a budget's pools. */
  freeOf(scope: string, span: string): number {
    return this.#of(scope, span).reduce((sum, pool) => sum + Math.max(0, leftIn(pool) - pool.held), 0);
  }

  #of(scope: string, span: string): Pool[] {
    return [...(this.#left.get(`${scope}|${span}`) ?? [])];
  }

  #open(pool: Pool): void {
    const name = `${pool.scope}|${pool.span}`;
    const left = this.#left.get(name) ?? new Set();
    left.add(pool);
    this.#left.set(name, left);
    this.#pools.set(pool.pool, pool);
  }

  #end(pool: Pool): void {
    pool.state = "ended";
    this.#left.get(`${pool.scope}|${pool.span}`)?.delete(pool);
  }

  #fill(ask: FillAsk): Grant | null {
    const spending = this.#spendingOf(ask.scope, ask.span);
    const free = ask.limit - spending.spent - spending.reserved;
    const half = Math.trunc(free / 2);
    const held = this.#of(ask.scope, ask.span).find(({ state }) => state === "open");
    if (held === undefined) {
      const give = Math.min(ask.upTo, half);
      if (give < ask.needs || give <= 0 || this.#pools.has(ask.fresh)) return null;
      const now = this.#now();
      this.#open({
        pool: ask.fresh,
        scope: ask.scope,
        span: ask.span,
        granted: give,
        spent: 0,
        returned: 0,
        held: 0,
        state: "open",
        openedAt: now,
        toldAt: now,
        sums: new Map(),
      });
      if (!this.#broken.has("grants-are-free")) spending.reserved += give;
      return { pool: ask.fresh, granted: give, isNew: true };
    }
    if (held.pool === ask.pool && held.granted < ask.upTo) {
      const give = Math.min(ask.upTo - held.granted, half);
      if (give < ask.needs || give <= 0) return null;
      const before = leftIn(held);
      held.granted += give;
      spending.reserved += leftIn(held) - before;
    }
    return { pool: held.pool, granted: held.granted, isNew: held.pool === ask.fresh };
  }

  #account(told: PoolAccount): PoolState {
    const pool = this.#pools.get(told.pool);
    if (pool === undefined) return "unknown";
    const now = this.#now();
    const before = leftIn(pool);
    let added = 0;
    for (const [node, sum] of Object.entries(told.sums)) {
      const known = this.#broken.has("sums-of-pools-add-up") ? 0 : (pool.sums.get(node) ?? 0);
      if (sum <= known) continue;
      added += sum - known;
      pool.sums.set(node, sum);
    }
    pool.spent += added;
    pool.returned = Math.max(pool.returned, told.returned ?? 0);
    pool.held = told.held ?? pool.held;
    // That somebody wants it closed is no sign of life.
    if (Object.keys(told.sums).length > 0 || told.returned !== undefined) pool.toldAt = now;
    const isLost = told.isLost === true && pool.openedAt < now - onItsWayMs;
    if (told.isEnded === true) this.#end(pool);
    else if (pool.state === "open" && (told.isClosed === true || isLost)) pool.state = "closed";
    const spending = this.#spendingOf(pool.scope, pool.span);
    spending.spent += added;
    spending.reserved = Math.max(0, spending.reserved - before + leftIn(pool));
    return pool.state;
  }

  #endLapsed(): number {
    let ended = 0;
    if (this.#broken.has("pools-never-end")) return ended;
    for (const pool of [...this.#left.values()].flatMap((pools) => [...pools])) {
      if (pool.toldAt >= this.#now() - abandonedMs) continue;
      const spending = this.#spendingOf(pool.scope, pool.span);
      spending.reserved = Math.max(0, spending.reserved - leftIn(pool));
      this.#end(pool);
      ended += 1;
    }
    return ended;
  }

  #quiet(quietMs: number): readonly { readonly pool: string }[] {
    const left = [...this.#left.values()].flatMap((pools) => [...pools]);
    const quiet = left.filter(({ toldAt }) => toldAt < this.#now() - quietMs);
    return quiet
      .sort((one, other) => one.toldAt - other.toldAt)
      .slice(0, 200)
      .map(({ pool }) => ({ pool }));
  }

  readonly statements: readonly Statement[] = [
    ["troupe.fill_pools(", ([asks]) => answer((JSON.parse(asks as string) as FillAsk[]).map((ask) => this.#fill(ask)))],
    [
      "troupe.account_pools(",
      ([accounts]) => answer((JSON.parse(accounts as string) as PoolAccount[]).map((one) => this.#account(one))),
    ],
    ["select pool from troupe.budget_pools", ([quietMs]) => ({ rows: this.#quiet(quietMs as number) })],
    ["troupe.end_pools()", () => ({ rows: [{ ended: this.#endLapsed() }] })],
  ];
}

const answer = (rows: object) => ({ rows: [{ answer: JSON.stringify(rows) }] });

/** What of a pool counts as reserved. */
const leftIn = ({ state, granted, spent, returned }: Pool): number =>
  state === "ended" ? 0 : Math.max(0, granted - spent - returned);
