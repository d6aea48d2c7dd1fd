/**
 * Clients call a cluster whose nodes, ways and database fail all the time, and what they saw is then compared with what was promised.
 *
 *     bun test/cluster/chaos.ts --seed 7 --minutes 2 --variant standby
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Balancer, balancers } from "../helpers/balancers.ts";
import { Random } from "../helpers/random.ts";
import { Clients } from "./clients.ts";
import { Cluster, leaseMs, now } from "./cluster.ts";
import { Coordination } from "./coordination.ts";
import { Database, type DatabaseOptions } from "./database.ts";
import { coordinationFaults, databaseFaults, type Fault, nodeFaults, timesOf, wayFaults } from "./fault-kinds.ts";
import { Faults } from "./faults.ts";
import type { FaultWindow } from "./history.ts";
import { violationsOf } from "./judge.ts";
import { Limits } from "./limits.ts";
import { Money } from "./money.ts";
import { OfficialClients } from "./official.ts";
import { Revocations } from "./revocations.ts";

export type ChaosOptions = {
  readonly database?: DatabaseOptions;
  /** Whether a Valkey or Redis server counts requests. */
  readonly hasCoordination?: boolean;
  /** Whether one node goes without it. */
  readonly isMixed?: boolean;
  /** Whether official clients call too, through HAProxy as it is shipped. */
  readonly hasOfficialClients?: boolean;
  /** Which faults there are. Default: all. */
  readonly faults?: (fault: Fault) => boolean;
  /** A folder for what is needed to find out why a promise was broken. */
  readonly trace?: string;
};

export type ChaosResult = {
  /** A sentence for each broken promise. */
  readonly violations: readonly string[];
  readonly ids: number;
  readonly attempts: number;
  readonly completed: number;
  readonly upstreamCalls: number;
  /** How often a node went by its share of a limit. */
  readonly shares: number;
  /** How often official clients were used, and gave up after their own retries. */
  readonly official?: { readonly attempts: number; readonly failed: number };
  readonly faults: Readonly<Record<string, number>>;
};

const clients = 8;
const haproxy = balancers.find(({ program }) => program === "haproxy")!;
/** In which every id can be finished once all is well: a lease, and what a loaded machine adds. */
const finishMs = leaseMs + 20_000;

export async function chaos(seed: number, seconds: number, options: ChaosOptions = {}): Promise<ChaosResult> {
  const { trace } = options;
  const logFile = trace && { logFile: join(trace, "postgres.log") };
  await using database = await Database.start({ isOnSmallDisk: true, ...options.database, ...logFile });
  await using coordination = options.hasCoordination ? await Coordination.start() : undefined;
  await using cluster = await Cluster.start(
    database,
    3,
    coordination,
    undefined,
    {},
    trace,
    options.isMixed === true ? 2 : undefined,
  );
  const random = new Random(seed);
  const work = new Clients(cluster, random);
  const times = timesOf(new Random(seed + 1));
  const all = [
    ...nodeFaults(cluster, times),
    ...wayFaults((node) => cluster.proxies[node]!, times),
    ...databaseFaults(database, times),
    ...(coordination === undefined ? [] : coordinationFaults(cluster, coordination, times)),
  ];
  const faults = new Faults(all.filter(options.faults ?? (() => true)), cluster.nodes.length, times.random);
  // Pools are in use for as long as much is left: so they meet pauses and kills of nodes.
  const money = await Money.start(cluster, database, random, coordination === undefined ? undefined : 4 * seconds);
  const limits = await Limits.start(cluster, database, random);
  const revocations = new Revocations(cluster, database, faults.windows);
  await using balancer = options.hasOfficialClients
    ? await Balancer.start(
        haproxy,
        cluster.ports.map((port) => `127.0.0.1:${port}`),
      )
    : undefined;
  const official = balancer && new OfficialClients(balancer.url, cluster.key, random);
  const end = now() + seconds * 1000;
  const until = async (act: () => Promise<unknown>) => {
    while (now() < end) await act();
  };
  await Promise.all([
    faults.until(end),
    ...Array.from({ length: clients }, () => until(() => work.act())),
    ...Array.from({ length: official === undefined ? 0 : clients }, () => until(() => official!.act())),
    until(() => money.act()),
    until(() => limits.act()),
    until(() => revocations.act()),
  ]);
  const failed = official?.attempts.filter(({ isComplete }) => !isComplete).length;
  const unfinished = await Promise.all([
    finish(work, cluster.nodes.length, random),
    official === undefined ? [] : finish(official, 2, random),
  ]);
  const attempts = [...work.attempts, ...(official?.attempts ?? [])];
  // The windows are where the coordination is, else in the database.
  const losses = faults.windows.filter(({ of }) => of === (coordination === undefined ? "database" : "coordination"));
  const ownLosses = faults.windows.filter(({ of, kind }) => of === "node" && !["kill", "pause"].includes(kind));
  // What is counted in two places is given twice.
  if (options.isMixed)
    losses.push({ of: "coordination", node: -1, kind: "mixed", from: 0, to: Number.POSITIVE_INFINITY });
  const violations = [
    ...violationsOf(attempts, cluster.upstream.calls, faults.windows, leaseMs),
    ...work.hangs,
    ...unfinished.flat(),
    ...(await money.violations()),
    ...limits.violations(
      coordination === undefined ? [...losses, ...ownLosses] : losses,
      faults.windows.filter(({ kind }) => kind === "kill"),
    ),
    ...revocations.violations,
  ];
  if (trace !== undefined) {
    const rows = await database.ask("select * from troupe.kept_calls").catch(String);
    const told = { violations, faults: faults.windows, calls: cluster.upstream.calls, attempts, rows };
    for (const [name, all] of Object.entries(told)) {
      const lines = [all]
        .flat()
        .map((one) => JSON.stringify(one, (_, value) => (Buffer.isBuffer(value) ? "…" : value)));
      writeFileSync(join(trace, `${name}.jsonl`), `${lines.join("\n")}\n`);
    }
  }
  return {
    violations,
    ids: work.works.length + (official?.works.length ?? 0),
    attempts: attempts.length,
    completed: attempts.filter(({ isComplete }) => isComplete).length,
    upstreamCalls: cluster.upstream.calls.length,
    shares: limits.shares.length,
    ...(official && { official: { attempts: official.attempts.length, failed: failed! } }),
    faults: countsOf(faults.windows),
  };
}

/** What can be asked again until its answer is there. */
type Workers<W> = { readonly works: readonly W[]; ask(work: W, node: number): Promise<boolean> };

/**
 * Every id is asked for on every node: all have its answer, and no finished one is called again.
 * @returns those that could not be finished
 */
export async function finish<W extends { readonly id: string; readonly kind: string }>(
  work: Workers<W>,
  nodes: number,
  random: Random,
): Promise<string[]> {
  const stuck: string[] = [];
  const end = now() + finishMs;
  const one = async (at: number) => {
    const asked = work.works[at]!;
    for (let turn = 0; turn < nodes; turn += 1) {
      const node = (turn + at) % nodes;
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
  coordination: { hasCoordination: true },
  // Nothing befalls the windows: limits are exact.
  limits: { hasCoordination: true, faults: ({ of }) => of !== "coordination" },
  // Money is exact all the same.
  mixed: { hasCoordination: true, isMixed: true },
  clients: { hasCoordination: true, hasOfficialClients: true },
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
  const trace = join(tmpdir(), `chaos-${variant}-${seed}-${process.pid}`);
  mkdirSync(trace);
  const { violations, ...told } = await chaos(Number(seed), Number(minutes) * 60, { ...options, trace });
  console.log(JSON.stringify({ variant, seed: Number(seed), ...told, violations: violations.length }));
  for (const violation of violations) console.log(violation);
  if (violations.length === 0) rmSync(trace, { recursive: true });
  else console.log(`What befell whom, and what nodes and servers logged, is in ${trace}`);
  process.exit(violations.length === 0 ? 0 : 1);
}
