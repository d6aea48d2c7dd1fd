/** The limiter of a node among a few; test/simulation has many of them under faults. */
import { describe, expect, test } from "bun:test";
import type { Clock } from "../../src/lib/clock.ts";
import { ClusterLimiter } from "../../src/limits/cluster-limiter.ts";
import type { SharedWindows } from "../../src/store/shared-windows.ts";
import { StorageError } from "../../src/store/storage-error.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { ModelWindows } from "../helpers/model-windows.ts";
import { silentLogger } from "../helpers/silent-logger.ts";

const times = { windowMs: 60_000, leaseMs: 10_000 };

/** Nodes that share one model of the store, and another that counts them. */
class Cluster {
  readonly time = new ManualClock();
  readonly model = new ModelWindows(() => this.time.now() + 1_234_500, times);
  readonly counting = new ModelWindows(() => this.time.now(), times);
  areWindowsAway = false;
  isCounterAway = false;

  async add(): Promise<Node> {
    const node = new Node(this);
    await this.until(node.limiter.start());
    return node;
  }

  /** Lets time pass until it has come. */
  async until<T>(promise: Promise<T> | T): Promise<T> {
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    Promise.resolve(promise).then(end, end);
    do await this.pass(1);
    while (!isOver);
    return promise;
  }

  pass(ms: number): Promise<void> {
    return this.time.advanceSlowly(ms);
  }
}

class Node {
  readonly limiter: ClusterLimiter;
  /** No timer runs. */
  isPaused = false;

  constructor(cluster: Cluster) {
    const { time, model, counting } = cluster;
    const setTimer = (ms: number, run: () => void): (() => void) => {
      let cancel = time.setTimer(ms, () => {
        if (this.isPaused) cancel = setTimer(100, run);
        else run();
      });
      return () => cancel();
    };
    const clock: Clock = {
      now: () => time.now() + 300_000,
      monotonic: () => time.monotonic(),
      newId: () => time.newId(),
      setTimer,
    };
    const windows = reached(model, () => cluster.areWindowsAway);
    const counter = reached(counting, () => cluster.isCounterAway);
    this.limiter = new ClusterLimiter({ windows, counter, clock, log: silentLogger, place: "model", times });
  }

  /** @returns whether it is admitted */
  async hit(caller: string, limit: number): Promise<boolean> {
    return (await this.limiter.hit(caller, limit)).allowed;
  }
}

/** Windows that reject while they are away. */
function reached(windows: SharedWindows, isAway: () => boolean): SharedWindows {
  const unlessAway = async <T>(work: () => Promise<T>): Promise<T> => {
    if (isAway()) throw new Error("no answer in time");
    return work();
  };
  return {
    beat: (node, isNew, counts) => unlessAway(() => windows.beat(node, isNew, counts)),
    exchange: (node, asks) => unlessAway(() => windows.exchange(node, asks)),
    leave: (node) => unlessAway(() => windows.leave(node)),
    tidy: async () => {},
    close: async () => {},
  };
}

const decided = async (decision: unknown) =>
  decision as { allowed: boolean; remaining: number; retryAfterSeconds: number };

describe("a node", () => {
  const lone = async () => {
    const cluster = new Cluster();
    const node = await cluster.add();
    return { cluster, node, hit: (limit = 100) => node.limiter.hit("a", limit) };
  };

  test("asks the store for the first request of a caller, and then decides at once", async () => {
    const { hit } = await lone();
    const first = hit();
    expect(first).toBeInstanceOf(Promise);
    expect(await first).toMatchObject({ allowed: true, limit: 100, remaining: 99, retryAfterSeconds: 0 });
    expect(hit()).toMatchObject({ allowed: true, remaining: 98 });
  });

  test("asks for all that wait together: two exchanges at once, of fifty callers each", async () => {
    const { cluster, node } = await lone();
    const sizes: number[] = [];
    const gates: (() => void)[] = [];
    const { exchange } = cluster.model;
    cluster.model.exchange = async (name, asks) => {
      sizes.push(asks.length);
      await new Promise<void>((resolve) => gates.push(resolve));
      return exchange.call(cluster.model, name, asks);
    };
    const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
    const hits: Promise<boolean>[] = [];
    for (let at = 0; at < 63; at += 1) {
      hits.push(node.hit(`caller ${at}`, 10));
      // Some in turns of their own, some in one.
      if (at < 40) await turn();
    }
    await turn();
    expect(sizes).toEqual([1, 1]);
    gates[0]!();
    await turn();
    expect(sizes).toEqual([1, 1, 50]);
    gates[1]!();
    await turn();
    expect(sizes).toEqual([1, 1, 50, 11]);
    for (const open of gates) open();
    expect(new Set(await Promise.all(hits))).toEqual(new Set([true]));
    expect(node.limiter.counts.waited).toBe(63);
  });

  test("refuses without asking what it knows to be full, for as long as it is", async () => {
    const { cluster, hit } = await lone();
    for (let at = 0; at < 3; at += 1) expect(await hit(3)).toMatchObject({ allowed: true, remaining: 2 - at });
    await cluster.pass(20_000);
    // A hit counts until the end of its tenth of a second.
    expect(await hit(3)).toMatchObject({ allowed: false, remaining: 0, retryAfterSeconds: 41 });
    const again = hit(3);
    expect(again).toMatchObject({ allowed: false, retryAfterSeconds: 41 });
    await cluster.pass(40_100);
    expect(await hit(3)).toMatchObject({ allowed: true });
  });

  test("of a thousand beats five times in 2 s, and counts them every 5 s", async () => {
    const { cluster, node } = await lone();
    for (let at = 1; at < 1_000; at += 1) cluster.model.beatNow(`n${at}`, true, false);
    await cluster.pass(200);
    expect(node.limiter.status.nodes).toBe(1_000);
    const beats: boolean[] = [];
    const { beat } = cluster.model;
    cluster.model.beat = (name, isNew, counts) => {
      beats.push(counts);
      return beat.call(cluster.model, name, isNew, counts);
    };
    for (let at = 0; at < 20; at += 1) {
      await cluster.pass(1_000);
      for (let of = 1; of < 999; of += 1) cluster.model.beatNow(`n${of}`, false, false);
    }
    expect(beats.length).toBeWithin(48, 52);
    expect(beats.filter((counts) => counts).length).toBeWithin(3, 5);
    // One of them is gone for longer than its lease.
    expect(node.limiter.status.nodes).toBe(999);
  });

  test("gets slots back that another holds unused", async () => {
    const { cluster, node } = await lone();
    const other = await cluster.add();
    expect((await decided(await node.limiter.hit("a", 20))).allowed).toBe(true);
    let admitted = 1;
    for (let at = 0; at < 19; at += 1) {
      if (await cluster.until(other.hit("a", 20))) admitted += 1;
    }
    expect(admitted).toBe(20);
    expect(await cluster.until(other.hit("a", 20))).toBe(false);
  });

  test("that was paused for longer than its lease uses none of its slots", async () => {
    const { cluster, node, hit } = await lone();
    await hit();
    expect(node.limiter.hit("a", 100)).not.toBeInstanceOf(Promise);
    node.isPaused = true;
    await cluster.pass(times.leaseMs + 1);
    node.isPaused = false;
    const late = hit();
    expect(late).toBeInstanceOf(Promise);
    expect(await late).toMatchObject({ allowed: true });
  });

  test("gives back on its way out what it has not used", async () => {
    const { cluster, node, hit } = await lone();
    for (let at = 0; at < 5; at += 1) await hit(10);
    await cluster.until(node.limiter.close());
    const other = await cluster.add();
    let admitted = 0;
    for (let at = 0; at < 8; at += 1) if (await other.hit("a", 10)) admitted += 1;
    expect(admitted).toBe(5);
  });

  test("tells anew what it admitted when the store has lost its windows", async () => {
    const { cluster, node, hit } = await lone();
    for (let at = 0; at < 6; at += 1) await hit(10);
    await cluster.pass(2_000);
    cluster.model.wipe();
    await cluster.pass(5_000);
    expect(node.limiter.counts.lost).toBe(1);
    const other = await cluster.add();
    let admitted = 0;
    for (let at = 0; at < 10; at += 1) {
      if (await cluster.until(other.hit("a", 10))) admitted += 1;
    }
    expect(admitted).toBe(4);
  });

  test("keeps to its share when those who count the nodes come back, and not all have come to them yet", async () => {
    const cluster = new Cluster();
    const nodes = [await cluster.add(), await cluster.add(), await cluster.add()];
    await cluster.pass(5_000);
    cluster.areWindowsAway = true;
    cluster.isCounterAway = true;
    await cluster.pass(15_000);
    cluster.isCounterAway = false;
    const known = new Set<number>();
    for (let passed = 0; passed < 15_000; passed += 100) {
      await cluster.pass(100);
      for (const { limiter } of nodes) known.add(limiter.status.nodes);
    }
    expect([...known]).toEqual([3]);
    expect(nodes.every(({ limiter }) => limiter.status.isAlone)).toBe(true);
  });

  test("says what is wrong with the windows, once a minute for as long as it lasts", async () => {
    const cluster = new Cluster();
    const told: unknown[] = [];
    const log = {
      ...silentLogger,
      error: (_: string, fields?: { readonly error?: unknown }) => told.push(fields?.error),
    };
    let failure: StorageError | undefined;
    const windows = reached(cluster.model, () => {
      if (failure !== undefined) throw failure;
      return false;
    });
    const limiter = new ClusterLimiter({ windows, clock: cluster.time, log, place: "model", times });
    await cluster.until(limiter.start());
    expect(limiter.status).toEqual({ isAlone: false, nodes: 1 });
    const gone = new StorageError("away", "model", "gone");
    const replica = new StorageError("readonly", "model", "a replica");
    failure = gone;
    await cluster.pass(30_000);
    expect(limiter.status).toEqual({ isAlone: true, nodes: 1, cause: "away" });
    failure = replica;
    await cluster.pass(100_000);
    expect(limiter.status.cause).toBe("readonly");
    expect([told, limiter.counts.lost]).toEqual([[gone, replica, replica], 1]);
    failure = undefined;
    await cluster.pass(10_000);
    expect(limiter.status).toEqual({ isAlone: false, nodes: 1 });
  });

  test("has one place among the others wherever they are counted, so that all shares are the limit", async () => {
    const cluster = new Cluster();
    const nodes = [await cluster.add(), await cluster.add(), await cluster.add()];
    // The first lapses, and goes on under another name.
    nodes[0]!.isPaused = true;
    await cluster.pass(times.leaseMs + 1);
    nodes[0]!.isPaused = false;
    await cluster.until(nodes[0]!.hit("b", 100));
    await cluster.pass(5_000);
    cluster.areWindowsAway = true;
    await cluster.pass(500);
    let admitted = 0;
    // One is left over when 100 is divided: the same node has it, before and after they are counted elsewhere.
    for (let at = 0; at < 120; at += 1) admitted += Number(await nodes[1]!.hit("a", 100));
    await cluster.pass(5_000);
    for (const node of nodes) for (let at = 0; at < 120; at += 1) admitted += Number(await node.hit("a", 100));
    expect(admitted).toBe(100);
  });
});
