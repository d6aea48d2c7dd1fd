/** Pools of money on a real server. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { PoolAccount } from "../../../src/store/budget-pools.ts";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/store.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";
import { Random } from "../../helpers/random.ts";

const all = { scope: "all", span: "2026-11" };
const ask = (upTo: number, pool: string | null, fresh: string, limit = 1_000) => ({
  ...all,
  limit,
  needs: 10,
  pool,
  upTo,
  fresh,
});
const call = (id: string, amount: number, limit = 1_000) => ({ id, at: 0, amount, budgets: [{ ...all, limit }] });
const account = (pool: string, changes: Partial<PoolAccount> = {}): PoolAccount => ({ pool, sums: {}, ...changes });

describe.skipIf(!hasPostgres)("pools of money in PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  }, 60_000);
  afterAll(() => server[Symbol.asyncDispose]());

  const on = (what: string, work: (store: PostgresStore, url: string) => Promise<void>) =>
    test(what, async () => {
      const url = await server.createDatabase();
      const limits = { pool: 4, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 9 };
      const store = await openPostgresStore({ url, ...limits });
      await using _closing = { [Symbol.asyncDispose]: () => store.close() };
      await work(store, url);
    }, 60_000);
  const rowOf = async (url: string) =>
    (
      await server.ask<{ spent: number; reserved: number }>(
        url,
        "select spent::float8, reserved::float8 from troupe.spending",
      )
    )[0];

  on(
    "a pool is opened once, filled by half of what is free, and never past the limit",
    async ({ poolRepository }, url) => {
      expect(await poolRepository.fill([ask(300, null, "a")])).toEqual([{ pool: "a", granted: 300, isNew: true }]);
      // Sent again, and by a node that does not know it yet.
      expect(await poolRepository.fill([ask(300, null, "a")])).toEqual([{ pool: "a", granted: 300, isNew: true }]);
      expect(await poolRepository.fill([ask(500, null, "b")])).toEqual([{ pool: "a", granted: 300, isNew: false }]);
      expect(await poolRepository.fill([ask(500, "a", "c")])).toEqual([{ pool: "a", granted: 500, isNew: false }]);
      expect(await poolRepository.fill([ask(500, "a", "c")])).toEqual([{ pool: "a", granted: 500, isNew: false }]);
      // Half of the 500 that are free, and so on, until it is not worth it.
      const grants: (number | undefined)[] = [];
      for (let at = 0; at < 6; at += 1) grants.push((await poolRepository.fill([ask(9_999, "a", "c")]))[0]?.granted);
      expect(grants).toEqual([750, 875, 937, 968, 984, undefined]);
      expect(await rowOf(url)).toEqual({ spent: 0, reserved: 984 });
      expect(await poolRepository.fill([{ ...ask(50, null, "d"), span: "2026-12", limit: 19 }])).toEqual([null]);
    },
  );

  on(
    "sums count once however often they are told, and what is given back is free",
    async ({ poolRepository, budgets }, url) => {
      await poolRepository.fill([ask(400, null, "a")]);
      const told = [account("a", { sums: { n1: 30, n2: 5 }, held: 60 })];
      for (let at = 0; at < 2; at += 1) expect(await poolRepository.account(told)).toEqual(["open"]);
      await poolRepository.account([account("a", { sums: { n1: 20, n3: 1 } })]);
      expect(await rowOf(url)).toEqual({ spent: 36, reserved: 364 });
      // What calls hold is shown, and not what is free in the pool.
      expect(await budgets.spending([all])).toEqual([{ ...all, spent: 36, reserved: 60 }]);
      const { refusedBy } = await budgets.reserve(call("r", 700));
      expect(refusedBy).toMatchObject({ spent: 36, reserved: 364, pools: [{ pool: "a" }] });
      expect(refusedBy!.pools![0]!.quietMs).toBeLessThan(30_000);
      expect(await poolRepository.account([account("a", { isClosed: true, returned: 304 })])).toEqual(["closed"]);
      expect(await rowOf(url)).toEqual({ spent: 36, reserved: 60 });
      // A closed one is not filled: there is a new one.
      expect(await poolRepository.fill([ask(900, "a", "b")])).toEqual([{ pool: "b", granted: 452, isNew: true }]);
      expect(await poolRepository.account([account("a", { sums: { n1: 90 }, isEnded: true }), account("x")])).toEqual([
        "ended",
        "unknown",
      ]);
      expect(await rowOf(url)).toEqual({ spent: 96, reserved: 452 });
      // Later than the end, it counts all the same, and once; the end itself may come again.
      for (let at = 0; at < 2; at += 1)
        await poolRepository.account([account("a", { sums: { n2: 7 }, isClosed: true })]);
      expect(await rowOf(url)).toEqual({ spent: 98, reserved: 452 });
      expect(await poolRepository.fill([ask(50, null, "a")])).toEqual([{ pool: "b", granted: 452, isNew: false }]);
    },
  );

  on(
    "a pool that the counter lost is closed, but not while it may be on its way there",
    async ({ poolRepository, budgets }, url) => {
      await poolRepository.fill([ask(400, null, "a")]);
      expect(await poolRepository.account([account("a", { isLost: true })])).toEqual(["open"]);
      expect(await budgets.spending([all])).toEqual([{ ...all, spent: 0, reserved: 0 }]);
      await server.ask(url, "update troupe.budget_pools set opened_at = opened_at - interval '3 seconds'");
      expect(await poolRepository.account([account("a", { isLost: true })])).toEqual(["closed"]);
      // Nobody can have it until it ends.
      expect(await budgets.spending([all])).toEqual([{ ...all, spent: 0, reserved: 400 }]);
      expect(await rowOf(url)).toEqual({ spent: 0, reserved: 400 });
      expect(await poolRepository.endLapsed()).toBe(0);
      await server.ask(url, "update troupe.budget_pools set told_at = told_at - interval '601 seconds'");
      expect(await poolRepository.quiet(600_000)).toEqual(["a"]);
      expect(await poolRepository.endLapsed()).toBe(1);
      expect(await poolRepository.endLapsed()).toBe(0);
      expect(await rowOf(url)).toEqual({ spent: 0, reserved: 0 });
      expect(await poolRepository.account([account("a", { sums: { n1: 12 } })])).toEqual(["ended"]);
      expect(await rowOf(url)).toEqual({ spent: 12, reserved: 0 });
      await server.ask(url, "update troupe.budget_pools set told_at = told_at - interval '25 hours'");
      await poolRepository.endLapsed();
      expect(
        await server.ask(url, "select pool from troupe.pool_sums union select pool from troupe.budget_pools"),
      ).toEqual([]);
    },
  );

  on(
    "whatever comes at once or twice, no more is reserved than there is, and every cent is counted",
    async (store, url) => {
      const { poolRepository, budgets } = store;
      const random = new Random(14);
      const limit = 100_000;
      const spent = new Map<string, number>();
      let plain = 0;
      const worker = async (node: string) => {
        for (let at = 0; at < 40; at += 1) {
          const id = `${node}-${at}`;
          const twice = async <T>(work: () => Promise<T>) => {
            const first = await work();
            return random.below(3) === 0 ? await work() : first;
          };
          const [grant] = await twice(() => poolRepository.fill([ask(500 * (at + 1), null, id, limit)]));
          if (grant != null) {
            const name = `${grant.pool} ${node}`;
            const cost = random.below(100);
            spent.set(name, (spent.get(name) ?? 0) + cost);
            const closing = random.below(4) === 0;
            await twice(() =>
              poolRepository.account([account(grant.pool, { sums: { [node]: spent.get(name)! }, isClosed: closing })]),
            );
            if (closing) await poolRepository.account([account(grant.pool, { isEnded: true })]);
          }
          const { refusedBy } = await twice(() => budgets.reserve(call(id, 90, limit)));
          if (refusedBy === undefined) {
            plain += 7;
            await budgets.settle(id, 7, 0);
          }
          const row = (await rowOf(url))!;
          expect(row.spent + row.reserved).toBeLessThanOrEqual(limit);
        }
      };
      await Promise.all(["n1", "n2", "n3", "n4"].map(worker));
      const [open] = await poolRepository.quiet(0);
      if (open !== undefined) await poolRepository.account([account(open, { isEnded: true })]);
      const sum = [...spent.values()].reduce((total, one) => total + one, 0);
      expect(await rowOf(url)).toEqual({ spent: sum + plain, reserved: 0 });
    },
  );
});
