/** Time, chance and history of a simulation: events run one after the other, in an order that the seed alone decides. */
import { drainMicrotasks } from "bun:jsc";
import { Random } from "../helpers/random.ts";

type Event = { readonly at: number; readonly order: number; run: (() => void) | undefined };
type Line = { readonly at: number; readonly order: number; readonly text: string };

/** What is kept of one subject for people, and shown. */
const maxLines = 2_000;
const maxShown = 100;
/** Events until the process sees to what is not of the simulation, such as a test's time limit. */
const breathAfter = 50_000;
const actually = { setImmediate: globalThis.setImmediate };

export class World {
  readonly seed: number;
  readonly random: Random;
  /** Milliseconds since the start. */
  now = 0;
  events = 0;
  readonly #heap: Event[] = [];
  #cancelled = 0;
  #order = 0;
  readonly #lines = new Map<string, Line[]>();
  #noted = 0;
  #hash = 0n;

  constructor(seed: number) {
    this.seed = seed;
    this.random = new Random(seed);
  }

  /** Between two times, both included, in milliseconds. */
  between(least: number, most: number): number {
    return least + this.random.below(most - least + 1);
  }

  /** @param perMille of a thousand */
  chance(perMille: number): boolean {
    return perMille > 0 && this.random.below(1_000) < perMille;
  }

  /** @returns how to cancel it */
  after(ms: number, run: () => void): () => void {
    const event: Event = { at: this.now + Math.max(0, ms), order: this.#order++, run };
    this.#push(event);
    return () => {
      if (event.run === undefined) return;
      event.run = undefined;
      this.#cancelled += 1;
      if (this.#cancelled > 1_000 && 2 * this.#cancelled > this.#heap.length) this.#sweep();
    };
  }

  /** A line of the history of an id, a caller, a node or a store. All of them together make the digest. */
  note(subject: string, words: string): void {
    const text = `${this.now.toFixed(1)} ${subject} ${words}`;
    this.#hash = Bun.hash.xxHash64(text, this.#hash);
    let lines = this.#lines.get(subject);
    if (lines === undefined) {
      lines = [];
      this.#lines.set(subject, lines);
    }
    lines.push({ at: this.now, order: this.#noted++, text });
    if (lines.length > 2 * maxLines) lines.splice(0, maxLines);
  }

  /** By which two runs of one seed are compared. */
  get digest(): string {
    return this.#hash.toString(16);
  }

  /** The last that was noted of it until then, and of the nodes and stores that its lines name. */
  traceOf(subject: string, until = this.now): string {
    const found = new Set([subject]);
    for (const { text } of this.#lines.get(subject) ?? []) {
      for (const word of text.match(/\bnode\d+\b/g) ?? []) found.add(word);
    }
    for (const one of this.#lines.keys()) if (!/\d$/.test(one)) found.add(one);
    return [...found]
      .flatMap((one) => this.#lines.get(one) ?? [])
      .filter(({ at }) => at <= until)
      .sort((one, other) => one.order - other.order)
      .slice(-maxShown)
      .map(({ text }) => text)
      .join("\n");
  }

  /** Runs events until that time. What each sets off in promises is over before the next. */
  async runUntil(end: number): Promise<void> {
    // What real code puts off to the next turn comes in the simulation's turn too.
    globalThis.setImmediate = ((run: () => void) => this.after(0, run)) as unknown as typeof setImmediate;
    try {
      for (let isOver = false; !isOver; ) {
        isOver = this.#runSome(end);
        await new Promise<void>((resolve) => actually.setImmediate(resolve));
      }
    } finally {
      globalThis.setImmediate = actually.setImmediate;
    }
    this.now = end;
  }

  /** @returns whether all until then have run */
  #runSome(end: number): boolean {
    for (let count = 0; count < breathAfter; count += 1) {
      const next = this.#heap[0];
      if (next === undefined || next.at > end) return true;
      this.#pop();
      const { run } = next;
      if (run === undefined) {
        this.#cancelled -= 1;
        continue;
      }
      next.run = undefined;
      this.now = next.at;
      this.events += 1;
      run();
      drainMicrotasks();
    }
    return false;
  }

  /** Takes the cancelled ones out. */
  #sweep(): void {
    const left = this.#heap.filter(({ run }) => run !== undefined).sort((a, b) => a.at - b.at || a.order - b.order);
    this.#heap.length = 0;
    this.#heap.push(...left);
    this.#cancelled = 0;
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!isBefore(event, heap[above]!)) break;
      heap[at] = heap[above]!;
      at = above;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below += 1;
      if (!isBefore(heap[below]!, last)) break;
      heap[at] = heap[below]!;
      at = below;
    }
    heap[at] = last;
  }
}

const isBefore = (one: Event, other: Event) => one.at < other.at || (one.at === other.at && one.order < other.order);
