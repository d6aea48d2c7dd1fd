/**
 * Budgets and tokens per minute over many nodes. What runs is the gate of a node with its writer of the ledger, its search for calls that nobody
 * ends, and the PostgreSQL repositories; the functions of the database, keys, callers and what calls cost are modelled.
 *
 * Held to docs/budgets.md: never overspent by more than calls were underestimated; each call that was made has one line; in the end what is
 * spent is what lines cost, and what was reserved for those of unknown cost.
 */
import type { Config } from "../../src/config/config.ts";
import type { BudgetRepository, Reservation } from "../../src/store/contract/usage.ts";
import { budgetRepository } from "../../src/store/postgres/budget-repository.ts";
import { HeldCalls } from "../../src/store/postgres/held-calls.ts";
import { ledgerRepository } from "../../src/store/postgres/ledger-repository.ts";
import type { Attempt } from "../../src/usage/attempt.ts";
import { Budgets } from "../../src/usage/budgets/budgets.ts";
import { CallRecovery } from "../../src/usage/ledger/call-recovery.ts";
import { noLabels } from "../../src/usage/ledger/labels.ts";
import { LedgerWriter } from "../../src/usage/ledger/writer.ts";
import { dollarsFrom } from "../../src/usage/money.ts";
import { noTokens } from "../../src/usage/tokens/counts.ts";
import { begunLine } from "../helpers/budgeted-call.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import type { Cluster, Counts, Node, Part } from "./cluster.ts";

type Call = {
  readonly name: string;
  readonly attempt: Attempt;
  readonly cost: number;
  readonly tokens: number;
  /** As the node asked the store. */
  reservation: Reservation | undefined;
  /** `told`: the node knows what it cost. `lost`: its node died before it knew. */
  state: "asked" | "refused" | "open" | "told" | "lost";
  end: () => void;
  /** When the store counted its tokens. */
  countedAt: number | undefined;
};
/** One budget in one span, by what its callers were told. */
type Account = {
  readonly name: string;
  readonly limit: number;
  /** At least so much of it is taken: what calls under way reserved, and the lesser of that and their cost of those that are over. */
  taken: number;
  /** By how much calls cost more than was reserved for them. */
  under: number;
};
/** At least so many of a call's tokens count: the lesser of what was reserved for it and what it used. */
type TokenUse = { readonly at: number; readonly call: string; readonly tokens: number };
type Gate = {
  readonly budgets: Budgets;
  readonly store: BudgetRepository;
  readonly writer: LedgerWriter;
  readonly recovery: CallRecovery;
};

const tags = ["team-a", "team-b", "team-c"];
const tiers = ["free", "pro", "enterprise"] as const;
const prices = { input: 1, output: 5 };
const keys = 20;
const windowMs = 60_000;
/** Until calls under way are over. */
const endedMs = 50_000;
/** Until the last statement that comes late was carried out, and another node has ended the calls of a dead one. */
const abandonedMs = 160_000;

export class BudgetedCalls implements Part {
  readonly name = "budgets";
  readonly patienceMs = abandonedMs + 240_000;
  readonly #cluster: Cluster;
  readonly #total: number;
  readonly #settings: Config["budgets"];
  readonly #tokenLimit: number;
  readonly #gates = new Map<Node, Gate>();
  readonly #open = new Map<Node, Set<Call>>();
  /** By the id of its reservation. */
  readonly #calls = new Map<string, Call>();
  readonly #accounts = new Map<string, Account>();
  /** By key. */
  readonly #uses = new Map<string, TokenUse[]>();
  readonly #counts = {
    asked: 0,
    allowed: 0,
    refused: 0,
    overTokens: 0,
    unavailable: 0,
    waited: 0,
    lost: 0,
  };
  #waiting = 0;
  #isJudged = false;
  #quietAt = Number.POSITIVE_INFINITY;

  /** @param calls how many come in all */
  constructor(cluster: Cluster, calls: number) {
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
      estimateFactor: 1,
    };
    this.#tokenLimit = Math.ceil((calls / keys) * 250);
    cluster.database.budgets.onReserved = (id) => {
      const call = this.#calls.get(id);
      if (call !== undefined) call.countedAt ??= cluster.world.now;
    };
  }

  join(node: Node): void {
    const { path, background, leaseOwner, machine } = node;
    const held = new HeldCalls(background, leaseOwner);
    const store = budgetRepository({ path, background }, { calls: held, hasOneClock: false });
    const ledger = ledgerRepository({ background, reports: background }, held);
    const writer = new LedgerWriter({
      ledger,
      clock: machine,
      isShared: true,
      onWritten: () => budgets.settled(),
    });
    // Machines are lost with what they noted.
    const recovery = new CallRecovery("/nowhere", ledger, machine, silentLogger);
    const budgets: Budgets = new Budgets({
      store: { ...store, reserve: (reservation) => this.#reserve(reservation, store) },
      clock: machine,
      log: silentLogger,
      settings: () => this.#settings,
      now: () => machine.monotonic(),
      tokensPerMinute: () => this.#tokenLimit,
      price: (_, { prompt_tokens, completion_tokens }) =>
        prompt_tokens * prices.input + completion_tokens * prices.output,
    });
    const calls = new Set<Call>();
    machine.onDeath(() => {
      this.#gates.delete(node);
      for (const call of calls) this.#lose(call);
    });
    this.#open.set(node, calls);
    const start = async () => {
      await budgets.load();
      await budgets.start();
      await recovery.start();
      this.#gates.set(node, { budgets, store, writer, recovery });
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
    gate.budgets.close();
    gate.recovery.close();
    await gate.writer.close();
  }

  begin(span: number): void {
    const { world } = this.#cluster;
    this.#quietAt = span;
    for (let at = 0; at < this.#total; at += 1)
      world.after(world.between(0, span), () => this.#client(this.#newCall(`call${at}`)));
    world.after(span + abandonedMs, () => void this.#judge(this.#cluster.addNode()));
  }

  get isDone(): boolean {
    return this.#isJudged;
  }

  get isIdle(): boolean {
    return this.#cluster.world.now >= this.#quietAt + endedMs;
  }

  check(): Counts {
    if (!this.#isJudged) this.#cluster.fail("budgets", "could not be looked at in the end");
    if (this.#waiting > 0) this.#cluster.fail("budgets", `have ${this.#waiting} calls that wait for ever`);
    for (const [key, uses] of this.#uses) this.#assertTokens(key, uses);
    return this.#counts;
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
      keyId: `key${world.random.below(keys)}`,
      tier: world.random.pick(tiers),
      tags: world.chance(500) ? [world.random.pick(tags)] : [],
      labels: noLabels,
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
    };
  }

  #client(call: Call): void {
    const node = this.#cluster.anyNode();
    node.machine.deliver(() => {
      const gate = this.#gates.get(node);
      if (gate !== undefined) this.#ask(node, gate, call);
    });
  }

  #ask(node: Node, gate: Gate, call: Call): void {
    const { world } = this.#cluster;
    const { machine } = node;
    this.#counts.asked += 1;
    this.#waiting += 1;
    world.note(call.name, `asked of ${machine.name}`);
    const calls = this.#open.get(node)!;
    calls.add(call);
    const { requestId, keyId, tags, tier } = call.attempt;
    const line = begunLine(requestId, { at: machine.now(), keyId, tags, tier });
    this.#calls.set(requestId, call);
    const reserving = gate.budgets.reserve(call.attempt, line);
    if (reserving === undefined) throw new Error("no budget applies");
    const refused = (error: unknown) => {
      if (call.state !== "asked") return;
      this.#waiting -= 1;
      calls.delete(call);
      call.state = "refused";
      this.#countRefusal(call, error as Error & { code?: string });
    };
    reserving.then(
      () => {
        if (call.state !== "asked") return;
        this.#waiting -= 1;
        const begun = gate.writer.begin(line, true);
        this.#allowed(node, call, gate.writer, begun);
      },
      (error) => {
        gate.writer.push({ ...line, ended: "refused", cost: 0, counted: "none" });
        refused(error);
      },
    );
  }

  #countRefusal({ name }: Call, { code, message }: Error & { readonly code?: string }): void {
    this.#cluster.world.note(name, `refused: ${code ?? message}`);
    if (code === "insufficient_quota") this.#counts.refused += 1;
    else if (code === "rate_limit_exceeded") this.#counts.overTokens += 1;
    else this.#counts.unavailable += 1;
  }

  #allowed(node: Node, call: Call, writer: LedgerWriter, begun: ReturnType<LedgerWriter["begin"]>): void {
    const { world } = this.#cluster;
    const amount = call.reservation!.amount;
    this.#counts.allowed += 1;
    call.state = "open";
    world.note(call.name, `allowed, ${amount} reserved`);
    this.#useTokens(call);
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
      this.#end(node, call, writer, begun);
    };
    const cancel = node.machine.setTimer(
      world.chance(100) ? world.between(5_000, 40_000) : world.between(20, 3_000),
      () => call.end(),
    );
  }

  #end(node: Node, call: Call, writer: LedgerWriter, begun: ReturnType<LedgerWriter["begin"]>): void {
    if (call.state !== "open") return;
    const { amount, line } = call.reservation!;
    call.state = "told";
    this.#open.get(node)!.delete(call);
    this.#cluster.world.note(call.name, `over, cost ${call.cost}`);
    for (const account of this.#accountsOf(call)) {
      account.taken += Math.min(amount, call.cost) - amount;
      account.under += Math.max(0, call.cost - amount);
    }
    const tokens = { ...noTokens, input: call.tokens };
    writer.push({ ...line, ended: "finished", counted: "upstream", cost: call.cost, tokens }, begun);
  }

  /** Its node dies: what it reserved is spent. */
  #lose(call: Call): void {
    this.#cluster.world.note(call.name, "lost with its node");
    if (call.state === "asked") this.#waiting -= 1;
    if (call.state === "open") this.#counts.lost += 1;
    call.state = "lost";
  }

  async #reserve(reservation: Reservation, store: BudgetRepository) {
    const call = this.#calls.get(reservation.line.requestId)!;
    this.#counts.waited += Number(call.reservation !== undefined);
    call.reservation = reservation;
    return store.reserve(reservation);
  }

  #accountsOf({ reservation }: Call): Account[] {
    return (reservation?.budgets ?? []).map(({ scope, span, limit }) => {
      const name = `${scope} ${span}`;
      const found = this.#accounts.get(name) ?? { name, limit, taken: 0, under: 0 };
      this.#accounts.set(name, found);
      return found;
    });
  }

  /** It is allowed by its node: so the store has counted it. */
  #useTokens(call: Call): void {
    const at = call.countedAt;
    if (at === undefined) this.#cluster.fail(call.name, "is allowed, but nobody has counted its tokens");
    else this.#usesOf(call).push(this.#useOf(call, at));
  }

  #usesOf({ attempt: { keyId } }: Call): TokenUse[] {
    const uses = this.#uses.get(keyId) ?? [];
    this.#uses.set(keyId, uses);
    return uses;
  }

  #useOf({ name, tokens, reservation }: Call, at: number): TokenUse {
    return { at, call: name, tokens: Math.min(tokens, reservation!.tokens!.tokens) };
  }

  /** In any minute no key was given more than its limit. */
  #assertTokens(key: string, uses: readonly TokenUse[]): void {
    const inOrder = uses.toSorted((one, other) => one.at - other.at);
    let [first, sum] = [0, 0];
    for (const last of inOrder) {
      sum += last.tokens;
      // Times of a store are whole milliseconds.
      for (; last.at - inOrder[first]!.at >= windowMs - 1; first += 1) sum -= inOrder[first]!.tokens;
      if (sum <= this.#tokenLimit) continue;
      const words = `of ${key} makes ${sum} tokens in a minute of ${this.#tokenLimit}`;
      this.#cluster.fail(last.call, words, last.at);
      return;
    }
  }

  /** Once all is over: each call that was made has its line, what is spent is what they cost, and what is left may be used. */
  async #judge(node: Node): Promise<void> {
    while (!this.#gates.has(node)) await new Promise<void>((resolve) => node.machine.setTimer(1_000, resolve));
    const gate = this.#gates.get(node)!;
    const { open, lines } = this.#cluster.database.budgets;
    for (const id of open) this.#cluster.fail(this.#calls.get(id)?.name ?? "budgets", "is not ended");
    const spent = new Map<string, number>();
    for (const call of this.#calls.values()) {
      const cost = lines.get(call.name);
      const wasMade = call.countedAt !== undefined;
      if (cost === undefined && wasMade) this.#cluster.fail(call.name, "was reserved, and has no line");
      if (cost !== undefined && cost !== null && cost !== 0 && cost !== call.cost)
        this.#cluster.fail(call.name, `cost ${call.cost}, and its line says ${cost}`);
      if (cost === undefined) continue;
      for (const { name } of this.#accountsOf(call))
        spent.set(name, (spent.get(name) ?? 0) + (cost ?? call.reservation!.amount));
    }
    const accounts = [...this.#accounts.values()];
    const spans = accounts.map(({ name }) => ({ scope: name.split(" ")[0]!, span: name.split(" ")[1]! }));
    const found = await gate.store.spending(spans);
    for (const [at, { name, limit, under }] of accounts.entries()) {
      const { spent: stored, reserved } = found[at]!;
      if (reserved !== 0) this.#cluster.fail("budgets", `have ${reserved} of ${name} reserved by nobody`);
      const told = spent.get(name) ?? 0;
      if (stored !== told) this.#cluster.fail("budgets", `have ${stored} of ${name} spent, but the ledger ${told}`);
      if (stored > limit + under) this.#cluster.fail("budgets", `have ${stored} spent of ${limit} of ${name}`);
    }
    for (let key = 0; key < keys; key += 1) await this.#assertOpen(gate, `key${key}`, node.machine.now());
    this.#isJudged = true;
  }

  /** A small call is refused where a budget is spent, and only there. */
  async #assertOpen({ budgets, store, writer }: Gate, keyId: string, at: number): Promise<void> {
    const call = { ...this.#newCall(`last-${keyId}`), cost: 1 };
    const attempt = { ...call.attempt, keyId, tags: [], tier: "pro", bounds: { inputBytes: 1, maxOutputTokens: 0 } };
    const line = begunLine(call.name, { at, keyId, tier: "pro" });
    this.#calls.set(call.name, call);
    const isOpen = await budgets.reserve(attempt, line)!.then(
      () => true,
      () => false,
    );
    writer.push({ ...line, cost: 0 });
    await writer.flush();
    const asked = call.reservation!.budgets;
    const found = await store.spending(asked);
    const hasRoom = asked.every(({ limit }, place) => found[place]!.spent < limit);
    if (isOpen !== hasRoom)
      this.#cluster.fail("budgets", `${isOpen ? "allow" : "refuse"} a call of ${keyId} in the end`);
  }
}
