/** What lines add to the sums is noted with them, and added up before anyone reads sums. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { databaseName, openStore } from "../../../src/store/sqlite/store.ts";
import { reservationOf } from "../../helpers/budgeted-call.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const at = Date.UTC(2027, 0, 15, 12);
const all = { since: at - 1, until: at + 1 };
const lines = (count: number, name: string) =>
  Array.from({ length: count }, (_, place) => ledgerLine(`${name}_${place}`, { at, user: `u${place}`, cost: 2 }));

/** @returns how many rows wait, and how many calls the day's sums have in each rollup */
function kept(folder: TempFolder) {
  using database = new Database(join(folder.path, databaseName), { readonly: true });
  const numbers = (sql: string) => database.query(sql).values().flat() as number[];
  const days = "select sum(calls) from ledger_days group by rollup order by rollup";
  return { noted: numbers("select count(*) from ledger_increments")[0], days: numbers(days) };
}
const eachOf = (calls: number) => Array.from({ length: 10 }, () => calls);

test("one process' lines are in another's sums at once, and once alone", async () => {
  using folder = new TempFolder();
  const [one, other] = [openStore(folder.path), openStore(folder.path)];
  await one.ledger.append(lines(7, "a"));
  await one.ledger.append(lines(3, "b"));
  expect(kept(folder)).toEqual({ noted: 10, days: [] });
  for (const store of [other, one, other]) {
    const [sum] = await store.ledger.sums({ ...all, where: { user: "u1" } }, ["model"], { limit: 9 });
    expect(sum).toMatchObject({ calls: 2, cost: 4 });
    expect(kept(folder)).toEqual({ noted: 0, days: eachOf(10) });
  }
  await one.ledger.append(lines(7, "a"));
  expect(kept(folder)).toEqual({ noted: 0, days: eachOf(10) });
  await Promise.all([one.close(), other.close()]);
});

test("a budget begins with lines that nobody has added up", async () => {
  using folder = new TempFolder();
  const [one, other] = [openStore(folder.path), openStore(folder.path)];
  await one.ledger.append(lines(7, "a"));
  const span = { scope: "all", span: "2027-01-15", limit: 100 };
  expect(await other.budgets.reserve(reservationOf("x", { at, amount: 1, budgets: [span] }))).toMatchObject({
    tightest: { spent: 14, reserved: 1 },
  });
  await Promise.all([one.close(), other.close()]);
});

test("a thousand are added up without a question, like calls being one; what goes later takes no sums along", async () => {
  using folder = new TempFolder();
  const store = openStore(folder.path);
  const like = (name: string) => lines(300, name).map((line) => ({ ...line, user: "u" }));
  for (let batch = 0; batch < 4; batch++) await store.ledger.append(like(`same_${batch}`));
  expect(kept(folder)).toEqual({ noted: 4, days: [] });
  for (let batch = 0; batch < 3; batch++) await store.ledger.append(lines(400, `own_${batch}`));
  expect(kept(folder)).toEqual({ noted: 0, days: eachOf(2_400) });
  await store.ledger.append(lines(5, "last"));
  while ((await store.maintenance.removeLedgerDays(at + 86_400_000, 10_000)) > 0);
  expect(kept(folder)).toEqual({ noted: 0, days: [] });
  await store.close();
});
