/** What befalls the cluster, drawn by a seed, and noted as windows in which nodes may lose their leases. */
import type { Random } from "../helpers/random.ts";
import { now } from "./cluster.ts";
import type { Fault } from "./fault-kinds.ts";
import type { FaultWindow } from "./history.ts";

export class Faults {
  readonly windows: FaultWindow[] = [];
  readonly #all: readonly Fault[];
  readonly #nodes: number;
  readonly #random: Random;
  readonly #busy = new Set<string>();
  readonly #under = new Set<Promise<void>>();

  constructor(all: readonly Fault[], nodes: number, random: Random) {
    this.#all = all.flatMap((fault) => Array<Fault>(fault.weight).fill(fault));
    this.#nodes = nodes;
    this.#random = random;
  }

  /** Faults, one or two at a time, until then. All have ended when it resolves. */
  async until(end: number): Promise<void> {
    while (now() < end) {
      const one = this.#begin();
      if (this.#random.chance(60)) await one;
      await Bun.sleep(100 + this.#random.below(900));
    }
    await Promise.all(this.#under);
  }

  #begin(): Promise<void> {
    const node = this.#random.below(this.#nodes);
    const drawn = this.#random.pick(this.#all);
    const at = drawn.isForAll ? -1 : node;
    const what = `${drawn.of === "clock" ? "node" : drawn.of} ${at}`;
    if (this.#busy.has(what)) return Promise.resolve();
    this.#busy.add(what);
    const running = this.#run(drawn, node, at).finally(() => {
      this.#busy.delete(what);
      this.#under.delete(running);
    });
    this.#under.add(running);
    return running;
  }

  async #run({ of, kind, run, after }: Fault, node: number, at: number): Promise<void> {
    const note = (what: string) => {
      const window: FaultWindow = { of, node: at, kind: what, from: now(), to: Number.POSITIVE_INFINITY };
      this.windows.push(window);
      return () => {
        window.to = now();
      };
    };
    const isOver = note(kind);
    try {
      await run(node);
    } finally {
      isOver();
    }
    await after?.(note);
  }
}
