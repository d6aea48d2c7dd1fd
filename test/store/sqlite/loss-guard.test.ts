import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { Keys } from "../../../src/auth/keys.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { discardLost, restore } from "../../../src/store/sqlite/data-folder.ts";
import { databaseName, openStore } from "../../../src/store/sqlite/store.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const tiers = { free: 10, pro: 100 };

/** What a start does with the data folder. @returns the names of its keys, and whether it made the first one */
async function start(folder: string): Promise<{ readonly names: string[]; readonly isFirst: boolean }> {
  const store = openStore(folder);
  try {
    const keys = new Keys(store.keys, systemClock, tiers);
    const first = await keys.ensureFirstKey(join(folder, "first-key"));
    return { names: (await keys.list()).map(({ name }) => name), isFirst: first !== undefined };
  } finally {
    await store.close();
  }
}

/** @returns the kind of its StorageError, or the names of the keys. Anything else fails the test */
async function outcome(folder: string): Promise<string> {
  try {
    const { names, isFirst } = await start(folder);
    expect(isFirst).toBe(false);
    return names.join(" ");
  } catch (error) {
    expect(error).toBeInstanceOf(StorageError);
    expect((error as StorageError).message).toContain(join(folder, databaseName));
    return (error as StorageError).kind;
  }
}

const origin = new TempFolder();
/** Stopped as it should be, and killed: with a log beside the database. */
const stopped = origin.file("stopped");
const killed = origin.file("killed");
afterAll(() => origin[Symbol.dispose]());

const many = Array.from({ length: 60 }, (_, at) => `key-${at}-${"x".repeat(80)}`);
const all = ["first", ...many].join(" ");
await start(stopped);
{
  const store = openStore(stopped);
  const keys = new Keys(store.keys, systemClock, tiers);
  for (const name of many) await keys.create({ name, tier: "pro", models: ["m".repeat(300)] });
  mkdirSync(killed);
  for (const name of readdirSync(stopped))
    if (!name.endsWith("-shm")) copyFileSync(join(stopped, name), join(killed, name));
  await store.close();
}

/** A copy of a data folder, with one thing done to it. */
async function after(folder: string, damage: (path: string) => void): Promise<string> {
  using copy = new TempFolder();
  for (const name of readdirSync(folder)) if (name !== "running") copyFileSync(join(folder, name), copy.file(name));
  damage(copy.file(databaseName));
  const before = readFileSync(copy.file("first-key"), "utf8");
  const result = await outcome(copy.path);
  expect(readFileSync(copy.file("first-key"), "utf8")).toBe(before);
  return result;
}

const sizeOf = (folder: string) => readFileSync(join(folder, databaseName)).length;
const pageSize = 4096;

test("the folders are as they are meant to be", async () => {
  expect([await outcome(stopped), await after(killed, () => {})]).toEqual([all, all]);
  expect(existsSync(join(killed, `${databaseName}-wal`))).toBe(true);
  expect(readdirSync(stopped).sort()).toEqual([
    "first-key",
    databaseName,
    `${databaseName}-keys`,
    `${databaseName}.made`,
  ]);
  expect(sizeOf(stopped)).toBeGreaterThan(20 * pageSize);
});

describe("a database that is damaged", () => {
  test("cut anywhere, stops the start", async () => {
    const cuts = [
      1,
      15,
      16,
      17,
      99,
      100,
      512,
      ...Array.from({ length: sizeOf(stopped) / pageSize }, (_, at) => at * pageSize),
    ];
    for (const cut of cuts.flatMap((at) => [at - 1, at, at + 1]).filter((at) => at >= 0 && at < sizeOf(stopped))) {
      const result = await after(stopped, (path) => truncateSync(path, cut));
      // Of less than a page SQLite makes an empty database.
      expect([cut, result]).toEqual([cut, cut < 16 ? expect.stringMatching(/^(lost|corrupt)$/) : "corrupt"]);
    }
  });

  test.each(["zeros", "garbage"])(
    "with any page full of %s, stops the start or still has every key",
    async (filling) => {
      const bytes = readFileSync(join(stopped, databaseName));
      const results = new Set<string>();
      for (let at = 0; at < bytes.length; at += pageSize) {
        const page = filling === "zeros" ? Buffer.alloc(pageSize) : crypto.getRandomValues(Buffer.alloc(pageSize));
        results.add(
          await after(stopped, (path) =>
            writeFileSync(path, Buffer.concat([bytes.subarray(0, at), page, bytes.subarray(at + pageSize)])),
          ),
        );
      }
      expect([...results].sort()).toEqual(["corrupt", all].sort());
    },
  );

  test("with any word of its header gone, stops the start or still has every key", async () => {
    const bytes = readFileSync(join(stopped, databaseName));
    for (let at = 0; at < 108; at += 4) {
      for (const fill of [0, 0xff]) {
        const result = await after(stopped, (path) => writeFileSync(path, Buffer.from(bytes).fill(fill, at, at + 4)));
        // "other": tables that can't be seen any more are taken for those of another build.
        expect(["corrupt", "lost", "newer", "foreign", "other", all]).toContain(result);
      }
    }
  });

  test.each<[string, string, (path: string) => void]>([
    ["that is gone", "lost", (path) => rmSync(path)],
    ["of which only a log is left", "lost", (path) => renameSync(path, `${path}-wal`)],
    ["that is empty", "lost", (path) => writeFileSync(path, "")],
    ["of zeros", "corrupt", (path) => writeFileSync(path, Buffer.alloc(sizeOf(stopped)))],
    ["of another text", "corrupt", (path) => writeFileSync(path, "not a database ".repeat(999))],
    ["without tables", "lost", (path) => emptied(path, (database) => database.run("pragma user_version = 0; vacuum"))],
    ["without rows", "lost", (path) => edited(path, "delete from keys")],
    ["without a table", "corrupt", (path) => edited(path, "drop table kept_calls")],
    ["without a version", "lost", (path) => edited(path, "pragma user_version = 0")],
    [
      "with rights that can't be read",
      "corrupt",
      (path) => edited(path, "update keys set models = '[' where name = 'first'"),
    ],
  ])("one %s: %s", async (_, kind, damage) => {
    expect(await after(stopped, damage)).toBe(kind);
    // Each of the two files is enough.
    const damageMore = (path: string) => {
      damage(path);
      rmSync(`${path}.made`);
    };
    expect(await after(stopped, damageMore)).toBe(kind);
  });

  test("is told from a first start without the first key's file, which is meant to be removed", async () => {
    using folder = new TempFolder();
    await start(folder.path);
    rmSync(folder.file("first-key"));
    rmSync(folder.file(databaseName));
    expect(await outcome(folder.path)).toBe("lost");
  });
});

describe("after a kill", () => {
  test("a log that is missing or cut loses what it held, and never the first key", async () => {
    const log = readFileSync(join(killed, `${databaseName}-wal`));
    for (let cut = 0; cut < log.length; cut += 20_000 + 12) {
      const result = await after(killed, (path) => truncateSync(`${path}-wal`, cut));
      expect(all).toStartWith(result);
      expect(result).toStartWith("first");
    }
    expect(await after(killed, (path) => rmSync(`${path}-wal`))).toBe("first");
  });

  test("a database cut beside its log has all its keys, or stops the start", async () => {
    for (let cut = 0; cut < sizeOf(killed); cut += pageSize / 2) {
      expect(["corrupt", "lost", all]).toContain(await after(killed, (path) => truncateSync(path, cut)));
    }
  });
});

describe("a first start", () => {
  const made = readFileSync(join(stopped, "first-key"), "utf8");

  test.each<[string, (folder: TempFolder) => unknown]>([
    ["in an empty folder", () => {}],
    ["whose predecessor made only the file", (folder) => writeFileSync(folder.file(databaseName), "")],
    ["whose predecessor made only the tables", (folder) => openStore(folder.path).close()],
    [
      "whose predecessor was stopped before its key was kept",
      async (folder) => {
        await openStore(folder.path).close();
        writeFileSync(folder.file("first-key.new"), made);
      },
    ],
  ])("%s, makes the first key", async (_, prepare) => {
    using folder = new TempFolder();
    await prepare(folder);
    expect(await start(folder.path)).toEqual({ names: ["first"], isFirst: true });
    expect(readdirSync(folder.path).sort()).toEqual([
      "first-key",
      databaseName,
      `${databaseName}-keys`,
      `${databaseName}.made`,
    ]);
  });

  test("that was stopped once its key was kept is finished by the next", async () => {
    using folder = new TempFolder();
    await start(folder.path);
    copyFileSync(folder.file("first-key"), folder.file("first-key.new"));
    const key = readFileSync(folder.file("first-key"), "utf8");
    rmSync(folder.file("first-key"));
    rmSync(folder.file(`${databaseName}.made`));
    expect(await outcome(folder.path)).toBe("first");
    expect(readFileSync(folder.file("first-key"), "utf8")).toBe(key);
    expect(existsSync(folder.file(`${databaseName}.made`))).toBe(true);
  });

  test("a file that another start left, and whose key was never kept, is no key", async () => {
    using folder = new TempFolder();
    await start(folder.path);
    writeFileSync(folder.file("first-key.new"), made);
    expect(await outcome(folder.path)).toBe("first");
    expect(readdirSync(folder.path).sort()).toEqual([
      "first-key",
      databaseName,
      `${databaseName}-keys`,
      `${databaseName}.made`,
    ]);
    expect(readFileSync(folder.file("first-key"), "utf8")).not.toBe(made);
  });
});

describe("giving up what is lost", () => {
  test("keeps what is left, and lets the next start be the first", async () => {
    using folder = new TempFolder();
    await start(folder.path);
    const old = readFileSync(folder.file("first-key"), "utf8");
    writeFileSync(folder.file(databaseName), "no database");
    expect(await discardLost(folder.path)).toBe(folder.file(`${databaseName}.replaced`));
    expect(readFileSync(folder.file(`${databaseName}.replaced`), "utf8")).toBe("no database");
    expect(readFileSync(folder.file("first-key.replaced"), "utf8")).toBe(old);
    expect(await start(folder.path)).toEqual({ names: ["first"], isFirst: true });
    expect(readFileSync(folder.file("first-key"), "utf8")).not.toBe(old);
  });

  test("leaves a sound one alone, another program's, and one that a server runs on", async () => {
    using folder = new TempFolder();
    await start(folder.path);
    expect(await discardLost(folder.path)).toBeUndefined();
    expect(await discardLost(folder.file("none"))).toBeUndefined();
    const server = openStore(folder.path);
    await server.maintenance.otherServers();
    rmSync(folder.file(databaseName));
    await expect(discardLost(folder.path)).rejects.toThrow("A server runs on");
    await server.close();
    mkdirSync(folder.file("other"));
    using other = new Database(folder.file(`other/${databaseName}`), { create: true });
    other.run("create table theirs (a)");
    await expect(discardLost(folder.file("other"))).rejects.toThrow("another program");
  });

  test("a restored backup is no lost database, and a log without its database is not taken for its own", async () => {
    using folder = new TempFolder();
    await start(folder.path);
    copyFileSync(folder.file(databaseName), folder.file("backup.db"));
    rmSync(folder.file(databaseName));
    copyFileSync(join(killed, `${databaseName}-wal`), folder.file(`${databaseName}-wal`));
    expect(await outcome(folder.path)).toBe("lost");
    await restore(folder.file("backup.db"), folder.path);
    expect(await outcome(folder.path)).toBe("first");
  });
});

function edited(path: string, sql: string): void {
  using database = new Database(path);
  database.run(sql);
}

/** A sound database with nothing in it. */
function emptied(path: string, finish: (database: Database) => void): void {
  rmSync(path);
  using database = new Database(path, { create: true });
  database.run("create table t (a)");
  database.run("drop table t");
  finish(database);
}
