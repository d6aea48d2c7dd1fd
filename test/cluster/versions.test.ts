/** Two versions of the program on one database, as while nodes are upgraded one by one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { ownVersion } from "../../src/store/postgres/migrations.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { Random } from "../helpers/random.ts";
import { Clients } from "./clients.ts";
import { Cluster, leaseMs } from "./cluster.ts";
import { Database } from "./database.ts";
import { violationsOf } from "./judge.ts";
import { Money } from "./money.ts";

const nextVersion = resolve(import.meta.dir, "next-version.ts");

describe.skipIf(!hasPostgres)("an upgrade node by node", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const versionOf = async (database: Database) => {
    const [row] = await database.ask<{ version: number }>("select version from troupe.schema");
    return row!.version;
  };

  test("both versions serve, share answers and go back, while no call fails", async () => {
    await using database = await Database.on(server);
    await using cluster = await Cluster.start(database, 2);
    const random = new Random(5);
    const clients = new Clients(cluster, random);
    const money = await Money.start(cluster, database, random, 1_000_000);
    let isOver = false;
    // Node 1 is upgraded and taken back; node 0 is of the old version, and serves all the time.
    const working = Array.from({ length: 4 }, async () => {
      while (!isOver) await clients.act([0]);
    });
    const asked = async () => {
      const before = clients.attempts.length;
      while (clients.attempts.length < before + 10) await Bun.sleep(5);
    };
    await asked();
    expect(await versionOf(database)).toBe(ownVersion());
    await cluster.stopNode(1);
    await cluster.startNode(1, nextVersion);
    expect(await versionOf(database)).toBe(ownVersion() + 1);
    await asked();
    for (const work of clients.works.slice(0, 5)) expect(await clients.ask(work, 1)).toBe(true);
    // Calls are joined and resumed over both, and paid from one budget.
    const both = async () => {
      for (let time = 0; time < 5; time += 1) await clients.act([0, 1]);
      await money.act();
    };
    await Promise.all(Array.from({ length: 4 }, both));
    // A program of the old version still starts.
    await cluster.stopNode(1);
    await cluster.startNode(1);
    await asked();
    isOver = true;
    await Promise.all(working);
    for (const work of clients.works.slice(-5)) expect(await clients.ask(work, 1)).toBe(true);
    expect(violationsOf(clients.attempts, cluster.upstream.calls, [], leaseMs)).toEqual([]);
    expect(clients.attempts.filter(({ status }) => status !== 200)).toEqual([]);
    expect(clients.hangs).toEqual([]);
    expect([...money.statuses]).toEqual([[200, 16]]);
    expect(await money.violations()).toEqual([]);
    expect(cluster.upstream.calls.every(({ number }) => number === 1)).toBe(true);
  });

  test("what an older version needs is not taken away before it is told", async () => {
    await using database = await Database.on(server);
    await using cluster = await Cluster.start(database, 1);
    await cluster.stopNode(0);
    await cluster.startNode(0, nextVersion, { SERVES_FROM: String(ownVersion() + 1) });
    await cluster.stopNode(0);
    const refused = await cluster.startNode(0).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(refused).toContain(`was brought to schema ${ownVersion() + 1} by a newer Troupe`);
  });
});
