/** Windows over many nodes, in a time of their own: clocks apart by minutes, messages late, twice or lost, nodes killed. */
import { describe, expect, test } from "bun:test";
import type { Clock } from "../../src/lib/clock.ts";
import { ClusterLimiter } from "../../src/limits/cluster-limiter.ts";
import type { SharedWindows } from "../../src/store/shared-windows.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { ModelWindows } from "../helpers/model-windows.ts";
import { Random } from "../helpers/random.ts";
import { silentLogger } from "../helpers/silent-logger.ts";

const times = { windowMs: 60_000, leaseMs: 10_000 };
const deadlineMs = 300;

type Network = { isCut: boolean; lossPercent: number; repeatPercent: number; readonly maxDelayMs: number };
type Admission = { readonly caller: string; readonly at: number };

/** Nodes that share one model of the store. */
class Cluster {
  readonly time = new ManualClock();
  readonly model = new ModelWindows(() => this.time.now() + 1_234_567, times);
  readonly network: Network = { isCut: false, lossPercent: 0, repeatPercent: 0, maxDelayMs: 0 };
  readonly nodes: Node[] = [];
  readonly admissions: Admission[] = [];
  readonly random: Random;

  constructor(random: Random, network: Partial<Network> = {}) {
    this.random = random;
    Object.assign(this.network, network);
  }

  async add(): Promise<Node> {
    const node = new Node(this);
    this.nodes.push(node);
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

  count(caller: string, from = 0, to = Number.POSITIVE_INFINITY): number {
    return this.admissions.filter((one) => one.caller === caller && one.at >= from && one.at < to).length;
  }

  /** The most in any window that begins at or after that time. */
  worst(caller: string, from = 0): number {
    const at = this.admissions.filter((one) => one.caller === caller && one.at >= from).map((one) => one.at);
    let [worst, first] = [0, 0];
    for (const [last, time] of at.entries()) {
      while (time - at[first]! >= times.windowMs) first += 1;
      worst = Math.max(worst, last - first + 1);
    }
    return worst;
  }
}

class Node {
  readonly limiter: ClusterLimiter;
  readonly network: SharedWindows;
  readonly #cluster: Cluster;
  isDead = false;
  isCut = false;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    const { time, random } = cluster;
    const [wall, monotonic] = [random.below(600_000) - 300_000, random.below(1_000_000)];
    const clock: Clock = {
      now: () => time.now() + wall,
      monotonic: () => time.monotonic() + monotonic,
      newId: () => time.newId(),
      setTimer: (ms, run) => time.setTimer(ms, () => this.isDead || run()),
    };
    const sent = <T>(work: () => Promise<T>) => this.#sent(work);
    const { model } = cluster;
    this.network = {
      beat: (node, isNew) => sent(() => model.beat(node, isNew)),
      exchange: (node, asks) => sent(() => model.exchange(node, asks)),
      leave: (node) => sent(() => model.leave(node)),
      tidy: async () => {},
      close: async () => {},
    };
    this.limiter = new ClusterLimiter({ windows: this.network, clock, log: silentLogger, place: "model", times });
  }

  /** Counts an admission when it is made; a dead node makes none. */
  async hit(caller: string, limit: number): Promise<boolean | undefined> {
    if (this.isDead) return undefined;
    const deciding = this.limiter.hit(caller, limit);
    const { allowed } = deciding instanceof Promise ? await deciding : deciding;
    if (this.isDead) return undefined;
    if (allowed) this.#cluster.admissions.push({ caller, at: this.#cluster.time.now() });
    return allowed;
  }

  async #sent<T>(work: () => Promise<T>): Promise<T> {
    const { random, network, time } = this.#cluster;
    const wait = (ms: number) => (ms === 0 ? undefined : new Promise<void>((resolve) => time.setTimer(ms, resolve)));
    const lost = async (): Promise<never> => {
      await wait(deadlineMs);
      throw new Error("no answer in time");
    };
    const isAway = () => network.isCut || this.isCut;
    if (isAway() || random.chance(network.lossPercent)) return lost();
    await wait(random.below(network.maxDelayMs + 1));
    const answer = await work();
    // Sent once more by the client below, long after.
    if (random.chance(network.repeatPercent)) time.setTimer(random.below(2_000), () => void work());
    if (isAway() || random.chance(network.lossPercent)) return lost();
    await wait(random.below(network.maxDelayMs + 1));
    return answer;
  }
}

const limits: Record<string, number> = { small: 7, middle: 100, great: 2_000 };
const names = Object.keys(limits);

/** Hits at random nodes, about `load` times of what the limits allow, until that much time has passed. */
async function press(cluster: Cluster, forMs: number, load: number, each: () => void = () => {}): Promise<void> {
  const { random, nodes } = cluster;
  const stepMs = 25;
  for (let passed = 0; passed < forMs; passed += stepMs) {
    for (const name of names) {
      const expected = (limits[name]! * load * stepMs) / times.windowMs;
      const hits = Math.floor(expected) + (random.below(1_000) < (expected % 1) * 1_000 ? 1 : 0);
      for (let at = 0; at < hits; at += 1) void random.pick(nodes).hit(name, limits[name]!);
    }
    each();
    await cluster.pass(stepMs);
  }
}

const seeds = process.env["CLUSTER_SEED"] === undefined ? [1, 2] : [Number(process.env["CLUSTER_SEED"])];

describe.each(seeds)("over six nodes, seed %d", (seed) => {
  test("no window holds more than its limit, and all of it is given out", async () => {
    const cluster = new Cluster(new Random(seed), { maxDelayMs: 20, repeatPercent: 5 });
    for (let at = 0; at < 6; at += 1) await cluster.add();
    const from = cluster.time.now();
    await press(cluster, 130_000, 2);
    for (const name of names) {
      expect(cluster.worst(name)).toBeLessThanOrEqual(limits[name]!);
      expect(cluster.count(name, from, from + times.windowMs)).toBeGreaterThanOrEqual(limits[name]! * 0.97);
    }
    expect(cluster.nodes.reduce((sum, { limiter }) => sum + limiter.counts.byShare, 0)).toBe(0);
  }, 60_000);

  test("nodes are killed with slots in their hands, and others come", async () => {
    const cluster = new Cluster(new Random(seed), { maxDelayMs: 20 });
    for (let at = 0; at < 6; at += 1) await cluster.add();
    let steps = 0;
    await press(cluster, 120_000, 1.5, () => {
      steps += 1;
      if (steps % 400 !== 0) return;
      cluster.random.pick(cluster.nodes).isDead = true;
      void cluster.add();
    });
    expect(cluster.nodes.filter(({ isDead }) => isDead).length).toBeGreaterThan(5);
    for (const name of names) {
      expect(cluster.worst(name)).toBeLessThanOrEqual(limits[name]!);
      expect(cluster.count(name)).toBeGreaterThan(limits[name]!);
    }
  }, 60_000);

  test("while the store is away all shares together are the limit, and no more is given when it is back", async () => {
    const cluster = new Cluster(new Random(seed), { maxDelayMs: 5 });
    for (let at = 0; at < 6; at += 1) await cluster.add();
    await press(cluster, 20_000, 0.5);
    cluster.network.isCut = true;
    const cutAt = cluster.time.now();
    await press(cluster, 90_000, 2);
    cluster.network.isCut = false;
    const backAt = cluster.time.now();
    await press(cluster, 80_000, 2);
    for (const name of names) {
      const limit = limits[name]!;
      expect(cluster.worst(name, cutAt + times.windowMs)).toBeLessThanOrEqual(limit);
      // What was admitted just before may be anywhere: no more than twice.
      expect(cluster.worst(name)).toBeLessThanOrEqual(2 * limit);
      expect(cluster.count(name, cutAt, backAt)).toBeGreaterThanOrEqual(limit * 0.8);
      expect(cluster.count(name, backAt)).toBeGreaterThanOrEqual(limit * 0.8);
    }
    expect(cluster.nodes.every(({ limiter }) => !limiter.status.isAlone && limiter.status.nodes === 6)).toBe(true);
  }, 60_000);

  test("messages that are lost cost the limit nothing but the shares of those moments", async () => {
    const cluster = new Cluster(new Random(seed), { maxDelayMs: 20, lossPercent: 1, repeatPercent: 5 });
    for (let at = 0; at < 6; at += 1) await cluster.add();
    await press(cluster, 60_000, 2);
    cluster.network.lossPercent = 0;
    await press(cluster, 5_000, 2);
    const from = cluster.time.now();
    await press(cluster, 80_000, 2);
    for (const name of names) {
      expect(cluster.worst(name)).toBeLessThanOrEqual(2 * limits[name]!);
      expect(cluster.worst(name, from)).toBeLessThanOrEqual(limits[name]!);
    }
  }, 60_000);
});

const decided = async (decision: unknown) =>
  decision as { allowed: boolean; remaining: number; retryAfterSeconds: number };

describe("a node", () => {
  const lone = async () => {
    const cluster = new Cluster(new Random(1));
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

  test("refuses without asking what it knows to be full, for as long as it is", async () => {
    const { cluster, hit } = await lone();
    for (let at = 0; at < 3; at += 1) expect(await hit(3)).toMatchObject({ allowed: true, remaining: 2 - at });
    await cluster.pass(20_000);
    expect(await hit(3)).toMatchObject({ allowed: false, remaining: 0, retryAfterSeconds: 40 });
    const again = hit(3);
    expect(again).toMatchObject({ allowed: false, retryAfterSeconds: 40 });
    await cluster.pass(40_000);
    expect(await hit(3)).toMatchObject({ allowed: true });
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
    // No timer runs meanwhile.
    node.isDead = true;
    await cluster.pass(times.leaseMs + 1);
    node.isDead = false;
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
});
