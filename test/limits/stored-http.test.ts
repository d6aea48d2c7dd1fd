/** Two nodes as their callers see them: one limit, whichever node answers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Clock, systemClock } from "../../src/lib/time/clock.ts";
import { goodForMs } from "../../src/store/contract/windows.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";
import { Troupe } from "../helpers/troupe.ts";

/** Where an answer of the windows is waited for, time passes at a fiftieth of its pace: none is late because the machine has other work. */
const clock: Clock = {
  ...systemClock,
  monotonic: () => systemClock.monotonic() / 50,
  setTimer: (ms, run) => systemClock.setTimer(ms <= goodForMs ? ms * 50 : ms, run),
};
const windowsIn = hasRedis ? ["PostgreSQL", "Redis"] : ["PostgreSQL"];

describe.skipIf(!hasPostgres).each(windowsIn)("two nodes with their windows in %s", (place) => {
  let server: PostgresServer;
  let redis: RedisServer | undefined;
  const nodes: Troupe[] = [];
  beforeAll(async () => {
    server = await PostgresServer.start();
    if (place === "Redis") redis = await RedisServer.start();
    const limits = { pool: 2, statementSeconds: 20, leaseSeconds: 60, keysWithoutDatabaseSeconds: 60 };
    const config = {
      store: { url: await server.createDatabase(), ...limits },
      ...(redis && { coordination: redis.url() }),
    };
    for (let at = 0; at < 2; at += 1) nodes.push(await Troupe.start({ config, clock }));
  });
  afterAll(async () => {
    for (const node of nodes) await node[Symbol.asyncDispose]();
    await redis?.[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  test("a key's requests count together, and headers say what is left", async () => {
    const key = await nodes[0]!.createKey({ name: "k", tier: "enterprise", perMinute: 20 });
    const list = (node: Troupe) => node.fetch("/v1/models", { key });
    const answers: Response[] = [];
    // As many at once as a node has connections for them: more would wait, and none may be late on a busy machine.
    while (answers.length < 60) answers.push(...(await Promise.all([0, 1, 0, 1].map((at) => list(nodes[at]!)))));
    const allowed = answers.filter(({ status }) => status === 200);
    expect(allowed.length).toBe(20);
    for (const { headers } of answers) {
      expect(headers.get("x-ratelimit-limit")).toBe("20");
      expect(Number(headers.get("x-ratelimit-remaining"))).toBeLessThan(20);
    }
    const refused = answers.find(({ status }) => status === 429)!;
    expect(refused.headers.get("x-ratelimit-remaining")).toBe("0");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ error: { code: "rate_limit_exceeded" } });
  });

  test("health and metrics tell how many nodes share the limits", async () => {
    const checks = async () => ((await (await nodes.at(-1)!.fetch("/health")).json()) as { checks: object }).checks;
    while (!Bun.deepEquals(((await checks()) as { rate_limits: unknown }).rate_limits, { status: "ok", nodes: 2 })) {
      await Bun.sleep(20);
    }
    const metrics = await (await nodes.at(-1)!.fetch("/metrics")).text();
    expect(metrics).toMatch(/^troupe_limit_nodes 2$/m);
    expect(metrics).toMatch(/^troupe_limit_shared 1$/m);
    expect(metrics).toMatch(/^troupe_limit_share_decisions_total 0$/m);
  });

  test.skipIf(place !== "Redis")(
    "a server that was made a replica is told in health, and found again once it is none",
    async () => {
      const health = async () =>
        (await (await nodes.at(-1)!.fetch("/health")).json()) as { status: string; checks: { rate_limits: unknown } };
      const failing = {
        status: "failing",
        message: "The windows of all nodes take no writes, as on a replica: this node admits its share of each limit.",
        nodes: 2,
      };
      await redis!.ask("REPLICAOF", "127.0.0.1", "1");
      while (!Bun.deepEquals((await health()).checks.rate_limits, failing)) await Bun.sleep(20);
      expect((await health()).status).toBe("degraded");
      expect(await (await nodes.at(-1)!.fetch("/metrics")).text()).toMatch(/^troupe_limit_shared 0$/m);
      await redis!.ask("REPLICAOF", "NO", "ONE");
      while ((await health()).status !== "ok") await Bun.sleep(20);
    },
  );
});
