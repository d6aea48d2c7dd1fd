import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { ownVersion } from "../../src/store/sqlite/migrations.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

/** A server's start and its end. @returns its exit code and log */
async function serve(folder: TempFolder, flags = ""): Promise<{ code: number; err: string }> {
  const shell = new Console(folder.path);
  const running = shell.run(`serve --port 0 ${flags}`);
  const listens = shell.seen(/"listening"/).then(() => shell.signal("SIGTERM"));
  await Promise.race([running, listens]);
  const { code, err } = await running;
  return { code, err };
}

const database = "data/troupe.db";

const sqlite = (path: string, sql: string) => {
  using opened = new Database(path, { create: true });
  opened.run(sql);
};

const keysIn = (path: string): number => {
  using opened = new Database(path, { readonly: true });
  return opened.query<{ count: number }, []>("select count(*) as count from keys").get()!.count;
};

/** What may have become of a data folder in which a server ran. */
const damages: Readonly<Record<string, (folder: TempFolder) => void>> = {
  "a database that is gone": (folder) => rmSync(folder.file(database)),
  "an empty file": (folder) => writeFileSync(folder.file(database), ""),
  "half a file": (folder) => truncateSync(folder.file(database), 40_000),
  "another text": (folder) => writeFileSync(folder.file(database), "hello ".repeat(999)),
  "no keys": (folder) => sqlite(folder.file(database), "delete from keys"),
  "no tables": (folder) => {
    rmSync(folder.file(database));
    sqlite(folder.file(database), "vacuum");
  },
  "a table less": (folder) => sqlite(folder.file(database), "drop table turns"),
  "rights that can't be read": (folder) => sqlite(folder.file(database), "update keys set surfaces = '{'"),
};

/** What a start is refused by, though nothing was there before. */
const obstacles: Readonly<Record<string, (folder: TempFolder) => void>> = {
  "a file in the folder's place": (folder) => writeFileSync(folder.file("data"), ""),
  "a link that leads nowhere": (folder) => symlinkSync(folder.file("nowhere"), folder.file("data")),
  "a link to itself": (folder) => symlinkSync(folder.file("data"), folder.file("data")),
  "a folder in the database's place": (folder) => mkdirSync(folder.file(database), { recursive: true }),
  "a folder in the first key's place": (folder) => mkdirSync(folder.file("data/first-key/x"), { recursive: true }),
  "a file in the place of the running servers": (folder) => {
    mkdirSync(folder.file("data"));
    writeFileSync(folder.file("data/running"), "");
  },
  "a database of another program": (folder) => {
    mkdirSync(folder.file("data"));
    sqlite(folder.file(database), "create table theirs (a)");
  },
};

describe("a data folder with", () => {
  test.each(Object.keys(damages))(
    "%s is told by a start, by check, by doctor and by every command, and kept as it is",
    async (name) => {
      using folder = new TempFolder();
      expect(await serve(folder)).toMatchObject({ code: 0, err: expect.stringContaining("made the first API key") });
      const key = readFileSync(folder.file("data/first-key"), "utf8");
      damages[name]!(folder);
      const before = existsSync(folder.file(database)) ? readFileSync(folder.file(database)) : undefined;
      const { code, err } = await serve(folder);
      expect([code, err]).toEqual([
        1,
        expect.stringMatching(/could not start.*(is missing|is empty|has no|is damaged|failed \(SQLITE)/),
      ]);
      const shell = new Console(folder.path);
      const isSound = ["no keys", "rights that can't be read"].includes(name);
      for (const line of ["check", "doctor", "keys list", "keys create a", "data stats", "data migrate --dry-run"]) {
        const told = await shell.run(line);
        // A dry run is about the schema alone.
        const isFine = line.startsWith("data migrate") && isSound;
        expect([line, told.code]).toEqual([line, isFine ? 0 : 1]);
        if (told.code === 1) expect(told.err + told.out).toMatch(/data restore|could not|is damaged|troubleshooting/);
      }
      // Where the schema is sound, doctor's trial write is there, and what was in the write-ahead log.
      if (isSound) expect(keysIn(folder.file(database))).toBe(name === "no keys" ? 0 : 1);
      else if (before !== undefined) expect(readFileSync(folder.file(database)).equals(before)).toBe(true);
      expect(readFileSync(folder.file("data/first-key"), "utf8")).toBe(key);
      const anew = await serve(folder, "--new-database");
      expect(anew).toMatchObject({ code: 0, err: expect.stringContaining("warning: a new database takes the place") });
      expect(readFileSync(folder.file("data/first-key"), "utf8")).not.toBe(key);
      expect((await shell.run("check")).code).toBe(0);
      expect((await serve(folder, "--new-database")).err).not.toContain("warning");
    },
  );

  test.each(Object.keys(obstacles))("%s is told by check and doctor, as by a start", async (name) => {
    using folder = new TempFolder();
    obstacles[name]!(folder);
    const { code, err } = await serve(folder);
    expect([code, err]).toEqual([1, expect.stringContaining("could not start")]);
    const shell = new Console(folder.path);
    const checked = await shell.run("check");
    expect([checked.code, checked.out.split("\n").at(-2)]).toEqual([1, "1 error"]);
    expect((await shell.run("doctor")).out).toMatch(/^ERROR data folder: /m);
  });
});

test("what only several workers need is looked at where there are several", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("data"));
  writeFileSync(folder.file("data/workers"), "");
  const shell = new Console(folder.path);
  expect((await shell.run("check")).code).toBe(0);
  const { code, err } = await shell.run("check --workers 2");
  expect([code, err]).toEqual([
    1,
    expect.stringContaining(`The data folder ${folder.file("data/workers")} can't be used`),
  ]);
  expect((await shell.run("serve --port 0 --workers 2")).code).toBe(1);
});

test("check makes no schema, neither in an empty database nor in a folder that has no database yet", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("data"));
  const shell = new Console(folder.path);
  expect(await shell.run("check")).toMatchObject({ code: 0, err: "" });
  expect(readdirSync(folder.file("data"))).toEqual([]);
  {
    using unmade = new Database(folder.file(database), { create: true });
    unmade.run("pragma application_id = 0x74727065");
  }
  expect(await shell.run("check")).toMatchObject({ code: 0, err: "" });
  expect((await shell.run("data migrate --dry-run")).out).toContain(`schema 0 → ${ownVersion}`);
  await openStore(folder.file("data")).close();
});

test("the old data come back after a start that was stopped by their loss", async () => {
  using folder = new TempFolder();
  await serve(folder);
  const shell = new Console(folder.path);
  await shell.run("data backup copy.db");
  copyFileSync(folder.file("data/first-key"), folder.file("key"));
  renameSync(folder.file(database), folder.file("elsewhere"));
  expect((await serve(folder)).code).toBe(1);
  expect(await shell.run("data restore copy.db")).toMatchObject({ code: 0 });
  expect((await serve(folder)).code).toBe(0);
  expect(readFileSync(folder.file("data/first-key"), "utf8")).toBe(readFileSync(folder.file("key"), "utf8"));
});

test("a folder without a database is not filled with one by looking", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  for (const line of ["keys list", "data stats", "data backup x", "data prune", "keys revoke x"]) {
    expect(await shell.run(`${line} --data .`)).toMatchObject({
      code: 1,
      err: `error: There is no database in ${folder.path} yet; --data names another folder.\n`,
    });
  }
  expect(readdirSync(folder.path)).toEqual([]);
});
