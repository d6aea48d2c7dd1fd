/** Rows of earlier versions that not every store can keep: they are carried as they can be, or named. */
import { expect, test } from "bun:test";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { type MoveSource, type MoveTarget, move } from "../../src/store/move/move.ts";
import { columnNames, type MovedTable, rowKeyOf, type TableRow } from "../../src/store/sql/tables.ts";

const nobody = async () => {};

/** Of turns alone. */
function source(ids: readonly string[]): MoveSource {
  const rowOf = (table: MovedTable, id: string): TableRow =>
    columnNames(table).map((name) => (name === "id" ? id : name === "model" ? "m\0n\ud800" : null));
  const rowsOf = (table: MovedTable) => (table.name === "turns" ? ids.toSorted().map((id) => rowOf(table, id)) : []);
  return {
    place: "here",
    identity: "a",
    count: async (table) => rowsOf(table).length,
    page: async (table, after, limit) =>
      rowsOf(table)
        .filter((row) => after === undefined || rowKeyOf(table, row)[0]! > after[0]!)
        .slice(0, Math.min(limit, 2)),
    leftBehind: async () => [],
    [Symbol.asyncDispose]: nobody,
  };
}

/** Takes no text with a character 0, as PostgreSQL, nor the row that is refused. */
function target(refused?: string) {
  const kept = new Map<string, TableRow>();
  const made: MoveTarget = {
    place: "there",
    begin: async () => undefined,
    startOver: nobody,
    async put(_, rows) {
      for (const row of rows) {
        if (row.some((value) => typeof value === "string" && (value.includes("\0") || value === refused)))
          throw new StorageError("unusable", "there", "The database there failed (22021): invalid byte sequence.");
      }
      for (const row of rows) kept.set(JSON.stringify(row), row);
    },
    rowsAt: async (table, keys) => {
      const wanted = new Set(keys.map((key) => JSON.stringify(key)));
      return [...kept.values()].filter((row) => wanted.has(JSON.stringify(rowKeyOf(table, row))));
    },
    count: async (table) => (table.name === "turns" ? kept.size : 0),
    finish: nobody,
    [Symbol.asyncDispose]: nobody,
  };
  return { made, kept };
}

test("control characters that one store took are replaced, and no row is left out", async () => {
  const { made, kept } = target();
  const ids = ["a", "a\0b", "ab", "b", "c\0"];
  const moved = await move(source(ids), made, () => {});
  expect(moved.tables.find(({ name }) => name === "turns")!.rows).toBe(ids.length);
  expect([...kept.values()].map(([id]) => id)).toEqual(["a", "a\ufffdb", "ab", "b", "c\ufffd"]);
  expect([...kept.values()].every((row) => row.includes("m\ufffdn\ufffd"))).toBe(true);
});

test("a row that is not taken all the same is named with its table", async () => {
  const moving = move(source(["a", "b", "bad"]), target("bad").made, () => {});
  await expect(moving).rejects.toThrow('The row "bad" of the table turns can\'t be carried to there');
});
