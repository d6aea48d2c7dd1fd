import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { migrate, migrations, ownVersion } from "../../../src/store/sqlite/migrations.ts";
import { databaseName, openStore } from "../../../src/store/sqlite/store.ts";
import { runScript } from "../../helpers/child-process.ts";
import { keyRow } from "../../helpers/key-row.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

/** The error that `work` throws; anything but a StorageError fails the test. */
async function storageErrorOf(work: () => unknown): Promise<StorageError> {
  try {
    await work();
  } catch (error) {
    expect(error).toBeInstanceOf(StorageError);
    return error as StorageError;
  }
  throw new Error("nothing was thrown");
}

const versionOf = (path: string): unknown => {
  using database = new Database(path, { readonly: true });
  return database.query("pragma user_version").values()[0]?.[0];
};

describe("opening", () => {
  test("makes folder and file, readable by this user only, in WAL mode", async () => {
    using folder = new TempFolder();
    const data = folder.file("deep/data");
    const store = openStore(data);
    expect(store.path).toBe(join(data, databaseName));
    expect(statSync(data).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(data))
      expect([name, statSync(join(data, name)).mode & 0o777]).toEqual([name, 0o600]);
    expect(readdirSync(data).sort()).toEqual(["troupe.db", "troupe.db-shm", "troupe.db-wal"]);
    await store.close();
    expect(readdirSync(data)).toEqual(["troupe.db"]);
    using database = new Database(store.path, { readonly: true });
    expect(database.query("pragma auto_vacuum").values()).toEqual([[2]]);
    expect(database.query("pragma journal_mode").values()).toEqual([["wal"]]);
    expect(versionOf(store.path)).toBe(ownVersion);
  });

  test("keeps what was written", async () => {
    using folder = new TempFolder();
    const first = openStore(folder.path);
    await first.keys.insert(keyRow("a", { perMinute: 7, expiresAt: 9 }));
    await first.close();
    const second = openStore(folder.path);
    expect(await second.keys.list()).toEqual([keyRow("a", { perMinute: 7, expiresAt: 9 })]);
    await second.close();
  });

  test("processes that start at once make one schema", async () => {
    using folder = new TempFolder();
    const script = `
      const { openStore } = await import(SRC + "/store/sqlite/store.ts");
      const store = openStore(${JSON.stringify(folder.path)});
      await store.keys.insert({ ...${JSON.stringify(keyRow("x"))}, id: String(process.pid), hash: String(process.pid) });
      await store.close();`;
    const children = await Promise.all(Array.from({ length: 4 }, () => runScript(script)));
    expect(children.map((child) => [child.exitCode, child.errors])).toEqual(Array(4).fill([0, ""]));
    const store = openStore(folder.path);
    expect(await store.keys.list()).toHaveLength(4);
    await store.close();
  });
});

describe("the schema", () => {
  test("a step that fails leaves the file as it was", async () => {
    using folder = new TempFolder();
    const database = new Database(folder.file("a.db"), { strict: true, create: true });
    migrate(database, "a.db");
    const broken = [...migrations, "create table added (a text) strict; create table keys (a text) strict;"];
    expect(() => migrate(database, "a.db", broken)).toThrow("keys already exists");
    expect(database.query("pragma user_version").values()).toEqual([[ownVersion]]);
    expect(database.query("select name from sqlite_schema where name = 'added'").values()).toEqual([]);
    database.close();
  });

  test("a made-up next version keeps what was written, and is made once", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    await store.keys.insert(keyRow("a"));
    await store.close();
    using database = new Database(folder.file(databaseName), { strict: true });
    const next = [...migrations, "alter table keys add column note text not null default 'none'"];
    for (const _ of ["made", "found"]) migrate(database, "a.db", next);
    expect(database.query("pragma user_version").values()).toEqual([[ownVersion + 1]]);
    expect(database.query("select id, note from keys").values()).toEqual([["a", "none"]]);
  });

  test.each([
    ["newer", 999, "schema 999"],
    ["older", 9, "has schema 9, of a Troupe before the first release"],
    ["older", 1, "has schema 1, of"],
  ])("a file that is %s (schema %d) is refused and left alone", async (kind, version, words) => {
    using folder = new TempFolder();
    await openStore(folder.path).close();
    using database = new Database(folder.file(databaseName));
    database.run(`pragma user_version = ${version}`);
    const error = await storageErrorOf(() => openStore(folder.path));
    expect([error.kind, error.message]).toEqual([kind as StorageError["kind"], expect.stringContaining(words)]);
    expect(database.query("pragma user_version").values()).toEqual([[version]]);
  });
});

describe("when storage fails", () => {
  test("a file that is no database is named, with what to do", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file(databaseName), "no database ".repeat(500));
    const error = await storageErrorOf(() => openStore(folder.path));
    expect(error.kind).toBe("corrupt");
    expect(error.message).toContain(folder.file(databaseName));
    expect(error.message).toContain("troupe data restore");
    expect(readFileSync(folder.file(databaseName), "utf8")).toStartWith("no database");
  });

  test("another program's database is refused untouched", async () => {
    using folder = new TempFolder();
    using other = new Database(folder.file(databaseName), { create: true });
    other.run("create table theirs (a)");
    const error = await storageErrorOf(() => openStore(folder.path));
    expect([error.kind, error.message]).toEqual(["foreign", expect.stringContaining("another program")]);
    expect(other.query("select name from sqlite_schema").values()).toEqual([["theirs"]]);
  });

  test("pages damaged while running are reported as corrupt", async () => {
    using folder = new TempFolder();
    const writer = openStore(folder.path);
    for (let at = 0; at < 200; at += 1)
      await writer.keys.insert(keyRow(`k${at}`, { models: `["${"m".repeat(500)}"]` }));
    await writer.close();
    const bytes = readFileSync(folder.file(databaseName));
    bytes.fill(0xff, 4096);
    writeFileSync(folder.file(databaseName), bytes);
    expect((await storageErrorOf(() => openStore(folder.path).keys.list())).kind).toBe("corrupt");
  });

  test("a file where the folder should be", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("data"), "");
    const error = await storageErrorOf(() => openStore(folder.file("data")));
    expect(error.kind).toBe("missing");
    expect(error.message).toContain("--data");
  });

  test("a full disk: the write is undone, reading and later writing go on", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path, { maxBytes: 320 * 1024 });
    const fill = async () => {
      for (let at = 0; at < 1000; at += 1)
        await store.keys.insert(keyRow(`k${at}`, { models: `["${"m".repeat(2000)}"]` }));
    };
    expect((await storageErrorOf(fill)).kind).toBe("full");
    const written = (await store.keys.list()).length;
    expect(written).toBeGreaterThan(5);
    expect(await store.keys.list()).toHaveLength(written);
    await store.close();
    const roomier = openStore(folder.path);
    await roomier.keys.insert(keyRow("after"));
    expect(await roomier.keys.list()).toHaveLength(written + 1);
    await roomier.close();
  });

  const asOrdinaryUser = process.getuid?.() === 0 ? "process.setgid(65534); process.setuid(65534);" : "";

  test("a read-only file and a folder of another user", async () => {
    using folder = new TempFolder();
    chmodSync(folder.path, 0o755);
    const data = folder.file("data");
    const closed = folder.file("closed");
    await openStore(data).close();
    mkdirSync(closed, { mode: 0o500 });
    chmodSync(data, 0o555);
    chmodSync(join(data, databaseName), 0o444);
    const script = `
      const { openStore } = await import(SRC + "/store/sqlite/store.ts");
      for (const folder of ${JSON.stringify([data, join(closed, "data")])}) {
        try { openStore(folder); console.log('"opened"'); }
        catch (error) { console.log(JSON.stringify([error.name, error.kind, error.message])); }
      }`;
    const { lines, errors } = await runScript(script, asOrdinaryUser);
    chmodSync(data, 0o755);
    expect(errors).toBe("");
    expect(lines).toEqual([
      ["StorageError", "readonly", expect.stringContaining("can't be written")],
      ["StorageError", "missing", expect.stringContaining("check that it is a writable folder")],
    ]);
  });

  test("a file locked by another connection is busy, and the message says so", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path, { busyMs: 20 });
    using other = new Database(store.path);
    other.run("begin immediate");
    const error = await storageErrorOf(() => store.maintenance.check());
    expect([error.kind, error.message]).toEqual(["busy", expect.stringContaining("another process")]);
    other.run("rollback");
    await store.maintenance.check();
    await store.close();
  });

  test("a file that is taken away while in use is missed, but for reading keys", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    await store.keys.insert(keyRow("a"));
    await store.maintenance.check();
    renameSync(store.path, folder.file("elsewhere"));
    const call = { scope: "s", requestId: "r", fingerprint: "f", run: "abcd1234", createdAt: 1 };
    for (const write of [() => store.maintenance.check(), () => store.runs.claim(call)]) {
      const error = await storageErrorOf(write);
      expect([error.kind, error.message]).toEqual([
        "missing",
        expect.stringContaining("moved or removed while in use"),
      ]);
    }
    expect(await store.keys.list()).toHaveLength(1);
    renameSync(folder.file("elsewhere"), store.path);
    await store.maintenance.check();
    expect(await store.runs.claim(call)).toEqual({ call: 1, run: "abcd1234" });
    await store.close();
  });

  test("a constraint is no storage error", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    await store.keys.insert(keyRow("a"));
    const { hash } = keyRow("a");
    await expect(store.keys.insert(keyRow("b", { hash }))).rejects.toThrow("UNIQUE constraint failed");
    await expect(store.keys.insert(keyRow("b", { createdAt: 1.5 }))).rejects.toThrow("cannot store REAL");
    await store.close();
  });
});

describe("key rows", () => {
  test("the generation grows with every change that matters, and only with those", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    const seen = [store.keys.version()];
    const after = async (change: () => unknown) => {
      await change();
      seen.push(store.keys.version());
    };
    await after(() => store.keys.insert(keyRow("a")));
    await after(() => store.keys.touch(new Map([["a", 50]])));
    await after(() => store.keys.replaceSecret("a", keyRow("a").hash, "p", "other", null));
    await after(() => store.keys.revoke("a", 60));
    await after(() => store.keys.revoke("a", 70));
    await after(() => store.keys.replaceSecret("a", "other", "p", "third", null));
    expect(seen).toEqual([0, 1, 1, 2, 3, 3, 3]);
    expect((await store.keys.list())[0]).toMatchObject({ hash: "other", lastUsedAt: 50, revokedAt: 60 });
    await store.keys.touch(new Map([["a", 40]]));
    expect((await store.keys.list())[0]?.lastUsedAt).toBe(50);
    await store.close();
  });

  test("insertFirst: once only, and not at all when its file can't be written", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    const full = () => {
      throw new Error("no room");
    };
    await expect(store.keys.insertFirst(keyRow("a"), full)).rejects.toThrow("no room");
    expect(await store.keys.list()).toEqual([]);
    expect(await store.keys.insertFirst(keyRow("a"), () => {})).toBe(true);
    expect(await store.keys.insertFirst(keyRow("b"), () => {})).toBe(false);
    expect((await store.keys.list()).map(({ id }) => id)).toEqual(["a"]);
    await store.close();
    expect(existsSync(`${store.path}-wal`)).toBe(false);
  });
});
