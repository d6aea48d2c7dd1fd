/**
 * The rate limiter of a node among several: one hit is one call to a counter that all nodes share, and the counter decides.
 *
 * While the counter is away the node admits its share of each limit, and reports what it admitted before it asks again. For one window
 * after it finds that the counter has lost what it counted, both apply: the counter, and the share.
 */

import type { Logger } from "../lib/process/log.ts";
import type { SampledTable } from "../lib/process/metrics.ts";
import type { Clock } from "../lib/time/clock.ts";
import { OnceAMinute } from "../lib/time/once-a-minute.ts";
import { StorageError, type StorageErrorKind } from "../store/contract/storage-error.ts";
import { goodForMs, recentIds, type StoredWindows } from "../store/contract/windows.ts";
import { type Decision, decisionOf, windowMs } from "./limiter.ts";
import { type NodeGroup, NodeWindow, shareOf } from "./share.ts";

type StoredLimiterOptions = {
  readonly windows: StoredWindows;
  readonly clock: Clock;
  readonly log: Logger;
  /** The place of the windows, for messages. */
  readonly place: string;
  /** The nodes, as last known. */
  readonly group: () => NodeGroup;
  /** The length of every window. Default: a minute */
  readonly windowMs?: number;
};

/** The counter's state: all nodes are counted, or the node goes by its share, as the counter is away or has lost what it counted. */
export type StoredLimiterStatus = {
  readonly state: "counted" | "away" | "lost";
  readonly nodes: number;
  /** Why it is away, as far as that is known. */
  readonly cause?: StorageErrorKind | undefined;
};

const retryMs = 500;
/** The time for which a node that was without the counter keeps to its share once it is back: until all others have reported, too. */
const settleMs = 2_000;
const tidyMs = 30_000;
/** Callers that are reported at once. */
const reportsAtOnce = 8;

export class StoredLimiter {
  readonly #options: StoredLimiterOptions;
  readonly #windowMs: number;
  readonly #callers = new Map<string, NodeWindow>();
  #life: string | undefined;
  #isAway = false;
  /** Since when it is, and since when it answers again. Monotonic readings */
  #awaySince = Number.NEGATIVE_INFINITY;
  #backSince: number | undefined;
  /** True where the log says that it is. */
  #isComplained = false;
  #cause: StorageErrorKind | undefined;
  /** A monotonic reading: until then the share applies too. */
  #sharesUntil = Number.NEGATIVE_INFINITY;
  #cancelRetry = () => {};
  #cancelTidying = () => {};
  #isClosed = false;
  readonly #warnings: OnceAMinute;

  /** Totals since the start: requests that the counter was asked for, decisions by the node's share, times the counter was lost. */
  readonly counts = { waited: 0, byShare: 0, lost: 0 };

  constructor(options: StoredLimiterOptions) {
    this.#options = options;
    this.#windowMs = options.windowMs ?? windowMs;
    this.#warnings = new OnceAMinute(options.clock);
    this.#tidyLater();
  }

  get status(): StoredLimiterStatus {
    const { nodes } = this.#options.group();
    if (this.#isAway) return { state: "away", nodes, cause: this.#cause };
    return { state: this.#options.clock.monotonic() < this.#sharesUntil ? "lost" : "counted", nodes };
  }

  /** Asks the counter whether it is there, as the last hit may be long ago. Never rejects. */
  async check(): Promise<StoredLimiterStatus> {
    if (!this.#isAway) await this.#probe().catch((error) => this.#lose(error));
    return this.status;
  }

  /** Counts a request as `Limiter.hit` does. Never rejects. */
  async hit(caller: string, limit: number): Promise<Decision> {
    const { clock } = this.#options;
    const now = clock.monotonic();
    const window = this.#windowOf(caller);
    window.expire(now);
    if (this.#isAway || (now < this.#sharesUntil && window.own.count >= this.#share(limit)))
      return this.#byShare(window, limit, now);
    // A window that is known to be full is refused without asking: nothing leaves it until then.
    if (now < window.closed.until && limit <= window.closed.limit)
      return decisionOf(limit, false, 0, window.closed.until - now, clock.now());
    return this.#ask(caller, window, limit);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRetry();
    this.#cancelTidying();
    if (this.#isAway) await this.#tellAll().catch(() => {});
  }

  #windowOf(caller: string): NodeWindow {
    let window = this.#callers.get(caller);
    if (window === undefined) {
      window = new NodeWindow(this.#windowMs);
      this.#callers.set(caller, window);
    }
    return window;
  }

  #share(limit: number): number {
    return shareOf(limit, this.#options.group());
  }

  async #ask(caller: string, window: NodeWindow, limit: number): Promise<Decision> {
    const { windows, clock } = this.#options;
    const id = clock.newId();
    const askedAt = clock.monotonic();
    this.counts.waited += 1;
    try {
      const { allowed, used, growsMs, life } = await windows.hit(caller, limit, id);
      const now = clock.monotonic();
      this.#lives(life, now);
      window.expire(now);
      // This process stood still, and what it was allowed is over.
      if (now > askedAt + goodForMs) return await this.hit(caller, limit);
      if (!allowed) window.closed = { until: now + growsMs, limit };
      else if (now < this.#sharesUntil && window.own.count >= this.#share(limit))
        return this.#byShare(window, limit, now);
      else window.admitted(now);
      return decisionOf(limit, allowed, limit - used, growsMs, clock.now());
    } catch (error) {
      this.#lose(error);
      const now = clock.monotonic();
      window.expire(now);
      // Under the same id, as it may have been counted all the same.
      return this.#byShare(window, limit, now, id);
    }
  }

  #byShare(window: NodeWindow, limit: number, now: number, id?: string): Decision {
    const share = this.#share(limit);
    const allowed = window.own.count < share;
    this.counts.byShare += 1;
    if (allowed) window.admittedByShare(now, id);
    const growsMs = window.own.growsMs(share, now, this.#windowMs);
    return decisionOf(limit, allowed, share - window.own.count, growsMs, this.#options.clock.now());
  }

  #lives(life: string, now: number): void {
    if (this.#life !== undefined && this.#life !== life) {
      this.#sharesUntil = now + this.#windowMs;
      this.counts.lost += 1;
      for (const window of this.#callers.values()) window.closed = { until: Number.NEGATIVE_INFINITY, limit: 0 };
      const { log, place } = this.#options;
      log.warn("the windows of the rate limits were lost; for a minute this node admits no more than its share", {
        place,
        nodes: this.#options.group().nodes,
      });
    }
    this.#life = life;
  }

  #lose(error: unknown): void {
    this.#cause = error instanceof StorageError ? error.kind : undefined;
    this.#backSince = undefined;
    if (this.#isClosed) return;
    if (!this.#isAway) {
      this.#isAway = true;
      this.#awaySince = this.#options.clock.monotonic();
      this.counts.lost += 1;
      // At once, as it may have been one answer that was late.
      this.#retryLater(0);
    }
    // Once a minute for as long as it lasts, as the cause may have become another.
    if (!this.#warnings.takes()) return;
    this.#isComplained = true;
    const { log, place, group } = this.#options;
    log.error("the windows of the rate limits can't be reached; this node admits its share of each limit", {
      place,
      nodes: group().nodes,
      error,
    });
  }

  #retryLater(ms: number): void {
    this.#cancelRetry = this.#options.clock.setTimer(ms, () => void this.#retry());
  }

  /** Never rejects. */
  async #retry(): Promise<void> {
    try {
      const now = this.#options.clock.monotonic();
      await this.#probe();
      await this.#tellAll();
      this.#backSince ??= now;
      // One late answer says nothing of others.
      const settlesAt = this.#backSince - this.#awaySince < retryMs ? now : this.#backSince + settleMs;
      if (now < settlesAt) return this.#retryLater(retryMs);
      this.#isAway = false;
      if (!this.#isComplained) return;
      this.#isComplained = false;
      const { log, place, group } = this.#options;
      log.info("rate limits are counted over all nodes again", { place, nodes: group().nodes });
    } catch (error) {
      this.#lose(error);
      if (!this.#isClosed) this.#retryLater(retryMs);
    }
  }

  /** @throws StorageError */
  async #probe(): Promise<void> {
    const { life } = await this.#options.windows.add("", []);
    this.#lives(life, this.#options.clock.monotonic());
  }

  /** Tells all that was admitted without asking, also what is while it does so. @throws StorageError */
  async #tellAll(): Promise<void> {
    const isUnreported = ([, window]: [string, NodeWindow]) => window.unreported.length > 0;
    for (
      let due = [...this.#callers].filter(isUnreported);
      due.length > 0;
      due = [...this.#callers].filter(isUnreported)
    ) {
      for (let at = 0; at < due.length; at += reportsAtOnce) {
        await Promise.all(due.slice(at, at + reportsAtOnce).map(([caller, window]) => this.#report(caller, window)));
      }
    }
  }

  async #report(caller: string, window: NodeWindow): Promise<void> {
    const { clock, windows } = this.#options;
    const now = clock.monotonic();
    window.expire(now);
    const reported = window.toReport(recentIds, () => clock.newId());
    if (reported.length === 0) return;
    await windows.add(
      caller,
      reported.map(({ id, at, hits }) => [id, Math.max(0, Math.floor(now - at)), hits]),
    );
    window.reported(reported);
  }

  #tidyLater(): void {
    this.#cancelTidying = this.#options.clock.setTimer(tidyMs, () => void this.#tidy());
  }

  async #tidy(): Promise<void> {
    const now = this.#options.clock.monotonic();
    for (const [caller, window] of this.#callers) if (window.expire(now)) this.#callers.delete(caller);
    if (!this.#isAway) await this.#options.windows.tidy().catch(() => {});
    if (!this.#isClosed) this.#tidyLater();
  }
}

export const storedLimitMetrics: SampledTable<StoredLimiter> = {
  troupe_limit_nodes: {
    help: "Nodes that share the rate limits, as last known.",
    aggregate: "max",
    read: ({ status }) => status.nodes,
  },
  troupe_limit_shared: {
    help: "Whether rate limits are counted over all nodes; 0: the node admits its share.",
    aggregate: "min",
    read: ({ status }) => Number(status.state === "counted"),
  },
  troupe_limit_waits_total: {
    help: "Requests that the store of the rate limits was asked for.",
    read: ({ counts }) => counts.waited,
  },
  troupe_limit_share_decisions_total: {
    help: "Requests admitted or refused by the node's share of a limit.",
    read: ({ counts }) => counts.byShare,
  },
  troupe_limit_losses_total: {
    help: "How often the store of the rate limits was lost.",
    read: ({ counts }) => counts.lost,
  },
};
