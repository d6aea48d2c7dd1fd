/** Limits over several nodes on a real server: processes that race and are killed, a way that breaks. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import fc from "fast-check";
import { systemClock } from "../../src/lib/time/clock.ts";
import { StoredLimiter } from "../../src/limits/stored.ts";
import { recentIds, type StoredWindows, windowParts } from "../../src/store/contract/windows.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { ModelWindows } from "../helpers/model-windows.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { openTestWindows, untilAnswered } from "../helpers/stored-windows.ts";
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

/**
 * Of the nodes in this process: it stands still while they ask, and moves while a test waits for something. By the system's clock an
 * answer would be too old to be good where the machine is busy, and the node would ask once more.
 */
const clock = new ManualClock();

/** A node of two, whose windows are those of a minute. */
async function startNode(url: string): Promise<StoredLimiter> {
  const options = { windows: await openTestWindows(url), clock, log: silentLogger, place: "test" };
  return new StoredLimiter({ ...options, group: () => ({ nodes: 2, rank: 0 }) });
}

/** @returns how many of them are admitted */
async function hits(node: StoredLimiter, count: number, limit: number): Promise<number> {
  let admitted = 0;
  for (let at = 0; at < count; at += 1) admitted += Number((await node.hit("a", limit)).allowed);
  return admitted;
}

const turn = async () => {
  clock.advance(10);
  await Bun.sleep(10);
};
const until = async (is: () => boolean) => {
  while (!is()) await turn();
};

/** Whether it was without the server for a while, as it may be on a busy machine. */
const wasLost = (nodes: readonly StoredLimiter[]) => nodes.some(({ counts }) => counts.lost > 0);

function describeWindows(house: () => House): void {
  const windowMs = 1_500;
  const opened: StoredWindows[] = [];
  afterAll(async () => {
    for (const one of opened) await one.close();
  });
  const open = async (length?: number) => {
    const windows = await openTestWindows(await house().address(), length);
    opened.push(windows);
    return windows;
  };

  test("gives every decision that a model in memory gives, however often each call is sent", async () => {
    const step = fc.record({
      caller: fc.constantFrom("a", "b", 'ü\u0007"{,}'),
      limit: fc.constantFrom(1, 2, 3, 7),
      adds: fc.nat(9),
      age: fc.nat(20_000),
      hits: fc.integer({ min: 1, max: 3 }),
      times: fc.integer({ min: 1, max: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const windows = await open();
        const model = new ModelWindows(() => performance.now(), windowMs * 1_000);
        let { life } = await untilAnswered(() => windows.add("", []));
        for (const { caller, limit, adds, age, hits, times } of steps) {
          const id = systemClock.newId();
          const told = [[id, 0] as const, [systemClock.newId(), age, hits] as const];
          for (let time = 0; time < times; time += 1) {
            const ask = (one: StoredWindows) => (adds === 0 ? one.add(caller, told) : one.hit(caller, limit, id));
            const found = await untilAnswered(() => ask(windows));
            const { allowed, used } = await ask(model);
            expect(found).toEqual({ allowed, used, growsMs: expect.any(Number), life });
            expect(found.growsMs).toBeWithin(0, 60_400);
            expect(found.growsMs > 0).toBe(used > 0);
            ({ life } = found);
          }
        }
      }),
      { numRuns: 8 },
    );
  });

  test("after a limit was lowered tells when there is room, and forgets what has left", async () => {
    const windows = await open(windowMs);
    // One that is told or asked again is the same one.
    const told = [1_200, 700, 200, 60_000].map((ageMs) => [systemClock.newId(), ageMs] as const);
    await untilAnswered(() => windows.add("a", told));
    const hit = () => {
      const id = systemClock.newId();
      return untilAnswered(() => windows.hit("a", 2, id));
    };
    const refused = await hit();
    // The second of the three must go, and windows are a little longer than they say.
    expect(refused).toMatchObject({ allowed: false, used: 3 });
    expect(refused.growsMs).toBeWithin(1, windowMs - 700 + 360);
    for (;;) {
      const { allowed, used } = await hit();
      if (allowed) {
        expect(used).toBeLessThanOrEqual(2);
        break;
      }
    }
    await windows.tidy();
  });

  test("requests that were admitted before leave in the order in which they came, whatever the order in which they are told", async () => {
    const windows = await open(windowMs);
    // Each counts twice what the older one does, so a sum says which of them are left.
    const ages = [700, 1_200, 200, 950, 450];
    const countOf = (age: number) => 2 ** [1_200, 950, 700, 450, 200].indexOf(age);
    const began = performance.now();
    for (const age of ages) {
      const id = systemClock.newId();
      await untilAnswered(() => windows.add("a", [[id, age, countOf(age)]]));
    }
    for (let left = 31; left > 0; ) {
      const { used } = await untilAnswered(() => windows.add("a", []));
      const passed = performance.now() - began;
      expect([31, 30, 28, 24, 16, 0]).toContain(used);
      expect(used).toBeLessThanOrEqual(left);
      left = used;
      for (const age of ages) if (age + passed < windowMs) expect(used & countOf(age)).toBe(countOf(age));
    }
  });

  test("processes that race, one of them killed and one paused, never have more than the limit", async () => {
    const limit = 60;
    const args = [await house().address(), windowMs, "a", limit, 2];
    await using one = new HittingNode(args);
    await using two = new HittingNode(args);
    await using three = new HittingNode(args);
    const nodes = [one, two, three];
    await Promise.all(nodes.map(({ ready }) => ready.promise));
    const total = () => nodes.reduce((sum, { admitted }) => sum + admitted.length, 0);
    await until(() => nodes.every(({ admitted }) => admitted.length > 0) && total() >= limit);
    await one.signal("SIGKILL");
    await two.signal("SIGSTOP");
    const paused = total();
    await until(() => total() >= paused + limit);
    await two.signal("SIGCONT");
    const before = total();
    await until(() => total() >= before + limit);
    await Promise.all([two, three].map((node) => node.signal("SIGKILL")));
    const all = nodes.flatMap(({ admitted }) => admitted);
    // Who loses the server admits its share once more.
    expect(worst(all, windowMs)).toBeLessThanOrEqual(nodes.some(({ isLost }) => isLost) ? 2 * limit : limit);
  });

  test("what a node admitted in the moment before it is killed is counted", async () => {
    const address = await house().address();
    const node = new HittingNode([address, 60_000, "a", 20, 1]);
    await node.ready.promise;
    await until(() => node.admitted.length >= 5);
    await node.signal("SIGKILL");
    const left = await hits(await startNode(address), 30, 20);
    expect(node.admitted.length + left).toBeLessThanOrEqual(node.isLost ? 30 : 20);
  });

  test("a node that loses the way admits its share in time, and tells of it when the way is back", async () => {
    using proxy = new SwitchedProxy(house().port);
    const address = await house().address(proxy.port);
    const near = await startNode(address.replace(`:${proxy.port}`, `:${house().port}`));
    const far = await startNode(address);
    expect([await hits(near, 4, 20), await hits(far, 1, 20)]).toEqual([4, 1]);
    proxy.hold();
    expect(await hits(far, 30, 20)).toBe(9);
    expect(await far.hit("a", 20)).toMatchObject({ allowed: false, limit: 20, remaining: 0 });
    proxy.release();
    await until(() => far.status.state === "counted");
    expect(await hits(near, 30, 20)).toBe(6);
    await Promise.all([near.close(), far.close()]);
  });

  test("connections whose server's side is gone without a word are given up, and no count is lost", async () => {
    using proxy = new SwitchedProxy(house().port);
    const limiter = await startNode(await house().address(proxy.port));
    let admitted = await hits(limiter, 4, 10);
    const before = proxy.connections;
    proxy.orphan();
    admitted += await hits(limiter, 10, 10);
    await until(() => proxy.connections > before && limiter.status.state === "counted");
    admitted += await hits(limiter, 10, 10);
    expect(admitted).toBe(10);
    await limiter.close();
  });

  test("connections that break all the time change no count", async () => {
    using proxy = new SwitchedProxy(house().port);
    const address = await house().address(proxy.port);
    const nodes = [await startNode(address), await startNode(address)];
    proxy.cutEvery(20);
    let admitted = 0;
    for (let at = 0; at < 300; at += 1) {
      admitted += await hits(nodes[at % 2]!, 1, 100);
      if (at % 10 === 0) await turn();
    }
    proxy.stopCutting();
    await until(() => nodes.every(({ status }) => status.state === "counted"));
    admitted += await hits(nodes[0]!, 100, 100);
    if (!wasLost(nodes)) expect(admitted).toBe(100);
    expect(admitted).toBeWithin(90, 201);
    for (const node of nodes) await node.close();
  });
}

describe.skipIf(!hasPostgres)("limits over nodes on a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  describeWindows(() => ({
    port: server.port,
    address: async (port = server.port) => {
      const { pathname } = new URL(await server.createDatabase());
      return server.url(pathname.slice(1), port);
    },
  }));

  test("a server that crashed has lost the windows: shares apply until what is lost counts no more", async () => {
    const node = await startNode(await server.createDatabase());
    expect(await hits(node, 6, 20)).toBe(6);
    await server.stop();
    await hits(node, 1, 20);
    await server.run();
    await until(() => node.status.state === "lost");
    expect(6 + 1 + (await hits(node, 20, 20))).toBe(10);
    await node.close();
  });
});

describe.skipIf(!hasRedis)("limits over nodes on a Redis server", () => {
  let server: RedisServer;
  let databases = 0;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  describeWindows(() => ({
    port: server.port,
    address: async (port = server.port) => server.url(databases++, port),
  }));

  test("a window of a million requests takes as much as one of a few hundred, and counts every one of them", async () => {
    await using own = await RedisServer.start();
    // Of ten minutes, so that none leaves it while a busy machine takes its time.
    const windows = await openTestWindows(own.url(), 600_000);
    const told = Array.from({ length: 1_000 }, (_, at) => [systemClock.newId(), at * 500, 1_000] as const);
    let used = 0;
    for (let at = 0; at < told.length; at += recentIds)
      ({ used } = await untilAnswered(() => windows.add("a", told.slice(at, at + recentIds))));
    expect(used).toBe(1_000_000);
    const id = systemClock.newId();
    expect(await untilAnswered(() => windows.hit("a", 1_000_000, id))).toMatchObject({ allowed: false, used });
    for (let time = 0; time < 3; time += 1)
      expect(await untilAnswered(() => windows.hit("a", 1_000_001, id))).toMatchObject({
        allowed: true,
        used: used + 1,
      });
    const key = (kind: string) => `troupe:{limits}:${kind}:a`;
    expect(Number(await own.ask("LLEN", key("parts")))).toBeLessThanOrEqual(windowParts + 4);
    expect(await own.ask("LLEN", key("ids"))).toBe(recentIds);
    const bytes = await Promise.all(
      ["parts", "ids"].map((kind) => own.ask("MEMORY", "USAGE", key(kind), "SAMPLES", "0")),
    );
    expect(bytes.reduce<number>((sum, one) => sum + Number(one), 0)).toBeLessThan(20_000);
    await windows.close();
  });

  test.each(["nothing", "an old copy"])("of one that comes back with %s shares apply as well", async (kept) => {
    await using own = await RedisServer.start();
    const node = await startNode(own.url());
    expect(await hits(node, 1, 10)).toBe(1);
    if (kept === "an old copy") await own.ask("SAVE");
    expect(await hits(node, 8, 10)).toBe(8);
    await own.stop();
    await own.run();
    await hits(node, 1, 10);
    await until(() => node.status.state === "lost");
    expect(await hits(node, 12, 10)).toBe(0);
    await node.close();
  });

  test("a user who may not ask which server it is counts there all the same", async () => {
    await using own = await RedisServer.start();
    await own.ask("ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-info");
    const windows = await openTestWindows(own.url().replace("//", "//few:secret@"));
    const { life } = await windows.hit("a", 1, systemClock.newId());
    expect(life).toBe(`${await own.ask("GET", "troupe:{limits}:life")}@`);
    await windows.close();
  });

  test("a server that says nothing is given up in time, and found again", async () => {
    const windows = await openTestWindows(server.url(databases++));
    const id = systemClock.newId();
    server.signal("SIGSTOP");
    await expect(windows.hit("a", 9, id)).rejects.toMatchObject({ kind: "away" });
    server.signal("SIGCONT");
    const again = () => windows.hit("a", 9, id).catch(() => undefined);
    let state = await again();
    while (state === undefined) state = await again();
    expect(state).toMatchObject({ allowed: true, used: 1 });
    await windows.close();
  });
});
