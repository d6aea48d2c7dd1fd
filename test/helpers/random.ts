import { testSeed } from "./seed.ts";

/** Numbers that look random and come again with the same seed (mulberry32, public domain). */
export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed: number) {
    this.seed = seed;
    this.#state = seed >>> 0;
  }

  /** The seed of the environment variable, else the suite's. */
  static fromEnvironment(name: string): Random {
    return new Random(Number(process.env[name] ?? testSeed));
  }

  /** 0 to below `end`. */
  below(end: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * end);
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("there is nothing to pick from");
    return item;
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }
}
