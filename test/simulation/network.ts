/** The way between machines and one store: delay, loss, silence, messages that come late or twice, and a store that is away. */
import type { Machine, Place } from "./machine.ts";
import type { World } from "./world.ts";

/** Chances in a thousand, for each message. */
export type Weather = {
  /** The connection breaks before the store has it, or before its answer is there. */
  readonly lostRequest: number;
  readonly lostAnswer: number;
  /** Nothing comes, and nobody is told. */
  readonly silence: number;
  /** It is done long after whoever sent it gave up. */
  readonly late: number;
  /** It is done once more, some time after. */
  readonly repeated: number;
  readonly slow: number;
};

export const calm: Weather = { lostRequest: 0, lostAnswer: 0, silence: 0, late: 0, repeated: 0, slow: 0 };

export class Network {
  readonly #world: World;
  readonly place: Place;
  readonly #weather: Weather;
  isCalm = false;
  /** When it could not be reached. */
  readonly outages: { readonly from: number; readonly to: number }[] = [];
  #awayUntil = 0;
  #mutesUntil = 0;
  /** Grows with each restart, which breaks all connections. */
  #starts = 0;
  messages = 0;

  constructor(world: World, place: Place, weather: Weather) {
    this.#world = world;
    this.place = place;
    this.#weather = weather;
  }

  /** The store ends and comes back: who asks meanwhile is refused. */
  restart(ms: number): void {
    this.#world.note(this.place, `is away for ${ms}`);
    this.#starts += 1;
    this.#awayUntil = this.#world.now + ms;
    this.outages.push({ from: this.#world.now, to: this.#awayUntil });
  }

  /** As with a host that is gone: nobody is told anything. */
  fallSilent(ms: number): void {
    this.#world.note(this.place, `says nothing for ${ms}`);
    this.#starts += 1;
    this.#mutesUntil = this.#world.now + ms;
    this.outages.push({ from: this.#world.now, to: this.#mutesUntil });
  }

  /** Whether machines reach it, as far as it is up to the store. */
  get isReachable(): boolean {
    return this.#world.now >= this.#awayUntil && this.#world.now >= this.#mutesUntil;
  }

  /**
   * Has the store do something, and the machine told.
   * @param answered given nothing where the connection broke; never called where there is silence
   */
  ask<T extends object>(machine: Machine, work: () => T, answered: (answer: T | undefined) => void): void {
    const world = this.#world;
    const { lostRequest, lostAnswer, silence, late, repeated } = this.isCalm ? calm : this.#weather;
    this.messages += 1;
    world.after(this.#delay(machine), () => {
      const isSilent = machine.isCutFrom(this.place) || world.now < this.#mutesUntil;
      if (isSilent || world.chance(silence)) return;
      const isLost = world.chance(lostRequest);
      // What waits in a socket of the store may be done all the same.
      if (isLost && world.chance(late === 0 ? 0 : 200)) this.#doLate(world.between(100, 90_000), work);
      if (isLost || world.now < this.#awayUntil) return machine.deliver(() => answered(undefined));
      // Often when whoever sent it tries again.
      if (world.chance(late)) return this.#doLate(world.between(1_000, world.chance(500) ? 8_000 : 90_000), work);
      if (world.chance(repeated)) this.#doLate(world.between(0, 2_000), work);
      const starts = this.#starts;
      const answer = work();
      this.messages += 1;
      world.after(this.#delay(machine), () => {
        if (machine.isCutFrom(this.place)) return;
        const isCutOff = starts !== this.#starts || world.chance(lostAnswer);
        machine.deliver(() => answered(isCutOff ? undefined : answer));
      });
    });
  }

  #doLate(ms: number, work: () => unknown): void {
    const starts = this.#starts;
    this.#world.after(ms, () => {
      if (starts === this.#starts && this.isReachable) work();
    });
  }

  #delay(machine: Machine): number {
    const { slow } = this.isCalm ? calm : this.#weather;
    return (this.#world.chance(slow) ? this.#world.between(50, 3_000) : this.#world.between(0, 2)) + machine.lagMs;
  }
}
