/** A caller of one id, who asks again until the answer is whole, and goes on in a stream after the last event that came. */
import type { World } from "./world.ts";

export class Caller {
  readonly id: string;
  readonly #world: World;
  /** The run whose events it has, and how many. */
  #run = "";
  #count = 0;
  /** Who made them. */
  #call = "";

  constructor(world: World, id: string) {
    this.id = id;
    this.#world = world;
  }

  /** What it asks to go on after; most do. */
  get lastEventId(): string | undefined {
    return this.#count > 0 && !this.#world.chance(300) ? `${this.#run}-${this.#count - 1}` : undefined;
  }

  /** The call whose answer it has. */
  get call(): string {
    return this.#call;
  }

  get count(): number {
    return this.#count;
  }

  /**
   * Takes an event: `id: <run>-<number>` and `data: <id> <call> <number>`.
   * @param isFirst whether it is the first of an answer @param after what the caller asked to go on after
   * @returns what is wrong with it
   */
  take(event: string, isFirst: boolean, after: string | undefined): string | undefined {
    const found = /^id: (.+)-(\d+)\ndata: (\S+) (\d+) (\d+)\n\n$/.exec(event);
    if (found === null) return `got no whole event: ${JSON.stringify(event)}`;
    const [, run, number, id, call, own] = found;
    const goesOn = isFirst && after !== undefined && run === this.#run;
    const isNew = isFirst && !goesOn;
    if (!isFirst && run !== this.#run) return `got an event of run ${run} in a stream of ${this.#run}`;
    if (isNew) [this.#run, this.#count, this.#call] = [run!, 0, call!];
    if (Number(number) !== this.#count) return `got event ${number} of run ${run} in place of ${this.#count}`;
    if (id !== this.id || own !== number || call !== this.#call) return `got another's event: ${JSON.stringify(event)}`;
    this.#count += 1;
    return undefined;
  }

  /** Begins anew. */
  forget(): void {
    [this.#run, this.#count, this.#call] = ["", 0, ""];
  }
}
