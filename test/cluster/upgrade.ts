/**
 * Upgrades three nodes from one version to another, one by one behind HAProxy, while clients call without a pause: no call fails,
 * none is made twice, and all that was answered is known to all nodes, before and after.
 *
 *     bun test/cluster/upgrade.ts --from /tmp/troupe-old --to /tmp/troupe-new
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { Balancer, balancers } from "../helpers/balancers.ts";
import { Random } from "../helpers/random.ts";
import { finish } from "./chaos.ts";
import { Clients } from "./clients.ts";
import { Cluster, leaseMs } from "./cluster.ts";
import { Coordination } from "./coordination.ts";
import { Database } from "./database.ts";
import { violationsOf } from "./judge.ts";
import { Money } from "./money.ts";
import { OfficialClients } from "./official.ts";

const haproxy = balancers.find(({ program }) => program === "haproxy")!;
const settings = {
  TROUPE_SHUTDOWN_DELAY_SECONDS: "2",
  TROUPE_TRUSTED_PROXIES: "127.0.0.1/32",
};

export type UpgradeOptions = {
  /** Executables, or modules that make the program another version; absent: the program as it is. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly hasCoordination?: boolean;
  /** How many calls are answered before each step. */
  readonly calls: number;
  /** 2, as it is by default, where nothing else is said. */
  readonly statementSeconds?: string;
};

/** @returns how many calls were answered, and a sentence for each that failed or broke a promise */
export async function upgrade({ from, to, hasCoordination, calls, statementSeconds = "2" }: UpgradeOptions) {
  const environment = { ...settings, STATEMENT_SECONDS: statementSeconds };
  await using database = await Database.start();
  await using coordination = hasCoordination ? await Coordination.start() : undefined;
  await using cluster = await Cluster.start(database, 3, coordination, from, environment);
  await using balancer = await Balancer.start(
    haproxy,
    cluster.ports.map((port) => `127.0.0.1:${port}`),
  );
  cluster.front = balancer.url;
  const random = new Random(1);
  const clients = new Clients(cluster, random);
  const official = new OfficialClients(balancer.url, cluster.key, random, 0);
  const money = await Money.start(cluster, database, random, 1_000_000);
  // A key of another process is known within a second.
  await Bun.sleep(1_000);
  let isOver = false;
  const until = async (act: () => Promise<void>) => {
    while (!isOver) await act();
  };
  const answers = () => clients.attempts.length + official.attempts.length;
  const answered = async () => {
    for (const before = answers(); answers() < before + calls; ) await Bun.sleep(10);
  };
  const working = Promise.all([
    ...Array.from({ length: 6 }, () => until(() => clients.act())),
    ...Array.from({ length: 4 }, () => until(() => official.act())),
    until(() => money.act()),
  ]);
  for (const at of cluster.nodes.keys()) {
    await answered();
    await cluster.stopNode(at);
    await cluster.startNode(at, to, environment);
  }
  await answered();
  isOver = true;
  await working;
  const unfinished = await Promise.all([finish(clients, 3, random), finish(official, 3, random)]);
  const attempts = [...clients.attempts, ...official.attempts];
  const refused = [...money.statuses].filter(([status]) => status !== 200);
  const twice = cluster.upstream.calls.filter(({ number }) => number > 1);
  return {
    answered: attempts.filter(({ isComplete }) => isComplete).length,
    paid: money.statuses.get(200) ?? 0,
    failures: [
      ...violationsOf(attempts, cluster.upstream.calls, [], leaseMs),
      ...twice.map(({ id }) => `${id}: was called twice`),
      ...refused.map(([status, times]) => `the budget: ${times} calls ended with ${status}`),
      ...clients.hangs,
      ...unfinished.flat(),
      ...(await money.violations()),
    ],
  };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      from: { type: "string" },
      to: { type: "string" },
      calls: { type: "string", default: "300" },
      coordination: { type: "boolean", default: false },
      "statement-seconds": { type: "string", default: "2" },
    },
  });
  const { failures, ...told } = await upgrade({
    // Nodes run in folders of their own.
    from: values.from && resolve(values.from),
    to: values.to && resolve(values.to),
    calls: Number(values.calls),
    hasCoordination: values.coordination,
    statementSeconds: values["statement-seconds"],
  });
  console.log(JSON.stringify({ ...told, failures: failures.length }));
  for (const failure of failures) console.log(failure);
  process.exit(failures.length === 0 ? 0 : 1);
}
