/**
 * Exact sliding windows: never more than N requests of one caller in any 60 seconds. Those here are in this process' memory,
 * for when they can't be kept in files. They run on the monotonic clock, so that a step of the wall clock neither opens nor
 * closes them.
 */
import { isIPv6 } from "node:net";
import type { Clock } from "../lib/clock.ts";
import { windowMs } from "./window-table.ts";

export type Verdict = {
  readonly allowed: boolean;
  readonly limit: number;
  /** How many more requests may be taken now. */
  readonly remaining: number;
  /** Unix seconds, rounded up: when `remaining` next grows; now, when nothing is in the window. */
  readonly resetAt: number;
  /** Whole seconds until a request can be taken; 0 when this one was. */
  readonly retryAfterSeconds: number;
};

export interface Limiter {
  /** Takes one request if the window has room. A refused one does not count. @param perMinute at least 1 */
  take(who: string, perMinute: number): Verdict;
  /** What `take` would find, without taking. `allowed` says whether there is room. */
  peek(who: string, perMinute: number): Verdict;
}

/** The requests in a window by their monotonic times, oldest first. */
export type Times = { readonly count: number; at(index: number): number | undefined };

/** @param wallNow Unix time in milliseconds */
export function verdictOf(window: Times, limit: number, allowed: boolean, now: number, wallNow: number): Verdict {
  const room = limit - window.count;
  // After a limit was lowered more requests may stand in the window than it allows: they must go first.
  const leaves = window.at(Math.max(0, -room));
  // Times that are kept in whole milliseconds may be a little ahead of now.
  const waitMs = leaves === undefined ? 0 : Math.min(windowMs, leaves + windowMs - now);
  return {
    allowed,
    limit,
    remaining: Math.max(0, room),
    resetAt: Math.ceil((wallNow + waitMs) / 1000),
    retryAfterSeconds: allowed ? 0 : Math.ceil(waitMs / 1000),
  };
}

export class RateLimiter implements Limiter {
  readonly #clock: Clock;
  readonly #maxCallers: number;
  /** The least recently taken stands first. */
  readonly #windows = new Map<string, Window>();

  /**
   * @param maxCallers how many are remembered; beyond it the least recently seen is forgotten. Where callers can't be
   * invented, as with keys, no bound is needed: whoever has been silent for a minute is forgotten anyway.
   */
  constructor(clock: Clock, maxCallers = Number.POSITIVE_INFINITY) {
    this.#clock = clock;
    this.#maxCallers = maxCallers;
  }

  /** How many callers are remembered. */
  get size(): number {
    return this.#windows.size;
  }

  take(who: string, perMinute: number): Verdict {
    const now = this.#clock.monotonic();
    const window = this.#windows.get(who) ?? new Window();
    window.forgetUntil(now - windowMs);
    const allowed = window.count < perMinute;
    if (allowed) window.push(now);
    this.#windows.delete(who);
    this.#windows.set(who, window);
    this.#forgetOthers(now);
    return verdictOf(window, perMinute, allowed, now, this.#clock.now());
  }

  peek(who: string, perMinute: number): Verdict {
    const now = this.#clock.monotonic();
    const window = this.#windows.get(who) ?? new Window();
    window.forgetUntil(now - windowMs);
    return verdictOf(window, perMinute, window.count < perMinute, now, this.#clock.now());
  }

  /** Drops windows that are empty by now, which changes nothing, and then those beyond the bound. */
  #forgetOthers(now: number): void {
    for (const [who, window] of this.#windows) {
      if (window.newest > now - windowMs && this.#windows.size <= this.#maxCallers) return;
      this.#windows.delete(who);
    }
  }
}

/** The times of the last requests, oldest first, in a ring that grows as needed. */
class Window {
  #ring = new Float64Array(8);
  #start = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** The time of the last request, forgotten or not. */
  newest = Number.NEGATIVE_INFINITY;

  push(time: number): void {
    if (this.#count === this.#ring.length) this.#grow();
    this.#ring[(this.#start + this.#count) % this.#ring.length] = time;
    this.#count += 1;
    this.newest = time;
  }

  at(index: number): number | undefined {
    return index < this.#count ? this.#ring[(this.#start + index) % this.#ring.length] : undefined;
  }

  forgetUntil(time: number): void {
    while (this.#count > 0 && this.#ring[this.#start]! <= time) {
      this.#start = (this.#start + 1) % this.#ring.length;
      this.#count -= 1;
    }
  }

  #grow(): void {
    const wider = new Float64Array(this.#ring.length * 2);
    for (let index = 0; index < this.#count; index += 1) wider[index] = this.at(index)!;
    this.#ring = wider;
    this.#start = 0;
  }
}

/**
 * The name under which calls without a valid key are counted: the address, or for IPv6 its /64 network, since one
 * machine commonly has a whole one to itself (RFC 6177).
 */
export function anonymousCaller(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = "", tail] = address.split("%")[0]!.split("::");
  const groups = head === "" ? [] : head.split(":");
  // Of the eight groups a "::" stands for as many zeros as are missing; a dotted end counts as two.
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - groups.length - after.length - (tail.includes(".") ? 1 : 0);
  const all = [...groups, ...Array<string>(zeros).fill("0"), ...after];
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}
