import { describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { ownVersion } from "../../../src/store/sqlite/migrations.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

describe("troupe data", () => {
  test("stats, backup, restore and prune, one after the other", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    await shell.run("keys create alice");
    const stats = await shell.run("data stats --json");
    expect([stats.code, stats.err]).toEqual([0, ""]);
    expect(JSON.parse(stats.out)).toMatchObject({
      path: folder.file("data/troupe.db"),
      schema_version: ownVersion,
      servers: 0,
      keys: { usable: 2, revoked: 0, expired: 0 },
      answers: { running: 0, finished: 0, interrupted: 0, bytes: 0 },
      conversations: { conversations: 0, turns: 0, deleted: 0, bytes: 0 },
    });
    const text = await shell.run("data stats");
    expect(text.out).toContain("keys           2 usable, 0 expired, 0 revoked\n");
    expect(text.out).toContain("servers        none running\n");
    const backup = await shell.run("data backup copy.db");
    expect([backup.code, backup.out]).toEqual([0, ""]);
    expect(backup.err).toContain(folder.file("copy.db"));
    await shell.run("keys create bob");
    expect(await shell.run("data backup copy.db")).toMatchObject({
      code: 1,
      err: expect.stringContaining("exists already"),
    });
    const restored = await shell.run("data restore copy.db");
    expect(restored).toEqual({
      code: 0,
      out: "",
      err: `${folder.file("data/troupe.db")} is restored from ${folder.file("copy.db")}.
The database that was there before is now ${folder.file("data/troupe.db.replaced")}.
Keys are as they were then: revoke again what was revoked since ('troupe keys list').
`,
    });
    const names = JSON.parse((await shell.run("keys list --json")).out).map(({ name }: { name: string }) => name);
    expect(names).toEqual(["first", "alice"]);
    const pruned = await shell.run("data prune --json");
    expect(JSON.parse(pruned.out)).toEqual({ answers: 0, conversation_rows: 0, pages: 0, bytes: 0 });
    expect((await shell.run("data prune")).out).toBe(
      `Nothing has expired; ${folder.file("data/troupe.db")} is 0.0 MB smaller.\n`,
    );
  });

  test("a running server is not restored over", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    await shell.run("keys create alice");
    await shell.run("data backup copy.db");
    const server = openStore(folder.file("data"));
    await server.maintenance.otherServers();
    expect(await shell.run("data restore copy.db")).toMatchObject({
      code: 1,
      err: expect.stringContaining("stop it first"),
    });
    expect(JSON.parse((await shell.run("data stats --json")).out).servers).toBe(1);
    await server.close();
    expect((await shell.run("data restore copy.db")).code).toBe(0);
  });

  test("what can't be done is said in one line, and nothing is made", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    for (const line of ["data stats", "data backup copy.db", "data prune"]) {
      const { code, out, err } = await shell.run(line);
      expect([code, out, err]).toEqual([
        1,
        "",
        `error: There is no data folder ${folder.file("data")}; --data names another.\n`,
      ]);
    }
    expect(existsSync(folder.file("data"))).toBe(false);
    writeFileSync(folder.file("notes.txt"), "no backup");
    const { code, err } = await shell.run("data restore notes.txt");
    const problem = "is no database (SQLITE_NOTADB); nothing was changed. Take another backup.";
    expect([code, err]).toEqual([1, `error: ${folder.file("notes.txt")} ${problem}\n`]);
    expect((await shell.run("data restore .")).err).toBe(
      `error: ${folder.path} is no file; name what 'troupe data backup' made.\n`,
    );
    expect((await shell.run("data restore missing.db")).err).toBe(
      `error: There is no file ${folder.file("missing.db")}.\n`,
    );
    await openStore(folder.file("keyless")).close();
    expect((await shell.run("data restore keyless/troupe.db")).err).toContain(
      "holds no keys; it is a backup of nothing.",
    );
    expect(await shell.run("data restore missing.db")).toMatchObject({ code: 1 });
    expect(await shell.run("data restore")).toMatchObject({ code: 2 });
  });
});
