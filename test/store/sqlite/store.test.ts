import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { Conversations } from "../../../src/conversations/conversations.ts";
import { Idempotency } from "../../../src/idempotency/idempotency.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { unpackText } from "../../../src/store/packing.ts";
import { migrate, migrations } from "../../../src/store/sqlite/migrations.ts";
import { databaseName, openStore } from "../../../src/store/sqlite/store.ts";
import { StorageError } from "../../../src/store/storage-error.ts";
import type { RecordedEvents, StreamAnswer, WholeAnswer } from "../../../src/upstream/answer.ts";
import { runScript } from "../../helpers/child-process.ts";
import { keyRow } from "../../helpers/key-row.ts";
import { keptEvent } from "../../helpers/scripted-upstream.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const kept = resolve(import.meta.dir, "../../fixtures/store");

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
    expect(versionOf(store.path)).toBe(migrations.length);
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
  }, 60_000);
});

describe("files of earlier versions", () => {
  for (const name of readdirSync(kept)) {
    test(`${name} opens, keeps its rows and comes to today's version`, async () => {
      using folder = new TempFolder();
      copyFileSync(join(kept, name), folder.file(databaseName));
      expect(versionOf(folder.file(databaseName))).toBe(Number.parseInt(name.slice(1), 10));
      const store = openStore(folder.path);
      expect((await store.keys.list()).map(({ id, name, tier, revokedAt }) => [id, name, tier, revokedAt])).toEqual([
        ["key_1", "kept", "free", null],
        ["key_2", "withdrawn", "enterprise", 1_700_000_300_000],
      ]);
      await store.keys.insert(keyRow("new"));
      expect(await store.keys.list()).toHaveLength(3);
      await store.close();
      expect(versionOf(folder.file(databaseName))).toBe(migrations.length);
    });
  }

  test("there is one for every version", async () => {
    expect(readdirSync(kept).sort()).toEqual(migrations.map((_, at) => `v${at + 1}.db`));
  });

  /** Until version 4 the data of events was kept, from 5 on their whole texts. */
  const named = (data: string) => `event: named\ndata: ${data}\n\n`;
  const plain = (data: string) => `data: ${data}\n\n`;
  test.each([
    [3, plain],
    [4, plain],
    [5, named],
    [6, named],
    [7, named],
  ])("kept answers and conversations of version %d are still given", async (version, eventOf) => {
    using folder = new TempFolder();
    copyFileSync(join(kept, `v${version}.db`), folder.file(databaseName));
    const store = openStore(folder.path);
    const idempotency = new Idempotency(store, systemClock, () => ({
      retentionHours: 24,
      finishAfterDisconnect: true,
      recordBytes: 1_000_000,
    }));
    const ask = (requestId: string) =>
      idempotency.run(
        { scope: "key_1 gateway", requestId, fingerprint: "f" },
        new AbortController().signal,
        async () => ({
          kind: "whole",
          status: 200,
          headers: {},
          body: "called",
        }),
      );
    const whole = await ask("id-1");
    expect(new TextDecoder().decode((whole.answer as WholeAnswer).body as Uint8Array)).toBe('{"kept":true}');
    const events: string[] = [];
    const stream = ((await ask("id-2")).answer as StreamAnswer<RecordedEvents>).events;
    for (let step = await stream.next(); step.done !== true; step = await stream.next())
      events.push(...step.value.map((event) => keptEvent(event).text));
    expect(events).toEqual([...["a", "b", "c"].map(eventOf), "data: [DONE]\n\n"]);
    await idempotency.interruptAbandoned();
    expect(idempotency.counts.interrupted).toBe(1);
    expect(await ask("id-3")).toMatchObject({ replayed: false, answer: { body: "called" } });
    const conversations = new Conversations(store, systemClock, () => 30);
    const { messages } = await conversations.resume({ keyId: "key_1", surface: "gateway" }, "chatcmpl-2");
    expect(messages.map(({ content }) => content)).toEqual(["1", "answer chatcmpl-1", "2", "answer chatcmpl-2"]);
    await idempotency.close();
    await store.close();
  });

  test("a response of version 6 is still found", async () => {
    using folder = new TempFolder();
    copyFileSync(join(kept, "v6.db"), folder.file(databaseName));
    const store = openStore(folder.path);
    const turn = await store.conversations.find("key_1 gateway", "resp_kept", 0);
    expect(turn).toMatchObject({ format: "responses", state: "finished" });
    expect(JSON.parse(unpackText(turn!.shown!))).toMatchObject({ id: "resp_kept", status: "completed" });
    await store.close();
  });

  test("a step that fails leaves the file as it was", async () => {
    using folder = new TempFolder();
    const database = new Database(folder.file("a.db"), { strict: true, create: true });
    migrate(database, "a.db", migrations.slice(0, 1));
    const broken = [migrations[0]!, "create table added (a text) strict; create table keys (a text) strict;"];
    expect(() => migrate(database, "a.db", broken)).toThrow("keys already exists");
    expect(database.query("pragma user_version").values()).toEqual([[1]]);
    expect(database.query("select name from sqlite_schema where name = 'added'").values()).toEqual([]);
    database.close();
  });

  test("a newer file is refused and left alone", async () => {
    using folder = new TempFolder();
    await openStore(folder.path).close();
    using database = new Database(folder.file(databaseName));
    database.run("pragma user_version = 999");
    const error = await storageErrorOf(() => openStore(folder.path));
    expect(error.kind).toBe("newer");
    expect(error.message).toContain("schema 999");
    expect(database.query("pragma user_version").values()).toEqual([[999]]);
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
    const store = openStore(folder.path, { maxBytes: 256 * 1024 });
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
  }, 60_000);

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
    await expect(store.keys.insert(keyRow("a"))).rejects.toThrow("UNIQUE constraint failed");
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
    await after(() => store.keys.replaceSecret("a", "p", "other", null));
    await after(() => store.keys.revoke("a", 60));
    await after(() => store.keys.revoke("a", 70));
    await after(() => store.keys.replaceSecret("a", "p", "third", null));
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
