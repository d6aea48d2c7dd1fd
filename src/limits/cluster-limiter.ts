/**
 * The rate limiter of a node among several: exact windows over all of them, mostly without asking. A node holds a few slots of each
 * caller ahead (`src/store/shared-windows.ts`) and tells later what it used; a request waits for the store only where the node holds
 * none: the first of a caller, and the last ones before its limit.
 *
 * While the store is away the node admits its share of each limit, by what it knew last; what it admitted is told before it takes
 * a slot again, and for a moment more it keeps to its share, so that all nodes have told.
 */
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { OnceAMinute } from "../lib/once-a-minute.ts";
import {
  type Beat,
  type Group,
  type SharedWindows,
  type WindowState,
  type WindowTimes,
  windowTimes,
} from "../store/shared-windows.ts";
import { StorageError, type StorageErrorKind } from "../store/storage-error.ts";
import type { CallerLimiter, Decision } from "./limiter.ts";
import { NodeWindow } from "./node-window.ts";

export type ClusterLimiterOptions = {
  readonly windows: SharedWindows;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where nodes are counted too, so that their number is known while the windows are away. */
  readonly counter?: SharedWindows;
  /** Where the windows are, for messages. */
  readonly place: string;
  readonly times?: WindowTimes;
};

/** Whether the node goes by its share of the limits, and how many nodes there are; then `cause` tells what is wrong, as far as it is known. */
export type ClusterStatus = {
  readonly isAlone: boolean;
  readonly nodes: number;
  readonly cause?: StorageErrorKind | undefined;
};

/** What became of an exchange. */
type Exchanged = "done" | "lapsed" | "failed";

/** How often others may ask for slots back: rarer in a large group, as all of them ask the store. */
const beatMsOf = (nodes: number) => Math.min(400, Math.max(200, nodes * 0.4));
const awayBeatMs = 500;
/** How old the number of nodes may be, for each of them: so that counting costs the store the same, however many count. */
const countMsPerNode = 5;
/** How long what was used may be told late. */
const reportMs = 1_000;
/** For how long a node that was cut off keeps to its share once it is back: longer than others need to come back too. */
const settleMs = 2_000;
/** How long a request waits for slots that other nodes hold unused. */
const recallMs = 600;
const recallRetryMs = 50;
/** For how long it is then taken as refused. */
const stillHeldMs = 500;
const noAheadMs = 2_000;
/** Exchanges at once for requests that wait: one that hangs does not hold up all others. */
const maxAsking = 2;
/** Callers of one exchange, all of which are locked until it ends: 20 ms in a database. */
const batchSize = 50;
const tidyMs = 30_000;
/** A caller that was idle for so long has no slots held. */
const idleMs = 600_000;
/** Callers that are known at once; those of which no slots are held are forgotten beyond it. */
const maxCallers = 50_000;
/** Tries of a request whose node lapsed meanwhile. */
const maxTries = 3;

export class ClusterLimiter implements CallerLimiter {
  readonly #options: ClusterLimiterOptions;
  readonly #times: WindowTimes;
  readonly #callers = new Map<string, NodeWindow>();
  /** Under which it is counted. */
  readonly #countedAs: string;
  /** Its names in the windows begin with that, so that nodes have one order wherever they are counted, and shares of one limit. */
  #node: string;
  #names = 0;
  #isNew = true;
  #countedAt = Number.NEGATIVE_INFINITY;
  /** Until then a count leaves out those that lapsed with this node and have not come again. */
  #countsFrom: number | undefined;
  #number = 0;
  /** A monotonic reading: until then held slots may be used. */
  #leaseUntil = Number.NEGATIVE_INFINITY;
  #nodes = 1;
  #rank = 0;
  /** A monotonic reading: when the windows told both. */
  #toldAt = Number.NEGATIVE_INFINITY;
  #epoch: string | undefined;
  #isAlone = false;
  #cause: StorageErrorKind | undefined;
  #backSince: number | undefined;
  #beating: Promise<void> | undefined;
  readonly #urgent = new Set<NodeWindow>();
  /** Exchanges under way for them. */
  #asking = 0;
  #isAskPlanned = false;
  readonly #due = new Set<NodeWindow>();
  /** Those under way, until what the store said is taken over. */
  readonly #exchanges = new Set<Promise<Exchanged>>();
  #cancelBeat = () => {};
  #cancelReport = () => {};
  #isReportPlanned = false;
  #cancelTidying = () => {};
  #isClosed = false;
  readonly #warnings: OnceAMinute;

  /** Totals since the start: requests that waited for the store, decisions by the node's share, times the store was lost. */
  readonly counts = { waited: 0, byShare: 0, lost: 0 };

  constructor(options: ClusterLimiterOptions) {
    this.#options = options;
    this.#warnings = new OnceAMinute(options.clock);
    this.#times = options.times ?? windowTimes;
    this.#countedAs = options.clock.newId();
    this.#node = this.#nextName();
    this.#tidyLater();
  }

  get status(): ClusterStatus {
    return { isAlone: this.#isAlone, nodes: this.#nodes, ...(this.#isAlone && { cause: this.#cause }) };
  }

  /** Registers the node. The store may be away: then the limits fall to its share until it is there. */
  async start(): Promise<void> {
    await this.#beat();
    await this.#countNodes();
    this.#beatLater();
  }

  hit(caller: string, limit: number): Decision | Promise<Decision> {
    const now = this.#options.clock.monotonic();
    const window = this.#windowOf(caller, limit);
    window.expire(now);
    if (this.#isAlone) return this.#byShare(window, now);
    if (window.ahead > 0 && now < this.#leaseUntil) return this.#use(window, now);
    if (now < window.closedUntil) return this.#decide(window, false, now);
    return this.#askFor(window, now);
  }

  /** Tells what was used, and gives back what was not. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelBeat();
    this.#cancelReport();
    this.#cancelTidying();
    try {
      await this.#beating;
      while (this.#exchanges.size > 0) await Promise.allSettled(this.#exchanges);
      if (!this.#isAlone) {
        await this.#report([...this.#callers.values()].filter(({ ahead, unreported }) => ahead > 0 || unreported > 0));
        await this.#options.windows.leave(this.#node);
        await this.#options.counter?.leave(this.#countedAs);
      }
    } catch {
      // Its lease lapses.
    }
    for (const window of this.#callers.values()) this.#settle(window, (now) => this.#byShare(window, now));
  }

  #windowOf(caller: string, limit: number): NodeWindow {
    let window = this.#callers.get(caller);
    if (window === undefined) {
      window = new NodeWindow(caller, limit, this.#times.windowMs);
      this.#callers.set(caller, window);
    } else if (window.limit !== limit) {
      window.limit = limit;
      window.closedUntil = Number.NEGATIVE_INFINITY;
    }
    return window;
  }

  #use(window: NodeWindow, now: number): Decision {
    window.use(now);
    if (window.runsLow) this.#reportSoon(window);
    else this.#reportLater(window);
    return this.#decide(window, true, now);
  }

  #decide(window: NodeWindow, allowed: boolean, now: number, limit = window.limit): Decision {
    return window.decision(allowed, limit, now, this.#options.clock.now());
  }

  /** All nodes' shares together are the limit. Hits of others that are known are heeded for as long as they may count. */
  #byShare(window: NodeWindow, now: number): Decision {
    const share = Math.floor(window.limit / this.#nodes) + (this.#rank < window.limit % this.#nodes ? 1 : 0);
    const allowed = window.own < share && window.own + window.othersUsed(now) < window.limit;
    this.counts.byShare += 1;
    if (allowed) window.use(now);
    return this.#decide(window, allowed, now, share);
  }

  #askFor(window: NodeWindow, now: number): Promise<Decision> {
    this.counts.waited += 1;
    const { promise, resolve } = Promise.withResolvers<Decision>();
    window.waiting.push({ since: now, resolve });
    this.#urge(window);
    return promise;
  }

  #urge(window: NodeWindow): void {
    if (window.isExchanging || this.#urgent.has(window)) return;
    this.#urgent.add(window);
    this.#askSoon();
  }

  /** Those of one turn of the event loop are asked for together, and those that come while others are asked for. */
  #askSoon(): void {
    if (this.#isAskPlanned || this.#urgent.size === 0 || this.#asking >= maxAsking) return;
    this.#isAskPlanned = true;
    queueMicrotask(() => {
      this.#isAskPlanned = false;
      void this.#askNow();
      this.#askSoon();
    });
  }

  async #askNow(): Promise<void> {
    this.#asking += 1;
    try {
      await this.#askForUrgent();
    } finally {
      this.#asking -= 1;
      this.#askSoon();
    }
  }

  async #askForUrgent(tries = 1): Promise<void> {
    const now = this.#options.clock.monotonic();
    if (now >= this.#leaseUntil && !this.#isAlone) await this.#beat();
    const windows: NodeWindow[] = [];
    for (const window of this.#urgent) {
      if (windows.length >= batchSize) break;
      this.#urgent.delete(window);
      if (!window.isExchanging) windows.push(window);
    }
    if (windows.length === 0) return;
    if (this.#isAlone) {
      for (const window of windows) this.#settle(window, (at) => this.#byShare(window, at));
      return;
    }
    if ((await this.#exchange(windows)) !== "lapsed") return;
    if (tries >= maxTries) this.#lose("its lease lapses at once");
    for (const window of windows) this.#urgent.add(window);
    await this.#askForUrgent(tries + 1);
  }

  /** Never rejects. @param isEnd whether all slots are given back */
  async #exchange(windows: readonly NodeWindow[], isEnd = false): Promise<Exchanged> {
    const exchanging = this.#exchangeNow(windows, isEnd);
    this.#exchanges.add(exchanging);
    try {
      return await exchanging;
    } finally {
      this.#exchanges.delete(exchanging);
    }
  }

  async #exchangeNow(windows: readonly NodeWindow[], isEnd: boolean): Promise<Exchanged> {
    const { windows: store, clock } = this.#options;
    const now = clock.monotonic();
    const asks = windows.map((window) => {
      this.#due.delete(window);
      return window.ask(now, ++this.#number, isEnd || this.#isAlone);
    });
    const waiting = new Map(asks.map(({ caller, waiting }) => [caller, waiting]));
    const node = this.#node;
    try {
      const states = await store.exchange(node, asks);
      // What a node held that has lapsed meanwhile is no other's.
      if (states === undefined || node !== this.#node) {
        for (const window of windows) window.failed();
        if (node === this.#node) this.#leaseUntil = Number.NEGATIVE_INFINITY;
        return "lapsed";
      }
      const byCaller = new Map(states.map((state) => [state.caller, state]));
      for (const window of windows) this.#answered(window, byCaller.get(window.caller)!, waiting.get(window.caller)!);
      return "done";
    } catch (error) {
      for (const window of windows) window.failed();
      this.#lose(error);
      for (const window of windows) this.#settle(window, (at) => this.#byShare(window, at));
      return "failed";
    }
  }

  #answered(window: NodeWindow, state: WindowState, waited: number): void {
    const now = this.#options.clock.monotonic();
    window.answered(state, now);
    if (this.#isAlone) window.forgetSlots();
    while (window.waiting.length > 0 && window.ahead > 0 && now < this.#leaseUntil) {
      window.waiting.shift()!.resolve(this.#use(window, now));
    }
    const first = window.waiting[0];
    if (first === undefined) return;
    // More came meanwhile, or the lease ended.
    if (state.held >= waited) {
      this.#urge(window);
      return;
    }
    if (state.others > 0 && now < first.since + recallMs) {
      this.#options.clock.setTimer(recallRetryMs, () => this.#urge(window));
      return;
    }
    window.closedUntil = now + (state.others > 0 ? stillHeldMs : (state.growsMs ?? stillHeldMs));
    this.#settle(window, (at) => this.#decide(window, false, at));
  }

  #settle(window: NodeWindow, decide: (now: number) => Decision): void {
    const now = this.#options.clock.monotonic();
    window.expire(now);
    for (const { resolve } of window.waiting.splice(0)) resolve(decide(now));
  }

  #reportSoon(window: NodeWindow): void {
    if (window.isExchanging || this.#isAlone) this.#reportLater(window);
    else this.#urge(window);
  }

  #reportLater(window: NodeWindow): void {
    this.#due.add(window);
    if (this.#isReportPlanned || this.#isClosed) return;
    this.#isReportPlanned = true;
    this.#cancelReport = this.#options.clock.setTimer(reportMs, () => void this.#reportDue());
  }

  async #reportDue(): Promise<void> {
    const due = [...this.#due].filter(({ isExchanging }) => !isExchanging);
    if (!this.#isAlone) await this.#report(due, false);
    this.#isReportPlanned = false;
    // Those that were busy, and those that came meanwhile.
    const [next] = this.#due;
    if (next !== undefined && !this.#isAlone) this.#reportLater(next);
  }

  /** @returns whether the store knows of all of it, but for those that tell it at this moment */
  async #report(windows: readonly NodeWindow[], isEnd = true): Promise<boolean> {
    for (let at = 0; at < windows.length; at += batchSize) {
      const batch = windows.slice(at, at + batchSize).filter(({ isExchanging }) => !isExchanging);
      if (batch.length > 0 && (await this.#exchange(batch, isEnd)) !== "done") return false;
    }
    return true;
  }

  #beatLater(): void {
    if (this.#isClosed) return;
    this.#cancelBeat();
    this.#cancelBeat = this.#options.clock.setTimer(this.#isAlone ? awayBeatMs : beatMsOf(this.#nodes), () => {
      void this.#beat().then(() => this.#beatLater());
      void this.#countNodes();
    });
  }

  /** Never rejects. */
  #beat(): Promise<void> {
    this.#beating ??= this.#beatOnce().finally(() => {
      this.#beating = undefined;
    });
    return this.#beating;
  }

  /** Never rejects. */
  async #countNodes(): Promise<void> {
    const { counter, clock } = this.#options;
    const now = clock.monotonic();
    if (counter === undefined || now < this.#countedAt + this.#times.leaseMs / 5) return;
    this.#countedAt = now;
    try {
      let beat = await counter.beat(this.#countedAs, false, true);
      if (beat === undefined) {
        this.#countsFrom = this.#countsFrom === undefined ? now : now + this.#times.leaseMs / 2;
        beat = await counter.beat(this.#countedAs, true, true);
      }
      this.#countsFrom ??= now;
      if (this.#isAlone && now >= this.#countsFrom) this.#isOf(beat?.group);
    } catch {
      // What was known last stays.
    }
  }

  async #beatOnce(): Promise<void> {
    const { windows, clock } = this.#options;
    try {
      for (let tries = 0; tries < maxTries; tries += 1) {
        const sentAt = clock.monotonic();
        const beat = await windows.beat(this.#node, this.#isNew, this.#counts(sentAt));
        if (beat !== undefined) return await this.#lives(beat, sentAt);
        this.#startAnew();
      }
      throw new Error("its lease lapses at once");
    } catch (error) {
      this.#lose(error);
    }
  }

  /** Whether it is time to count nodes, and when a node comes back. */
  #counts(now: number): boolean {
    if (this.#isAlone) return this.#backSince !== undefined && now >= this.#backSince + settleMs;
    return this.#isNew || now >= this.#toldAt + this.#nodes * countMsPerNode;
  }

  #isOf(group: Group | undefined): void {
    if (group !== undefined) [this.#nodes, this.#rank] = [group.nodes, group.rank];
  }

  #nextName(): string {
    this.#names += 1;
    return `${this.#countedAs}-${this.#names}`;
  }

  /** Under a new name: what the old one held is lost, and counts until its time is over. */
  #startAnew(): void {
    this.#node = this.#nextName();
    this.#isNew = true;
    this.#leaseUntil = Number.NEGATIVE_INFINITY;
    for (const window of this.#callers.values()) window.forgetSlots();
  }

  async #lives(beat: Beat, sentAt: number): Promise<void> {
    this.#isNew = false;
    this.#leaseUntil = sentAt + beat.leaseMs;
    if (this.#epoch !== undefined && this.#epoch !== beat.epoch) {
      for (const window of this.#callers.values()) window.reportAgain();
      this.#lose("it has lost the windows");
    }
    this.#epoch = beat.epoch;
    if (this.#isAlone) return this.#comeBack(beat, sentAt);
    if (beat.group !== undefined) this.#toldAt = sentAt;
    this.#isOf(beat.group);
    const now = this.#options.clock.monotonic();
    const wanted = beat.wanted.map((caller) => this.#callers.get(caller) ?? this.#windowOf(caller, 1));
    for (const window of wanted) window.recall(now + noAheadMs);
    await this.#report(wanted, false);
  }

  /** Tells first what was admitted meanwhile. */
  async #comeBack({ group }: Beat, now: number): Promise<void> {
    const isTold = await this.#report([...this.#callers.values()].filter(({ unreported }) => unreported > 0));
    if (!isTold) return;
    this.#backSince ??= now;
    if (now < this.#backSince + settleMs) return;
    this.#isAlone = false;
    this.#backSince = undefined;
    this.#isOf(group);
    const [nodes, place] = [this.#nodes, this.#options.place];
    this.#options.log.info("rate limits are counted over all nodes again", { nodes, place });
  }

  #lose(error: unknown): void {
    this.#backSince = undefined;
    const wasAlone = this.#isAlone;
    this.#isAlone = true;
    if (this.#isClosed) return;
    this.#cause = error instanceof StorageError ? error.kind : undefined;
    if (!wasAlone) {
      this.counts.lost += 1;
      for (const window of this.#callers.values()) window.forgetSlots();
      this.#beatLater();
    }
    // Once a minute for as long as it lasts, as the cause may have become another.
    if (!this.#warnings.takes()) return;
    const { log, place } = this.#options;
    log.error("the windows of the rate limits can't be reached; this node admits its share of each limit", {
      place,
      nodes: this.#nodes,
      error,
    });
  }

  #tidyLater(): void {
    this.#cancelTidying = this.#options.clock.setTimer(tidyMs, () => void this.#tidy());
  }

  async #tidy(): Promise<void> {
    const now = this.#options.clock.monotonic();
    const isCrowded = this.#callers.size > maxCallers;
    const idle = [...this.#callers.values()].filter(
      ({ lastHitAt, waiting, isExchanging }) =>
        waiting.length === 0 && !isExchanging && now > lastHitAt + (isCrowded ? this.#times.windowMs : idleMs),
    );
    if (!this.#isAlone) {
      await this.#report(idle.filter(({ ahead, unreported }) => ahead > 0 || unreported > 0));
      await this.#options.windows.tidy().catch(() => {});
    }
    for (const window of idle) {
      window.expire(now);
      const isIdle = window.ahead <= 0 && window.unreported === 0 && window.waiting.length === 0 && window.own === 0;
      if (isIdle && !window.isExchanging) this.#callers.delete(window.caller);
    }
    if (!this.#isClosed) this.#tidyLater();
  }
}
