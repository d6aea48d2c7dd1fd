/**
 * Clients call a cluster whose nodes, ways and database fail all the time, and what they saw is then compared with what was promised.
 *
 *     bun test/cluster/chaos.ts --seed 7 --minutes 2 --variant standby
 */
import { parseArgs } from "node:util";
import { Random } from "../helpers/random.ts";
import { Clients } from "./clients.ts";
import { Cluster, leaseMs, now } from "./cluster.ts";
import { Database, type DatabaseOptions } from "./database.ts";
import { databaseFaults, type Fault, nodeFaults, timesOf, wayFaults } from "./fault-kinds.ts";
import { Faults } from "./faults.ts";
import type { FaultWindow } from "./history.ts";
import { violationsOf } from "./judge.ts";
import { Money } from "./money.ts";
import { Revocations } from "./revocations.ts";

export type ChaosOptions = {
  readonly database?: DatabaseOptions;
};

export type ChaosResult = {
  /** A sentence for each broken promise. */
  readonly violations: readonly string[];
  readonly ids: number;
  readonly attempts: number;
  readonly completed: number;
  readonly upstreamCalls: number;
  readonly faults: Readonly<Record<string, number>>;
};

const clients = 8;
/** In which every id can be finished once all is well: a lease, and what a loaded machine adds. */
const finishMs = leaseMs + 20_000;

export async function chaos(seed: number, seconds: number, options: ChaosOptions = {}): Promise<ChaosResult> {
  await using database = await Database.start({ isOnSmallDisk: true, ...options.database });
  await using cluster = await Cluster.start(database);
  const random = new Random(seed);
  const work = new Clients(cluster, random);
  const faultRandom = new Random(seed + 1);
  const faults = new Faults(faultsOf(cluster, database, faultRandom), cluster.nodes.length, faultRandom);
  const money = await Money.start(cluster, database, random);
  const revocations = new Revocations(cluster, database, faults.windows);
  const end = now() + seconds * 1000;
  const until = async (act: () => Promise<unknown>) => {
    while (now() < end) await act();
  };
  await Promise.all([
    faults.until(end),
    ...Array.from({ length: clients }, () => until(() => work.act())),
    until(() => money.act()),
    until(() => revocations.act()),
  ]);
  const unfinished = await finish(work, cluster, random);
  const violations = [
    ...violationsOf(work.attempts, cluster.upstream.calls, faults.windows, leaseMs),
    ...work.hangs,
    ...unfinished,
    ...(await money.violations()),
    ...revocations.violations,
  ];
  return {
    violations,
    ids: work.works.length,
    attempts: work.attempts.length,
    completed: work.attempts.filter(({ isComplete }) => isComplete).length,
    upstreamCalls: cluster.upstream.calls.length,
    faults: countsOf(faults.windows),
  };
}

function faultsOf(cluster: Cluster, database: Database, random: Random): Fault[] {
  const times = timesOf(random);
  return [
    ...nodeFaults(cluster, times),
    ...wayFaults((node) => cluster.proxies[node]!, times),
    ...databaseFaults(database, times),
  ];
}

/**
 * Every id is asked for on every node: all have its answer, and no finished one is called again.
 * @returns those that could not be finished
 */
export async function finish(work: Clients, cluster: Cluster, random: Random): Promise<string[]> {
  const stuck: string[] = [];
  const end = now() + finishMs;
  const one = async (at: number) => {
    const asked = work.works[at]!;
    const nodes = [...cluster.nodes.keys()].map((node) => (node + at) % cluster.nodes.length);
    for (const node of nodes) {
      while (!(await work.ask(asked, node))) {
        if (now() > end) return stuck.push(`${asked.id} (${asked.kind}): could not be finished at node ${node}`);
        await Bun.sleep(50 + random.below(100));
      }
    }
    return undefined;
  };
  let next = 0;
  const drain = async () => {
    while (next < work.works.length) await one(next++);
  };
  await Promise.all(Array.from({ length: clients }, drain));
  return stuck;
}

function countsOf(windows: readonly FaultWindow[]): Record<string, number> {
  const groups = Map.groupBy(windows, ({ kind }) => kind);
  return Object.fromEntries([...groups].map(([kind, own]) => [kind, own.length]));
}

const variants: Readonly<Record<string, ChaosOptions>> = {
  plain: {},
  standby: { database: { hasStandby: true, isOnSmallDisk: false } },
  pooler: { database: { hasPooler: true } },
};

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: "1" },
      minutes: { type: "string", default: "1" },
      variant: { type: "string", default: "plain" },
    },
  });
  const { seed, minutes, variant } = values;
  const options = variants[variant];
  if (options === undefined) throw new Error(`--variant is one of ${Object.keys(variants).join(", ")}`);
  const { violations, ...told } = await chaos(Number(seed), Number(minutes) * 60, options);
  console.log(JSON.stringify({ variant, seed: Number(seed), ...told, violations: violations.length }));
  for (const violation of violations) console.log(violation);
  process.exit(violations.length === 0 ? 0 : 1);
}
