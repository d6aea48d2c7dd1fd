/** Reports of the ledger whose reader leaves: the database stops to read them. */
import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const serve = ({ config, ...options }: TroupeOptions = {}) =>
  Troupe.start({ ...options, surfaces: ["orchestrator", "gateway", "admin"], config: { listen, ...config } });

const end = Date.now();
const hour = 3_600_000;
/** Lines of as many hours and kinds. @param from number of the first */
const lines = (count: number, from = 0) =>
  Array.from({ length: count }, (_, place) => {
    const at = from + place;
    return ledgerLine(`req_${at}`, { at: end - ((at % 200) + 1) * hour, keyId: `key_${at}`, model: `m/${at % 20}` });
  });

const since = `since=${new Date(end - 300 * hour).toISOString()}`;
const questions = [
  ["sums", `/admin/v1/usage?${since}&by=key`],
  ["a key's sums", `/v1/usage?${since}`],
  ["a page of lines", `/admin/v1/calls?${since}`],
  ["a page of lines with a filter", `/admin/v1/calls?${since}&model=m/3`],
] as const;

/** Asks in order that it be left. */
function ask(troupe: Troupe, path: string) {
  const leaving = new AbortController();
  const left = troupe.fetch(path, { signal: leaving.signal }).then(
    ({ status }) => status,
    (error: Error) => error.name,
  );
  return { leave: () => leaving.abort(), left };
}

describe.skipIf(!hasPostgres)("on a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test.each(questions)("%s: the statement is cancelled", async (_, path) => {
    const url = await server.createDatabase();
    // Nothing but a cancel ends a statement here within the test.
    const store = { url, pool: 4, statementSeconds: 600, leaseSeconds: 60, keysWithoutDatabaseSeconds: 60 };
    await using troupe = await serve({ config: { store } });
    await troupe.server.services.store.ledger.append(lines(10));
    /** Statements that wait for the table. */
    const running = () =>
      server.ask<{ pid: number }>(
        url,
        `select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
           and state = 'active' and wait_event_type = 'Lock'`,
      );
    const until = async (count: number) => {
      while ((await running()).length !== count) await Bun.sleep(10);
    };
    await using blocker = new Bun.SQL(url, { max: 1 });
    await blocker.begin(async (sql) => {
      await sql.unsafe("lock table troupe.ledger, troupe.ledger_hours in access exclusive mode");
      const reports = [ask(troupe, path), ask(troupe, path)];
      await until(2);
      reports[0]!.leave();
      await until(1);
      expect(await reports[0]!.left).toBe("AbortError");
      reports[1]!.leave();
      await until(0);
    });
    // Both connections serve the next ones.
    expect((await troupe.fetch(path)).status).toBe(200);
  });
});

describe("on SQLite", () => {
  let troupe: Troupe;
  beforeAll(async () => {
    troupe = await serve();
    // So many that the server hears of the leaving long before the last slice.
    for (let from = 0; from < 48_000; from += 6_000)
      await troupe.server.services.store.ledger.append(lines(6_000, from));
  });
  afterAll(() => troupe[Symbol.asyncDispose]());
  afterEach(() => {
    spyOn(Database.prototype, "query").mockRestore();
  });

  const reads = questions.filter(([name]) => name !== "a page of lines");
  test.each(reads)("%s: no more slices are read", async (_, path) => {
    const { services } = troupe.server;
    const idle = async () => {
      while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
    };
    let count = 0;
    let leaveAt = Number.POSITIVE_INFINITY;
    let leave = () => {};
    const { query } = Database.prototype;
    spyOn(Database.prototype, "query").mockImplementation(function (this: Database, sql: string) {
      if (/\bledger(_hours|_days|_groups)?\b/.test(sql) && ++count === leaveAt) leave();
      return query.call(this, sql);
    } as typeof query);
    expect((await troupe.fetch(path)).status).toBe(200);
    await idle();
    const whole = count;
    count = 0;
    leaveAt = 2;
    const report = ask(troupe, path);
    leave = report.leave;
    expect(await report.left).toBe("AbortError");
    await idle();
    expect(whole).toBeGreaterThan(6);
    expect(count).toBeLessThan(whole);
  });
});
