/** `troupe data move` between a real data folder and a real PostgreSQL. */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/lib/time/clock.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { movedTables } from "../../src/store/sql/tables.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { Console } from "../cli/console.ts";
import { testExecutable } from "../helpers/executable.ts";
import { keyRow } from "../helpers/key-row.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { fill, start, turnOf } from "./filled.ts";

const settings = (url: string) => ({
  url,
  pool: 2,
  statementSeconds: 10,
  leaseSeconds: 15,
  keysWithoutDatabaseSeconds: 60,
});

/** What lives for minutes, or is made anew: no part of a move. */
const left = {
  sqlite: [
    ...["generations", "ledger_increments", "ledger_packs", "ledger_unpacked", "reservations", "schema_texts"],
    ...["sessions", "token_uses", "trials"],
  ],
  postgres: [
    "generations",
    "lease_owners",
    "node_versions",
    "reservations",
    "schema",
    "schema_texts",
    "sessions",
    "token_uses",
    "window_life",
    "windows",
  ],
};
/** Of moved tables: what is worked out anew, or belongs to a call under way. */
const leftColumns: Readonly<Record<string, readonly string[]>> = {
  kept_calls: ["owner", "watched"],
  keys: ["change"],
  spending: ["reserved"],
  turns: ["pairs"],
};

/** Statements for an empty database: what fills that table stops, for as long as it lives, where more rows would be there. */
const stopping = (table: string, rows: number) => [
  `create function stop() returns trigger language plpgsql as $$ begin
     while (select count(*) from ${table}) > ${rows} loop perform pg_sleep(0.05); end loop; return null;
   end $$`,
  `create function stop_moves() returns event_trigger language plpgsql as $$ begin
     if to_regclass('${table}') is not null and not exists (select from pg_trigger where tgname = 'stops') then
       create trigger stops after insert on ${table} for each statement execute function public.stop();
     end if;
   end $$`,
  "create event trigger stops on ddl_command_end when tag in ('CREATE TABLE') execute function public.stop_moves()",
];

/** Every row of every moved table. */
function contentOf(folder: string): Record<string, unknown[]> {
  using database = new Database(join(folder, "troupe.db"), { readonly: true });
  const all = (sql: string) => database.query(sql).all();
  const finished = "select call from kept_calls where state = 'finished'";
  return {
    ...Object.fromEntries(
      movedTables.map(({ name, key }) => [name, all(`select * from ${name} order by ${key.join(", ")}`)]),
    ),
    spending: all("select scope, span, spent from spending order by scope, span"),
    kept_calls: all("select * from kept_calls where state = 'finished' order by call"),
    kept_events: all(`select * from kept_events where call in (${finished}) order by call, first_id`),
  };
}

describe.skipIf(!hasPostgres)("troupe data move, with a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  async function filled(folder: TempFolder, lines: number): Promise<string> {
    const data = folder.file("data");
    const store = openStore(data);
    await fill(store, lines);
    await store.close();
    return data;
  }

  test("carries everything there, row by row, and what comes out serves", async () => {
    using folder = new TempFolder();
    const data = await filled(folder, 300);
    let before = contentOf(data);
    const url = await server.createDatabase();
    const shell = new Console(folder.path, { TROUPE_STORE: url });
    const there = await shell.run("data move --json");
    expect({ code: there.code, err: there.err }).toEqual({ code: 0, err: "" });
    const report = JSON.parse(there.out) as {
      resumed: boolean;
      tables: { name: string; rows: number; checksum: string }[];
      left_behind: Record<string, number>;
    };
    expect(report).toMatchObject({ resumed: false, left_behind: { "calls under way or interrupted": 1 } });
    // The call of a process that was killed becomes a line.
    expect(before["ledger"]).toHaveLength(301);
    before = contentOf(data);
    expect(before["ledger"]).toHaveLength(302);
    for (const { name, rows } of report.tables) expect([name, rows]).toEqual([name, before[name]!.length]);
    expect(report.tables.every(({ rows }) => rows > 0)).toBe(true);

    const store = await openPostgresStore(settings(url), systemClock, true);
    await using stack = new AsyncDisposableStack();
    stack.defer(() => store.close());
    const sqlite = openStore(data);
    stack.defer(() => sqlite.close());
    expect(await store.keys.list()).toEqual(await sqlite.keys.list());
    // The call that was left behind is called anew, under a number that no other has.
    const call = { scope: "s", requestId: "r39", fingerprint: "f", run: "anew", createdAt: start };
    expect((await store.runs.claim(call))?.call).toBeGreaterThan(39);
    await store.conversations.insert({ ...turnOf(61), id: "new", parent: null }, new Uint8Array(), start + 5_000_000);
    const version = store.keys.version();
    await store.keys.revoke("key_1", start);
    await store.refresh();
    expect(store.keys.version()).toBeGreaterThan(version);
    const page = {
      keyHolder: "holder",
      format: "chat",
      now: start,
      model: null,
      metadata: '{"topic":"t1"}',
      after: null,
      limit: 50,
    };
    expect(await store.conversations.list(page, "asc")).toHaveLength(21);
  });

  test("goes on where it was killed", async () => {
    using folder = new TempFolder();
    const data = await filled(folder, 2_500);
    const url = await server.createDatabase();
    for (const statement of stopping("troupe_moving.ledger", 2_000)) await server.ask(url, statement);
    const env = { PATH: process.env["PATH"] ?? "", TROUPE_STORE: url };
    const command = [await testExecutable(), "data", "move"];
    const child = Bun.spawn(command, { cwd: folder.path, env, stdio: ["ignore", "ignore", "ignore"] });
    const copied = async () => {
      const [there] = await server.ask(url, "select to_regclass('troupe_moving.moved') is not null as is");
      if (there?.["is"] !== true) return 0;
      return Number((await server.ask(url, "select count(*) as count from troupe_moving.ledger"))[0]!["count"]);
    };
    while ((await copied()) < 100 && child.exitCode === null);
    child.kill("SIGKILL");
    await child.exited;
    const others = "datname = current_database() and pid <> pg_backend_pid()";
    await server.ask(url, `select pg_terminate_backend(pid, 10000) from pg_stat_activity where ${others}`);
    await server.ask(url, "drop event trigger stops");
    await server.ask(url, "drop function stop_moves, stop cascade");
    expect(await copied()).toBeLessThan(2_500);
    await expect(openPostgresStore(settings(url), systemClock, true)).rejects.toThrow(/^A move to .* was broken off/);
    const shell = new Console(folder.path, { TROUPE_STORE: url }, true);
    const stats = await new Console(folder.path, { TROUPE_STORE: url }).run("data stats");
    expect(stats).toMatchObject({ code: 1, err: expect.stringContaining("Nothing was ever stored") });
    const again = await shell.run("data move");
    expect(again.out).toContain("finished what was begun before");
    expect(again.err).toMatch(/copying ledger: \d+ of 2502 \(\d+ %\)/);
    for (const [name, rows] of Object.entries(contentOf(data))) {
      const which = { kept_calls: "where state = 'finished'" }[name] ?? "";
      const [found] = await server.ask(url, `select count(*)::int as rows from troupe.${name} ${which}`);
      expect([name, found]).toEqual([name, { rows: rows.length }]);
    }
  });

  test("begins again where the source changed in between, and refuses another source", async () => {
    using folder = new TempFolder();
    const data = await filled(folder, 60);
    const url = await server.createDatabase();
    const shell = new Console(folder.path, { TROUPE_STORE: url });
    await shell.run("data move");
    // As a kill just before the end would leave it.
    await server.ask(url, "alter schema troupe rename to troupe_moving");
    await server.ask(
      url,
      "create table troupe_moving.move as select 'key_0 ' || version as identity, 'x' as place from troupe_moving.schema",
    );
    await server.ask(url, "create table troupe_moving.moved (name text primary key, last text not null)");
    await server.ask(url, "insert into troupe_moving.moved values ('keys', '[\"key_9\"]')");
    const store = openStore(data);
    await store.keys.update("key_1", { name: "renamed" });
    await store.close();
    using other = new TempFolder();
    const stranger = openStore(other.file("data"));
    await stranger.keys.insert(keyRow("key_other", { createdAt: start }));
    await stranger.close();
    const refused = await new Console(other.path, { TROUPE_STORE: url }).run("data move");
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("A move of other data (x)") });
    expect(await shell.run("data move")).toMatchObject({ code: 0, out: expect.stringContaining("begun before") });
    const found = await server.ask(url, "select name from troupe.keys where id = 'key_1'");
    expect(found).toEqual([{ name: "renamed" }]);
  });

  test("refuses what serves, what is full and what is not there; a copy is taken of a folder in use", async () => {
    using folder = new TempFolder();
    const url = await server.createDatabase();
    const data = folder.file("data");
    const shell = new Console(folder.path, { TROUPE_STORE: url });
    const refused = async (line: string, why: string) =>
      expect(await shell.run(line)).toMatchObject({ code: 1, out: "", err: expect.stringContaining(why) });
    await refused("data move", `There is no database in ${data}.`);
    await filled(folder, 10);
    {
      await using _ = await TroupeProcess.start(data, "http://127.0.0.1:1", { key: "none" });
      await refused("data move", `A server runs on ${data}`);
      expect((await shell.run("data move --copy")).code).toBe(0);
      // A copy that nobody has used gives way to a later one, and to the move.
      expect((await shell.run("data move --copy")).code).toBe(0);
    }
    expect((await new Console(folder.path).run("keys create later")).code).toBe(0);
    expect((await shell.run("data move")).code).toBe(0);
    expect((await shell.run("keys list")).out).toContain("later");
    await refused("data move", "There is data in 127.0.0.1");
    // Whoever used a copy keeps it.
    const used = new Console(folder.path, { TROUPE_STORE: await server.createDatabase() });
    expect((await used.run("data move --copy")).code).toBe(0);
    expect((await used.run("keys create mine")).code).toBe(0);
    expect(await used.run("data move")).toMatchObject({ code: 1, err: expect.stringContaining("There is data in") });
    expect((await used.run("keys list")).out).toContain("mine");
    for (const [flags, why] of [
      ["--to back", "into a folder there is no move"],
      [`--from ${url}`, "out of a database there is no move"],
    ])
      expect(await shell.run(`data move ${flags}`)).toMatchObject({ code: 2, err: expect.stringContaining(why!) });
    expect(existsSync(folder.file("back"))).toBe(false);
    expect(await new Console(folder.path).run("data move")).toMatchObject({
      code: 2,
      err: expect.stringContaining("--to"),
    });
  });

  test("no table and no column is forgotten", async () => {
    using folder = new TempFolder();
    await openStore(folder.path).close();
    using database = new Database(folder.file("troupe.db"), { readonly: true });
    const url = await server.createDatabase();
    await (await openPostgresStore(settings(url))).close();
    const rows = await server.ask<{ name: string; column: string }>(
      url,
      `select table_name as name, column_name as column from information_schema.columns where table_schema = 'troupe'`,
    );
    const sqlite = database
      .query<{ name: string; column: string }, []>(
        `select m.name, c.name as column from sqlite_schema m join pragma_table_info(m.name) c
         where m.type = 'table' and m.name not like 'sqlite_%'`,
      )
      .all();
    const moved = movedTables.flatMap(({ name, columns }) => columns.map(([column]) => `${name}.${column}`));
    for (const [found, unmoved] of [
      [sqlite, left.sqlite],
      [rows, left.postgres],
    ] as const) {
      const kept = found.filter(({ name, column }) => !unmoved.includes(name) && !leftColumns[name]?.includes(column));
      const elsewhere = found === sqlite ? ["kept_events.run"] : [];
      expect([...kept.map(({ name, column }) => `${name}.${column}`), ...elsewhere].toSorted()).toEqual(
        moved.toSorted(),
      );
    }
  });
});
