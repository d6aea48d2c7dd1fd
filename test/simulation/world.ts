/** Time, chance and faults of a simulation: events run one after the other, in an order that the seed alone decides. */
import type { Clock } from "../../src/lib/clock.ts";
import { Random } from "../helpers/random.ts";

type Event = { readonly at: number; readonly order: number; readonly run: () => void; isCancelled: boolean };

/** Unix time at the simulation's start. */
const epoch = 1_700_000_000_000;
/** How much of what happened is kept for people. */
const maxLines = 5_000;

export class World {
  readonly random: Random;
  /** Milliseconds since the start. */
  now = 0;
  events = 0;
  readonly #heap: Event[] = [];
  #order = 0;
  readonly #lines: string[] = [];
  #hash = 0n;

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  /** Between two times, in milliseconds. */
  between(least: number, most: number): number {
    return least + this.random.below(most - least + 1);
  }

  /** @returns how to cancel it */
  after(ms: number, run: () => void): () => void {
    const event = { at: this.now + Math.max(0, ms), order: this.#order++, run, isCancelled: false };
    this.#push(event);
    return () => {
      event.isCancelled = true;
    };
  }

  /** A line of the history, by which two runs of one seed are compared. */
  note(line: string): void {
    const full = `${this.now.toFixed(1)} ${line}`;
    this.#hash = Bun.hash.xxHash64(full, this.#hash);
    this.#lines.push(full);
    if (this.#lines.length > 2 * maxLines) this.#lines.splice(0, maxLines);
  }

  get hash(): string {
    return this.#hash.toString(16);
  }

  /** The lines that speak of it. */
  historyOf(word: string): string {
    return this.#lines.filter((line) => line.split(" ").includes(word)).join("\n");
  }

  /** Runs events until that time. What each sets off in promises is over before the next. */
  async runUntil(end: number): Promise<void> {
    for (let next = this.#heap[0]; next !== undefined && next.at <= end; next = this.#heap[0]) {
      this.#pop();
      if (next.isCancelled) continue;
      this.now = next.at;
      this.events += 1;
      next.run();
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    this.now = end;
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

/** One process: it may stand still, be cut off, have a wrong clock, and die. */
export class Machine implements Clock {
  readonly name: string;
  readonly world: World;
  readonly #skewMs: number;
  readonly #offsetMs: number;
  #stillUntil = 0;
  #cutUntil = 0;
  #ids = 0;
  isDead = false;
  readonly death: Promise<never>;
  #die!: (error: Error) => void;

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
    this.#skewMs = world.between(-300_000, 300_000);
    this.#offsetMs = world.between(0, 1_000_000);
    this.death = new Promise((_, reject) => {
      this.#die = reject;
    });
    this.death.catch(() => {});
  }

  now(): number {
    return epoch + this.world.now + this.#skewMs;
  }

  monotonic(): number {
    return this.#offsetMs + this.world.now;
  }

  newId(): string {
    this.#ids += 1;
    const own = Bun.hash.crc32(`${this.name} ${this.#ids}`).toString(16).padStart(8, "0");
    return own.padStart(32, "0");
  }

  setTimer(ms: number, run: () => void): () => void {
    let cancel = this.world.after(ms, () => {
      cancel = this.deliver(run);
    });
    return () => cancel();
  }

  /** Runs it now, when the machine goes on, or never. */
  deliver(run: () => void): () => void {
    if (this.isDead) return () => {};
    if (this.world.now >= this.#stillUntil) {
      run();
      return () => {};
    }
    let cancel = this.world.after(this.#stillUntil - this.world.now, () => {
      cancel = this.deliver(run);
    });
    return () => cancel();
  }

  get isCut(): boolean {
    return this.world.now < this.#cutUntil;
  }

  standStill(ms: number): void {
    this.world.note(`${this.name} stands still for ${ms}`);
    this.#stillUntil = this.world.now + ms;
  }

  cutOff(ms: number): void {
    this.world.note(`${this.name} is cut off for ${ms}`);
    this.#cutUntil = this.world.now + ms;
  }

  die(): void {
    this.world.note(`${this.name} dies`);
    this.isDead = true;
    this.#die(new Error("the process died"));
  }
}
