/**
 * Measures what a budget takes in SQLite, and in PostgreSQL with three nodes: a call alone, and many callers on one budget for all.
 *
 *     bun test/cluster/budget-cost.ts
 */

import type { Store } from "../../src/store/contract/store.ts";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { reservationOf } from "../helpers/budgeted-call.ts";
import { PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const alone = 2_000;
const busyMs = 2_000;
/** Lines of one write. */
const batch = 200;
const at = Date.parse("2026-11-22T12:00:00Z");
const budgets = [
  { scope: "key:k", span: "2026-11-22", limit: 1e12 },
  { scope: "all", span: "2026-11", limit: 1e12 },
];

let calls = 0;
/** Lines of calls that are over, until they are written, as the ledger's writer does it. */
const over: LedgerLine[] = [];

/** @returns how long the reservation took */
async function call(store: Store): Promise<number> {
  calls += 1;
  const from = performance.now();
  const made = reservationOf(`c${calls}`, { at, amount: 2_000, budgets });
  if ((await store.budgets.reserve(made)).refusedBy !== undefined) throw new Error("refused");
  const ms = performance.now() - from;
  over.push({ ...made.line, keyId: "k", ended: "finished", cost: 700 });
  if (over.length >= batch) await store.ledger.append(over.splice(0));
  return ms;
}

async function measure(name: string, nodes: readonly Store[]): Promise<void> {
  const nodeOf = (at: number) => nodes[at % nodes.length]!;
  for (let at = 0; at < 300; at += 1) await call(nodeOf(at));
  const times: number[] = [];
  for (let at = 0; at < alone; at += 1) {
    times.push(await call(nodeOf(at)));
  }
  times.sort((one, other) => one - other);
  const found = [
    `reserve: median ${times[alone / 2]!.toFixed(3)} ms, p99 ${times[Math.floor(alone * 0.99)]!.toFixed(2)} ms`,
  ];
  for (const callers of [8, 64, 512]) {
    let done = 0;
    const from = performance.now();
    await Promise.all(
      Array.from({ length: callers }, async (_, at) => {
        while (performance.now() < from + busyMs) {
          await call(nodeOf(at));
          done += 1;
        }
      }),
    );
    found.push(`${callers} callers ${Math.round((done / (performance.now() - from)) * 1000)} calls/s`);
  }
  console.log(`${name}: ${found.join(", ")}`);
}

await using postgres = await PostgresServer.start();
using folder = new TempFolder();
await using opened = new AsyncDisposableStack();
const url = await postgres.createDatabase();
const limits = { pool: 20, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
const node = async () => opened.adopt(await openPostgresStore({ url, ...limits }), (one) => one.close());
await measure(
  "SQLite",
  [openStore(folder.path, { isServer: true })].map((one) => opened.adopt(one, () => one.close())),
);
await measure("PostgreSQL", await Promise.all([1, 2, 3].map(node)));
