/** Budgets, reservations and windows of tokens, as the database's functions decide them. */
import type { Mutation } from "../mutations.ts";
import type { Holders } from "./holders.ts";
import { PoolTables } from "./pools.ts";
import { changed, type Result, type Statement, type Value } from "./server.ts";

type Budget = { readonly scope: string; readonly span: string; readonly limit: number };
export type Spending = { readonly scope: string; readonly span: string; spent: number; reserved: number };
type Uses = Map<number, number>;
type Reservation = {
  readonly owner: string;
  readonly amount: number;
  readonly spans: readonly Spending[];
  readonly key: string | null;
  readonly bucket: number;
  readonly tokens: number;
};

/** Of a list of reservations and settlements. */
type Entry = {
  readonly id: string;
  readonly owner?: string;
  readonly amount?: number;
  readonly places?: readonly number[];
  readonly limits?: readonly number[];
  readonly key?: string;
  readonly limit?: number;
  readonly tokens: number;
  readonly spent?: number;
};

const windowMs = 60_000;
const bucketMs = 250;
/** How long a holder may have lapsed before what it reserved is given back. */
const abandonedMs = 600_000;

export class BudgetTables {
  readonly #now: () => number;
  readonly #holders: Holders;
  readonly #broken: ReadonlySet<Mutation>;
  readonly pools: PoolTables;
  readonly #spending = new Map<string, Spending>();
  readonly #reservations = new Map<string, Reservation>();
  readonly #uses = new Map<string, Uses>();
  /** Told of each reservation when it is made. */
  onReserved: (id: string) => void = () => {};

  /** @param now the server's time, in Unix milliseconds */
  constructor(now: () => number, holders: Holders, broken: ReadonlySet<Mutation>) {
    this.#now = now;
    this.#holders = holders;
    this.#broken = broken;
    this.pools = new PoolTables(now, (scope, span) => this.#open({ scope, span }), broken);
  }

  /** The ids of those that are not ended. */
  get reservations(): readonly string[] {
    return [...this.#reservations.keys()];
  }

  #open({ scope, span }: Pick<Budget, "scope" | "span">): Spending {
    const name = `${scope}\0${span}`;
    let found = this.#spending.get(name);
    if (found === undefined) {
      found = { scope, span, spent: 0, reserved: 0 };
      this.#spending.set(name, found);
    }
    return found;
  }

  /** One entry, as the parameters of its statement. */
  #account(values: readonly Value[]): object | boolean {
    const [id, tokens, spent] = [values[0], values[7], values[8]];
    return spent === null ? this.#reserve(values) : this.#settle(id as string, spent as number, tokens as number);
  }

  #accountAll([asked, list]: readonly Value[]): (object | boolean)[] {
    const spans = JSON.parse(asked as string) as Pick<Budget, "scope" | "span">[];
    return (JSON.parse(list as string) as Entry[]).map(
      ({ id, owner, amount, places, limits, key, limit, tokens, spent }) => {
        const budgets = places?.map((place, at) => ({ ...spans[place - 1], limit: limits![at] })) ?? null;
        return this.#account([
          ...[id, owner ?? null, amount ?? null, budgets && JSON.stringify(budgets)],
          ...[key ?? null, null, limit ?? null, tokens, spent ?? null],
        ]);
      },
    );
  }

  #reserve([id, owner, amount, asked, key, , tokenLimit, tokens]: readonly Value[]): object {
    const budgets = JSON.parse(asked as string) as Budget[];
    const spans = budgets.map((budget) => this.#open(budget));
    // Sent again, it counts once.
    if (this.#reservations.has(id as string)) return {};
    for (const [at, { scope, span, limit }] of budgets.entries()) {
      const { spent, reserved } = spans[at]!;
      const left = limit - spent - (this.#broken.has("reserved-is-free") ? 0 : reserved);
      if (left <= 0 || (amount as number) > left) {
        const pools = this.pools.leftOf(scope, span);
        return { refusedBy: { scope, span, spent, reserved, limit, ...(pools.length > 0 && { pools }) } };
      }
    }
    const bucket = Math.ceil(this.#now() / bucketMs) * bucketMs;
    let window: { readonly waitMs: number | null } | undefined;
    if (key !== null) {
      window = this.#useTokens(key as string, bucket, tokenLimit as number, tokens as number);
      if (window.waitMs !== 0) return { tokens: window };
    }
    const reservation: Reservation = {
      owner: owner as string,
      amount: amount as number,
      spans,
      key: key as string | null,
      bucket,
      tokens: tokens as number,
    };
    this.#reservations.set(id as string, reservation);
    for (const span of spans) span.reserved += reservation.amount;
    this.onReserved(id as string);
    return window === undefined ? {} : { tokens: window };
  }

  #useTokens(key: string, bucket: number, limit: number, tokens: number) {
    const now = this.#now();
    const uses: Uses = this.#uses.get(key) ?? new Map();
    this.#uses.set(key, uses);
    let [used, latest] = [0, 0];
    for (const [at, count] of uses) {
      if (at <= Math.floor(now) - windowMs) uses.delete(at);
      else {
        used += count;
        latest = Math.max(latest, at);
      }
    }
    const emptyMs = (last: number) => Math.max(0, last + windowMs - now);
    if (used + tokens > limit) {
      return {
        used,
        emptyMs: emptyMs(latest),
        waitMs: tokens > limit ? null : waitOf(uses, used + tokens - limit, now),
      };
    }
    uses.set(bucket, Math.max(0, (uses.get(bucket) ?? 0) + tokens));
    return { used: used + tokens, emptyMs: emptyMs(bucket), waitMs: 0 };
  }

  #settle(id: string, spent: number, tokens: number): boolean {
    const held = this.#reservations.get(id);
    if (held === undefined) return false;
    const times = this.#broken.has("settled-again-counts") ? 2 : 1;
    for (const span of held.spans) {
      span.reserved = Math.max(0, span.reserved - held.amount);
      span.spent += spent * times;
    }
    const uses = held.key === null ? undefined : this.#uses.get(held.key);
    const used = uses?.get(held.bucket);
    if (used !== undefined) uses!.set(held.bucket, Math.max(0, used + tokens - held.tokens));
    this.#reservations.delete(id);
    return true;
  }

  #ownedBy(owner: string): { readonly id: string }[] {
    if (this.#broken.has("strays-stay")) return [];
    return [...this.#reservations].filter(([, held]) => held.owner === owner).map(([id]) => ({ id }));
  }

  #release(): Result {
    let released = 0;
    if (this.#broken.has("reservations-of-the-dead-stay")) return { rows: [{ released }] };
    for (const [id, { owner }] of this.#reservations) {
      if (!this.#holders.isAlive(owner, abandonedMs)) released += Number(this.#settle(id, 0, 0));
    }
    return { rows: [{ released }] };
  }

  #spent([asked]: readonly Value[]): Result {
    const rows = (JSON.parse(asked as string) as Budget[]).map((one) => {
      const { scope, span, spent, reserved } = this.#open(one);
      // Of a pool only what calls hold.
      return { scope, span, spent, reserved: reserved - this.pools.freeOf(scope, span) };
    });
    return { rows };
  }

  readonly statements: readonly Statement[] = [
    ["then troupe.reserve(", (values) => ({ rows: [{ answer: JSON.stringify(this.#account(values)) }] })],
    ["troupe.account_calls(", (values) => ({ rows: [{ answer: JSON.stringify(this.#accountAll(values)) }] })],
    ["select id from troupe.reservations", ([owner]) => ({ rows: this.#ownedBy(owner as string) })],
    ["as released from", () => this.#release()],
    ["select troupe.open_spans(", () => changed(1)],
    ["select asked.scope, asked.span", (values) => this.#spent(values)],
    ["from troupe.budgets", () => changed(0)],
    ["delete from troupe.spending", () => changed(0)],
  ];
}

/** Until so many are out of the window. */
function waitOf(uses: Uses, needed: number, now: number): number {
  let gone = 0;
  for (const [at, count] of [...uses].sort(([one], [other]) => one - other)) {
    gone += count;
    if (gone >= needed) return Math.max(1, at + windowMs - now);
  }
  return windowMs;
}
