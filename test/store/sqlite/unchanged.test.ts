import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { untilCommit } from "../../../src/store/sqlite/unchanged.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const isLinux = process.platform === "linux";

let folder: TempFolder;
let database: Database;
let asked: number;
const ask = () => {
  asked += 1;
  return database.query<{ value: number }, []>("select value from generations where name = 'keys'").get()!.value;
};

beforeEach(async () => {
  folder = new TempFolder();
  await openStore(folder.path).close();
  database = new Database(folder.file("troupe.db"));
  database.run("pragma journal_mode = wal");
  asked = 0;
});
afterEach(() => {
  database.close();
  folder[Symbol.dispose]();
});

/** Changes the keys' version as another process does. */
const bump = (by: number) => {
  const script = `new (await import("bun:sqlite")).Database(process.argv[1]).run("update generations set value = value + ${by}")`;
  expect(Bun.spawnSync([process.execPath, "-e", script, folder.file("troupe.db")]).stderr.toString()).toBe("");
};

test.if(isLinux)("asks once, and again after each commit of whatever process", () => {
  const version = untilCommit(database, folder.file("troupe.db"), ask);
  expect([version(), version(), version()]).toEqual([0, 0, 0]);
  expect(asked).toBe(1);
  bump(1);
  expect([version(), version()]).toEqual([1, 1]);
  expect(asked).toBe(2);
  database.run("update generations set value = value + 1");
  expect([version(), version()]).toEqual([2, 2]);
  // Another log begins, whose commits are counted on.
  database.run("pragma wal_checkpoint(truncate)");
  bump(1);
  expect([version(), version()]).toEqual([3, 3]);
  expect(asked).toBeLessThan(6);
});

test.if(isLinux)("a failed question is asked again", () => {
  let isFailing = true;
  const version = untilCommit(database, folder.file("troupe.db"), () => {
    if (isFailing) throw new Error("no disk");
    return ask();
  });
  expect(version).toThrow("no disk");
  expect(version).toThrow("no disk");
  isFailing = false;
  expect([version(), version(), asked]).toEqual([0, 0, 1]);
});

test("where the index beside the file is not the database's, each call asks", () => {
  const index = readFileSync(folder.file("troupe.db-shm"));
  database.close();
  renameSync(folder.file("troupe.db"), folder.file("elsewhere.db"));
  symlinkSync(folder.file("elsewhere.db"), folder.file("troupe.db"));
  database = new Database(folder.file("troupe.db"));
  database.run("pragma journal_mode = wal");
  // What a killed process left.
  writeFileSync(folder.file("troupe.db-shm"), index);
  const version = untilCommit(database, folder.file("troupe.db"), ask);
  expect([version(), version(), asked]).toEqual([0, 0, 2]);
  bump(1);
  expect(version()).toBe(1);
});

test("a closed store tells nothing of its keys", async () => {
  const store = openStore(folder.path, { isServer: true });
  expect(store.keys.version()).toBe(0);
  await store.close();
  expect(() => store.keys.version()).toThrow("was closed");
});
