/**
 * The exact sliding windows of several processes that serve together, without a lock. For callers that nobody can
 * invent, as keys are: each has a file of its own.
 *
 * A caller's takes have numbers, 0 and up. The time of take `n` stands at `n` modulo the capacity, which is greater than
 * the limit, and `head` is the number of the next take. Whoever wants take `n` looks whether take `n - limit` is older
 * than the window, and then exchanges what stands at `n`'s place, which is older still, for the time now: of several who
 * try, one succeeds. As a place is never given the same time twice, nobody who is late can succeed by mistake. Then the
 * head moves on; if its mover is killed before, the next one finds a time within the window where an old one should
 * be, and moves it. So at every moment of every process, take `n` is a window's length after take `n - limit`.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../lib/clock.ts";
import { mapNumbers } from "../store/shared-ring.ts";
import { type Limiter, type Times, type Verdict, verdictOf, windowMs } from "./rate-limiter.ts";

const windowMicros = windowMs * 1000;
/** One page of memory. A limit may change without a new window as long as it stays below. */
const leastNumbers = 512;
/** More are mapped anew when they are needed. */
const mostMapped = 10_000;

/**
 * A take costs 1.6 µs, a refusal 0.6 µs; 2 to 5 µs where two processes do nothing but take from the same 50 windows.
 * (300,000 takes each; within one process, with `RateLimiter`, it is 0.2 µs.)
 */
export class SharedWindows implements Limiter {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #now: () => number;
  /** By caller and capacity; the longest mapped stands first. */
  readonly #windows = new Map<string, SharedWindow>();

  /** @param now a monotonic reading in milliseconds, the same in all processes */
  constructor(folder: string, clock: Clock, now: () => number) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#folder = folder;
    this.#clock = clock;
    this.#now = now;
  }

  /** @throws the file system's errors */
  take(who: string, perMinute: number): Verdict {
    const window = this.#windowOf(who, perMinute);
    const { allowed, now, head } = window.take(perMinute, this.#now);
    return this.#verdict(window.since(now, head), perMinute, allowed, now);
  }

  /** @throws the file system's errors */
  peek(who: string, perMinute: number): Verdict {
    const window = this.#windowOf(who, perMinute);
    const now = microsOf(this.#now());
    const times = window.since(now, window.head);
    return this.#verdict(times, perMinute, times.count < perMinute, now);
  }

  #verdict(times: Times, perMinute: number, allowed: boolean, now: number): Verdict {
    return verdictOf(times, perMinute, allowed, now / 1000, this.#clock.now());
  }

  #windowOf(who: string, perMinute: number): SharedWindow {
    const capacity = capacityFor(perMinute);
    const name = `${who}\n${capacity}`;
    const known = this.#windows.get(name);
    if (known !== undefined) return known;
    const path = join(this.#folder, Bun.SHA256.hash(name, "hex"));
    const window = new SharedWindow(mapNumbers(path, capacity + 1), capacity);
    this.#windows.set(name, window);
    if (this.#windows.size > mostMapped) this.#windows.delete(this.#windows.keys().next().value!);
    return window;
  }
}

/** Zero means that a place has never been taken, so time must begin more than a window after it. */
const microsOf = (ms: number) => Math.round(ms * 1000) + 2 * windowMicros;

/** More than the limit; with the head beside the times, whole pages. */
function capacityFor(perMinute: number): number {
  let numbers = leastNumbers;
  while (numbers - 1 <= perMinute) numbers *= 2;
  return numbers - 1;
}

class SharedWindow {
  /** The times in microseconds, and after them the head. */
  readonly #numbers: BigInt64Array;
  readonly #capacity: number;

  constructor(numbers: BigInt64Array, capacity: number) {
    this.#numbers = numbers;
    this.#capacity = capacity;
  }

  /** @returns whether there was room, and the time in microseconds and the head for which that was said */
  take(
    limit: number,
    readNow: () => number,
  ): { readonly allowed: boolean; readonly now: number; readonly head: number } {
    const numbers = this.#numbers;
    for (;;) {
      const head = this.head;
      // No take is before the one that precedes it, however long its process was held up.
      const now = Math.max(microsOf(readNow()), this.#timeOf(head - 1));
      const until = now - windowMicros;
      const place = head % this.#capacity;
      const standing = Atomics.load(numbers, place);
      if (Number(standing) > until) this.#moveOn(head);
      else if (this.#timeOf(head - limit) > until) return { allowed: false, now, head };
      else if (Atomics.compareExchange(numbers, place, standing, BigInt(now)) === standing) {
        this.#moveOn(head);
        return { allowed: true, now, head: head + 1 };
      }
    }
  }

  /** The takes before `head` that stand in the window, by their times in milliseconds. */
  since(now: number, head: number): Times {
    const until = now - windowMicros;
    let [low, high] = [Math.max(0, head - this.#capacity + 1), head];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.#timeOf(middle) > until) high = middle;
      else low = middle + 1;
    }
    const count = head - low;
    return { count, at: (index) => (index < count ? this.#timeOf(low + index) / 1000 : undefined) };
  }

  /** The number of the next take. */
  get head(): number {
    return Number(Atomics.load(this.#numbers, this.#capacity));
  }

  #moveOn(head: number): void {
    Atomics.compareExchange(this.#numbers, this.#capacity, BigInt(head), BigInt(head + 1));
  }

  /** Of a take that never was: zero. */
  #timeOf(take: number): number {
    return take < 0 ? 0 : Number(Atomics.load(this.#numbers, take % this.#capacity));
  }
}
