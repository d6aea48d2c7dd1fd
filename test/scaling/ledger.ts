/**
 * Measures pages of the ledger over many lines: `bun test/scaling/ledger.ts <million lines> [postgres url]`. Not part of the suite.
 * Lines have 2,000 sets of dimensions in ten days; each question is one that the admin API asks.
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
const folder = "/tmp/troupe-ledger";
rmSync(folder, { recursive: true, force: true });
const settings = { pool: 4, statementSeconds: 60, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
const store: Store = url === undefined ? openStore(folder) : await openPostgresStore({ url, ...settings }, systemClock);
const random = new Random(3);
const span = 10 * 86_400_000;
const start = Date.now() - span;
const began = performance.now();
for (let at = 0; at < count; at += 2_000) {
  const lines = Array.from({ length: 2_000 }, (_, place) => {
    const number = at + place;
    // Of one set in a burst, as a batch of one node has few.
    const set = Math.floor(number / 100) % 2_000;
    return ledgerLine(`req_${number.toString(16).padStart(32, "0")}`, {
      at: start + Math.floor((number / count) * span),
      keyId: `key_${set % 500}`,
      model: `m/${set % 20}`,
      ended: random.below(1_000) === 0 ? "broken" : "finished",
    });
  });
  await store.ledger.append(lines);
}
console.log(`${count} lines appended, ${(((performance.now() - began) * 1_000) / count).toFixed(1)} µs each`);

const always = { since: start, until: Date.now() };
const pages = {
  newest: {},
  "of a key": { key: "key_7" },
  "of a model": { model: "m/3" },
  "broken ones": { ended: "broken" },
  "broken ones of a key": { key: "key_7", ended: "broken" },
  "of nobody": { key: "key_none" },
} as const;
for (const [name, where] of Object.entries(pages)) {
  const from = performance.now();
  const { length } = await store.ledger.lines({ ...always, where, limit: 100 });
  console.log(`a page ${name}: ${length} lines, ${(performance.now() - from).toFixed(0)} ms`);
}
const slow = { own: [{ member: "totalMs", ranges: [[1_000, Number.MAX_SAFE_INTEGER]] }] } as const;
for (const [name, page] of Object.entries({
  "for slow ones": slow,
  "for slow ones of a model": { ...slow, where: { model: "m/3" } },
  "for slow ones of nobody": { ...slow, where: { key: "key_none" } },
  "for what ended since a second": { endedSince: Date.now() - 1_000 },
})) {
  const from = performance.now();
  const { lines, reached = start } = await store.ledger.search({ ...always, ...page, limit: 100 });
  const back = ((Date.now() - reached) / 86_400_000).toFixed(1);
  console.log(
    `a search ${name}: ${lines.length} lines, ${back} days back, ${(performance.now() - from).toFixed(0)} ms`,
  );
}
for (const by of [["day"], ["key", "model"], ["hour", "model"]]) {
  const from = performance.now();
  const { length } = await store.ledger.sums(always, by, { limit: 10_000 });
  console.log(`sums by ${by}: ${length} rows, ${(performance.now() - from).toFixed(0)} ms`);
}
const from = performance.now();
const removed = await store.maintenance.removeLedgerDays(start + 86_400_000 * 2, 1_000);
console.log(`a step of removal: ${removed} rows, ${(performance.now() - from).toFixed(0)} ms`);
await store.close();
rmSync(folder, { recursive: true, force: true });
