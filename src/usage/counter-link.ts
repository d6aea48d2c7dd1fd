/**
 * The way of a node to the counter: one exchange at a time, numbered, with whatever was asked for meanwhile. One without an answer is sent
 * again until there is one, so that it counts once; until then nobody waits for the counter.
 */
import type { Clock } from "../lib/clock.ts";
import type { CounterCall, CounterExchange, CounterReply, PoolCounter, PoolReply } from "../store/budget-pools.ts";
import type { TokenWindow } from "../store/store.ts";
import { NodePool } from "./node-pool.ts";
import { NodeTokens, type TokenUse } from "./node-tokens.ts";

/** A call to be reserved in all of its pools and its window, or in none. */
export type LinkCall = {
  readonly amount: number;
  readonly pools: readonly { readonly pool: NodePool; readonly limit: number }[];
  readonly window?: { readonly of: NodeTokens; readonly tokens: number };
};

export type LinkReserved = {
  readonly kind: "reserved";
  readonly window?: TokenWindow & { readonly at: number };
  readonly use?: TokenUse;
};
export type LinkReply =
  | LinkReserved
  | { readonly kind: "tokens"; readonly window: TokenWindow }
  | { readonly kind: "short"; readonly pool: NodePool }
  | { readonly kind: "gone"; readonly pool: NodePool }
  | { readonly kind: "away" };

type Ask = { readonly call: LinkCall; readonly resolve: (reply: LinkReply) => void };
type Sent = {
  readonly exchange: CounterExchange;
  readonly pools: readonly NodePool[];
  readonly windows: readonly { readonly window: NodeTokens; readonly answered: () => void }[];
  /** Those that still wait. */
  asks: readonly Ask[];
  /** All that were sent. */
  readonly calls: readonly LinkCall[];
};

export type LineOptions = {
  readonly counter: PoolCounter;
  readonly clock: Clock;
  /** Told of each answer about a pool. @param at of the counter's clock */
  readonly onPool: (pool: NodePool, reply: PoolReply | undefined, at: number) => void;
  readonly onLost: (error: unknown) => void;
  readonly onBack: () => void;
};

const maxCalls = 200;
const maxPools = 300;
const maxWindows = 200;
const soonMs = 10;
const sweepMs = 1_000;
/** Beyond it calls go by the database. */
const maxWaiting = 20_000;
/** For so long after windows began anew each node keeps to its share, so that all have told what they admitted. */
const settleMs = 3_000;

export class CounterLink {
  readonly #options: LineOptions;
  readonly #node: string;
  #number = 0;
  #isNew = true;
  #asks: Ask[] = [];
  readonly #dirtyPools = new Set<NodePool>();
  readonly #dirtyWindows = new Set<NodeTokens>();
  readonly pools = new Map<string, NodePool>();
  readonly windows = new Map<string, NodeTokens>();
  #unanswered: Sent | undefined;
  #running: Promise<void> | undefined;
  #isPlanned = false;
  #isAway = false;
  #epoch: string | undefined;
  /** A monotonic reading: until then windows go by shares. */
  #shareUntil = Number.NEGATIVE_INFINITY;
  #counterTime: { readonly is: number; readonly at: number } | undefined;
  #sweepAt = Number.NEGATIVE_INFINITY;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LineOptions) {
    this.#options = options;
    this.#node = options.clock.newId();
  }

  get node(): string {
    return this.#node;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  /** Whether the counter can't decide about windows now. */
  get goesByShare(): boolean {
    return this.#isAway || this.#options.clock.monotonic() < this.#shareUntil;
  }

  /** A reading of the counter's clock that is not ahead of it; undefined where it was never asked. */
  get counterTime(): number | undefined {
    const known = this.#counterTime;
    return known && known.is + (this.#options.clock.monotonic() - known.at) * 0.99;
  }

  poolOf(id: string): NodePool {
    let pool = this.pools.get(id);
    if (pool === undefined) {
      pool = new NodePool(id);
      this.pools.set(id, pool);
    }
    return pool;
  }

  windowOf(key: string, limit: number): NodeTokens {
    let window = this.windows.get(key);
    if (window === undefined) {
      window = new NodeTokens(key);
      this.windows.set(key, window);
    }
    window.limit = limit;
    return window;
  }

  ask(call: LinkCall): Promise<LinkReply> {
    if (this.#isAway || this.#asks.length >= maxWaiting) return Promise.resolve({ kind: "away" });
    const { promise, resolve } = Promise.withResolvers<LinkReply>();
    this.#asks.push({ call, resolve });
    this.pump();
    return promise;
  }

  /** Resolves once the counter was told what it was to be told until now, or can't be. */
  told(): Promise<LinkReply> {
    return this.ask({ amount: 0, pools: [] });
  }

  tell(pool: NodePool): void {
    if (pool.isLost) return;
    this.#dirtyPools.add(pool);
    this.pump();
  }

  /** With the next call that is asked for, or in a moment: what a call came to has no hurry. */
  tellSoon(of: NodePool | NodeTokens): void {
    if (of instanceof NodeTokens) this.#dirtyWindows.add(of);
    else if (!of.isLost) this.#dirtyPools.add(of);
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    this.#options.clock.setTimer(soonMs, () => {
      this.#isPlanned = false;
      if (this.#dirtyPools.size + this.#dirtyWindows.size > 0) this.pump();
    });
  }

  /** To be called some times a second: asks again, and tells what is due. */
  tick(beatMs: number): void {
    const now = this.#options.clock.monotonic();
    for (const pool of this.pools.values()) if (pool.lookAt <= now && !pool.isLost) this.#dirtyPools.add(pool);
    if (now >= this.#sweepAt) this.#sweepWindows(now);
    const isDue = now - this.#askedAt >= beatMs && (this.windows.size > 0 || this.#isAway);
    if (isDue || this.#dirtyPools.size + this.#dirtyWindows.size > 0) this.pump(isDue);
  }

  #sweepWindows(now: number): void {
    this.#sweepAt = now + sweepMs;
    for (const window of this.windows.values()) {
      window.expire(now);
      if (window.hasNews) this.#dirtyWindows.add(window);
      else if (window.isIdle && !this.#dirtyWindows.has(window)) this.windows.delete(window.key);
    }
  }

  /** Sends what there is, once this turn of the event loop is over. */
  pump(isBeat = false): void {
    this.#running ??= Promise.resolve().then(() => this.#run(isBeat));
  }

  async #run(isBeat: boolean): Promise<void> {
    for (let beat = isBeat; ; beat = false) {
      const sent = this.#unanswered ?? this.#compose(beat);
      if (sent === undefined) break;
      this.#askedAt = this.#options.clock.monotonic();
      this.#unanswered = sent;
      let reply: CounterReply | "lapsed";
      try {
        // Those that gave up are asked for no more; where they were counted, the answer that was given then comes once more.
        const { exchange } = sent;
        reply = await this.#options.counter.exchange(
          sent.asks.length === sent.calls.length ? exchange : { ...exchange, calls: [] },
        );
      } catch (error) {
        this.#lose(sent, error);
        break;
      }
      this.#unanswered = undefined;
      if (reply === "lapsed") {
        if (sent.exchange.isNew) {
          this.#lose(sent, new Error("the counter knows this node already"));
          break;
        }
        this.#startAnew(sent);
      } else this.#answered(sent, reply);
    }
    this.#running = undefined;
    // What came in the last moment.
    if (!this.#isAway && this.#asks.length > 0) this.pump();
  }

  #compose(isBeat: boolean): Sent | undefined {
    const number = ++this.#number;
    const head = { node: this.#node, number };
    const hasNews = this.#asks.length + this.#dirtyPools.size + this.#dirtyWindows.size > 0;
    // Nobody asks for anything while the counter is thought to be away.
    if (!hasNews && !isBeat && !this.#isAway) return undefined;
    if (this.#isNew) {
      const exchange = { ...head, isNew: true, pools: [], windows: [], calls: [] };
      return { exchange, pools: [], windows: [], asks: [], calls: [] };
    }
    const asks = this.#asks.splice(0, maxCalls);
    const limits = new Map<NodePool, number | undefined>();
    for (const { call } of asks) {
      for (const { pool, limit } of call.pools) {
        limits.set(pool, Math.min(limit, limits.get(pool) ?? limit));
        pool.largest = Math.max(pool.largest, call.amount);
      }
    }
    const due = [...this.#dirtyPools].sort((one, other) => Number(other.wantsLook) - Number(one.wantsLook));
    for (const pool of due) {
      if (pool.isLost) this.#dirtyPools.delete(pool);
      else if (limits.size < maxPools && !limits.has(pool)) limits.set(pool, undefined);
    }
    const pools = [...limits.keys()];
    for (const pool of pools) this.#dirtyPools.delete(pool);
    const places = new Map(pools.map((pool, place) => [pool, place]));
    const asked = new Set(asks.flatMap(({ call }) => (call.window === undefined ? [] : [call.window.of])));
    for (const window of this.#dirtyWindows) if (asked.size < maxCalls + maxWindows) asked.add(window);
    const now = this.#options.clock.monotonic();
    const windows = [...asked].map((window) => {
      this.#dirtyWindows.delete(window);
      return { window, ...window.word(now) };
    });
    const windowPlaces = new Map(windows.map(({ window }, place) => [window, place]));
    const calls = asks.map(
      ({ call }): CounterCall => ({
        amount: call.amount,
        pools: call.pools.map(({ pool }) => places.get(pool)!),
        ...(call.window && { window: windowPlaces.get(call.window.of)!, tokens: call.window.tokens }),
      }),
    );
    const words = pools.map((pool) => pool.word(limits.get(pool)));
    const exchange = { ...head, isNew: false, pools: words, windows: windows.map(({ word }) => word), calls };
    return { exchange, pools, windows, asks, calls: asks.map(({ call }) => call) };
  }

  #answered(sent: Sent, reply: CounterReply): void {
    const { clock, onPool, onBack } = this.#options;
    const now = clock.monotonic();
    // It is not later than when this was sent back.
    this.#counterTime = { is: reply.now, at: now };
    this.#isNew = false;
    if (this.#epoch !== reply.epoch) this.#beginsAnew(reply, now);
    for (const { answered } of sent.windows) answered();
    for (const [place, pool] of sent.pools.entries())
      pool.answered(sent.exchange.pools[place]!, reply.pools[place], now);
    const isWaitedFor = sent.asks.length === sent.calls.length;
    for (const [place, call] of reply.calls.entries()) {
      if (isWaitedFor) this.#decided(sent.asks[place]!, sent, call, now);
      else this.#undo(sent.calls[place]!, call, now);
    }
    for (const [place, pool] of sent.pools.entries()) onPool(pool, reply.pools[place], reply.now);
    if (!this.#isAway) return;
    this.#isAway = false;
    for (const pool of this.pools.values()) this.tell(pool);
    onBack();
  }

  #decided({ call, resolve }: Ask, sent: Sent, reply: CounterReply["calls"][number], now: number): void {
    if (reply.kind === "short" || reply.kind === "gone") {
      resolve({ kind: reply.kind, pool: sent.pools[reply.pool]! });
      return;
    }
    if (reply.kind === "tokens") {
      resolve(reply);
      return;
    }
    for (const { pool } of call.pools) pool.held += call.amount;
    const use = call.window?.of.use(now, call.window.tokens, true);
    resolve({ kind: "reserved", ...(reply.window && { window: reply.window }), ...(use && { use }) });
  }

  /** Nobody waited for it any more. What its pools hold is told anew anyway. */
  #undo(call: LinkCall, reply: CounterReply["calls"][number], now: number): void {
    if (reply.kind !== "reserved") return;
    for (const { pool } of call.pools) this.tell(pool);
    if (call.window === undefined || reply.window === undefined) return;
    const { of: window, tokens } = call.window;
    window.correct(window.use(now, tokens, true), now, -tokens, reply.window.at);
    this.tellSoon(window);
  }

  #beginsAnew({ epoch, epochMs }: CounterReply, now: number): void {
    const hadOther = this.#epoch !== undefined;
    this.#epoch = epoch;
    if (hadOther || epochMs < settleMs) this.#shareUntil = Math.max(now, now + settleMs - epochMs);
    if (!hadOther) return;
    for (const window of this.windows.values()) {
      window.retell();
      this.#dirtyWindows.add(window);
    }
  }

  /** The counter does not know this node: it lost what it had, or heard nothing for ten minutes. */
  #startAnew(sent: Sent): void {
    this.#isNew = true;
    if (sent.asks.length === sent.calls.length) this.#asks.unshift(...sent.asks);
    for (const pool of this.pools.values()) {
      // It may have been there, used, and lost: it must not come twice.
      pool.install = undefined;
      if (!pool.isLost) this.#dirtyPools.add(pool);
    }
    for (const { window } of sent.windows) this.#dirtyWindows.add(window);
  }

  #lose(sent: Sent, error: unknown): void {
    const given = [...sent.asks, ...this.#asks];
    sent.asks = [];
    this.#asks = [];
    const wasAway = this.#isAway;
    this.#isAway = true;
    for (const { resolve } of given) resolve({ kind: "away" });
    if (!wasAway) this.#options.onLost(error);
  }
}
