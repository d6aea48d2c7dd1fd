/** The counter of pools of money on a real server: what an exchange does, and does not do twice. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/lib/clock.ts";
import type {
  CounterCall,
  CounterExchange,
  CounterReply,
  PoolCounter,
  PoolTimes,
  PoolWord,
} from "../../../src/store/budget-pools.ts";
import { openRedisCounter } from "../../../src/store/redis/pool-counter.ts";
import { hasRedis, RedisServer } from "../../helpers/redis.ts";

const times: PoolTimes = { lapseMs: 600_000, goodMs: 300_000, idleMs: 60_000 };

describe.skipIf(!hasRedis)("the counter of pools in Redis", () => {
  let server: RedisServer;
  const opened: PoolCounter[] = [];
  beforeAll(async () => {
    server = await RedisServer.start();
  }, 60_000);
  afterAll(async () => {
    for (const one of opened) await one.close();
    await server[Symbol.asyncDispose]();
  });

  /** A node that numbers its exchanges, and can send the last one again. */
  class Node {
    readonly #counter: PoolCounter;
    readonly #name: string;
    #number = 0;
    last!: CounterExchange;
    constructor(name: string, changes: Partial<PoolTimes> = {}) {
      this.#counter = openRedisCounter(server.url(), systemClock, { ...times, ...changes });
      opened.push(this.#counter);
      this.#name = name;
    }
    again = () => this.#counter.exchange(this.last);
    async tell(parts: Partial<CounterExchange> = {}): Promise<CounterReply | "lapsed"> {
      this.#number += 1;
      const empty = { isNew: false, pools: [], windows: [], calls: [] };
      this.last = { node: this.#name, number: this.#number, ...empty, ...parts };
      return this.again();
    }
    async ask(parts: Partial<CounterExchange> = {}): Promise<CounterReply> {
      const reply = await this.tell(parts);
      if (reply === "lapsed") throw new Error("lapsed");
      return reply;
    }
  }
  const word = (pool: string, changes: Partial<PoolWord> = {}): PoolWord => ({ pool, spent: 0, held: 0, ...changes });
  const call = (amount: number, ...pools: number[]): CounterCall => ({ amount, pools: pools.length > 0 ? pools : [0] });
  const kinds = ({ calls }: CounterReply) => calls.map(({ kind }) => kind);
  const tokens = (key: string, limit: number, changes: object = {}) => ({
    key,
    limit,
    uses: [],
    fixes: [],
    ...changes,
  });

  async function withPool(pool: string, granted = 100, names = ["n1", "n2"]) {
    await server.ask("FLUSHALL");
    const nodes = names.map((name) => new Node(name));
    for (const node of nodes) expect(await node.tell({ isNew: true })).toMatchObject({ pools: [], calls: [] });
    const { now } = await nodes[0]!.ask();
    await nodes[0]!.ask({ pools: [word(pool, { install: { at: now, granted, limit: 1_000, step: 20 } })] });
    return { one: nodes[0]!, two: nodes[1]!, now };
  }

  test("an exchange that comes twice counts once and is answered the same, and one that was overtaken does nothing", async () => {
    const { one, two } = await withPool("p");
    const first = await one.ask({ pools: [word("p", { limit: 1_000 })], calls: [call(60), call(60), call(30)] });
    expect(kinds(first)).toEqual(["reserved", "short", "reserved"]);
    expect(await one.again()).toEqual(first);
    const old = one.last;
    expect(kinds(await two.ask({ pools: [word("p")], calls: [call(11), call(10), call(0)] }))).toEqual([
      "short",
      "reserved",
      "short",
    ]);
    // The 30 ended with 5: 25 are free again.
    const settled = await one.ask({ pools: [word("p", { spent: 5, held: 60 })] });
    expect(settled.pools[0]).toMatchObject({ isOpen: true, granted: 100, isRecorded: false });
    one.last = old;
    expect(await one.again()).toBe("lapsed");
    expect(kinds(await two.ask({ pools: [word("p", { held: 10 })], calls: [call(26), call(25)] }))).toEqual([
      "short",
      "reserved",
    ]);
  });

  test("a call counts in all of its pools and its window, or in none", async () => {
    const { one, now } = await withPool("a");
    const install = { at: now, granted: 10, limit: 1_000, step: 2 };
    const pools = [word("a"), word("b", { install }), word("c")];
    const windows = [tokens("k", 100)];
    const reply = await one.ask({
      pools,
      windows,
      calls: [
        { ...call(8, 0, 1), window: 0, tokens: 101 },
        { ...call(11, 0, 1), window: 0, tokens: 5 },
        { ...call(8, 0, 2), window: 0, tokens: 5 },
        { ...call(10, 0, 1), window: 0, tokens: 60 },
        { ...call(90, 0), window: 0, tokens: 41 },
        { ...call(90, 0), window: 0, tokens: 40 },
      ],
    });
    expect(reply.calls).toMatchObject([
      { kind: "tokens", window: { used: 0, emptyMs: 0, waitMs: Number.POSITIVE_INFINITY } },
      { kind: "short", pool: 1 },
      { kind: "gone", pool: 2 },
      { kind: "reserved", window: { used: 60, waitMs: 0 } },
      { kind: "tokens", window: { used: 60 } },
      { kind: "reserved", window: { used: 100 } },
    ]);
    expect(reply.pools[2]).toBeUndefined();
    // A call that used less: what is corrected is found where it was counted.
    const { at } = (reply.calls[3] as { window: { at: number } }).window;
    const fixed = await one.ask({
      windows: [tokens("k", 100, { fixes: [[at, -50]] })],
      calls: [{ ...call(0), pools: [], window: 0, tokens: 50 }],
    });
    expect(fixed.calls).toMatchObject([{ kind: "reserved", window: { used: 100 } }]);
    const told = await one.ask({
      windows: [
        tokens("k", 200, {
          uses: [
            [30_000, 40],
            [61_000, 7],
          ],
        }),
      ],
      calls: [{ ...call(0), pools: [], window: 0, tokens: 61 }],
    });
    expect(told.calls).toMatchObject([{ kind: "tokens", window: { used: 140 } }]);
    const { waitMs } = (told.calls[0] as { window: { waitMs: number } }).window;
    // Until the oldest is over.
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThan(30_700);
  });

  test("what was spent is given out to be told until the database knows it, and the last account is of all", async () => {
    const { one, two } = await withPool("p");
    await one.ask({ pools: [word("p")], calls: [call(10)] });
    const { pools, now } = await one.ask({ pools: [word("p", { spent: 7 })] });
    expect(pools[0]!.due).toEqual({ sums: { n1: 7 }, returned: 0, held: 0, isEnded: false });
    // Whoever was given it may be gone: another looks.
    const looked = await two.ask({ pools: [word("p", { look: true })] });
    expect(looked.pools[0]!.due!.sums).toEqual({ n1: 7 });
    const recorded = { at: now, sums: { n1: 7 }, returned: 0, isEnded: false };
    expect((await two.ask({ pools: [word("p", { recorded })] })).pools[0]).toMatchObject({ isRecorded: true });
    expect((await one.ask({ pools: [word("p", { spent: 7 })] })).pools[0]).toMatchObject({ isRecorded: true });
    await two.ask({ pools: [word("p")], calls: [call(20)] });
    const closed = await one.ask({ pools: [word("p", { spent: 7, close: true, look: true })], calls: [call(1)] });
    expect(kinds(closed)).toEqual(["gone"]);
    expect(closed.pools[0]).toMatchObject({ isOpen: false, due: { sums: {}, returned: 73, held: 20, isEnded: false } });
    const ended = await two.ask({ pools: [word("p", { spent: 30, look: true })] });
    // More than was reserved: nothing is left of what was not given back.
    expect(ended.pools[0]!.due).toEqual({ sums: { n1: 7, n2: 30 }, returned: 73, held: 0, isEnded: true });
    const end = { at: ended.now, sums: { n1: 7, n2: 30 }, returned: 73, isEnded: true };
    expect((await two.ask({ pools: [word("p", { spent: 30, recorded: end })] })).pools[0]).toBeUndefined();
    expect((await one.ask({ pools: [word("p", { spent: 7 })] })).pools[0]).toBeUndefined();
  });

  test("what a node held that says nothing any more is given back, and it begins anew", async () => {
    await server.ask("FLUSHALL");
    const dead = new Node("dead", { lapseMs: 150 });
    const live = new Node("live");
    await dead.ask({ isNew: true });
    const { now } = await live.ask({ isNew: true });
    await live.ask({ pools: [word("p", { install: { at: now, granted: 100, limit: 1_000, step: 1 } })] });
    await dead.ask({ pools: [word("p", { spent: 4 })], calls: [call(90)] });
    expect(kinds(await live.ask({ pools: [word("p", { look: true })], calls: [call(7)] }))).toEqual(["short"]);
    while (
      ((await server.ask("KEYS", "*node:dead")) as string[]) &&
      ((await server.ask("KEYS", "*node:dead")) as string[]).length > 0
    ) {
      await Bun.sleep(10);
    }
    await live.ask({ pools: [word("p", { look: true })] });
    expect(kinds(await live.ask({ pools: [word("p")], calls: [call(97), call(96)] }))).toEqual(["short", "reserved"]);
    expect(await dead.tell({ pools: [word("p", { held: 90 })] })).toBe("lapsed");
  });

  test("a lower limit, and silence of the database, close a pool", async () => {
    const { one } = await withPool("p");
    expect(kinds(await one.ask({ pools: [word("p", { limit: 999 })], calls: [call(1)] }))).toEqual(["gone"]);
    const hasty = new Node("hasty", { goodMs: 50 });
    const { now } = await hasty.ask({ isNew: true });
    await hasty.ask({ pools: [word("q", { install: { at: now, granted: 10, limit: 9, step: 1 } })] });
    let reply = await hasty.ask({ pools: [word("q")] });
    while (reply.pools[0]!.isOpen) reply = await hasty.ask({ pools: [word("q")] });
    expect(reply.now).toBeGreaterThanOrEqual(now + 50);
  });

  test("an old copy of the data, after a restart, admits nothing", async () => {
    const folder = server.folder.path;
    const keeping = await RedisServer.start();
    const counter = openRedisCounter(keeping.url(), systemClock, times);
    try {
      const tell = (number: number, parts: Partial<CounterExchange>) =>
        counter.exchange({ node: "n", number, isNew: false, pools: [], windows: [], calls: [], ...parts });
      const first = (await tell(1, { isNew: true })) as CounterReply;
      const install = { at: first.now, granted: 100, limit: 1_000, step: 1 };
      await tell(2, { pools: [word("p", { install })] });
      await keeping.ask("SAVE");
      expect(kinds((await tell(3, { pools: [word("p")], calls: [call(100)] })) as CounterReply)).toEqual(["reserved"]);
      await keeping.stop();
      await keeping.run();
      expect(folder).not.toBe(keeping.folder.path);
      expect((await keeping.ask("DBSIZE")) as number).toBeGreaterThan(0);
      let reply: CounterReply | "lapsed" | undefined;
      while (reply === undefined)
        reply = await tell(4, { pools: [word("p")], calls: [call(50)] }).catch(() => undefined);
      expect(reply).toBe("lapsed");
      const anew = (await tell(5, { isNew: true })) as CounterReply;
      expect(anew.epoch).not.toBe(first.epoch);
      expect(kinds((await tell(6, { pools: [word("p")], calls: [call(50)] })) as CounterReply)).toEqual(["gone"]);
    } finally {
      await counter.close();
      await keeping[Symbol.asyncDispose]();
    }
  });
});
