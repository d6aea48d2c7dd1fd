/** The counter of pools of money as its script makes it, in memory. What it does is told in src/store/budget-pools.ts. */
import {
  type CallReply,
  type CounterCall,
  type CounterExchange,
  type CounterReply,
  type DueAccount,
  type PoolReply,
  poolTimes,
  type WindowWord,
} from "../../src/store/budget-pools.ts";
import type { Mutation } from "./mutations.ts";

type Pool = {
  granted: number;
  returned: number;
  spent: number;
  held: number;
  isClosed: boolean;
  touched: number;
  limit: number;
  used: number;
  due: number;
  filling: number;
  step: number;
  filled: number;
  told: number;
  readonly spenders: Map<string, number>;
  readonly holders: Map<string, number>;
  /** The nodes of which the database does not know all. */
  readonly dirty: Set<string>;
  /** Of this exchange alone. */
  isShort: boolean;
  isEnded: boolean;
};
type Window = Map<number, number>;

const windowMs = 60_000;
const gatheredMs = 500;
const accountMs = 600;
const fillMs = 500;
const inUseMs = 1_000;
const quietMs = 60_000;
const maxSums = 500;

export class ModelledCounter {
  readonly #now: () => number;
  readonly #broken: ReadonlySet<Mutation>;
  readonly #nodes = new Map<string, { number: number; answer: CounterReply | undefined; until: number }>();
  readonly #pools = new Map<string, Pool>();
  readonly #windows = new Map<string, Window>();
  #epochs = 0;
  #began: number | undefined;
  /** Told of tokens that were counted. */
  onCounted: (node: string, key: string, tokens: number) => void = () => {};

  /** @param now the server's clock, in Unix milliseconds */
  constructor(now: () => number, broken: ReadonlySet<Mutation>) {
    this.#now = now;
    this.#broken = broken;
  }

  /** As any restart does: what an old copy of its data may hold is not found. */
  forget(): void {
    this.#nodes.clear();
    this.#pools.clear();
    this.#windows.clear();
    this.#began = undefined;
  }

  /** @param from the node's name in the simulation */
  exchange(x: CounterExchange, from: string): CounterReply | "lapsed" {
    const now = Math.floor(this.#now());
    let node = this.#nodes.get(x.node);
    if (node !== undefined && node.until <= now) node = undefined;
    if (node === undefined && !x.isNew) return "lapsed";
    node ??= { number: -1, answer: undefined, until: 0 };
    this.#nodes.set(x.node, node);
    node.until = now + poolTimes.lapseMs;
    if (x.number < node.number) return "lapsed";
    if (x.number === node.number) return node.answer!;
    if (this.#began === undefined) {
      this.#began = now;
      this.#epochs += 1;
    }
    const pools = x.pools.map((word) => this.#told(x.node, word, now));
    const windows = x.windows.map((word) => this.#counted(word, now));
    const calls = x.calls.map((call) => this.#decide(x, call, pools, windows, now, from));
    const answers = pools.map((pool, at) => this.#answer(x, at, pool, now));
    const answer = { now, epoch: String(this.#epochs), epochMs: now - this.#began, pools: answers, calls };
    Object.assign(node, { number: x.number, answer });
    return answer;
  }

  #told(node: string, word: CounterExchange["pools"][number], now: number): Pool | undefined {
    let pool = this.#pools.get(word.pool);
    if (pool === undefined && word.install !== undefined) {
      const { granted, at, limit, step } = word.install;
      pool = {
        granted,
        returned: 0,
        spent: 0,
        held: 0,
        isClosed: false,
        touched: at,
        limit,
        used: now,
        due: 0,
        filling: 0,
        step,
        filled: now,
        told: 0,
        spenders: new Map(),
        holders: new Map(),
        dirty: new Set(),
        isShort: false,
        isEnded: false,
      };
      this.#pools.set(word.pool, pool);
    }
    if (pool === undefined) return undefined;
    Object.assign(pool, { isShort: false, isEnded: false });
    const spent = pool.spenders.get(node) ?? 0;
    const isMore = word.spent > spent;
    if (isMore) {
      if (!this.#broken.has("pools-are-never-spent")) pool.spent += word.spent - spent;
      pool.spenders.set(node, word.spent);
      pool.dirty.add(node);
    }
    pool.held += word.held - (pool.holders.get(node) ?? 0);
    pool.holders.set(node, word.held);
    if (word.raise !== undefined && word.raise.granted > pool.granted) {
      Object.assign(pool, word.raise, { filled: now, filling: 0 });
    }
    if (word.recorded !== undefined) {
      const { sums, at, returned, isEnded } = word.recorded;
      for (const [name, sum] of Object.entries(sums)) {
        if (pool.spenders.get(name) === sum && !(isMore && name === node)) pool.dirty.delete(name);
      }
      pool.touched = Math.max(pool.touched, at);
      pool.told = Math.max(pool.told, returned);
      pool.isEnded = isEnded;
    }
    const isLower = word.limit !== undefined && word.limit < pool.limit;
    const isOld = now - pool.used > poolTimes.idleMs || now >= pool.touched + poolTimes.goodMs;
    if (word.close === true || isLower || isOld) pool.isClosed = true;
    return pool;
  }

  #counted({ key, uses, fixes }: WindowWord, now: number): Window {
    const window: Window = this.#windows.get(key) ?? new Map();
    this.#windows.set(key, window);
    for (const at of window.keys()) if (at <= now - windowMs) window.delete(at);
    if (!this.#broken.has("shares-of-tokens-are-not-told"))
      for (const [age, tokens] of uses) if (age < windowMs) addTo(window, bucketOf(now - age), tokens);
    for (const [at, tokens] of fixes) {
      const times = tokens < 0 && this.#broken.has("corrections-count-twice") ? 2 : 1;
      if (window.has(at)) addTo(window, at, times * tokens);
      else if (tokens > 0) addTo(window, bucketOf(now), tokens);
    }
    return window;
  }

  #decide(
    x: CounterExchange,
    call: CounterCall,
    pools: readonly (Pool | undefined)[],
    windows: readonly Window[],
    now: number,
    from: string,
  ): CallReply {
    for (const at of call.pools) {
      const pool = pools[at];
      if (pool === undefined || pool.isClosed) return { kind: "gone", pool: at };
    }
    for (const at of call.pools) {
      const pool = pools[at]!;
      if (freeOf(pool) > 0 && call.amount <= freeOf(pool)) continue;
      pool.isShort = true;
      return { kind: "short", pool: at };
    }
    let reply: CallReply = { kind: "reserved" };
    if (call.window !== undefined) {
      const window = windows[call.window]!;
      const { limit } = x.windows[call.window]!;
      const used = usedOf(window);
      const tokens = call.tokens!;
      if (used + tokens > limit) return { kind: "tokens", window: refusedWindow(window, used, tokens, limit, now) };
      const at = bucketOf(now);
      if (!this.#broken.has("tokens-of-pools-are-free")) addTo(window, at, tokens);
      this.onCounted(from, x.windows[call.window]!.key, tokens);
      reply = { kind: "reserved", window: { used: used + tokens, emptyMs: at + windowMs - now, waitMs: 0, at } };
    }
    for (const at of call.pools) {
      const pool = pools[at]!;
      pool.held += call.amount;
      pool.holders.set(x.node, pool.holders.get(x.node)! + call.amount);
      pool.used = now;
    }
    return reply;
  }

  #answer(x: CounterExchange, at: number, pool: Pool | undefined, now: number): PoolReply | undefined {
    if (pool === undefined) return undefined;
    const word = x.pools[at]!;
    this.#return(pool);
    if (pool.isEnded && pool.isClosed && pool.held <= 0 && pool.dirty.size === 0) {
      this.#pools.delete(word.pool);
      return undefined;
    }
    const isNews =
      pool.dirty.size > 0 ||
      pool.returned > pool.told ||
      (pool.isClosed && pool.held <= 0) ||
      now - pool.touched > (pool.used > pool.touched ? inUseMs : quietMs);
    let due: DueAccount | undefined;
    if (word.look === true || (isNews && pool.due <= now)) {
      pool.due = now + accountMs;
      due = this.#account(pool, x.node, now);
    }
    let fill = false;
    if (!pool.isClosed && pool.filling <= now && (pool.isShort || freeOf(pool) < pool.step / 2)) {
      pool.filling = now + fillMs;
      fill = true;
    }
    if (pool.holders.get(x.node) === 0) pool.holders.delete(x.node);
    const { granted, step, filled } = pool;
    const isRecorded = !pool.dirty.has(x.node);
    return { isOpen: !pool.isClosed, granted, step, filledMs: now - filled, fill, isRecorded, ...(due && { due }) };
  }

  /** What is free of one that takes no more calls. */
  #return(pool: Pool): void {
    if (!pool.isClosed) return;
    const held = this.#broken.has("held-money-is-returned") ? 0 : pool.held;
    pool.returned = Math.max(pool.returned, pool.granted - pool.spent - held);
  }

  #account(pool: Pool, own: string, now: number): DueAccount {
    for (const [name, held] of pool.holders) {
      // What a node holds that was not heard of for so long is given back.
      const isAlive = (this.#nodes.get(name)?.until ?? 0) > now;
      if (name === own || (isAlive && !this.#broken.has("living-nodes-lapse"))) continue;
      pool.held -= held;
      if (!isAlive) pool.holders.delete(name);
    }
    this.#return(pool);
    let names = [...pool.dirty].slice(0, maxSums);
    const isEnded = pool.isClosed && pool.held <= 0 && pool.dirty.size === names.length;
    if (isEnded && pool.spenders.size <= maxSums) names = [...pool.spenders.keys()];
    const sums = Object.fromEntries(names.map((name) => [name, pool.spenders.get(name)!]));
    return { sums, returned: pool.returned, held: Math.max(0, pool.held), isEnded };
  }
}

const freeOf = ({ granted, returned, spent, held }: Pool): number => granted - returned - spent - held;
const bucketOf = (at: number): number => Math.ceil(at / gatheredMs) * gatheredMs;
const usedOf = (window: Window): number => [...window.values()].reduce((sum, tokens) => sum + tokens, 0);

function addTo(window: Window, at: number, tokens: number): void {
  window.set(at, Math.max(0, (window.get(at) ?? 0) + tokens));
}

function refusedWindow(window: Window, used: number, tokens: number, limit: number, now: number) {
  let [gone, latest, waitMs] = [0, 0, Number.POSITIVE_INFINITY];
  for (const [at, count] of [...window].sort(([one], [other]) => one - other)) {
    if (count <= 0) continue;
    gone += count;
    latest = at;
    if (tokens <= limit && gone >= used + tokens - limit) waitMs = Math.min(waitMs, Math.max(1, at + windowMs - now));
  }
  return { used, emptyMs: Math.max(0, latest + windowMs - now), waitMs };
}
