/**
 * Measures what a budget takes in PostgreSQL alone and with pools in Valkey or Redis: a call alone, and many callers on one budget for all.
 *
 *     bun test/cluster/budget-cost.ts
 */
import { systemClock } from "../../src/lib/clock.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { openRedisCounter } from "../../src/store/redis/pool-counter.ts";
import type { BudgetRepository } from "../../src/store/store.ts";
import { PooledBudgets } from "../../src/usage/pooled-budgets.ts";
import { PostgresServer } from "../helpers/postgres.ts";
import { RedisServer } from "../helpers/redis.ts";
import { silentLogger } from "../helpers/silent-logger.ts";

const alone = 2_000;
const busyMs = 2_000;
const budgets = [
  { scope: "key:k", span: "2026-11-22", limit: 1e12 },
  { scope: "all", span: "2026-11", limit: 1e12 },
];

await using postgres = await PostgresServer.start();
await using redis = await RedisServer.start();
await using opened = new AsyncDisposableStack();

/** @returns a node's budgets, of a process of its own as far as the stores can tell */
async function node(url: string, hasPools: boolean): Promise<BudgetRepository> {
  const limits = { pool: 20, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
  const store = opened.adopt(await openPostgresStore({ url, ...limits }), (one) => one.close());
  if (!hasPools) return store.budgets;
  const counter = opened.adopt(openRedisCounter(redis.url(), systemClock), (one) => one.close());
  const tools = {
    store: store.budgets,
    poolRepository: store.poolRepository,
    counter,
    clock: systemClock,
    log: silentLogger,
    nodes: () => 3,
  };
  return opened.adopt(new PooledBudgets(tools), (one) => one.close());
}

let calls = 0;
async function call(one: BudgetRepository): Promise<void> {
  calls += 1;
  const id = `c${calls}`;
  const { refusedBy } = await one.reserve({ id, at: 0, amount: 2_000, budgets });
  if (refusedBy !== undefined) throw new Error("refused");
  await one.settle(id, 700, 0);
}

for (const hasPools of [false, true]) {
  const url = await postgres.createDatabase();
  const nodes = await Promise.all([1, 2, 3].map(() => node(url, hasPools)));
  for (let at = 0; at < 300; at += 1) await call(nodes[at % 3]!);
  const times: number[] = [];
  for (let at = 0; at < alone; at += 1) {
    const from = performance.now();
    await call(nodes[at % 3]!);
    times.push(performance.now() - from);
  }
  times.sort((one, other) => one - other);
  const found = [`median ${times[alone / 2]!.toFixed(2)} ms, p99 ${times[Math.floor(alone * 0.99)]!.toFixed(2)} ms`];
  for (const callers of [8, 64, 512]) {
    let done = 0;
    const from = performance.now();
    await Promise.all(
      Array.from({ length: callers }, async (_, at) => {
        while (performance.now() < from + busyMs) {
          await call(nodes[at % 3]!);
          done += 1;
        }
      }),
    );
    found.push(`${callers} callers ${Math.round((done / (performance.now() - from)) * 1000)} calls/s`);
  }
  console.log(`${hasPools ? "with Valkey or Redis" : "PostgreSQL alone"}: ${found.join(", ")}`);
}
