/** Budgets in pools on real servers: PostgreSQL keeps them, Redis counts. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";
import { type PoolTimes, poolTimes } from "../../src/store/budget-pools.ts";
import { openPostgresStore, type PostgresStore } from "../../src/store/postgres/store.ts";
import { openRedisCounter } from "../../src/store/redis/pool-counter.ts";
import type { Reserved } from "../../src/store/store.ts";
import { PooledBudgets } from "../../src/usage/pooled-budgets.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { Random } from "../helpers/random.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";
import { testSeed } from "../helpers/seed.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { SwitchedProxy } from "../helpers/switched-proxy.ts";

const all = { scope: "all", span: "2026-11" };

describe.skipIf(!hasPostgres || !hasRedis)("budgets in pools", () => {
  let postgres: PostgresServer;
  let redis: RedisServer;
  let databases = 0;
  beforeAll(async () => {
    [postgres, redis] = await Promise.all([PostgresServer.start(), RedisServer.start()]);
  }, 60_000);
  afterAll(async () => {
    await redis[Symbol.asyncDispose]();
    await postgres[Symbol.asyncDispose]();
  });

  type Node = { readonly store: PostgresStore; readonly budgets: PooledBudgets; readonly kill: () => void };
  class House implements AsyncDisposable {
    readonly url: string;
    readonly #database = databases++ % 16;
    readonly #opened: (() => Promise<void>)[] = [];
    times: Partial<PoolTimes> = {};
    constructor(url: string) {
      this.url = url;
    }
    async node(counterUrl = this.counter(), url = this.url): Promise<Node> {
      const limits = { pool: 4, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 9 };
      const store = await openPostgresStore({ url, ...limits });
      const counter = openRedisCounter(counterUrl, systemClock, { ...poolTimes, idleMs: 1_000, ...this.times });
      let isDead = false;
      const alive = <A extends unknown[], T>(work: (...args: A) => Promise<T>) => {
        return (...args: A) => (isDead ? Promise.reject(new Error("dead")) : work(...args));
      };
      const poolRepository = {
        ...store.poolRepository,
        account: alive(store.poolRepository.account),
        fill: alive(store.poolRepository.fill),
      };
      const tools = { store: store.budgets, poolRepository, clock: systemClock, log: silentLogger, nodes: () => 2 };
      const budgets = new PooledBudgets({ ...tools, counter: { ...counter, exchange: alive(counter.exchange) } });
      this.#opened.push(async () => {
        await budgets.close();
        await counter.close();
        await store.close();
      });
      const kill = () => {
        isDead = true;
      };
      return { store, budgets, kill };
    }
    counter(port = redis.port): string {
      return redis.url(this.#database, port);
    }
    async row() {
      const text = "select spent::float8, reserved::float8 from troupe.spending where scope = 'all'";
      return (await postgres.ask<{ spent: number; reserved: number }>(this.url, text))[0];
    }
    async [Symbol.asyncDispose]() {
      for (const close of this.#opened) await close();
    }
  }

  /** Makes calls until the budget is spent, and checks at each that it is not overspent. */
  class Callers {
    readonly #limit: number;
    readonly #random: Random;
    /** What was admitted: the most that it may cost, or what it did. */
    taken = 0;
    spent = 0;
    admitted = 0;
    refused = 0;
    failed = 0;
    #calls = 0;
    constructor(limit: number, random: Random) {
      this.#limit = limit;
      this.#random = random;
    }
    async call({ budgets }: Node, amount = 1 + this.#random.below(20_000), lastMs = this.#random.below(30)) {
      this.#calls += 1;
      const id = `${this.#random.seed}-${this.#calls}`;
      let reserved: Reserved;
      try {
        reserved = await budgets.reserve({ id, at: 0, amount, budgets: [{ ...all, limit: this.#limit }] });
      } catch {
        this.failed += 1;
        return;
      }
      if (reserved.refusedBy !== undefined) {
        this.refused += 1;
        return;
      }
      this.admitted += 1;
      this.taken += amount;
      expect(this.taken).toBeLessThanOrEqual(this.#limit);
      await Bun.sleep(lastMs);
      const cost = this.#random.below(amount + 1);
      // It counts from here on, whoever knows of it.
      this.spent += cost;
      this.taken -= amount - cost;
      while (
        !(await budgets.settle(id, cost, 0).then(
          () => true,
          () => false,
        ))
      )
        await Bun.sleep(20);
    }
  }

  test("calls are counted in a pool, and what they cost is in the database within a second", async () => {
    await using house = new House(await postgres.createDatabase());
    const { budgets } = await house.node();
    const limit = 1e9;
    for (let at = 0; at < 50; at += 1) {
      expect(await budgets.reserve({ id: `c${at}`, at: 0, amount: 1_000, budgets: [{ ...all, limit }] })).toEqual({});
    }
    expect(budgets.counts).toMatchObject({ pooled: 50, stored: 0 });
    for (let at = 0; at < 50; at += 1) expect(await budgets.settle(`c${at}`, 300 + at, 0)).toBe(true);
    const from = performance.now();
    while ((await house.row())!.spent < 16_225) await Bun.sleep(5);
    expect(performance.now() - from).toBeLessThan(10_000);
    expect(await house.row()).toMatchObject({ spent: 16_225 });
    while ((await house.row())!.reserved > 0) await Bun.sleep(20);
    expect(await house.row()).toEqual({ spent: 16_225, reserved: 0 });
  }, 60_000);

  const seeds = Array.from({ length: Number(process.env["POOL_RUNS"] ?? 1) }, (_, at) => testSeed + at);
  test.each(seeds)(
    "nodes together spend a budget to its end, and not a micro-dollar more (seed %d)",
    async (seed) => {
      await using house = new House(await postgres.createDatabase());
      const nodes = [await house.node(), await house.node(), await house.node()];
      const limit = 3_000_000;
      const callers = new Callers(limit, new Random(seed));
      await Promise.all(
        Array.from({ length: 24 }, async (_, at) => {
          while (callers.refused < 100) await callers.call(nodes[at % 3]!);
        }),
      );
      await Bun.sleep(50);
      // All of what is left can be had, wherever it lies, and no more.
      const left = limit - callers.spent;
      const ask = (node: Node, id: string, amount: number) =>
        node.budgets.reserve({ id, at: 0, amount, budgets: [{ ...all, limit }] });
      expect((await ask(nodes[0]!, "more", left + 1)).refusedBy).toMatchObject({ spent: callers.spent, reserved: 0 });
      expect(await ask(nodes[1]!, "rest", left)).toEqual({});
      expect((await ask(nodes[2]!, "one", 1)).refusedBy).toMatchObject({ spent: callers.spent, reserved: left });
      expect(await nodes[1]!.budgets.settle("rest", left, 0)).toBe(true);
      expect(nodes.reduce((sum, { budgets }) => sum + budgets.counts.pooled, 0)).toBeGreaterThan(100);
      while ((await house.row())!.spent < limit) await Bun.sleep(10);
      expect(await house.row()).toEqual({ spent: limit, reserved: 0 });
    },
    20_000,
  );

  test.each(seeds)(
    "while ways break, and the counter forgets all, nothing is overspent and every cent is counted (seed %d)",
    async (seed) => {
      await using house = new House(await postgres.createDatabase());
      const random = new Random(seed);
      const ways = Array.from({ length: 3 }, () => new SwitchedProxy(redis.port));
      const paths = Array.from({ length: 3 }, () => new SwitchedProxy(postgres.port));
      using _ways = new DisposableStack();
      for (const one of [...ways, ...paths]) _ways.use(one);
      const name = new URL(house.url).pathname.slice(1);
      const nodes: Node[] = [];
      for (const [at, way] of ways.entries()) {
        nodes.push(await house.node(house.counter(way.port), postgres.url(name, paths[at]!.port)));
      }
      const limit = 5_000_000;
      const callers = new Callers(limit, random);
      let isOver = false;
      const faults: (() => unknown)[] = [
        () => random.pick(ways).cut(),
        () => random.pick(ways).orphan(),
        () => random.pick(paths).cut(),
        async () => {
          const one = random.pick(ways);
          one.hold();
          await Bun.sleep(100 + random.below(500));
          one.release();
        },
        () => redis.ask("FLUSHALL"),
        async () => {
          await redis.stop();
          await redis.run();
        },
      ];
      const breaking = (async () => {
        for (let at = 0; at < 12; at += 1) {
          await Bun.sleep(100 + random.below(150));
          await random.pick(faults)();
        }
        isOver = true;
      })();
      await Promise.all(
        Array.from({ length: 12 }, async (_, at) => {
          while (!isOver) await callers.call(nodes[at % 3]!);
        }),
      );
      await breaking;
      const back = performance.now();
      while (nodes.some(({ budgets }) => !budgets.isPooled)) await Bun.sleep(20);
      expect(performance.now() - back).toBeLessThan(20_000);
      for (const until = performance.now() + 15_000; ; await Bun.sleep(20)) {
        const { spent } = (await house.row())!;
        if (spent === callers.spent) break;
        if (performance.now() > until) expect(spent).toBe(callers.spent);
      }
      // What was lost with the counter is free after its time.
      await Bun.sleep(1_000);
      await postgres.ask(house.url, "update troupe.budget_pools set told_at = told_at - interval '601 seconds'");
      await nodes[0]!.budgets.releaseAbandoned();
      expect(await house.row()).toEqual({ spent: callers.spent, reserved: 0 });
      // Nodes that think of such a pool as theirs spend nothing more of it that others have.
      const ask = (node: Node, id: string, amount: number) =>
        node.budgets.reserve({ id, at: 0, amount, budgets: [{ ...all, limit }] });
      const left = limit - callers.spent;
      expect((await ask(nodes[0]!, "more", left + 1)).refusedBy).toMatchObject({ spent: callers.spent });
    },
    40_000,
  );

  test("what a killed node had spent is counted by another, and what its calls held is free after its time", async () => {
    await using house = new House(await postgres.createDatabase());
    house.times = { lapseMs: 1_500 };
    const [dead, live] = [await house.node(), await house.node()];
    const ask = (node: Node, id: string, amount: number) =>
      node.budgets.reserve({ id, at: 0, amount, budgets: [{ ...all, limit: 1_000_000 }] });
    for (const id of ["a", "b", "c"]) expect(await ask(dead, id, 1_000)).toEqual({});
    await dead.budgets.settle("a", 300, 0);
    // The next call takes it along to the counter.
    await ask(dead, "d", 1);
    dead.kill();
    expect(await ask(live, "e", 1_000)).toEqual({});
    while ((await house.row())!.spent < 300) await Bun.sleep(10);
    expect(await live.budgets.settle("e", 50, 0)).toBe(true);
    const held = async () => (await live.budgets.spending([all]))[0];
    while ((await held())!.reserved !== 2_001) await Bun.sleep(10);
    while ((await house.row())!.reserved > 0) await Bun.sleep(20);
    expect(await house.row()).toEqual({ spent: 350, reserved: 0 });
  }, 60_000);

  test("tokens per minute are exact over nodes, corrected by what was used, and each node's share without the counter", async () => {
    await using house = new House(await postgres.createDatabase());
    using way = new SwitchedProxy(redis.port);
    const nodes = [await house.node(), await house.node(house.counter(way.port))];
    const ask = (node: number, id: string, tokens = 100) =>
      nodes[node]!.budgets.reserve({
        id,
        at: 0,
        amount: 0,
        budgets: [],
        tokens: { key: "k", now: 0, limit: 1_000, tokens },
      });
    // Windows that have just begun go by shares at first.
    while ((await redis.ask("KEYS", "*")) === undefined || nodes.some(({ budgets }) => !budgets.isPooled))
      await Bun.sleep(10);
    for (let at = 0; ; at += 1) {
      await ask(0, `w${at}`, 0);
      await ask(1, `v${at}`, 0);
      const shares = nodes.map(({ budgets }) => budgets.counts.byShare);
      await ask(0, `x${at}`, 0);
      await ask(1, `y${at}`, 0);
      if (
        Bun.deepEquals(
          shares,
          nodes.map(({ budgets }) => budgets.counts.byShare),
        )
      )
        break;
      await Bun.sleep(50);
    }
    const all30 = await Promise.all(Array.from({ length: 30 }, (_, at) => ask(at % 2, `c${at}`)));
    expect(all30.filter(({ tokens }) => tokens!.waitMs === 0).length).toBe(10);
    const first = all30.findIndex(({ tokens }) => tokens!.waitMs === 0);
    expect(await nodes[first % 2]!.budgets.settle(`c${first}`, 0, 40)).toBe(true);
    let last = await ask(0, "more", 60);
    while (last.tokens!.waitMs > 0) last = await ask(0, "more", 60);
    expect(last.tokens).toMatchObject({ used: 1_000 });
    expect((await ask(0, "one", 1)).tokens).toMatchObject({ used: 1_000 });
    way.hold();
    while (nodes[1]!.budgets.isPooled) await ask(1, "lost", 1_000);
    // Half of the limit, and what it admitted of it before counts.
    let admitted = 0;
    for (let at = 0; at < 12; at += 1) if ((await ask(1, `s${at}`)).tokens!.waitMs === 0) admitted += 1;
    const own = all30.filter(({ tokens }, at) => at % 2 === 1 && tokens!.waitMs === 0).length;
    expect(admitted).toBeLessThanOrEqual(Math.max(0, 5 - own) + 1);
    way.release();
    while (!nodes[1]!.budgets.isPooled) await Bun.sleep(10);
    expect((await ask(0, "after", 1)).tokens!.waitMs).toBeGreaterThan(0);
    expect((await ask(1, "after too", 1)).tokens!.waitMs).toBeGreaterThan(0);
  }, 60_000);

  test("a node that was idle while the counter lost all comes back by itself", async () => {
    await using house = new House(await postgres.createDatabase());
    const { budgets } = await house.node();
    const ask = (id: string) =>
      budgets.reserve({ id, at: 0, amount: 0, budgets: [], tokens: { key: "k", now: 0, limit: 9, tokens: 1 } });
    await ask("a");
    expect(budgets.isPooled).toBe(true);
    await redis.stop();
    await ask("b");
    while (budgets.isPooled) await Bun.sleep(5);
    await redis.run();
    const from = performance.now();
    while (!budgets.isPooled) await Bun.sleep(5);
    expect(performance.now() - from).toBeLessThan(15_000);
  }, 60_000);
});
