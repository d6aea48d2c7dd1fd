/**
 * Measures sums of the ledger over lines that name many users: `bun test/scaling/ledger-sums.ts <million lines> [postgres url]`. Not part of
 * the suite. Keys, models, users and clients of 30 days are mixed at random, so that nearly every line has dimensions of its own. Days that
 * are over are packed as the sweeper does. CPU is this process'; a turn is the longest time for which the event loop did nothing else.
 */
import { rmSync } from "node:fs";
import { systemClock } from "../../src/lib/time/clock.ts";
import type { Store } from "../../src/store/contract/store.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Random } from "../helpers/random.ts";

const [millions = "1", url] = process.argv.slice(2);
const count = Number(millions) * 1_000_000;
const folder = "/tmp/troupe-ledger-sums";
rmSync(folder, { recursive: true, force: true });
const settings = { pool: 4, statementSeconds: 60, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
const store: Store = url === undefined ? openStore(folder) : await openPostgresStore({ url, ...settings }, systemClock);
const random = new Random(3);
const dayMs = 86_400_000;
const now = Date.now();
const until = Math.ceil(now / dayMs) * dayMs;
const since = until - 30 * dayMs;
const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};
const began = cpuMs();
for (let at = 0; at < count; at += 100) {
  const lines = Array.from({ length: 100 }, (_, place) => {
    const number = at + place;
    const model = random.below(10);
    return ledgerLine(`req_${number.toString(16).padStart(32, "0")}`, {
      at: since + Math.floor((number / count) * (now - since)),
      keyId: `key_${random.below(20)}`,
      ...{ model: `m/${model}`, upstreamModel: `${model}` },
      user: `user ${random.below(300)}`,
      client: `client ${random.below(5)}`,
      ended: random.below(100) === 0 ? "broken" : "finished",
    });
  });
  await store.ledger.append(lines);
}
console.log(`${count} lines appended, ${(((cpuMs() - began) * 1_000) / count).toFixed(1)} µs of CPU each`);

const packing = cpuMs();
let [packs, longest] = [0, 0];
for (let last = cpuMs(); await store.maintenance.packLedgerDays?.(); last = cpuMs()) {
  packs += 1;
  longest = Math.max(longest, cpuMs() - last);
}
console.log(`packed in ${packs} steps, ${(cpuMs() - packing).toFixed(0)} ms of CPU, ${longest.toFixed(0)} at most`);

type Question = readonly [by: string[], where?: Record<string, string>];
const questions: readonly Question[] = [
  [["model"]],
  [["day"]],
  [["key"]],
  [["tag"]],
  [["client"]],
  [["user"]],
  [["hour"]],
  [["day", "model"]],
  [["key", "model"]],
  [["model"], { key: "key_7" }],
  [["day"], { user: "user 7" }],
  [["model"], { user: "user 7" }],
  [["user", "model"]],
  [["key", "user"]],
];
for (const [by, where] of questions) {
  let [worst, last, isDone] = [0, performance.now(), false];
  const tick = () => {
    worst = Math.max(worst, performance.now() - last);
    last = performance.now();
    if (!isDone) setImmediate(tick);
  };
  setImmediate(tick);
  const [from, wall] = [cpuMs(), performance.now()];
  const { length } = await store.ledger.sums({ since, until, ...(where && { where }) }, by, { limit: 10_000 });
  isDone = true;
  const of = where === undefined ? "" : ` of ${Object.values(where)}`;
  const times = `${(cpuMs() - from).toFixed(0)} ms of CPU, ${(performance.now() - wall).toFixed(0)} ms`;
  console.log(`by ${by}${of}: ${length} rows, ${times}, a turn of ${worst.toFixed(0)} ms at most`);
}
await store.close();
rmSync(folder, { recursive: true, force: true });
