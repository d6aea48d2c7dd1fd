/** Budgets, reservations, windows of tokens and the ledger's lines, as the database's functions decide them. */
import type { Mutation } from "../mutations.ts";
import type { LeaseOwners } from "./lease-owners.ts";
import { changed, type Result, type Statement, type Value } from "./server.ts";

type Span = { readonly scope: string; readonly span: string };
export type Spending = Span & { spent: number; reserved: number };
type Uses = Map<number, number>;
type Named = { readonly request_id: string; readonly attempt: number };
type Held = Named & {
  owner: string;
  readonly amount: number;
  readonly spans: readonly Spending[];
  readonly key: string | undefined;
  readonly bucket: number;
  readonly tokens: number;
  readonly line: string;
};
/** Of a list of reservations. */
type Entry = Omit<Held, "spans" | "bucket"> & {
  readonly places: readonly number[];
  readonly limits: readonly number[];
  readonly limit?: number;
};
/** Of a list of lines. */
type End = Named & {
  readonly cost: number | null;
  readonly used: number | null;
  readonly days: readonly string[];
  readonly scopes: readonly string[];
};

const windowMs = 60_000;
const bucketMs = 250;
const nameOf = ({ request_id, attempt }: Named) => `${request_id} ${attempt}`;

export class BudgetTables {
  readonly #now: () => number;
  readonly #leaseOwners: LeaseOwners;
  readonly #broken: ReadonlySet<Mutation>;
  readonly #spending = new Map<string, Spending>();
  readonly #held = new Map<string, Held>();
  readonly #uses = new Map<string, Uses>();
  /** What each line says that its call cost, by the request's id. */
  readonly lines = new Map<string, number | null>();
  /** Told of each reservation when it is made. */
  onReserved: (requestId: string) => void = () => {};

  /** @param now the server's time, in Unix milliseconds */
  constructor(now: () => number, leaseOwners: LeaseOwners, broken: ReadonlySet<Mutation>) {
    this.#now = now;
    this.#leaseOwners = leaseOwners;
    this.#broken = broken;
  }

  /** The requests whose calls are not ended. */
  get open(): readonly string[] {
    return [...this.#held.values()].map(({ request_id }) => request_id);
  }

  #open({ scope, span }: Span): Spending {
    const name = `${scope}\0${span}`;
    let found = this.#spending.get(name);
    if (found === undefined) {
      found = { scope, span, spent: 0, reserved: 0 };
      this.#spending.set(name, found);
    }
    return found;
  }

  #reserveAll([asked, list]: readonly Value[]): Result {
    const spans = (JSON.parse(asked as string) as Span[]).map((one) => this.#open(one));
    const answers = (JSON.parse(list as string) as Entry[]).map((entry) => this.#reserve(entry, spans));
    return { rows: [{ answer: JSON.stringify(answers) }] };
  }

  #reserve({ places, limits, limit: tokenLimit, ...entry }: Entry, all: readonly Spending[]): object {
    // Sent again, it counts once.
    if (this.#held.has(nameOf(entry))) return {};
    const spans = places.map((place) => all[place - 1]!);
    let refusedBy: object | undefined;
    for (const [at, { scope, span, spent, reserved }] of spans.entries()) {
      const limit = limits[at]!;
      const isFull = (taken: number) => taken >= limit || taken + entry.amount > limit;
      const refusal = { refusedBy: { scope, span, spent, reserved, limit } };
      if (isFull(spent)) return refusal;
      if (isFull(spent + (this.#broken.has("reserved-is-free") ? 0 : reserved))) refusedBy ??= refusal;
    }
    if (refusedBy !== undefined) return refusedBy;
    const bucket = Math.ceil(this.#now() / bucketMs) * bucketMs;
    let window: { readonly waitMs: number | null } | undefined;
    if (entry.key !== undefined) {
      window = this.#useTokens(entry.key, bucket, tokenLimit!, entry.tokens);
      if (window.waitMs !== 0) return { tokens: window };
    }
    this.#held.set(nameOf(entry), { ...entry, spans, bucket });
    for (const span of spans) span.reserved += entry.amount;
    this.onReserved(entry.request_id);
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

  #append([, list]: readonly Value[]): Result {
    const ends = JSON.parse(list as string) as End[];
    const added = ends.filter(({ request_id }) => !this.lines.has(request_id));
    for (const { request_id, cost } of added) this.lines.set(request_id, cost);
    const known = new Set(this.#broken.has("known-lines-count") ? [] : ends.filter((end) => !added.includes(end)));
    for (const end of ends) this.#settle(end, !known.has(end));
    return { rows: [{ added: added.length, ended: '{"spending":[]}' }] };
  }

  #settle(end: End, isNew: boolean): void {
    const held = this.#held.get(nameOf(end));
    const unknown = this.#broken.has("unknown-costs-are-nothing") ? 0 : (held?.amount ?? 0);
    const cost = isNew ? (end.cost ?? unknown) : 0;
    for (const scope of end.scopes) {
      for (const span of end.days) {
        const found = this.#spending.get(`${scope}\0${span}`);
        if (found !== undefined) found.spent += cost;
      }
    }
    if (held === undefined) return;
    for (const span of held.spans) {
      span.reserved -= held.amount;
      if (span.span === "prepaid") span.spent += cost;
    }
    const uses = held.key === undefined ? undefined : this.#uses.get(held.key);
    const used = uses?.get(held.bucket);
    const change = (isNew ? (end.used ?? held.tokens) : 0) - held.tokens;
    if (used !== undefined) uses!.set(held.bucket, Math.max(0, used + change));
    this.#held.delete(nameOf(end));
  }

  #note([owner, list]: readonly Value[]): Result {
    for (const { request_id, attempt, line } of JSON.parse(list as string) as (Named & { line: string })[]) {
      const name = nameOf({ request_id, attempt });
      if (this.lines.has(request_id) || this.#held.has(name)) continue;
      const nothing = { amount: 0, spans: [], key: undefined, bucket: 0, tokens: 0 };
      this.#held.set(name, { request_id, attempt, owner: owner as string, line, ...nothing });
    }
    return changed(1);
  }

  #ownedBy(owner: string): Result {
    if (this.#broken.has("orphans-stay")) return { rows: [] };
    const own = [...this.#held.values()].filter((held) => held.owner === owner);
    return { rows: own.map(({ request_id, attempt }) => ({ requestId: request_id, attempt })) };
  }

  #interrupted(graceMs: number): Result {
    if (this.#broken.has("calls-of-the-dead-stay")) return { rows: [] };
    const gone = [...this.#held.values()].filter(({ owner }) => !this.#leaseOwners.isAlive(owner, graceMs));
    return { rows: gone.map(({ owner, line }) => ({ owner, line })) };
  }

  #moveTo(owner: string, before: string): Result {
    for (const held of this.#held.values()) if (held.owner === before) held.owner = owner;
    return changed(1);
  }

  readonly statements: readonly Statement[] = [
    ["troupe.reserve_calls(", (values) => this.#reserveAll(values)],
    ["select value::float8 as value from troupe.generations", () => ({ rows: [{ value: 1 }] })],
    ["troupe.open_ledger_day(", () => changed(1)],
    ["insert into troupe.ledger", (values) => this.#append(values)],
    [
      "select troupe.settle_calls($1",
      ([list]) => {
        for (const end of JSON.parse(list as string) as End[]) this.#settle(end, false);
        return changed(1);
      },
    ],
    ["troupe.note_calls(", (values) => this.#note(values)],
    ['select request_id as "requestId"', ([owner]) => this.#ownedBy(owner as string)],
    ["select owner, line from troupe.reservations", ([graceMs]) => this.#interrupted(graceMs as number)],
    ["update troupe.reservations set owner", ([owner, before]) => this.#moveTo(owner as string, before as string)],
    ["select troupe.open_spans(", () => changed(1)],
    [
      "select asked.scope, asked.span",
      ([asked]) => ({ rows: (JSON.parse(asked as string) as Span[]).map((one) => ({ ...this.#open(one) })) }),
    ],
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
