/** What can befall a cluster. Each fault is over when its `run` resolves. */
import type { Random } from "../helpers/random.ts";
import type { SwitchedProxy } from "../helpers/switched-proxy.ts";
import { type Cluster, leaseMs, now } from "./cluster.ts";
import type { Coordination } from "./coordination.ts";
import type { Database } from "./database.ts";
import type { FaultWindow } from "./history.ts";

/** Notes that something befalls the same; what it returns, that it is over. */
export type Note = (kind: string) => () => void;

export type Fault = {
  readonly of: FaultWindow["of"];
  readonly kind: string;
  /** Whether all nodes feel it. Default: one does. */
  readonly isForAll?: true;
  /** How often it comes, beside the others. */
  readonly weight: number;
  run(node: number): Promise<unknown>;
  /** What is still to be done when it is over, before anything else befalls the same. @param note where that is felt too */
  readonly after?: (note: Note) => Promise<unknown>;
};

/** How a fault is given time. */
export type Times = { readonly random: Random; readonly somewhile: () => Promise<void> };

/** From a blink to well beyond the lease. */
export const timesOf = (random: Random): Times => ({
  random,
  somewhile: () => Bun.sleep(random.pick([200, 800, leaseMs, leaseMs * 1.5, leaseMs * 2])),
});

/** What breaks a way. @param of a node's way */
export function wayFaults(of: (node: number) => SwitchedProxy, { random, somewhile }: Times): Fault[] {
  return [
    {
      of: "node",
      kind: "cuts",
      weight: 3,
      run: async (node) => {
        for (let cuts = random.below(12) + 1; cuts > 0; cuts -= 1) {
          of(node).cut();
          await Bun.sleep(random.below(120));
        }
      },
    },
    {
      of: "node",
      kind: "half-closed",
      weight: 2,
      run: async (node) => {
        for (let times = random.below(6) + 1; times > 0; times -= 1) {
          of(node).halfClose();
          await Bun.sleep(random.below(200));
        }
      },
    },
    {
      of: "node",
      kind: "orphaned",
      weight: 3,
      run: async (node) => {
        of(node).orphan();
        await Bun.sleep(random.below(1_500));
      },
    },
    {
      of: "node",
      kind: "held",
      weight: 3,
      run: async (node) => {
        of(node).hold();
        await somewhile();
        of(node).release();
      },
    },
    {
      of: "node",
      kind: "delayed",
      weight: 2,
      run: async (node) => {
        of(node).delayMs = random.pick([5, 60, 300, 700]);
        await somewhile();
        of(node).delayMs = 0;
      },
    },
  ];
}

/** What befalls a node itself. */
export function nodeFaults(cluster: Cluster, { random, somewhile }: Times): Fault[] {
  /** It needs the database, which may be away just now. */
  const whenItStarts = async (node: number) => {
    for (const end = now() + 60_000; ; ) {
      try {
        return await cluster.startNode(node);
      } catch (error) {
        if (now() > end) throw error;
        await Bun.sleep(100);
      }
    }
  };
  return [
    {
      of: "node",
      kind: "kill",
      weight: 3,
      run: async (node) => {
        await cluster.nodes[node]!.kill();
        await whenItStarts(node);
      },
    },
    {
      of: "node",
      kind: "pause",
      weight: 4,
      run: async (node) => {
        const process = cluster.nodes[node]!;
        process.signal("SIGSTOP");
        await somewhile();
        process.signal("SIGCONT");
      },
    },
    {
      of: "clock",
      kind: "clock set",
      weight: 2,
      run: async (node) => {
        cluster.clocks[node]!.ms = random.pick([-600, -20, -3, 0, 3, 20, 600]) * 1000;
      },
    },
  ];
}

/** What befalls the server, its disk, its standby, or the pooler in front of it. */
export function databaseFaults(database: Database, times: Times): Fault[] {
  const { random, somewhile } = times;
  const shared = { of: "database", isForAll: true } as const;
  const crash = async (crashing: Promise<() => unknown>) => {
    const restart = await crashing;
    await somewhile();
    await restart();
  };
  const { disk, hasStandby, pooler, behindPooler } = database;
  const faults: Fault[] = [
    { ...shared, kind: "database: restart", weight: 1, run: () => database.restart() },
    { ...shared, kind: "database: kill -9", weight: 1, run: () => crash(database.crash()) },
    ...(disk === undefined
      ? []
      : [{ ...shared, kind: "database: disk full", weight: 1, run: () => crash(Promise.resolve(disk.fill())) }]),
    ...(hasStandby
      ? [
          {
            ...shared,
            kind: "database: fail-over",
            weight: 3,
            run: () => database.failOver(random.chance(50)),
            // On a busy machine commits wait for some seconds until it is in sync.
            after: (note: Note) => database.follow(() => note("database: standby joins")),
          },
          { ...shared, kind: "database: standby away", weight: 1, run: () => crash(database.loseStandby()) },
        ]
      : []),
    ...(pooler === undefined
      ? []
      : [
          {
            ...shared,
            kind: "database: pooler killed",
            weight: 2,
            run: async () => {
              await pooler.stop();
              await somewhile();
              await pooler.run();
            },
          },
          ...wayFaults(() => behindPooler!, times).map((fault) => ({
            ...fault,
            ...shared,
            kind: `database: ${fault.kind} behind the pooler`,
            weight: 1,
          })),
        ]),
  ];
  // A pooler that was refused a connection waits for a moment before it asks for another.
  const run = (fault: Fault) => (node: number) => fault.run(node).then(() => database.answers());
  return pooler === undefined ? faults : faults.map((fault) => ({ ...fault, run: run(fault) }));
}

/** What befalls the coordination, and the nodes' ways there. */
export function coordinationFaults(cluster: Cluster, coordination: Coordination, times: Times): Fault[] {
  const { somewhile } = times;
  const shared = { of: "coordination", isForAll: true } as const;
  return [
    ...wayFaults((node) => cluster.coordinationProxies[node]!, times).map((fault) => ({
      ...fault,
      of: shared.of,
      kind: `coordination: ${fault.kind}`,
    })),
    {
      ...shared,
      kind: "coordination: kill -9",
      weight: 2,
      run: async () => {
        const restart = await coordination.crash();
        await somewhile();
        await restart();
      },
    },
    {
      ...shared,
      kind: "coordination: paused",
      weight: 2,
      run: async () => {
        const goOn = coordination.pause();
        await somewhile();
        goOn();
      },
    },
    { ...shared, kind: "coordination: forgets all", weight: 2, run: () => coordination.forget() },
  ];
}
