/** What one node knows of one caller's window over all nodes. */
import { type WindowAsk, type WindowState, windowParts } from "../store/shared-windows.ts";
import { type Decision, Window } from "./limiter.ts";

/** A request that waits for a slot. */
export type Waiting = { readonly since: number; readonly resolve: (decision: Decision) => void };

/** Slots held ahead at least; of small limits the store gives fewer. */
const minAhead = 4;

export class NodeWindow {
  readonly caller: string;
  readonly #windowMs: number;
  limit: number;
  /** The hits that this node admitted. */
  readonly #own = new Window();
  /** The latest of them that the store does not know of. */
  #unreported = 0;
  /** Slots that the store gave, with those of unreported hits. */
  #held = 0;
  /** The exchange under way, or whose answer was lost: how many hits it told of. */
  #sent: { readonly report: number; hits: number } | undefined;
  /** Hits of late, halved with each exchange. */
  #pace = 0;
  /** As of the last exchange: hits and held slots of other nodes, hits of all, and when the window grows. */
  #known = { at: Number.NEGATIVE_INFINITY, others: 0, growsAt: Number.NEGATIVE_INFINITY };
  /** Until then it is known that there is no room. */
  closedUntil = Number.NEGATIVE_INFINITY;
  /** Until then nothing is held ahead, as others need it. */
  #recalledUntil = Number.NEGATIVE_INFINITY;
  lastHitAt = Number.NEGATIVE_INFINITY;
  readonly waiting: Waiting[] = [];
  isExchanging = false;

  constructor(caller: string, limit: number, windowMs: number) {
    this.caller = caller;
    this.limit = limit;
    this.#windowMs = windowMs;
  }

  /** Slots that may be used without asking. */
  get ahead(): number {
    return this.#held - this.#unreported;
  }

  get unreported(): number {
    return this.#unreported;
  }

  /** Whether more of what was held is used than is left. */
  get runsLow(): boolean {
    return this.ahead < this.#unreported;
  }

  /** Hits of this node in the window. */
  get own(): number {
    return this.#own.count;
  }

  /** To be called before anything else. */
  expire(now: number): void {
    this.#own.expire(now - this.#windowMs);
    const gone = this.#unreported - this.#own.count;
    if (gone <= 0) return;
    // They count nowhere any more; their slots are still held.
    this.#unreported -= gone;
    if (this.#sent !== undefined) this.#sent.hits = Math.max(0, this.#sent.hits - gone);
  }

  use(now: number): void {
    this.#own.push(now);
    this.#unreported += 1;
    this.#pace += 1;
    this.lastHitAt = now;
  }

  recall(until: number): void {
    this.#recalledUntil = until;
  }

  /** Uses no slot that it has: those that the store still counts are its own again after the next exchange. */
  forgetSlots(): void {
    this.#held = 0;
  }

  /** The store has lost what it was told. */
  reportAgain(): void {
    this.#held = 0;
    this.#sent = undefined;
    this.#unreported = this.#own.count;
  }

  /** @param number greater than any before @param isEnd whether no slot is wanted any more */
  ask(now: number, number: number, isEnd = false): WindowAsk {
    this.expire(now);
    const waiting = isEnd ? 0 : this.waiting.length;
    this.#sent ??= { report: number, hits: this.#unreported };
    const want = isEnd ? 0 : waiting + this.#wanted(now);
    // What is given back is not used meanwhile.
    this.#held = Math.min(this.#held, this.#unreported + want);
    this.isExchanging = true;
    return {
      caller: this.caller,
      number,
      report: this.#sent.report,
      limit: this.limit,
      uses: this.#agesOf(this.#sent.hits, now),
      want,
      waiting,
    };
  }

  #wanted(now: number): number {
    if (now < this.#recalledUntil) return 0;
    const target = Math.max(minAhead, Math.ceil(2 * this.#pace));
    return this.ahead > 2 * target ? target : Math.max(target, this.ahead);
  }

  /** Of the oldest of the unreported hits. */
  #agesOf(hits: number, now: number): [number, number][] {
    const ages: [number, number][] = [];
    const part = this.#windowMs / windowParts;
    const first = this.#own.count - this.#unreported;
    let partEnd = Number.NEGATIVE_INFINITY;
    for (let at = first; at < first + hits; at += 1) {
      const time = this.#own.at(at)!;
      const last = ages.at(-1);
      if (last !== undefined && time < partEnd) {
        // Never older than the youngest of them.
        last[0] = Math.max(0, now - time);
        last[1] += 1;
      } else {
        ages.push([Math.max(0, now - time), 1]);
        partEnd = time + part;
      }
    }
    return ages;
  }

  /** Takes over what the store said. */
  answered({ held, used, others, growsMs }: WindowState, now: number): void {
    this.isExchanging = false;
    this.expire(now);
    this.#unreported -= this.#sent?.hits ?? 0;
    this.#sent = undefined;
    this.#held = held;
    this.#pace /= 2;
    this.#known = {
      at: now,
      others: Math.max(0, used - (this.#own.count - this.#unreported)) + others,
      growsAt: growsMs === null ? Number.NEGATIVE_INFINITY : now + growsMs,
    };
  }

  /** Nobody knows whether the store did it: the same is told again. */
  failed(): void {
    this.isExchanging = false;
  }

  /** Hits of other nodes, and slots that they held, as far as known. */
  othersUsed(now: number): number {
    return now < this.#known.at + this.#windowMs ? this.#known.others : 0;
  }

  /** @param limit what may be used of it: the whole, or this node's share */
  decision(allowed: boolean, limit: number, now: number, wallNow: number): Decision {
    const others = limit < this.limit ? 0 : this.othersUsed(now);
    const remaining = Math.max(0, limit - this.#own.count - others);
    const waitMs = this.#growsInMs(now);
    const closedMs = Math.min(this.#windowMs, Math.max(waitMs, this.closedUntil - now));
    return {
      allowed,
      limit: this.limit,
      remaining: allowed ? remaining : 0,
      resetAt: Math.ceil((wallNow + waitMs) / 1000),
      retryAfterSeconds: allowed ? 0 : Math.max(1, Math.ceil(closedMs / 1000)),
    };
  }

  /** Until the window has more room, as far as known; 0 where nothing is in it. */
  #growsInMs(now: number): number {
    const { growsAt } = this.#known;
    const oldest = this.#own.at(0);
    const ownMs = oldest === undefined ? 0 : oldest + this.#windowMs - now;
    const knownMs = Math.min(this.#windowMs, Math.max(0, growsAt - now));
    if (ownMs === 0 || knownMs === 0) return ownMs + knownMs;
    return Math.min(ownMs, knownMs);
  }
}
