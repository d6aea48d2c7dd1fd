/** Which sums answer which question, and that what callers write makes only the questions about it longer. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { slicesBegun } from "../../../src/lib/time/cooperative-scheduling.ts";
import { ledgerFilters, reportMembers } from "../../../src/store/ledger/columns.ts";
import { rollupFor, rollups } from "../../../src/store/sql/ledger-rollups.ts";
import { databaseName, openStore } from "../../../src/store/sqlite/store.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const isWord = (member: string) => ["user", "client", "metadata"].includes(member);
const dayMs = 86_400_000;
const start = 1_800_000_000_000 - (1_800_000_000_000 % dayMs);
const day = { since: start, until: start + dayMs };

const memberOf = (name: string) =>
  name === "tag" ? "tags" : name.startsWith("metadata.") ? "metadata" : reportMembers.get(name);
const membersFor = (by: readonly string[], where: readonly string[]) =>
  rollupFor("day", { ...day, where: Object.fromEntries(where.map((name) => [name, "x"])) }, by).members;

test("each question is answered by sums that know what it asks for, and by none of callers' words where it asks for none", () => {
  const names = [...ledgerFilters, "metadata.team"];
  for (const [one, other] of names.flatMap((name) => names.map((second) => [name, second] as const)))
    for (const members of [membersFor([one, "day"], [other]), membersFor([one, other], [])]) {
      const asked = [memberOf(one)!, memberOf(other)!];
      expect(members).toEqual(expect.arrayContaining(asked));
      if (!asked.some(isWord)) expect({ asked, words: members.filter(isWord) }).toEqual({ asked, words: [] });
    }
  expect(membersFor(["day"], [])).toBe(rollups[0]!.members);
});

test("a question about one of callers' words, of a key or a tag too, meets no other", () => {
  for (const [name, member] of [
    ["user", "user"],
    ["client", "client"],
    ["metadata.team", "metadata"],
  ] as const)
    for (const other of ["key", "tag", "ended", "day"]) {
      expect(membersFor([name, other], []).filter(isWord)).toEqual([member]);
      expect(membersFor(["day"], other === "day" ? [name] : [name, other]).filter(isWord)).toEqual([member]);
    }
});

test("8,500 users of one model and key are rows of their own sums alone, and their questions turn the loop in between", async () => {
  using folder = new TempFolder();
  const store = openStore(folder.path);
  const users = 8_500;
  for (let at = 0; at < users; at += 500)
    await store.ledger.append(
      Array.from({ length: 500 }, (_, place) =>
        ledgerLine(`req_${at + place}`, { at: start, user: `u${at + place}`, client: `c${(at + place) % 700}` }),
      ),
    );
  // Before a question, what the last lines add to the sums is only noted.
  await store.ledger.sums(day, [], { limit: 1 });
  using database = new Database(`${folder.path}/${databaseName}`, { readonly: true });
  const rows = database.query<{ rollup: number; rows: number }, []>(
    "select rollup, count(*) as rows from ledger_days group by 1",
  );
  const counted = new Map(rows.all().map((row) => [row.rollup, row.rows]));
  for (const { id, members } of rollups) {
    const many = members.includes("user") ? users : members.includes("client") ? 700 : 1;
    expect([id, counted.get(id)]).toEqual([id, many]);
  }
  // The fewest of three, as slices of something else may run beside them.
  const slicesOf = async (by: string[], where = {}) => {
    let fewest = Number.POSITIVE_INFINITY;
    for (let tried = 0; tried < 3; tried += 1) {
      const before = slicesBegun();
      const sums = await store.ledger.sums({ ...day, where }, by, { limit: 10_000 });
      expect(sums.reduce((sum, { calls }) => sum + calls, 0)).toBe("user" in where ? 1 : users);
      fewest = Math.min(fewest, slicesBegun() - before);
    }
    return fewest;
  };
  // One reads, and one names what was read.
  expect(await slicesOf(["model"])).toBe(2);
  expect(await slicesOf(["key"])).toBe(2);
  // Three read 4,000 rows each, and five name 2,000 users each.
  expect(await slicesOf(["user"])).toBe(8);
  // Nine look for the kind, one reads its sums, one names it.
  expect(await slicesOf(["model"], { user: "u7" })).toBe(11);
  await store.close();
});
