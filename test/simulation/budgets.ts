/**
 * Budgets and tokens per minute over many nodes. What runs is the gate of a node with its queue of settlements, and the PostgreSQL
 * repository; the functions of the database, keys, callers and what calls cost are modelled.
 *
 * Held to docs/budgets.md: never overspent by more than calls were underestimated; in the end what is spent is what calls cost, and
 * nothing is reserved.
 */
import type { Config } from "../../src/config/config.ts";
import { poolRepository } from "../../src/store/postgres/budget-pools.ts";
import { budgetRepository } from "../../src/store/postgres/budget-repository.ts";
import type { BudgetRepository, Reservation } from "../../src/store/store.ts";
import type { Attempt, Reservation as Reserved } from "../../src/usage/attempt.ts";
import { Budgets } from "../../src/usage/budgets.ts";
import { PooledBudgets } from "../../src/usage/pooled-budgets.ts";
import { dollarsFrom } from "../../src/usage/spans.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import type { Cluster, Counts, Node, Part } from "./cluster.ts";
import { type TokenUse, usedIn, windowMs, wrongTokensOf } from "./tokens.ts";

type Call = {
  readonly name: string;
  readonly attempt: Attempt;
  readonly cost: number;
  readonly tokens: number;
  /** As the node asked the store. */
  reservation: Reservation | undefined;
  /** `told`: the node knows what it cost. `settled`: so does the store. `lost`: its node died before it knew. */
  state: "asked" | "refused" | "open" | "told" | "settled" | "lost";
  end: () => void;
  /** When the store counted its tokens. */
  countedAt: number | undefined;
  /** Whether the node may have admitted it by its share of tokens. */
  byShare: boolean;
  /** How often the store was asked to settle it. */
  tries: number;
};
/** One budget in one span, by what its callers were told. */
type Account = {
  readonly name: string;
  readonly limit: number;
  /** At least so much of it is taken: what calls under way reserved, and the lesser of that and their cost of those that are over. */
  taken: number;
  /** By how much calls cost more than was reserved for them. */
  under: number;
  spent: number;
  /** What calls cost whose node died when the store was told. */
  unsure: number;
};
type Gate = { readonly budgets: Budgets; readonly store: BudgetRepository; readonly pooled: PooledBudgets | undefined };

const tags = ["team-a", "team-b", "team-c"];
const tiers = ["free", "pro", "enterprise"] as const;
const prices = { input: 1, output: 5 };
/** Calls that only tokens are counted of, for each key: so many fit into a minute, and so many times as many come. */
const tokenCalls = (nodes: number) => 40 + nodes;
const tokenKeys = 2;
const tokenPressure = 2;
/** What is reserved for one of them, on the average; and what of a limit is given at least, as they use less than that. */
const meanTokens = 625;
const leastPart = 0.5;
/** Until all nodes reach the stores again, and have told what they admitted. */
const settledMs = 15_000;
/** Until calls under way are over. */
const endedMs = 50_000;
/** Until what dead nodes reserved is given back, when another one starts. */
const abandonedMs = 600_000 + 60_000;
/** What a node spent of pools is told by then, unless it reaches neither store. */
const toldMs = 60_000;
/** Until pools are looked at whose nodes are gone. */
const pooledMs = 120_000;

export class BudgetedCalls implements Part {
  readonly name: string;
  readonly patienceMs = abandonedMs + 240_000;
  /** Whether calls are reserved from pools at the counter. */
  readonly #isPooled: boolean;
  readonly #cluster: Cluster;
  readonly #total: number;
  readonly #settings: Config["budgets"];
  readonly #tokenLimit: number;
  /** Pools are made where there is room for many calls: so they have fewer budgets. */
  readonly #keys: number;
  readonly #gates = new Map<Node, Gate>();
  readonly #open = new Map<Node, Set<Call>>();
  /** By the id of its reservation. */
  readonly #calls = new Map<string, Call>();
  readonly #accounts = new Map<string, Account>();
  /** By key. */
  readonly #uses = new Map<string, TokenUse[]>();
  /** What the counter has counted and nobody was told of yet, by node, key and tokens. */
  readonly #counted = new Map<string, number[]>();
  readonly #counts = {
    asked: 0,
    allowed: 0,
    refused: 0,
    overTokens: 0,
    byShare: 0,
    unavailable: 0,
    settled: 0,
    lost: 0,
    unsure: 0,
    pooled: 0,
  };
  /** The call that a node is about to ask the store for. */
  #asking: Call | undefined;
  #waiting = 0;
  #isJudged = false;
  #quietAt = Number.POSITIVE_INFINITY;

  /** @param calls how many come in all */
  constructor(cluster: Cluster, calls: number, isPooled: boolean) {
    this.name = isPooled ? "pooledBudgets" : "budgets";
    this.#isPooled = isPooled;
    const keys = isPooled ? 3 : 20;
    this.#keys = keys;
    this.#cluster = cluster;
    this.#total = calls;
    // Less than is asked for, though some nodes take it for the next month already.
    const dollars = (parts: number) => dollarsFrom(Math.ceil((calls * 600) / parts));
    this.#settings = {
      all: { month: dollars(1) },
      tiers: { free: { day: dollars(3) }, pro: {}, enterprise: {} },
      tags: { "team-a": { day: dollars(4), month: dollars(3) }, "team-b": { prepaid: dollars(4) } },
      keys: { day: dollars(keys) },
      unknownPrice: "refuse",
      assumedOutputTokens: 1_000,
      assumedToolUses: 5,
    };
    this.#tokenLimit = Math.ceil((calls / keys) * 250);
    cluster.database.budgets.onReserved = (id) => this.#reservedBy(id);
    cluster.coordination.counter.onCounted = (...name) => {
      const counted = this.#counted.get(name.join(" "));
      if (counted === undefined) this.#counted.set(name.join(" "), [cluster.world.now]);
      else counted.push(cluster.world.now);
    };
  }

  join(node: Node): void {
    const { path, background, holder, machine } = node;
    const database = budgetRepository({ path, background }, { holder, hasOneClock: false });
    const pooled = this.#isPooled
      ? new PooledBudgets({
          store: database,
          poolRepository: poolRepository({ path, background }),
          counter: this.#cluster.coordination.counterOf(machine),
          clock: machine,
          log: silentLogger,
          nodes: () => this.#cluster.size,
        })
      : undefined;
    const store: BudgetRepository = pooled ?? database;
    const budgets = new Budgets({
      store: {
        ...database,
        releaseAbandoned: () => store.releaseAbandoned(),
        reserve: (reservation) => this.#reserve(reservation, store, pooled),
        settle: (id, spent, tokens) => this.#settle(store, id, spent, tokens),
      },
      clock: machine,
      log: silentLogger,
      settings: () => this.#settings,
      now: () => machine.monotonic(),
      tokensPerMinute: (keyId) => this.#tokenLimitOf(keyId),
      price: (_, { prompt_tokens, completion_tokens }) =>
        prompt_tokens * prices.input + completion_tokens * prices.output,
    });
    const calls = new Set<Call>();
    machine.onDeath(() => {
      this.#counts.pooled += pooled?.counts.pooled ?? 0;
      this.#gates.delete(node);
      for (const call of [...calls]) this.#lose(call);
    });
    this.#open.set(node, calls);
    const start = async () => {
      await budgets.load();
      await budgets.start();
      this.#gates.set(node, { budgets, store, pooled });
    };
    const startSoon = () => void start().catch(() => machine.setTimer(1_000, startSoon));
    void node.ready.then(startSoon);
  }

  /** Calls under way end, and are told of. */
  async leave(node: Node): Promise<void> {
    const gate = this.#gates.get(node);
    if (gate === undefined) return;
    this.#gates.delete(node);
    for (const call of [...this.#open.get(node)!]) call.end();
    await gate.budgets.close();
    await gate.pooled?.close();
    const calls = this.#open.get(node)!;
    // All is told.
    if (gate.pooled?.waiting === 0) for (const call of calls) if (call.state === "settled") calls.delete(call);
  }

  begin(span: number): void {
    const { world } = this.#cluster;
    this.#quietAt = span;
    if (this.#isPooled) for (let at = 0; at < tokenKeys; at += 1) this.#askLater(`tokens${at}`);
    for (let at = 0; at < this.#total; at += 1)
      world.after(world.between(0, span), () => this.#client(this.#newCall(`call${at}`)));
    world.after(span + abandonedMs + (this.#isPooled ? pooledMs : 0), () => void this.#judge(this.#cluster.addNode()));
  }

  get isDone(): boolean {
    return this.#isJudged;
  }

  get isIdle(): boolean {
    return this.#cluster.world.now >= this.#endsAt + endedMs;
  }

  /** Two minutes after the last fault, so that one is seen that nothing disturbed. */
  get #endsAt(): number {
    return this.#quietAt + (this.#isPooled ? settledMs + 2 * windowMs : 0);
  }

  #tokenLimitOf(keyId: string): number {
    return keyId.startsWith("tokens") ? tokenCalls(this.#cluster.options.nodes) * meanTokens : this.#tokenLimit;
  }

  check(): Counts {
    for (const { pooled } of this.#gates.values()) this.#counts.pooled += pooled?.counts.pooled ?? 0;
    if (!this.#isJudged) this.#cluster.fail("budgets", "could not be looked at in the end");
    if (this.#waiting > 0) this.#cluster.fail("budgets", `have ${this.#waiting} calls that wait for ever`);
    for (const [key, uses] of this.#uses) this.#assertTokens(key, uses);
    return this.#counts;
  }

  /** Calls of a key that only tokens are counted of, one after the other. */
  #askLater(keyId: string): void {
    const { world, options } = this.#cluster;
    const everyMs = windowMs / (tokenCalls(options.nodes) * tokenPressure);
    world.after(world.between(0, Math.ceil(2 * everyMs)), () => {
      if (world.now >= this.#endsAt) return;
      const call = this.#newCall(`${keyId}-${this.#counts.asked}`);
      const { attempt } = call;
      const bounds = { ...attempt.bounds!, billed: "nothing" } as const;
      // Most of what they reserve: so a limit is reached.
      const tokens = Math.ceil((bounds.inputBytes / 3 + bounds.maxOutputTokens!) * (world.between(60, 100) / 100));
      this.#client({ ...call, cost: 0, tokens, attempt: { ...attempt, keyId, tags: [], bounds } });
      this.#askLater(keyId);
    });
  }

  #newCall(name: string): Call {
    const { world } = this.#cluster;
    const bounds = { inputBytes: world.between(100, 2_000), maxOutputTokens: world.between(50, 500) };
    const estimate = bounds.inputBytes * prices.input + bounds.maxOutputTokens * prices.output;
    // Some are underestimated.
    const part = world.chance(50) ? world.between(100, 130) : world.between(5, 100);
    const attempt: Attempt = {
      requestId: name,
      number: 1,
      keyId: `key${world.random.below(this.#keys)}`,
      tier: world.random.pick(tiers),
      tags: world.chance(500) ? [world.random.pick(tags)] : [],
      surface: "gateway",
      format: "chat",
      model: "model",
      bounds,
    };
    const cost = Math.ceil((estimate * part) / 100);
    const tokens = Math.ceil(((bounds.inputBytes / 4 + bounds.maxOutputTokens) * part) / 100);
    return {
      name,
      attempt,
      cost,
      tokens,
      reservation: undefined,
      state: "asked",
      end: () => {},
      countedAt: undefined,
      byShare: false,
      tries: 0,
    };
  }

  #client(call: Call): void {
    const node = this.#cluster.anyNode();
    node.machine.deliver(() => {
      const gate = this.#gates.get(node);
      if (gate !== undefined) this.#ask(node, gate.budgets, call);
    });
  }

  #ask(node: Node, budgets: Budgets, call: Call): void {
    const { world } = this.#cluster;
    const { machine } = node;
    this.#counts.asked += 1;
    this.#waiting += 1;
    world.note(call.name, `asked of ${machine.name}`);
    const calls = this.#open.get(node)!;
    calls.add(call);
    this.#asking = call;
    const reserving = budgets.reserve(call.attempt, machine.now());
    this.#asking = undefined;
    if (reserving === undefined) throw new Error("no budget applies");
    const refused = (error: unknown) => {
      if (call.state !== "asked") return;
      this.#waiting -= 1;
      calls.delete(call);
      call.state = "refused";
      this.#countRefusal(call, error as Error & { code?: string });
    };
    reserving.then((reserved) => {
      if (call.state !== "asked") return;
      this.#waiting -= 1;
      this.#allowed(node, call, reserved);
    }, refused);
  }

  #countRefusal({ name }: Call, { code, message }: Error & { readonly code?: string }): void {
    this.#cluster.world.note(name, `refused: ${code ?? message}`);
    if (code === "insufficient_quota") this.#counts.refused += 1;
    else if (code === "rate_limit_exceeded") this.#counts.overTokens += 1;
    else this.#counts.unavailable += 1;
  }

  #allowed(node: Node, call: Call, reserved: Reserved): void {
    const { world } = this.#cluster;
    const amount = call.reservation!.amount;
    this.#counts.allowed += 1;
    call.state = "open";
    world.note(call.name, `allowed, ${amount} reserved`);
    this.#useTokens(node, call);
    for (const account of this.#accountsOf(call)) {
      account.taken += amount;
      if (account.taken <= account.limit + account.under) continue;
      this.#cluster.fail(
        call.name,
        `overspends ${account.name}: ${account.taken} of ${account.limit} and ${account.under}`,
      );
    }
    call.end = () => {
      cancel();
      this.#end(node, call, reserved);
    };
    const cancel = node.machine.setTimer(
      world.chance(this.#isPooled ? 300 : 100) ? world.between(5_000, 40_000) : world.between(20, 3_000),
      () => call.end(),
    );
  }

  #end(node: Node, call: Call, reserved: Reserved): void {
    if (call.state !== "open") return;
    const { amount } = call.reservation!;
    call.state = "told";
    this.#cluster.world.note(call.name, `over, cost ${call.cost}`);
    for (const account of this.#accountsOf(call)) {
      account.taken += Math.min(amount, call.cost) - amount;
      account.under += Math.max(0, call.cost - amount);
    }
    // What is not settled when its node dies, nobody knows of.
    this.#open.get(node)!.add(call);
    reserved.settle({ cost: call.cost, counted: "upstream", tokens: { input: call.tokens, output: 0 } } as Line);
  }

  /** Its node dies. */
  #lose(call: Call): void {
    const amount = call.reservation?.amount ?? 0;
    this.#cluster.world.note(call.name, "lost with its node");
    if (call.state === "asked") this.#waiting -= 1;
    if (call.state === "open") {
      this.#counts.lost += 1;
      for (const account of this.#accountsOf(call)) account.taken -= amount;
    }
    if (call.state === "told" || call.state === "settled") {
      this.#counts.unsure += 1;
      for (const account of this.#accountsOf(call)) {
        if (call.state === "settled") account.spent -= call.cost;
        account.taken -= Math.min(amount, call.cost);
        account.unsure += call.cost;
      }
    }
    call.state = "lost";
  }

  async #reserve(reservation: Reservation, store: BudgetRepository, pooled: PooledBudgets | undefined) {
    const call = this.#asking!;
    call.reservation = reservation;
    this.#calls.set(reservation.id, call);
    const before = pooled?.counts.byShare ?? 0;
    const reserved = await store.reserve(reservation);
    // Of another call at the same time, perhaps.
    call.byShare = (pooled?.counts.byShare ?? 0) > before;
    return reserved;
  }

  async #settle(store: BudgetRepository, id: string, spent: number, tokens: number): Promise<boolean> {
    const call = this.#calls.get(id);
    const isFirst = call?.tries === 0;
    if (call !== undefined) call.tries += 1;
    const isSettled = await store.settle(id, spent, tokens);
    if (call?.state !== "told") return isSettled;
    call.state = "settled";
    this.#counts.settled += 1;
    this.#cluster.world.note(call.name, "settled");
    // One whose answer was lost may have done it.
    if (isFirst && !isSettled) this.#cluster.fail(call.name, "is settled, but its reservation is gone");
    for (const account of this.#accountsOf(call)) account.spent += call.cost;
    // Of a pool the node tells it later.
    const isTold = () => {
      for (const calls of this.#open.values()) if (calls.delete(call)) break;
    };
    if (this.#isPooled) this.#cluster.world.after(toldMs, isTold);
    else isTold();
    return isSettled;
  }

  #accountsOf({ reservation }: Call): Account[] {
    return (reservation?.budgets ?? []).map(({ scope, span, limit }) => {
      const name = `${scope} ${span}`;
      const found = this.#accounts.get(name) ?? { name, limit, taken: 0, under: 0, spent: 0, unsure: 0 };
      this.#accounts.set(name, found);
      return found;
    });
  }

  #reservedBy(id: string): void {
    const [first, again] = id.split("-");
    const call = this.#calls.get(first!);
    if (call === undefined) return;
    this.#cluster.world.note(call.name, `reserved by the store as ${id}`);
    // At the counter tokens are counted apart. Of one that was sent twice the first counts for nobody.
    if (this.#isPooled || (call.countedAt !== undefined && again === undefined)) return;
    call.countedAt = this.#cluster.world.now;
  }

  /** It is allowed by its node: so the store has counted it, or the node went by its share. */
  #useTokens({ machine }: Node, call: Call): void {
    const { world } = this.#cluster;
    const { key, tokens } = call.reservation!.tokens!;
    this.#counts.byShare += Number(call.byShare);
    // Of those that were counted alike the last: nobody may have been told of the others.
    const counted = this.#isPooled ? this.#counted.get(`${machine.name} ${key} ${tokens}`)?.pop() : call.countedAt;
    const at = call.byShare ? world.now : counted;
    if (at === undefined) this.#cluster.fail(call.name, "is allowed, but nobody has counted its tokens");
    else this.#usesOf(call).push(this.#useOf(call, at));
  }

  #usesOf({ attempt: { keyId } }: Call): TokenUse[] {
    const uses = this.#uses.get(keyId) ?? [];
    this.#uses.set(keyId, uses);
    return uses;
  }

  #useOf({ name, tokens, reservation, byShare }: Call, at: number): TokenUse {
    return { at, call: name, tokens: Math.min(tokens, reservation!.tokens!.tokens), byShare };
  }

  #assertTokens(key: string, uses: readonly TokenUse[]): void {
    const { coordination, replacements, faultPlan, options } = this.#cluster;
    const [cut] = coordination.network.outages;
    const limit = this.#tokenLimitOf(key);
    const wrong = wrongTokensOf(uses, {
      limit,
      losses: this.#isPooled ? coordination.restarts : [],
      replacements,
      nodes: options.nodes,
      // What was admitted just before an outage only the stores know.
      exactFrom: faultPlan === "none" ? 0 : faultPlan === "outage" ? cut!.from + settledMs : Number.POSITIVE_INFINITY,
    });
    if (wrong !== undefined) this.#cluster.fail(wrong.use.call, `of ${key} makes ${wrong.words}`, wrong.use.at);
    if (!key.startsWith("tokens")) return;
    const from = this.#quietAt + settledMs + windowMs;
    const given = usedIn(uses, from, from + windowMs);
    if (given < limit * leastPart)
      this.#cluster.fail("budgets", `give ${given} tokens of ${limit} of ${key} from ${from}`);
    const alone = uses.find(({ at, byShare }) => byShare && at > from);
    if (alone !== undefined) this.#cluster.fail(alone.call, "meets a node alone, long after the last fault");
  }

  /** Once all is over: what the store says is what was spent, nothing is reserved, and what is left may be used. */
  async #judge(node: Node): Promise<void> {
    while (!this.#gates.has(node)) await new Promise<void>((resolve) => node.machine.setTimer(1_000, resolve));
    const { budgets, store } = this.#gates.get(node)!;
    for (const id of this.#cluster.database.budgets.reservations) {
      this.#cluster.fail(
        this.#calls.get(id.split("-")[0]!)?.name ?? "budgets",
        "is over, and something is still reserved for it",
      );
    }
    const accounts = [...this.#accounts.values()];
    const spans = accounts.map(({ name }) => ({ scope: name.split(" ")[0]!, span: name.split(" ")[1]! }));
    const found = await store.spending(spans);
    for (const [at, { name, limit, under, spent, unsure }] of accounts.entries()) {
      const { spent: stored, reserved } = found[at]!;
      if (reserved !== 0) this.#cluster.fail("budgets", `have ${reserved} of ${name} reserved by nobody`);
      if (stored < spent || stored > spent + unsure) {
        this.#cluster.fail("budgets", `have ${stored} of ${name} spent, but calls cost ${spent} and perhaps ${unsure}`);
      }
      if (stored > limit + under + unsure) this.#cluster.fail("budgets", `have ${stored} spent of ${limit} of ${name}`);
    }
    for (let key = 0; key < this.#keys; key += 1)
      await this.#assertOpen(budgets, store, `key${key}`, node.machine.now());
    this.#isJudged = true;
  }

  /** A small call is refused where a budget is spent, and only there. */
  async #assertOpen(budgets: Budgets, store: BudgetRepository, keyId: string, at: number): Promise<void> {
    const call = { ...this.#newCall(`last-${keyId}`), cost: 1 };
    const attempt = { ...call.attempt, keyId, tags: [], tier: "pro", bounds: { inputBytes: 1, maxOutputTokens: 0 } };
    this.#asking = call;
    const reserving = budgets.reserve(attempt, at)!;
    this.#asking = undefined;
    const asked = call.reservation!.budgets;
    const isOpen = await reserving.then(
      (reserved) => {
        reserved.settle({ cost: 0, counted: "upstream", tokens: { input: 0, output: 0 } } as unknown as Line);
        return true;
      },
      () => false,
    );
    const found = await store.spending(asked);
    const hasRoom = asked.every(({ limit }, place) => found[place]!.spent < limit);
    if (isOpen !== hasRoom)
      this.#cluster.fail("budgets", `${isOpen ? "allow" : "refuse"} a call of ${keyId} in the end`);
  }
}

type Line = Parameters<Reserved["settle"]>[0];
