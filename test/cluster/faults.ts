/** What befalls the cluster: seeded, each with its end, and noted as a window in which its nodes may lose their leases. */
import type { PostgresServer } from "../helpers/postgres.ts";
import type { Random } from "../helpers/random.ts";
import { type Cluster, leaseMs, now } from "./cluster.ts";
import type { FaultWindow } from "./history.ts";

type Fault = { readonly kind: string; readonly weight: number; run(node: number): Promise<void> };

export class Faults {
  readonly windows: FaultWindow[] = [];
  readonly #cluster: Cluster;
  readonly #server: PostgresServer;
  readonly #random: Random;
  readonly #busy = new Set<number>();
  readonly #under = new Set<Promise<void>>();
  /** Fills the disk under the database. @returns what empties it again */
  readonly #fillDisk: (() => () => void) | undefined;

  constructor(cluster: Cluster, server: PostgresServer, random: Random, fillDisk?: () => () => void) {
    this.#cluster = cluster;
    this.#server = server;
    this.#random = random;
    this.#fillDisk = fillDisk;
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
    const node = this.#cluster.pick(this.#random);
    const drawn = this.#draw();
    const at = drawn.kind.startsWith("database") ? -1 : node;
    if (this.#busy.has(at)) return Promise.resolve();
    this.#busy.add(at);
    const window: FaultWindow = { node: at, kind: drawn.kind, from: now(), to: Number.POSITIVE_INFINITY };
    this.windows.push(window);
    const running = drawn.run(node).finally(() => {
      window.to = now();
      this.#busy.delete(at);
      this.#under.delete(running);
    });
    this.#under.add(running);
    return running;
  }

  #draw(): Fault {
    const all = this.#all.filter(({ kind }) => kind !== "database: disk full" || this.#fillDisk !== undefined);
    return this.#random.pick(all.flatMap((fault) => Array<Fault>(fault.weight).fill(fault)));
  }

  /** From a blink to well beyond the lease. */
  #while = () => Bun.sleep(this.#random.pick([200, 800, leaseMs, leaseMs * 1.5, leaseMs * 2]));

  readonly #all: readonly Fault[] = [
    {
      kind: "kill",
      weight: 3,
      run: async (node) => {
        await this.#cluster.nodes[node]!.kill();
        await this.#whenItStarts(node);
      },
    },
    {
      kind: "pause",
      weight: 4,
      run: async (node) => {
        const process = this.#cluster.nodes[node]!;
        process.signal("SIGSTOP");
        await this.#while();
        process.signal("SIGCONT");
      },
    },
    {
      kind: "cuts",
      weight: 3,
      run: async (node) => {
        for (let cuts = this.#random.below(12) + 1; cuts > 0; cuts -= 1) {
          this.#cluster.proxies[node]!.cut();
          await Bun.sleep(this.#random.below(120));
        }
      },
    },
    {
      kind: "half-closed",
      weight: 2,
      run: async (node) => {
        for (let times = this.#random.below(6) + 1; times > 0; times -= 1) {
          this.#cluster.proxies[node]!.halfClose();
          await Bun.sleep(this.#random.below(200));
        }
      },
    },
    {
      kind: "orphaned",
      weight: 3,
      run: async (node) => {
        this.#cluster.proxies[node]!.orphan();
        await Bun.sleep(this.#random.below(1_500));
      },
    },
    {
      kind: "held",
      weight: 3,
      run: async (node) => {
        this.#cluster.proxies[node]!.hold();
        await this.#while();
        this.#cluster.proxies[node]!.release();
      },
    },
    {
      kind: "delayed",
      weight: 2,
      run: async (node) => {
        this.#cluster.proxies[node]!.delayMs = this.#random.pick([5, 60, 300, 700]);
        await this.#while();
        this.#cluster.proxies[node]!.delayMs = 0;
      },
    },
    {
      kind: "database: restart",
      weight: 1,
      run: async () => {
        await this.#server.stop("SIGINT");
        await this.#server.run();
      },
    },
    {
      kind: "database: kill -9",
      weight: 1,
      run: async () => {
        await this.#server.stop("SIGQUIT");
        await this.#while();
        await this.#server.run();
      },
    },
    {
      kind: "database: disk full",
      weight: 1,
      run: async () => {
        const empty = this.#fillDisk!();
        await this.#while();
        empty();
      },
    },
  ];

  /** It needs the database, which may be away just now. */
  async #whenItStarts(node: number): Promise<void> {
    for (const end = now() + 60_000; ; ) {
      try {
        return await this.#cluster.startNode(node);
      } catch (error) {
        if (now() > end) throw error;
        await Bun.sleep(100);
      }
    }
  }
}
