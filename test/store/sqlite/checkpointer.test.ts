import type { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { type CheckpointEvents, Checkpointer } from "../../../src/store/sqlite/checkpointer.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

let folder: TempFolder;
beforeEach(() => {
  folder = new TempFolder();
});
afterEach(() => folder[Symbol.dispose]());

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

test("a full log is moved into the database beside the server, and no trace is left at its end", async () => {
  const store = openStore(folder.path, { isServer: true });
  const [database, log] = [folder.file("troupe.db"), folder.file("troupe.db-wal")];
  let written = 0;
  const append = (count: number) =>
    store.ledger.append(
      Array.from({ length: count }, () => ledgerLine(`req_${written++}`, { model: "m".repeat(200) })),
    );
  while (sizeOf(log) < 5_000_000) await append(500);
  let largest = 0;
  while (sizeOf(log) > 2_000_000) {
    largest = Math.max(largest, sizeOf(log));
    await new Promise((resolve) => setTimeout(resolve, 5));
    await append(1);
  }
  // Where SQLite would have moved it within a write.
  expect(largest).toBeLessThan(4_000 * 4_096);
  expect(sizeOf(database)).toBeGreaterThan(2_000_000);
  await store.close();
  expect(existsSync(log)).toBe(false);
  const reopened = openStore(folder.path);
  expect(await reopened.ledger.sums({ since: 0, until: 4e12 }, [], { limit: 1 })).toMatchObject([{ calls: written }]);
  await reopened.close();
});

/** Threads that do what the test says, and a database that notes what it is told. */
function scripted() {
  const threads: { events: CheckpointEvents; asked: number }[] = [];
  const pragmas: string[] = [];
  const path = folder.file("some.db");
  const database = { run: (sql: string) => void pragmas.push(sql) } as unknown as Database;
  const checkpointer = new Checkpointer(database, path, (_, events) => {
    const thread = { events, asked: 0 };
    threads.push(thread);
    return {
      checkpoint: () => {
        thread.asked += 1;
      },
      end: async () => events.ended(false),
    };
  });
  writeFileSync(`${path}-wal`, "");
  return { checkpointer, threads, pragmas, fill: (bytes: number) => truncateSync(`${path}-wal`, bytes) };
}

test("the thread starts at the first full log, does one after the other, and may end when it is idle", () => {
  const { checkpointer, threads, fill } = scripted();
  fill(7_999_999);
  checkpointer.wrote();
  expect(threads).toHaveLength(0);
  fill(8_000_000);
  for (let time = 0; time < 3; time += 1) checkpointer.wrote();
  expect(threads[0]!.asked).toBe(1);
  threads[0]!.events.done();
  checkpointer.wrote();
  expect(threads[0]!.asked).toBe(2);
  threads[0]!.events.done();
  threads[0]!.events.ended(false);
  checkpointer.wrote();
  expect(threads.map(({ asked }) => asked)).toEqual([2, 1]);
});

test("where the thread dies, SQLite moves the log within the writes again", async () => {
  const { checkpointer, threads, pragmas, fill } = scripted();
  fill(8_000_000);
  checkpointer.wrote();
  expect(pragmas).not.toContain("pragma wal_autocheckpoint = 1000");
  threads[0]!.events.ended(true);
  expect(pragmas).toContain("pragma wal_autocheckpoint = 1000");
  checkpointer.wrote();
  expect(threads).toHaveLength(1);
  await checkpointer.close();
});
