/** Days of the ledger that are over go, however the server plans the statement that finds them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { openPostgresStore } from "../../../src/store/postgres/store.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";

const dayMs = 86_400_000;

describe.skipIf(!hasPostgres)("days of the ledger", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const loops = { enable_nestloop: "off", enable_indexscan: "off", enable_bitmapscan: "off" };
  test.each([
    ["as it likes", {}],
    ["by reading all tables' names first", loops],
    ["by sorting", { ...loops, enable_hashjoin: "off" }],
  ])("are dropped, the oldest first, where the server plans %s", async (_, settings) => {
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    for (const [setting, value] of Object.entries(settings))
      await server.ask("postgres", `alter database ${name} set ${setting} = ${value}`);
    const store = await openPostgresStore({
      ...{ url, pool: 2, statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 },
    });
    try {
      const start = 20_000 * dayMs;
      await store.ledger.append([0, 1, 2, 3].map((day) => ledgerLine(`req_${day}`, { at: start + day * dayMs })));
      await server.ask(url, "analyze");
      const left = async () =>
        (await store.ledger.lines({ since: 0, until: start * 2, limit: 9 })).map(({ requestId }) => requestId);
      expect(await store.maintenance.removeLedgerDays(start + 2 * dayMs, 1_000)).toBe(1);
      expect(await left()).toEqual(["req_3", "req_2", "req_1"]);
      expect(await store.maintenance.removeLedgerDays(start + 2 * dayMs, 1_000)).toBe(1);
      expect(await store.maintenance.removeLedgerDays(start + 2 * dayMs, 1_000)).toBe(0);
      expect(await left()).toEqual(["req_3", "req_2"]);
    } finally {
      await store.close();
    }
  });
});
