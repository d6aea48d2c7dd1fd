/** One process: it may stand still, be slow, be cut off from a store, have a wrong clock, and die. */
import type { Clock } from "../../src/lib/time/clock.ts";
import type { World } from "./world.ts";

/** Unix time at the simulation's start: some time before midnight, at which days and months end. */
export const epoch = Date.UTC(2026, 10, 30, 23, 58);
export const maxSkewMs = 300_000;

/** What a machine can be cut off from. */
export type Place = "database" | "coordination";

export class Machine implements Clock {
  readonly name: string;
  readonly world: World;
  readonly #number: number;
  #skewMs: number;
  readonly #offsetMs: number;
  #stillUntil = 0;
  #slowUntil = 0;
  readonly #cutUntil: Record<Place, number> = { database: 0, coordination: 0 };
  #ids = 0;
  isDead = false;
  readonly #atDeath = new Set<() => void>();

  constructor(world: World, number: number) {
    this.world = world;
    this.#number = number;
    this.name = `node${number}`;
    this.#skewMs = world.between(-maxSkewMs, maxSkewMs);
    this.#offsetMs = world.between(0, 1_000_000);
  }

  now(): number {
    return epoch + this.world.now + this.#skewMs;
  }

  monotonic(): number {
    return this.#offsetMs + this.world.now;
  }

  newId(): string {
    this.#ids += 1;
    const hex = (part: number, digits: number) => part.toString(16).padStart(digits, "0");
    const own = Bun.hash.crc32(`${this.name} ${this.#ids}`);
    return hex(Math.floor(this.now()), 12) + hex(this.#ids, 6) + hex(this.#number, 6) + hex(own, 8);
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
    const waitMs = this.#stillUntil - this.world.now;
    if (waitMs <= 0) {
      run();
      return () => {};
    }
    let cancel = this.world.after(waitMs, () => {
      cancel = this.deliver(run);
    });
    return () => cancel();
  }

  /** Called at once when the machine dies. @returns how to cancel it */
  onDeath(run: () => void): () => void {
    this.#atDeath.add(run);
    return () => {
      this.#atDeath.delete(run);
    };
  }

  isCutFrom(place: Place): boolean {
    return this.world.now < this.#cutUntil[place];
  }

  /** What it adds to each message's way. */
  get lagMs(): number {
    return this.world.now < this.#slowUntil ? this.world.between(20, 400) : 0;
  }

  standStill(ms: number): void {
    this.world.note(this.name, `stands still for ${ms}`);
    this.#stillUntil = this.world.now + ms;
  }

  slowDown(ms: number): void {
    this.world.note(this.name, `is slow for ${ms}`);
    this.#slowUntil = this.world.now + ms;
  }

  cutOff(places: readonly Place[], ms: number): void {
    this.world.note(this.name, `is cut off from ${places.join(", ")} for ${ms}`);
    for (const place of places) this.#cutUntil[place] = this.world.now + ms;
  }

  setClock(): void {
    this.#skewMs = this.world.between(-maxSkewMs, maxSkewMs);
    this.world.note(this.name, `has its clock set, now ${this.#skewMs} from the true time`);
  }

  die(): void {
    if (this.isDead) return;
    this.world.note(this.name, "dies");
    this.isDead = true;
    for (const run of this.#atDeath) run();
    this.#atDeath.clear();
  }
}
