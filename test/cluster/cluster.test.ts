/** Three nodes on one PostgreSQL server, under faults. The long form: `bun test/cluster/chaos.ts --seed 7 --minutes 2`. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { asFarAsItCame } from "../helpers/broken-stream.ts";
import { longTest } from "../helpers/long-form.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { Random } from "../helpers/random.ts";
import { hasRedis } from "../helpers/redis.ts";
import { chaos, finish } from "./chaos.ts";
import { Clients } from "./clients.ts";
import { Cluster, leaseMs, now } from "./cluster.ts";
import { Database } from "./database.ts";
import type { FaultWindow } from "./history.ts";
import { violationsOf } from "./judge.ts";

describe.skipIf(!hasPostgres)("a cluster on PostgreSQL", () => {
  longTest(
    "kills, pauses, cuts and a restarted database: nothing is called twice, lost, mixed, stuck or overspent",
    async () => {
      const options = { hasCoordination: hasRedis, hasOfficialClients: Bun.which("haproxy") !== null };
      const { violations, completed, upstreamCalls } = await chaos(2, 7, options);
      expect(violations).toEqual([]);
      expect(completed).toBeGreaterThan(upstreamCalls);
    },
  );

  longTest(
    "a database that fails over to its standby: what was answered is still known, and nothing is called twice",
    async () => {
      await using database = await Database.start({ hasStandby: true });
      await using cluster = await Cluster.start(database, 2);
      const random = new Random(3);
      const clients = new Clients(cluster, random);
      const windows: FaultWindow[] = [];
      let isOver = false;
      const working = Array.from({ length: 4 }, async () => {
        while (!isOver) await clients.act();
      });
      const answered = async (more: number) => {
        const count = () => clients.attempts.filter(({ isComplete }) => isComplete).length;
        for (const before = count(); count() < before + more; ) await Bun.sleep(5);
      };
      for (const isSilent of [true, false]) {
        await answered(8);
        const window: FaultWindow = {
          of: "database",
          node: -1,
          kind: "fail-over",
          from: now(),
          to: Number.POSITIVE_INFINITY,
        };
        windows.push(window);
        await database.failOver(isSilent);
        window.to = now();
        if (isSilent) await database.follow();
      }
      await answered(8);
      isOver = true;
      await Promise.all(working);
      const unfinished = await finish(clients, cluster.nodes.length, random);
      const violations = violationsOf(clients.attempts, cluster.upstream.calls, windows, leaseMs);
      expect([...violations, ...clients.hangs, ...unfinished]).toEqual([]);
      expect(cluster.upstream.calls.length).toBeGreaterThanOrEqual(clients.works.length);
    },
  );
});

describe.skipIf(!hasPostgres)("a node that can't store an answer", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const ask = async (cluster: Cluster, node: number, stream: boolean) => {
    const answer = await fetch(`${cluster.nodes[node]!.url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${cluster.key}`,
        "content-type": "application/json",
        "service-request-id": "a",
      },
      body: JSON.stringify({ model: "up/m", stream, messages: [{ role: "user", content: "a 2 300" }] }),
    });
    return asFarAsItCame(answer);
  };

  for (const stream of [false, true]) {
    test(`does not give its end beyond the lease; the retry gets it${stream ? ", streamed" : ""}`, async () => {
      await using database = await Database.on(server);
      await using cluster = await Cluster.start(database, 2);
      const [proxy] = cluster.proxies;
      const asking = ask(cluster, 0, stream);
      while (cluster.upstream.count("a") === 0) await Bun.sleep(5);
      proxy!.hold();
      const first = await asking;
      expect(await first.text()).toContain('"storage_unavailable"');
      expect(first.status).toBe(stream ? 200 : 503);
      proxy!.release();
      let again = await ask(cluster, 0, stream);
      while (again.status === 503) again = await ask(cluster, 0, stream);
      const text = await again.text();
      expect(text).toContain("a#1.0;");
      expect(await (await ask(cluster, 1, stream)).text()).toBe(text);
      expect(cluster.upstream.count("a")).toBe(1);
    });
  }
});
