import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { Keys } from "../../../src/auth/keys.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { CommitWatch } from "../../../src/store/sqlite/commit-watch.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { runScript } from "../../helpers/child-process.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const plans = { free: 10, pro: 100 };

/** A database in WAL mode, watched. */
function makeHouse() {
  const folder = new TempFolder();
  const path = folder.file("some.db");
  const watch = CommitWatch.begin(path)!;
  const database = new Database(path, { create: true });
  database.run("pragma journal_mode = wal");
  database.run("create table notes (text)");
  expect(watch.follows(database)).toBe(true);
  watch.sawCommit();
  return {
    path,
    watch,
    database,
    [Symbol.dispose]() {
      database.close();
      watch.end();
      folder[Symbol.dispose]();
    },
  };
}

/** Runs statements in another process, which may end itself. */
async function elsewhere(path: string, statements: string): Promise<void> {
  const { errors } = await runScript(`
    const { Database } = await import("bun:sqlite");
    const database = new Database(${JSON.stringify(path)});
    const die = () => process.kill(process.pid, "SIGKILL");
    ${statements}`);
  expect(errors).toBe("");
}

describe("sawCommit", () => {
  test("tells of each commit of any connection once, and of nothing else", async () => {
    using house = makeHouse();
    const { database, watch, path } = house;
    const note = 'database.run("insert into notes values (1)");';
    expect(watch.sawCommit()).toBe(false);
    database.run("insert into notes values (1)");
    expect([watch.sawCommit(), watch.sawCommit()]).toEqual([true, false]);
    using second = new Database(path);
    second.run("insert into notes values (2)");
    expect([watch.sawCommit(), watch.sawCommit()]).toEqual([true, false]);
    await elsewhere(path, note);
    expect([watch.sawCommit(), watch.sawCommit()]).toEqual([true, false]);
    second.query("select * from notes").all();
    second.run("begin");
    second.run("insert into notes values (3)");
    expect(watch.sawCommit()).toBe(false);
    second.run("rollback");
    expect(watch.sawCommit()).toBe(false);
    await elsewhere(path, 'database.query("select * from notes").all(); database.close();');
    expect(watch.sawCommit()).toBe(false);
  });

  test("what a killed process committed is seen, and what it did not commit is not", async () => {
    using house = makeHouse();
    const { watch, path, database } = house;
    await elsewhere(path, 'database.run("begin immediate"); database.run("insert into notes values (1)"); die();');
    expect(watch.sawCommit()).toBe(false);
    await elsewhere(path, 'database.run("insert into notes values (2)"); die();');
    expect(watch.sawCommit()).toBe(true);
    expect(database.query("select * from notes").values()).toEqual([[2]]);
  });

  test("a log that is begun anew hides nothing", async () => {
    using house = makeHouse();
    const { watch, path, database } = house;
    for (let round = 0; round < 3; round += 1) {
      database.run("pragma wal_checkpoint(truncate)");
      watch.sawCommit();
      await elsewhere(path, 'database.run("insert into notes values (1)");');
      expect(watch.sawCommit()).toBe(true);
    }
  });
});

describe("begin", () => {
  test.skipIf(process.platform !== "linux")("leaves SQLite its lock on the index", () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    const second = openStore(folder.path);
    const { ino } = statSync(`${store.path}-shm`);
    const locks = readFileSync("/proc/locks", "utf8").split("\n");
    expect(locks.filter((lock) => lock.includes(` ${process.pid} `) && lock.includes(`:${ino} `))).toHaveLength(1);
    second.close();
    store.close();
  });

  test("an index that another connection has begun is followed, whatever is left of an older one", () => {
    for (const left of [undefined, "", "abc", "x".repeat(32_768)]) {
      using folder = new TempFolder();
      const path = folder.file("troupe.db");
      if (left !== undefined) writeFileSync(`${path}-shm`, left);
      const store = openStore(folder.path);
      const keys = new Keys(store.keys, systemClock, plans);
      const { secret, key } = keys.create({ name: "someone", tier: "pro" });
      expect(keys.find(`Bearer ${secret}`)).toBeDefined();
      using other = new Database(path);
      other.run("update keys set revoked_at = 1 where id = ?", [key.id]);
      expect([left?.length, keys.find(`Bearer ${secret}`)]).toEqual([left?.length, undefined]);
      store.close();
    }
  });

  test("is refused where this process has the database open, whose changes count all the same", () => {
    using folder = new TempFolder();
    const first = openStore(folder.path);
    expect(CommitWatch.begin(first.path)).toBeUndefined();
    const second = openStore(folder.path);
    const [one, other] = [first, second].map(({ keys }) => new Keys(keys, systemClock, plans));
    const { secret, key } = one!.create({ name: "someone", tier: "pro" });
    expect([one!.find(`Bearer ${secret}`)?.keyId, other!.find(`Bearer ${secret}`)?.keyId]).toEqual([key.id, key.id]);
    other!.revoke(key.id);
    expect([one!.find(`Bearer ${secret}`), other!.find(`Bearer ${secret}`)]).toEqual([undefined, undefined]);
    second.close();
    first.close();
    const third = openStore(folder.path);
    third.close();
    const watch = CommitWatch.begin(first.path);
    expect(watch).toBeDefined();
    watch!.end();
  });
});

describe("follows", () => {
  test("no database without a log, and none whose index is another file", () => {
    using folder = new TempFolder();
    const path = folder.file("some.db");
    const watch = CommitWatch.begin(path)!;
    using database = new Database(path, { create: true });
    expect(watch.follows(database)).toBe(false);
    watch.end();
  });
});
