/** Limits over several nodes on a real server: processes that race and are killed, a way that breaks. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../src/lib/clock.ts";
import { ClusterLimiter } from "../../src/limits/cluster-limiter.ts";
import { type SharedWindows, type WindowAsk, windowTimes } from "../../src/store/shared-windows.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";
import { openTestWindows } from "../helpers/shared-windows.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { SwitchedProxy } from "../helpers/switched-proxy.ts";

const script = join(import.meta.dir, "../helpers/limited-node.ts");

/** A real server, and how to reach it. */
type House = {
  /** Of a new and empty store; with a port, by another way. */
  address(port?: number): Promise<string>;
  readonly port: number;
};

/** It happened between these two readings of the clock: a busy machine may stop a process on either side. */
type Admission = readonly [asked: number, admitted: number];

/** A process that hits one caller all the time. */
class HittingNode implements AsyncDisposable {
  readonly admitted: Admission[] = [];
  /** Whether it was without the server for a while, as it may be on a busy machine. */
  isLost = false;
  readonly ready = Promise.withResolvers<void>();
  readonly #child: Bun.Subprocess<"ignore", "pipe", "inherit">;
  readonly #read: Promise<void>;

  constructor(args: readonly (string | number)[]) {
    this.#child = Bun.spawn([process.execPath, script, ...args.map(String)], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    this.#read = this.#follow();
  }

  async #follow(): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const part of this.#child.stdout) {
      const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (line === "ready") this.ready.resolve();
        else if (line === "lost") this.isLost = true;
        else this.admitted.push(line.split(" ").map(Number) as unknown as Admission);
      }
    }
  }

  async signal(name: NodeJS.Signals): Promise<void> {
    this.#child.kill(name);
    if (name === "SIGKILL") await this.#read;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.signal("SIGCONT");
    await this.signal("SIGKILL");
  }
}

/** @returns the most admissions that were certainly within one window */
function worst(all: readonly Admission[], windowMs: number): number {
  const isWithin =
    (first: number) =>
    ([asked, admitted]: Admission) =>
      asked >= first && admitted - first < windowMs;
  return Math.max(...all.map(([first]) => all.filter(isWithin(first)).length));
}

const ask = (caller: string, number: number, changes: Partial<WindowAsk> = {}): WindowAsk => ({
  caller,
  number,
  report: number,
  limit: 10,
  uses: [],
  want: 0,
  waiting: 0,
  ...changes,
});

/** A node whose windows are those of a minute. */
async function startNode(url: string): Promise<ClusterLimiter> {
  const windows = await openTestWindows(url, windowTimes);
  const node = new ClusterLimiter({ windows, clock: systemClock, log: silentLogger, place: "test" });
  await node.start();
  return node;
}

function describeWindows(house: () => House): void {
  const times = { windowMs: 1_500, leaseMs: 600 };
  const opened: SharedWindows[] = [];
  afterAll(async () => {
    for (const one of opened) await one.close();
  });
  const open = async (address: string, given = times) => {
    const windows = await openTestWindows(address, given);
    opened.push(windows);
    return windows;
  };
  const nodeOn = async (address: string, given = times) => {
    const windows = await open(address, given);
    return new ClusterLimiter({ windows, clock: systemClock, log: silentLogger, place: "test", times: given });
  };

  test("an exchange counts once however often it is sent, and not at all when it is overtaken", async () => {
    const windows = await open(await house().address());
    expect(await windows.exchange("n1", [ask("a", 1)])).toBeUndefined();
    expect(await windows.beat("n1", true, true)).toMatchObject({ group: { nodes: 1, rank: 0 }, wanted: [] });
    const [given] = (await windows.exchange("n1", [ask("a", 1, { want: 4, waiting: 2 })]))!;
    // Two for those that wait, and half of the rest ahead.
    expect(given).toEqual({ caller: "a", held: 4, used: 0, others: 0, growsMs: null });
    const used = ask("a", 2, { uses: [[5, 3]], want: 4 });
    for (let at = 0; at < 3; at += 1) {
      expect((await windows.exchange("n1", [used]))![0]).toMatchObject({ held: 4, used: 3 });
    }
    expect((await windows.exchange("n1", [ask("a", 1, { want: 0 })]))![0]).toMatchObject({ held: 4, used: 3 });
    // The same report in a later exchange.
    expect((await windows.exchange("n1", [{ ...used, number: 3 }]))![0]).toMatchObject({ held: 4, used: 3 });
  });

  test("slots of others are asked back, and those of a lapsed node count as used", async () => {
    const windows = await open(await house().address());
    await windows.beat("n1", true, true);
    await windows.beat("n2", true, true);
    expect((await windows.exchange("n1", [ask("a", 1, { want: 9, waiting: 9 })]))![0]).toMatchObject({ held: 9 });
    const [less] = (await windows.exchange("n2", [ask("a", 1, { want: 3, waiting: 3 })]))!;
    expect(less).toMatchObject({ held: 1, used: 0, others: 9 });
    expect((await windows.beat("n1", false, true))!.wanted).toEqual(["a"]);
    const back = (await windows.exchange("n1", [ask("a", 2, { want: 4 })]))!;
    expect(back[0]).toMatchObject({ held: 4, others: 1 });
    const beatenAt = performance.now();
    expect((await windows.beat("n1", false, true))!.wanted).toEqual([]);
    expect((await windows.exchange("n2", [ask("a", 2, { want: 3, waiting: 3 })]))![0]).toMatchObject({
      held: 3,
      others: 4,
    });
    const lapsesAt = performance.now() + times.leaseMs;
    while ((await windows.beat("n2", false, true)) && performance.now() < lapsesAt + 20) await Bun.sleep(20);
    const [late] = (await windows.exchange("n2", [ask("a", 3, { want: 9, waiting: 9 })]))!;
    expect(late).toMatchObject({ held: 6, used: 4, others: 0 });
    const sinceLapse = performance.now() - beatenAt - times.leaseMs;
    expect(late!.growsMs!).toBeGreaterThan(times.windowMs - Math.max(0, sinceLapse) - 300);
    expect(await windows.exchange("n1", [ask("a", 9)])).toBeUndefined();
    await windows.leave("n2");
    await windows.tidy();
  });

  test("processes that race, one of them killed and one paused, never have more than the limit", async () => {
    const limit = 60;
    const address = await house().address();
    const args = [address, times.windowMs, times.leaseMs, "a", limit, 2];
    await using one = new HittingNode(args);
    await using two = new HittingNode(args);
    await using three = new HittingNode(args);
    const nodes = [one, two, three];
    await Promise.all(nodes.map(({ ready }) => ready.promise));
    const total = () => nodes.reduce((sum, { admitted }) => sum + admitted.length, 0);
    // A busy machine may keep a process from its first slot until those of the others are free again.
    while (nodes.some(({ admitted }) => admitted.length === 0) || total() < limit) await Bun.sleep(20);
    await one.signal("SIGKILL");
    await two.signal("SIGSTOP");
    await Bun.sleep(times.leaseMs + 300);
    await two.signal("SIGCONT");
    const before = total();
    while (total() < before + limit) await Bun.sleep(20);
    await Promise.all([two, three].map((node) => node.signal("SIGKILL")));
    const all = nodes.flatMap(({ admitted }) => admitted);
    // Who loses the server admits its share once more.
    expect(worst(all, times.windowMs)).toBeLessThanOrEqual(nodes.some(({ isLost }) => isLost) ? 2 * limit : limit);
    expect(all.length).toBeGreaterThanOrEqual(2 * limit);
  }, 60_000);

  test("a node that loses the way admits its share in time, and tells of it when the way is back", async () => {
    using proxy = new SwitchedProxy(house().port);
    // A lease that outlives a slow machine.
    const long = { windowMs: 60_000, leaseMs: 10_000 };
    const address = await house().address(proxy.port);
    const near = await nodeOn(address.replace(`:${proxy.port}`, `:${house().port}`), long);
    const far = await nodeOn(address, long);
    await near.start();
    await far.start();
    for (let at = 0; at < 4; at += 1) expect((await near.hit("a", 20)).allowed).toBe(true);
    // Both are known to both.
    while (far.status.nodes < 2 || near.status.nodes < 2) await Bun.sleep(20);
    expect((await far.hit("a", 20)).allowed).toBe(true);
    proxy.hold();
    while (!far.status.isAlone) await Bun.sleep(20);
    let admitted = 1;
    for (let at = 0; at < 30; at += 1) if ((await far.hit("a", 20)).allowed) admitted += 1;
    expect(admitted).toBe(10);
    expect(far.hit("a", 20)).toMatchObject({ allowed: false, limit: 20, remaining: 0 });
    proxy.release();
    while (far.status.isAlone) await Bun.sleep(20);
    let rest = 0;
    for (let at = 0; at < 30; at += 1) if ((await near.hit("a", 20)).allowed) rest += 1;
    expect(rest + admitted + 4).toBe(20);
    await near.close();
    await far.close();
  }, 60_000);

  test("connections whose server's side is gone without a word are given up, and no count is lost", async () => {
    using proxy = new SwitchedProxy(house().port);
    const long = { windowMs: 60_000, leaseMs: 10_000 };
    const limiter = await nodeOn(await house().address(proxy.port), long);
    await limiter.start();
    let admitted = 0;
    for (let at = 0; at < 5; at += 1) if ((await limiter.hit("a", 10)).allowed) admitted += 1;
    const before = proxy.connections;
    proxy.orphan();
    for (let at = 0; at < 10; at += 1) if ((await limiter.hit("a", 10)).allowed) admitted += 1;
    while (proxy.connections === before || limiter.status.isAlone) await Bun.sleep(20);
    for (let at = 0; at < 10; at += 1) if ((await limiter.hit("a", 10)).allowed) admitted += 1;
    expect(admitted).toBe(10);
    await limiter.close();
  }, 60_000);

  test("connections that break all the time change no count", async () => {
    using proxy = new SwitchedProxy(house().port);
    const long = { windowMs: 60_000, leaseMs: 10_000 };
    const address = await house().address(proxy.port);
    const nodes = [await nodeOn(address, long), await nodeOn(address, long)];
    for (const node of nodes) await node.start();
    while (nodes.some(({ status }) => status.nodes < 2)) await Bun.sleep(20);
    proxy.cutEvery(20);
    let admitted = 0;
    for (let at = 0; at < 300; at += 1) {
      if ((await nodes[at % 2]!.hit("a", 100)).allowed) admitted += 1;
      if (at % 10 === 0) await Bun.sleep(5);
    }
    proxy.stopCutting();
    expect(admitted).toBeGreaterThan(90);
    while (nodes.some(({ status }) => status.isAlone)) await Bun.sleep(20);
    // Slots that were on their way when the calls ended are still there.
    while ((await nodes[0]!.hit("a", 100)).allowed) admitted += 1;
    expect(admitted).toBeLessThanOrEqual(nodes.some(({ counts }) => counts.lost > 0) ? 200 : 100);
    for (const node of nodes) await node.close();
  }, 60_000);
}

describe.skipIf(!hasPostgres)("limits over nodes on a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  }, 60_000);
  afterAll(() => server[Symbol.asyncDispose]());
  describeWindows(() => ({
    port: server.port,
    address: async (port = server.port) => {
      const { pathname } = new URL(await server.createDatabase());
      return server.url(pathname.slice(1), port);
    },
  }));

  test("a server that crashed and came back knows what was admitted before and during", async () => {
    const windows = await openTestWindows(await server.createDatabase(), windowTimes);
    const limiter = new ClusterLimiter({ windows, clock: systemClock, log: silentLogger, place: "test" });
    await limiter.start();
    for (let at = 0; at < 6; at += 1) expect((await limiter.hit("a", 10)).allowed).toBe(true);
    await server.stop();
    while (!limiter.status.isAlone) await Bun.sleep(10);
    expect((await limiter.hit("a", 10)).allowed).toBe(true);
    await server.run();
    while (limiter.status.isAlone) await Bun.sleep(10);
    let admitted = 0;
    for (let at = 0; at < 8; at += 1) if ((await limiter.hit("a", 10)).allowed) admitted += 1;
    expect(admitted).toBe(3);
    await limiter.close();
    await windows.close();
  }, 60_000);
});

describe.skipIf(!hasRedis)("limits over nodes on a Redis server", () => {
  let server: RedisServer;
  let databases = 0;
  beforeAll(async () => {
    server = await RedisServer.start();
  }, 60_000);
  afterAll(() => server[Symbol.asyncDispose]());
  describeWindows(() => ({
    port: server.port,
    address: async (port = server.port) => server.url(databases++, port),
  }));

  test("a server that was restarted and kept nothing is told anew what was admitted", async () => {
    const windows = await openTestWindows(server.url(databases++), windowTimes);
    const limiter = new ClusterLimiter({ windows, clock: systemClock, log: silentLogger, place: "test" });
    await limiter.start();
    for (let at = 0; at < 6; at += 1) expect((await limiter.hit("a", 10)).allowed).toBe(true);
    await server.stop();
    while (!limiter.status.isAlone) await Bun.sleep(10);
    await server.run();
    while (limiter.status.isAlone) await Bun.sleep(10);
    let admitted = 0;
    for (let at = 0; at < 8; at += 1) if ((await limiter.hit("a", 10)).allowed) admitted += 1;
    expect(admitted).toBe(4);
    await limiter.close();
    await windows.close();
  }, 60_000);

  test("one that comes back with an old copy of its data is told anew what was admitted", async () => {
    await using own = await RedisServer.start();
    const node = await startNode(own.url());
    const hits = async (count: number) => {
      let admitted = 0;
      for (let at = 0; at < count; at += 1) if ((await node.hit("a", 10)).allowed) admitted += 1;
      return admitted;
    };
    expect(await hits(1)).toBe(1);
    await own.ask("SAVE");
    expect(await hits(9)).toBe(9);
    await own.stop();
    await own.run();
    // It keeps to its share until it has told all.
    while (!node.status.isAlone) await Bun.sleep(10);
    while (node.status.isAlone) await Bun.sleep(10);
    expect(await hits(12)).toBe(0);
    await node.close();
  }, 60_000);

  test("a user who may not ask which server it is counts there all the same", async () => {
    await using own = await RedisServer.start();
    await own.ask("ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-info");
    const windows = await openTestWindows(own.url().replace("//", "//few:secret@"), windowTimes);
    const beat = await windows.beat("n1", true, true);
    expect([beat?.group, await own.ask("GET", "troupe:{limits}:epoch")]).toEqual([{ nodes: 1, rank: 0 }, beat?.epoch]);
    await windows.close();
  });

  test("a server that says nothing is given up in time, and found again", async () => {
    const windows = await openTestWindows(server.url(databases++), windowTimes);
    await windows.beat("n1", true, true);
    server.signal("SIGSTOP");
    const from = performance.now();
    await expect(windows.beat("n1", false, true)).rejects.toMatchObject({ kind: "away" });
    expect(performance.now() - from).toBeLessThan(10_000);
    server.signal("SIGCONT");
    let beat = await windows.beat("n1", false, true).catch(() => undefined);
    while (beat === undefined) beat = await windows.beat("n1", false, true).catch(() => undefined);
    expect(beat).toMatchObject({ group: { nodes: 1, rank: 0 } });
    await windows.close();
  }, 60_000);
});
