import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { Keys } from "../../../src/auth/keys.ts";
import { backUp, DataError, dataStats, prune, restore } from "../../../src/store/sqlite/data-folder.ts";
import { migrations } from "../../../src/store/sqlite/migrations.ts";
import { databaseName, openStore, type Store } from "../../../src/store/sqlite/store.ts";
import { StorageError } from "../../../src/store/storage-error.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const clock = new ManualClock();
const kept = resolve(import.meta.dir, "../../fixtures/store");

function makeKeys(store: Store, ...names: string[]): void {
  const keys = new Keys(store.keys, clock, { free: 10, pro: 100 });
  for (const name of names) keys.create({ name, tier: "pro" });
}

function namesIn(folder: string): string[] {
  const store = openStore(folder);
  const names = store.keys.list().map(({ name }) => name);
  store.close();
  return names;
}

describe("stats", () => {
  test("count what is there", () => {
    using folder = new TempFolder();
    copyFileSync(`${kept}/v3.db`, folder.file(databaseName));
    const store = openStore(folder.path);
    makeKeys(store, "a");
    const stats = dataStats(store, clock.now());
    expect(stats).toMatchObject({
      path: folder.file(databaseName),
      schemaVersion: migrations.length,
      servers: 0,
      keys: { usable: 2, revoked: 1, expired: 0 },
      answers: { running: 1, finished: 2, interrupted: 0, bytes: 20 },
      conversations: { conversations: 1, turns: 2, deleted: 0 },
    });
    expect([stats.bytes >= 73_728, stats.bytes % 4096]).toEqual([true, 0]);
    expect(stats.logBytes).toBeGreaterThan(0);
    const server = openStore(folder.path);
    server.livenessLock();
    expect(dataStats(store, clock.now()).servers).toBe(1);
    server.close();
    store.close();
  });
});

describe("backup and restore", () => {
  test("a backup taken while another process writes is whole, private, and comes back", () => {
    using folder = new TempFolder();
    using elsewhere = new TempFolder();
    const server = openStore(folder.path);
    server.livenessLock();
    makeKeys(server, "before");
    const store = openStore(folder.path);
    const file = elsewhere.file("backup.db");
    backUp(store, file);
    store.close();
    expect(readdirSync(elsewhere.path)).toEqual(["backup.db"]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    makeKeys(server, "after");
    expect(() => restore(file, folder.path)).toThrow("A server runs on");
    server.close();
    expect(namesIn(folder.path)).toEqual(["before", "after"]);
    const replaced = restore(file, folder.path);
    expect(replaced).toBe(folder.file(`${databaseName}.replaced`));
    expect(namesIn(folder.path)).toEqual(["before"]);
    expect(statSync(folder.file(databaseName)).mode & 0o777).toBe(0o600);
    using old = new Database(replaced!, { readonly: true });
    expect(old.query("select name from keys order by created_at, id").values()).toEqual([["before"], ["after"]]);
    expect(existsSync(folder.file(`${databaseName}.incoming`))).toBe(false);
  });

  test("comes back on an empty machine, and from an older version", () => {
    using folder = new TempFolder();
    const target = folder.file("new/data");
    expect(restore(`${kept}/v1.db`, target)).toBeUndefined();
    expect(namesIn(target)).toEqual(["kept", "withdrawn"]);
    expect(statSync(target).mode & 0o777).toBe(0o700);
  });

  test("what is no sound backup changes nothing", () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    makeKeys(store, "mine");
    store.close();
    const files: Record<string, (path: string) => void> = {
      "text.db": (path) => writeFileSync(path, "no database ".repeat(500)),
      "empty.db": (path) => writeFileSync(path, ""),
      "other.db": (path) => {
        using other = new Database(path, { create: true });
        other.run("create table theirs (a)");
      },
      "newer.db": (path) => {
        copyFileSync(`${kept}/v3.db`, path);
        using newer = new Database(path);
        newer.run("pragma user_version = 99");
      },
      "damaged.db": (path) => {
        const bytes = readFileSync(`${kept}/v3.db`);
        writeFileSync(path, bytes.fill(0xff, 4096, 40_000));
      },
      "short.db": (path) => writeFileSync(path, readFileSync(`${kept}/v3.db`).subarray(0, 30_000)),
    };
    const before = readFileSync(folder.file(databaseName));
    for (const [name, make] of Object.entries(files)) {
      make(folder.file(name));
      let error: unknown;
      try {
        restore(folder.file(name), folder.path);
      } catch (thrown) {
        error = thrown;
      }
      expect([name, error instanceof StorageError || error instanceof DataError]).toEqual([name, true]);
      expect(readFileSync(folder.file(databaseName)).equals(before)).toBe(true);
      expect(existsSync(folder.file(`${databaseName}.incoming`))).toBe(false);
      expect(existsSync(folder.file(`${databaseName}.replaced`))).toBe(false);
    }
    expect(() => restore(folder.file("nowhere.db"), folder.path)).toThrow("There is no file");
    expect(namesIn(folder.path)).toEqual(["mine"]);
  });

  test("takes the place of a database that is damaged", () => {
    using folder = new TempFolder();
    writeFileSync(folder.file(databaseName), "broken ".repeat(900));
    const replaced = restore(`${kept}/v3.db`, folder.path);
    expect(readFileSync(replaced!, "utf8")).toStartWith("broken");
    expect(namesIn(folder.path)).toEqual(["kept", "withdrawn"]);
  });

  test("an existing file is never written over, and an impossible one is named", () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    writeFileSync(folder.file("there"), "precious");
    expect(() => backUp(store, folder.file("there"))).toThrow("exists already");
    expect(readFileSync(folder.file("there"), "utf8")).toBe("precious");
    expect(() => backUp(store, folder.file("no/such/folder/file"))).toThrow("can't be written (ENOENT)");
    store.close();
  });
});

describe("prune", () => {
  test("removes what is over at once, and shrinks the file", async () => {
    using folder = new TempFolder();
    copyFileSync(`${kept}/v3.db`, folder.file(databaseName));
    const store = openStore(folder.path);
    const made = { scope: "s", requestId: "large", fingerprint: "f", run: "abcd1234", owner: "o", createdAt: 1 };
    const call = (await store.idempotency.claim(made))!;
    const body = new Uint8Array(400_000);
    const expiresAt = clock.now() + 1;
    await store.idempotency.finish(
      { call, run: made.run },
      { status: 200, headers: "{}", events: null, bodyFrom: null, body, bytes: 400_000, expiresAt },
    );
    expect(prune(store, clock.now(), { retentionHours: 24 })).toEqual({ answers: 0, turns: 0, pages: 0, bytes: 0 });
    const counts = prune(store, 5_000_000_000_000, { retentionHours: 24 });
    expect(counts).toMatchObject({ answers: 3, turns: 3 });
    expect(counts.pages).toBeGreaterThanOrEqual(97);
    expect(counts.bytes).toBe(counts.pages * 4096);
    expect(store.size().freeBytes).toBe(0);
    expect(store.idempotency.totals()).toMatchObject({ running: 1, finished: 0 });
    store.close();
  });
});
