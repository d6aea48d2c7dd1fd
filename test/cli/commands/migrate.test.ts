import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync } from "node:fs";
import { ownVersion } from "../../../src/store/sqlite/migrations.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const versionIn = (path: string) => {
  using database = new Database(path);
  return Object.values(database.query<Record<string, number>, []>("pragma user_version").get()!)[0];
};

/** A database that has nothing in it yet. */
function emptyDatabase(folder: TempFolder): string {
  mkdirSync(folder.file("data"));
  const path = folder.file("data/troupe.db");
  using database = new Database(path, { create: true });
  database.run("pragma application_id = 0x74727065");
  return path;
}

describe("troupe data migrate", () => {
  test("--dry-run tells how it would go, and changes nothing", async () => {
    using folder = new TempFolder();
    const path = emptyDatabase(folder);
    const { code, out } = await new Console(folder.path).run("data migrate --dry-run");
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`schema 0 → ${ownVersion}, .* nothing was changed\\n$`));
    expect(versionIn(path)).toBe(0);
    expect(readdirSync(folder.file("data")).filter((name) => name.startsWith("dry-run"))).toEqual([]);
  });

  test("does it, and the second time finds it done", async () => {
    using folder = new TempFolder();
    const path = emptyDatabase(folder);
    const shell = new Console(folder.path);
    expect((await shell.run("data migrate")).out).toContain(`schema 0 → ${ownVersion}`);
    expect(versionIn(path)).toBe(ownVersion);
    expect((await shell.run("data migrate --dry-run")).out).toContain("is up to date");
  });

  test("dry-runs beside a server that writes", async () => {
    using folder = new TempFolder();
    const store = openStore(folder.file("data"));
    const { code } = await new Console(folder.path).run("data migrate --dry-run");
    expect(code).toBe(0);
    await store.maintenance.check();
    await store.close();
  });

  test("a database of a newer version is told, and left alone", async () => {
    using folder = new TempFolder();
    const path = emptyDatabase(folder);
    {
      using database = new Database(path);
      database.run("pragma user_version = 999");
    }
    const { code, err } = await new Console(folder.path).run("data migrate --dry-run");
    expect(code).toBe(1);
    expect(err).toContain("written by a newer Troupe (schema 999");
    expect(versionIn(path)).toBe(999);
  });
});
