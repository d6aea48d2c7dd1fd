/** The store's contract on a real server: through a pooler that gives connections to others between two queries, and spoken to directly. */
import { afterAll, beforeAll, describe } from "bun:test";
import { systemClock } from "../../../src/lib/time/clock.ts";
import type { Store } from "../../../src/store/contract/store.ts";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/store.ts";
import { isLongForm } from "../../helpers/long-form.ts";
import { hasPgBouncer, PgBouncer } from "../../helpers/pgbouncer.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";
import { describeStore } from "../contract.ts";

const limits = { statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };

describe.skipIf(!hasPostgres)("with a PostgreSQL server", () => {
  let server: PostgresServer;
  let bouncer: PgBouncer | undefined;
  /** The schema alone, as nobody has written anything yet. */
  let empty: string;
  beforeAll(async () => {
    server = await PostgresServer.start();
    empty = await server.createDatabase();
    await (await openPostgresStore({ url: empty, pool: 1, ...limits }, systemClock, true)).close();
    if (hasPgBouncer) bouncer = await PgBouncer.start(server);
  });
  afterAll(async () => {
    await bouncer?.[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  const databaseBehind = (port: () => number) => async () => {
    const direct = await server.copyDatabase(empty);
    const url = server.url(new URL(direct).pathname.slice(1), port());
    return {
      open: () => openPostgresStore({ url, pool: 4, ...limits }, systemClock, true),
      refresh: (store: Store) => (store as PostgresStore).refresh(),
      async kill(store: Store) {
        const { leaseOwner } = store as PostgresStore;
        await server.ask(direct, "update troupe.lease_owners set lapses_at = 'epoch' where owner = $1", [leaseOwner]);
        await store.close();
      },
      async [Symbol.asyncDispose]() {},
    };
  };
  // Where there is a pooler the suite asks through it, which is the harder way.
  describe.skipIf(hasPgBouncer && !isLongForm)("spoken to directly", () => {
    describeStore(
      "PostgreSQL",
      databaseBehind(() => server.port),
    );
  });
  describe.skipIf(!hasPgBouncer)("behind PgBouncer in transaction mode", () => {
    describeStore(
      "PostgreSQL",
      databaseBehind(() => bouncer!.port),
    );
  });
});
