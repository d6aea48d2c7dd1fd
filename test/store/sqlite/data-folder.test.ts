import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { Keys } from "../../../src/auth/keys.ts";
import { DataError } from "../../../src/store/contract/data-error.ts";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { backUp, dataStats, prune, restore } from "../../../src/store/sqlite/data-folder.ts";
import { ownVersion } from "../../../src/store/sqlite/migrations.ts";
import { databaseName, openStore, type SqliteStore } from "../../../src/store/sqlite/store.ts";
import { keyRow } from "../../helpers/key-row.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const clock = new ManualClock();

/** A database with keys, answers and a conversation in it. */
const filled = new TempFolder();
const kept = filled.file(databaseName);
const later = 4_000_000_000_000;
beforeAll(async () => {
  const store = openStore(filled.path);
  await store.keys.insert(keyRow("key_1", { name: "kept" }));
  await store.keys.insert(keyRow("key_2", { name: "withdrawn", createdAt: 2, revokedAt: 3 }));
  await store.close();
  using database = new Database(kept);
  const call = database.query(
    `insert into kept_calls (scope, request_id, fingerprint, run, state, owner, created_at, bytes, expires_at)
     values ('s', ?, 'f', 'r', ?, ?, 1, ?, ?)`,
  );
  call.run("id-1", "finished", null, 13, later);
  call.run("id-2", "finished", null, 7, later);
  call.run("id-3", "running", "ended", 0, null);
  database.run(`insert into conversations values (1, ${later})`);
  for (const id of ["chatcmpl-1", "chatcmpl-2"])
    database.run(
      `insert into turns (id, conversation, key_holder, model, created_at, metadata, request, input, completion, format, state)
       values (?, 1, 's', 'm', 1, '{}', x'01', x'01', x'01', 'chat', 'finished')`,
      [id],
    );
  database.run("pragma wal_checkpoint(truncate)");
});
afterAll(() => filled[Symbol.dispose]());

async function makeKeys(store: SqliteStore, ...names: string[]): Promise<void> {
  const keys = new Keys(store.keys, clock, { free: 10, pro: 100 });
  for (const name of names) await keys.create({ name, tier: "pro" });
}

async function namesIn(folder: string): Promise<string[]> {
  const store = openStore(folder);
  const names = (await store.keys.list()).map(({ name }) => name);
  await store.close();
  return names;
}

describe("stats", () => {
  test("count what is there", async () => {
    using folder = new TempFolder();
    copyFileSync(kept, folder.file(databaseName));
    const store = openStore(folder.path);
    await makeKeys(store, "a");
    const stats = await dataStats(store, clock.now());
    expect(stats).toMatchObject({
      path: folder.file(databaseName),
      schemaVersion: ownVersion,
      servers: 0,
      keys: { usable: 2, revoked: 1, expired: 0 },
      answers: { running: 1, finished: 2, interrupted: 0, bytes: 20 },
      conversations: { conversations: 1, turns: 2, deleted: 0 },
    });
    expect([stats.bytes >= 73_728, stats.bytes % 4096]).toEqual([true, 0]);
    expect(stats.logBytes).toBeGreaterThan(0);
    const server = openStore(folder.path);
    await server.maintenance.otherServers();
    expect((await dataStats(store, clock.now())).servers).toBe(1);
    await server.close();
    await store.close();
  });
});

describe("backup and restore", () => {
  test("a backup taken while another process writes is whole, private, and comes back", async () => {
    using folder = new TempFolder();
    using elsewhere = new TempFolder();
    const server = openStore(folder.path);
    await server.maintenance.otherServers();
    await makeKeys(server, "before");
    const store = openStore(folder.path);
    const file = elsewhere.file("backup.db");
    await backUp(store, file);
    await store.close();
    expect(readdirSync(elsewhere.path)).toEqual(["backup.db"]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await makeKeys(server, "after");
    await expect(restore(file, folder.path)).rejects.toThrow("A server runs on");
    await server.close();
    expect(await namesIn(folder.path)).toEqual(["before", "after"]);
    const replaced = await restore(file, folder.path);
    expect(replaced).toBe(folder.file(`${databaseName}.replaced`));
    expect(await namesIn(folder.path)).toEqual(["before"]);
    expect(statSync(folder.file(databaseName)).mode & 0o777).toBe(0o600);
    using old = new Database(replaced!, { readonly: true });
    expect(old.query("select name from keys order by created_at, id").values()).toEqual([["before"], ["after"]]);
    expect(existsSync(folder.file(`${databaseName}.incoming`))).toBe(false);
  });

  test("comes back on an empty machine", async () => {
    using folder = new TempFolder();
    const target = folder.file("new/data");
    expect(await restore(kept, target)).toBeUndefined();
    expect(await namesIn(target)).toEqual(["kept", "withdrawn"]);
    expect(statSync(target).mode & 0o777).toBe(0o700);
  });

  test("what is no sound backup changes nothing", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    await makeKeys(store, "mine");
    await store.close();
    const files: Record<string, (path: string) => void> = {
      "text.db": (path) => writeFileSync(path, "no database ".repeat(500)),
      "empty.db": (path) => writeFileSync(path, ""),
      "other.db": (path) => {
        using other = new Database(path, { create: true });
        other.run("create table theirs (a)");
      },
      "newer.db": (path) => {
        copyFileSync(kept, path);
        using newer = new Database(path);
        newer.run("pragma user_version = 99");
      },
      "damaged.db": (path) => {
        const bytes = readFileSync(kept);
        writeFileSync(path, bytes.fill(0xff, 4096, 40_000));
      },
      "short.db": (path) => writeFileSync(path, readFileSync(kept).subarray(0, 30_000)),
    };
    const before = readFileSync(folder.file(databaseName));
    for (const [name, make] of Object.entries(files)) {
      make(folder.file(name));
      let error: unknown;
      try {
        await restore(folder.file(name), folder.path);
      } catch (thrown) {
        error = thrown;
      }
      expect([name, error instanceof StorageError || error instanceof DataError]).toEqual([name, true]);
      expect(readFileSync(folder.file(databaseName)).equals(before)).toBe(true);
      expect(existsSync(folder.file(`${databaseName}.incoming`))).toBe(false);
      expect(existsSync(folder.file(`${databaseName}.replaced`))).toBe(false);
    }
    await expect(restore(folder.file("nowhere.db"), folder.path)).rejects.toThrow("There is no file");
    expect(await namesIn(folder.path)).toEqual(["mine"]);
  });

  test("takes the place of a database that is damaged", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file(databaseName), "broken ".repeat(900));
    const replaced = await restore(kept, folder.path);
    expect(readFileSync(replaced!, "utf8")).toStartWith("broken");
    expect(await namesIn(folder.path)).toEqual(["kept", "withdrawn"]);
  });

  test("an existing file is never written over, and an impossible one is named", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    writeFileSync(folder.file("there"), "precious");
    await expect(backUp(store, folder.file("there"))).rejects.toThrow("exists already");
    expect(readFileSync(folder.file("there"), "utf8")).toBe("precious");
    await expect(backUp(store, folder.file("no/such/folder/file"))).rejects.toThrow("can't be written (ENOENT)");
    await store.close();
  });
});

describe("prune", () => {
  test("removes what is over at once, and shrinks the file", async () => {
    using folder = new TempFolder();
    copyFileSync(kept, folder.file(databaseName));
    const store = openStore(folder.path);
    const made = { scope: "s", requestId: "large", fingerprint: "f", run: "abcd1234", createdAt: 1 };
    const call = (await store.runs.claim(made))!;
    const body = new Uint8Array(400_000);
    const expiresAt = clock.now() + 1;
    await store.runs.finish(call, {
      status: 200,
      headers: "{}",
      events: null,
      bodyFrom: null,
      body,
      bytes: 400_000,
      expiresAt,
    });
    expect(await prune(store, clock.now(), { retentionHours: 24 })).toEqual({
      answers: 0,
      turns: 0,
      ledger: 0,
      versions: 0,
      previews: 0,
      pages: 0,
      bytes: 0,
    });
    const counts = await prune(store, 5_000_000_000_000, { retentionHours: 24 });
    expect(counts).toMatchObject({ answers: 3, turns: 3 });
    expect(counts.pages).toBeGreaterThanOrEqual(97);
    expect(counts.bytes).toBe(counts.pages * 4096);
    expect((await store.maintenance.size()).freeBytes).toBe(0);
    expect(await store.maintenance.runTotals()).toMatchObject({ running: 1, finished: 0 });
    await store.close();
  });
});
