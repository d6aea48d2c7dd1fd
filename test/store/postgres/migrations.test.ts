/** How the schema is brought forward while others use the database. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { systemClock } from "../../../src/lib/clock.ts";
import { type MigrationOptions, migrate, type Step, steps } from "../../../src/store/postgres/migrations.ts";
import { openPool } from "../../../src/store/postgres/store.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";

const next: readonly Step[] = [...steps, { sql: "alter table troupe.keys add column note text" }];

/** Brings a database forward on a connection of its own, as a start does. */
async function forward(url: string, options: MigrationOptions): Promise<void> {
  const settings = { url, pool: 2, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
  const pool = await openPool(settings, systemClock, { deadlineMs: 60_000, use: "long" });
  await migrate(pool, "test", options).finally(() => pool.close());
}

describe.skipIf(!hasPostgres)("bringing the schema forward while a table is held, as by a dump", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  }, 60_000);
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

  test("it waits briefly, lets others through, and comes to its end once the table is free", async () => {
    await whileHeld(async (url, letGo) => {
      const told: string[] = [];
      const isRefused = Promise.withResolvers<void>();
      const tell = (words: string) => {
        told.push(words);
        if (words.startsWith("others hold a table")) isRefused.resolve();
      };
      const migrating = forward(url, { known: next, lockMs: 300, tell });
      let isDone = false;
      const reading = (async () => {
        let slowest = 0;
        while (!isDone) {
          const startedAt = performance.now();
          await server.ask(url, "select count(*) from troupe.keys");
          slowest = Math.max(slowest, performance.now() - startedAt);
        }
        return slowest;
      })();
      await isRefused.promise;
      letGo();
      await migrating.finally(() => {
        isDone = true;
      });
      // With the wait of the step for its lock, and nothing of the minute it may go on.
      expect(await reading).toBeLessThan(20_000);
      expect(told[0]).toBe(`step ${next.length} of ${next.length}`);
      expect(told).toContain("others hold a table (a dump, say): tried again for 300 s");
      expect(await server.ask(url, "select version from troupe.schema")).toEqual([{ version: next.length }]);
      expect(await server.ask(url, "select note from troupe.keys")).toEqual([]);
    });
  }, 60_000);

  test("it gives up after the time that it says, and leaves the schema as it was", async () => {
    await whileHeld(async (url) => {
      const migrating = forward(url, { known: next, lockMs: 50, goOnMs: 200 });
      await expect(migrating).rejects.toMatchObject({
        kind: "busy",
        message: `The database test could not be brought to schema ${next.length} within 0.2 s, as others hold its tables (a dump, a report): let them end, and start again.`,
      });
      expect(await server.ask(url, "select version from troupe.schema")).toEqual([{ version: steps.length }]);
    });
  }, 60_000);
});
