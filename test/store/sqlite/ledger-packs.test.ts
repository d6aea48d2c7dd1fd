/** Packs of the sums of days that are over: questions are answered from them, and as if there were none. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import type { LedgerLine } from "../../../src/store/contract/usage.ts";
import { databaseName, openStore, type SqliteStore } from "../../../src/store/sqlite/store.ts";
import { Sweeper } from "../../../src/store/sweeper.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { Random } from "../../helpers/random.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { byGroup, sumsOf } from "../contract.ts";

const dayMs = 86_400_000;
const start = Date.UTC(2027, 0, 15);
const month = { since: start, until: start + 30 * dayMs };
const page = { limit: 20_000 };
const random = Random.fromEnvironment("TROUPE_TEST_SEED");

let made = 0;
/** Lines of a day whose users are `count`, each once: of costs as large as sums of money get, of none, and negative ones. */
const linesOf = (day: number, count: number) =>
  Array.from({ length: count }, (_, user): LedgerLine => {
    const cost = random.pick([null, 0, 7, -3, 70_000, 5e9, 2 ** 43]);
    const line = ledgerLine(`req_${made++}`, {
      at: start + day * dayMs + random.below(dayMs),
      user: `u${user}`,
      keyId: `key_${user % 3}`,
      model: `m/${random.below(2)}`,
      ended: random.pick(["finished", "broken"]),
      counted: random.pick(["upstream", "estimated"]),
      ...{ cost, firstTokenMs: random.pick([null, 12, 40_000]) },
    });
    const costs = cost === null ? null : { ...line.costs!, input: cost, audioInput: 0 };
    return {
      ...line,
      costs,
      tokens: { ...line.tokens, input: random.below(300), output: random.below(70_000), audioInput: 0 },
    };
  });

/** @returns how many packs each day has */
function packsIn(folder: TempFolder): Record<number, number> {
  using database = new Database(join(folder.path, databaseName), { readonly: true });
  const rows = database.query("select day, count(*) from ledger_packs group by day").values() as [number, number][];
  return Object.fromEntries(rows.map(([day, count]) => [day - start / dayMs, count]));
}

async function packed(store: SqliteStore): Promise<number> {
  let steps = 0;
  while (await store.maintenance.packLedgerDays!()) steps += 1;
  return steps;
}

/** Five days, of which the second has few users. */
async function filled(folder: TempFolder, first = 510) {
  const store = openStore(folder.path);
  const lines = [first, 100, 520, 510, 30].flatMap((count, day) => linesOf(day, count));
  await store.ledger.append(lines);
  // Added up, as an append of so many is.
  await store.ledger.sums(month, [], page);
  return { store, lines };
}

test("whole days that are over are packed where they are large, and give what adding up the lines gives", async () => {
  using folder = new TempFolder();
  const { store, lines } = await filled(folder, 4_100);
  const questions = [
    ["user"],
    ["user", "model"],
    ["model"],
    ["key", "user"],
    ["day", "user"],
    ["user", "month", "ended"],
    [],
  ];
  const expectRight = async () => {
    for (const by of questions)
      for (const since of [start, start + 5_000_000]) {
        const filter = { since, until: month.until, where: random.pick([{}, {}, { key: "key_1" }, { user: "u7" }]) };
        const sums = await store.ledger.sums(filter, by, { ...page, firstTokens: true });
        expect(byGroup(sums)).toEqual(byGroup(sumsOf(lines, filter, by, true)));
      }
  };
  await expectRight();
  expect(packsIn(folder)).toEqual({});
  await packed(store);
  // Of the rollups that know users: by themselves, by keys, by models, and all; the first day's need two each, those of few or of today none.
  expect(packsIn(folder)).toEqual({ 0: 8, 2: 4, 3: 4 });
  expect(await packed(store)).toBe(0);
  await expectRight();
  const late = linesOf(2, 30);
  await store.ledger.append(late);
  lines.push(...late);
  await expectRight();
  expect(packsIn(folder)).toEqual({ 0: 8, 3: 4 });
  await packed(store);
  expect(packsIn(folder)).toEqual({ 0: 8, 2: 4, 3: 4 });
  await expectRight();
  while ((await store.maintenance.removeLedgerDays(start + dayMs, 10_000)) > 0);
  lines.splice(0, 4_100);
  expect(packsIn(folder)).toEqual({ 2: 4, 3: 4 });
  await expectRight();
  await store.close();
});

test("the sums of a packed day are read from its pack alone, also by pages of them", async () => {
  using folder = new TempFolder();
  const { store, lines } = await filled(folder);
  await packed(store);
  using database = new Database(join(folder.path, databaseName));
  database.run("delete from ledger_days where rollup in (4, 9, 10) and day <> ?", [start / dayMs + 1]);
  const left = lines.filter(({ at }) => at < start + 4 * dayMs);
  const filter = { since: start, until: start + 4 * dayMs };
  for (const by of [["user"], ["user", "model"], ["key", "user"]])
    expect(byGroup(await store.ledger.sums(filter, by, page))).toEqual(byGroup(sumsOf(left, filter, by)));
  const all = await store.ledger.sums(filter, ["user"], page);
  const behind = await store.ledger.sums(filter, ["user"], { limit: 7, after: all[99]!.group });
  expect(behind).toEqual(all.slice(100, 107));
  await store.close();
});

test("the sweeper packs, a step at a time", async () => {
  using folder = new TempFolder();
  const { store } = await filled(folder);
  const clock = new ManualClock();
  const sweeper = new Sweeper(store, clock, () => ({ retentionHours: 24 }));
  sweeper.start();
  await clock.advanceSlowly(60_000);
  expect(packsIn(folder)).toEqual({ 0: 1 });
  await clock.advanceSlowly(1_000);
  expect(packsIn(folder)).toEqual({ 0: 4, 2: 4, 3: 4 });
  sweeper.stop();
  await store.close();
});
