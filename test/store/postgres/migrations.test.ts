/** How the schema is brought forward while others use the database. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { systemClock } from "../../../src/lib/time/clock.ts";
import {
  type MigrationOptions,
  migrate,
  ownVersion,
  type Step,
  steps,
} from "../../../src/store/postgres/migrations.ts";
import { openPool } from "../../../src/store/postgres/store.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";

const next: readonly Step[] = [...steps, { sql: "alter table troupe.keys add column note text" }];

/** Brings a database forward on a connection of its own, as a start does. */
async function forward(url: string, options: MigrationOptions): Promise<void> {
  const settings = { url, pool: 2, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
  const pool = await openPool(settings, systemClock, { deadlineMs: 60_000, use: "long" });
  await migrate(pool, "test", options).finally(() => pool.close());
}

/** Of each step, from the first tag on. One that is edited would leave two schemas of one number. */
const released: readonly string[] = [];

test("no step that was released is another than it was", () => {
  const made = steps.map(({ sql }) => Bun.SHA256.hash(sql, "hex").slice(0, 12));
  expect(made.slice(0, released.length)).toEqual([...released]);
});

/** All that a schema is made of, in words. */
const described = `
  select 'column' as what, c.relname || '.' || a.attname as name,
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attstorage, l.collname, c.reloptions,
      pg_get_expr(d.adbin, d.adrelid)) as of
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum left join pg_collation l on l.oid = a.attcollation
  where c.relnamespace = 'troupe'::regnamespace and c.relkind = 'r'
  union all select 'index', indexname, indexdef from pg_indexes where schemaname = 'troupe'
  union all select 'constraint', conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'troupe'::regnamespace
  union all select 'trigger', tgrelid::regclass || ' ' || tgname, pg_get_triggerdef(t.oid) from pg_trigger t
    join pg_class c on c.oid = t.tgrelid where c.relnamespace = 'troupe'::regnamespace and not tgisinternal
  union all select 'function', oid::regprocedure::text, pg_get_functiondef(oid) from pg_proc
    where pronamespace = 'troupe'::regnamespace
  order by 1, 2`;

describe.skipIf(!hasPostgres)("bringing the schema forward while a table is held, as by a dump", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  /** @param work may let go of the table; else its end does */
  async function whileHeld(work: (url: string, letGo: () => void) => Promise<void>): Promise<void> {
    const url = await server.createDatabase();
    await forward(url, {});
    await using dump = new SQL(url, { max: 1 });
    const isHeld = Promise.withResolvers<void>();
    const isOver = Promise.withResolvers<void>();
    const dumping = dump.begin(async (sql) => {
      await sql`select count(*) from troupe.keys`;
      isHeld.resolve();
      await isOver.promise;
    });
    await isHeld.promise;
    await work(url, isOver.resolve).finally(isOver.resolve);
    await dumping;
  }

  test("a database that came step by step is as one that was made at once", async () => {
    const [atOnce, byStep] = [await server.createDatabase(), await server.createDatabase()];
    await forward(atOnce, { known: next });
    for (let count = 1; count <= next.length; count += 1) await forward(byStep, { known: next.slice(0, count) });
    const schema = await server.ask(atOnce, described);
    expect(schema.length).toBeGreaterThan(150);
    expect(await server.ask(byStep, described)).toEqual(schema);
    const version = [{ version: ownVersion() + 1, serves_from: ownVersion() }];
    expect(await server.ask(byStep, "select * from troupe.schema")).toEqual(version);
  });

  test("one of before the first release is refused, and left alone", async () => {
    const url = await server.createDatabase();
    await forward(url, {});
    await server.ask(url, "update troupe.schema set version = 13, serves_from = 1");
    await expect(forward(url, {})).rejects.toMatchObject({
      kind: "older",
      message: expect.stringContaining("The database test has schema 13, of a Troupe before the first release"),
    });
    expect(await server.ask(url, "select version from troupe.schema")).toEqual([{ version: 13 }]);
  });

  test("it waits briefly, lets others through, and comes to its end once the table is free", async () => {
    await whileHeld(async (url, letGo) => {
      const told: string[] = [];
      const isRefused = Promise.withResolvers<void>();
      const report = (words: string) => {
        told.push(words);
        if (words.startsWith("others hold a table")) isRefused.resolve();
      };
      const migrating = forward(url, { known: next, lockMs: 300, report });
      await isRefused.promise;
      // Others' reads come through between its tries, while the table is held.
      for (let time = 0; time < 3; time += 1) await server.ask(url, "select count(*) from troupe.keys");
      letGo();
      await migrating;
      expect(told[0]).toBe(`step ${next.length} of ${next.length}`);
      expect(told).toContain("others hold a table (a dump, say): tried again for 300 s");
      expect(await server.ask(url, "select version from troupe.schema")).toEqual([{ version: ownVersion() + 1 }]);
      expect(await server.ask(url, "select note from troupe.keys")).toEqual([]);
    });
  });

  test("it gives up after the time that it says, and leaves the schema as it was", async () => {
    await whileHeld(async (url) => {
      const migrating = forward(url, { known: next, lockMs: 50, goOnMs: 200 });
      await expect(migrating).rejects.toMatchObject({
        kind: "busy",
        message: `The database test could not be brought to schema ${ownVersion() + 1} within 0.2 s, as others hold its tables (a dump, a report): let them end, and start again.`,
      });
      expect(await server.ask(url, "select version from troupe.schema")).toEqual([{ version: ownVersion() }]);
    });
  });
});
