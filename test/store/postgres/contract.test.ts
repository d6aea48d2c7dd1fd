import { afterAll, beforeAll, describe } from "bun:test";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/store.ts";
import type { Store } from "../../../src/store/store.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";
import { describeStore } from "../contract.ts";

describe.skipIf(!hasPostgres)("with a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  }, 60_000);
  afterAll(() => server[Symbol.asyncDispose]());

  describeStore("PostgreSQL", async () => {
    const url = await server.createDatabase();
    return {
      open: () =>
        openPostgresStore({ url, pool: 4, statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 }),
      refresh: (store) => (store as PostgresStore).refresh(),
      async kill(store: Store) {
        const { holder } = store as PostgresStore;
        await server.ask(url, "update troupe.holders set lapses_at = 'epoch' where holder = $1", [holder]);
        await store.close();
      },
      async [Symbol.asyncDispose]() {},
    };
  }, ["budgets", "audit", "ledger"]);
});
