/**
 * Rate limiting by exact sliding windows: at most N requests of one caller in any 60 seconds. Declares the interface of all
 * limiters, and the one in process memory, which is used where windows can't be shared through files. It runs on the monotonic
 * clock, so that steps of the wall clock have no effect.
 */

import { isIP } from "../lib/http/ip.ts";
import type { Clock } from "../lib/time/clock.ts";

/** The length of every window. */
export const windowMs = 60_000;

export type Decision = {
  readonly allowed: boolean;
  readonly limit: number;
  /** The number of requests that are still allowed now. */
  readonly remaining: number;
  /** Unix seconds, rounded up: when `remaining` next grows; now, when nothing is in the window. */
  readonly resetAt: number;
  /** Whole seconds until a request is allowed; 0 when this one was. */
  readonly retryAfterSeconds: number;
};

export interface Limiter {
  /** Counts one request if the window has room; a refused one does not count. @param perMinute at least 1 */
  hit(caller: string, perMinute: number): Decision;
  /** The decision that `hit` would make, without counting. */
  peek(caller: string, perMinute: number): Decision;
}

/** @param left of the limit @param growsMs in how many milliseconds there is more room @param wallNow Unix time in milliseconds */
export function decisionOf(limit: number, allowed: boolean, left: number, growsMs: number, wallNow: number): Decision {
  return {
    allowed,
    limit,
    remaining: allowed ? Math.max(0, left) : 0,
    resetAt: Math.ceil((wallNow + growsMs) / 1000),
    retryAfterSeconds: allowed ? 0 : Math.max(1, Math.ceil(growsMs / 1000)),
  };
}

export class MemoryLimiter implements Limiter {
  readonly #clock: Clock;
  readonly #maxCallers: number;
  /** Least recently used first. */
  readonly #windows = new Map<string, Window>();

  /**
   * @param maxCallers how many callers are tracked; beyond it the least recently used is dropped. API keys need no bound: a
   * caller that was idle for a minute is dropped anyway.
   */
  constructor(clock: Clock, maxCallers = Number.POSITIVE_INFINITY) {
    this.#clock = clock;
    this.#maxCallers = maxCallers;
  }

  /** The number of callers that are tracked. */
  get size(): number {
    return this.#windows.size;
  }

  hit(caller: string, perMinute: number): Decision {
    const now = this.#clock.monotonic();
    const window = this.#windows.get(caller) ?? new Window();
    window.expire(now - windowMs);
    const allowed = window.count < perMinute;
    if (allowed) window.push(now);
    this.#windows.delete(caller);
    this.#windows.set(caller, window);
    this.#evict(now);
    return this.#decision(window, perMinute, allowed, now);
  }

  peek(caller: string, perMinute: number): Decision {
    const now = this.#clock.monotonic();
    const window = this.#windows.get(caller) ?? new Window();
    window.expire(now - windowMs);
    return this.#decision(window, perMinute, window.count < perMinute, now);
  }

  #decision(window: Window, limit: number, allowed: boolean, now: number): Decision {
    return decisionOf(limit, allowed, limit - window.count, window.growsMs(limit, now), this.#clock.now());
  }

  /** Drops windows that are empty, and then those beyond the bound. */
  #evict(now: number): void {
    for (const [caller, window] of this.#windows) {
      if (window.newest > now - windowMs && this.#windows.size <= this.#maxCallers) return;
      this.#windows.delete(caller);
    }
  }
}

/** Entries of a window in memory, and the part of a window in which more of them count as one: memory does not grow with the limit. */
const maxEntries = 1024;
const leastPartMs = 120;

/** The times of the last requests, oldest first, in a ring buffer that grows as needed. Of more than fit, those of one part count as of its last one. */
export class Window {
  #times = new Float64Array(8);
  #hits = new Float64Array(8);
  #start = 0;
  #entries = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** The number of times that it keeps. */
  get entries(): number {
    return this.#entries;
  }

  /** The time of the latest request, expired or not. */
  newest = Number.NEGATIVE_INFINITY;

  push(time: number): void {
    if (this.#entries === this.#times.length) this.#makeRoom();
    const at = (this.#start + this.#entries) % this.#times.length;
    this.#times[at] = time;
    this.#hits[at] = 1;
    this.#entries += 1;
    this.#count += 1;
    this.newest = time;
  }

  at(index: number): number | undefined {
    if (index >= this.#count) return undefined;
    let at = this.#start;
    for (let left = index - this.#hits[at]!; left >= 0; left -= this.#hits[at]!) at = (at + 1) % this.#times.length;
    return this.#times[at];
  }

  /** @returns in how many milliseconds it has more room. After a limit was lowered, what is beyond it must expire first. */
  growsMs(limit: number, now: number, lengthMs = windowMs): number {
    const expiring = this.at(Math.max(0, this.#count - limit));
    return expiring === undefined ? 0 : expiring + lengthMs - now;
  }

  expire(time: number): void {
    while (this.#entries > 0 && this.#times[this.#start]! <= time) {
      this.#count -= this.#hits[this.#start]!;
      this.#start = (this.#start + 1) % this.#times.length;
      this.#entries -= 1;
    }
  }

  #makeRoom(): void {
    const isFull = this.#entries === maxEntries;
    const length = isFull ? maxEntries : this.#entries * 2;
    const [times, hits] = [new Float64Array(length), new Float64Array(length)];
    // What has not expired is a minute, as a rule.
    const partMs = Math.max(leastPartMs, (this.newest - this.#times[this.#start]!) / (maxEntries / 2));
    let last = -1;
    for (let index = 0; index < this.#entries; index += 1) {
      const at = (this.#start + index) % this.#times.length;
      const time = this.#times[at]!;
      const isSamePart = isFull && last >= 0 && Math.floor(times[last]! / partMs) === Math.floor(time / partMs);
      if (!isSamePart) last += 1;
      times[last] = time;
      hits[last]! += this.#hits[at]!;
    }
    this.#times = times;
    this.#hits = hits;
    this.#start = 0;
    this.#entries = last + 1;
  }
}

/**
 * The rate-limit caller of a request without a valid key: the client address, or for IPv6 its /64 network, since one site
 * commonly has a whole /64 or more (RFC 6177).
 */
export function anonymousCaller(address: string): string {
  if (isIP(address) !== 6) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = "", tail] = address.split("%")[0]!.split("::");
  const groups = head === "" ? [] : head.split(":");
  // "::" stands for the missing ones of eight groups; a dotted end counts as two.
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - groups.length - after.length - (tail.includes(".") ? 1 : 0);
  const all = [...groups, ...Array<string>(zeros).fill("0"), ...after];
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}
