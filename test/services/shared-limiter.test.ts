import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { type Clock, ManualClock, systemClock } from "../../src/lib/clock.ts";
import { type Logger, silentLogger } from "../../src/lib/log.ts";
import { sharedMonotonic } from "../../src/lib/shared-clock.ts";
import { GuardedLimiter } from "../../src/services/guarded-limiter.ts";
import { type Limiter, RateLimiter } from "../../src/services/rate-limiter.ts";
import { SharedLimiter } from "../../src/services/shared-limiter.ts";
import { SharedWindows } from "../../src/services/shared-windows.ts";
import { mapNumbers } from "../../src/store/shared-ring.ts";
import { openTakeRows } from "../../src/store/take-rows.ts";
import { runScript } from "../helpers/child-process.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

/** The two ways of sharing windows. Each gives what is opened in one process on files in that folder. */
const ways: Record<string, (folder: string, clock: Clock, now: () => number) => Limiter & Disposable> = {
  "in a database": (folder, clock, now) => {
    const rows = openTakeRows(join(folder, "takes.db"));
    return Object.assign(new SharedLimiter(rows, clock, now), { [Symbol.dispose]: () => rows.close() });
  },
  "in shared memory": (folder, clock, now) =>
    Object.assign(new SharedWindows(join(folder, "windows"), clock, now), { [Symbol.dispose]: () => {} }),
};

describe.each(Object.keys(ways))("windows that processes share %s", (way) => {
  test("give every verdict that one process' own would give, whichever of two is asked", () => {
    const step = fc.record({
      worker: fc.nat(1),
      who: fc.constantFrom("a", "b", "c"),
      perMinute: fc.integer({ min: 1, max: 6 }),
      takes: fc.boolean(),
      advance: fc.constantFrom(0, 0, 0, 1, 999, 20_000, 59_999, 60_000),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        using folder = new TempFolder();
        const clock = new ManualClock(0);
        const shared = [0, 1].map(() => ways[way]!(folder.path, clock, () => clock.monotonic()));
        const own = new RateLimiter(clock);
        for (const { worker, who, perMinute, takes, advance } of steps) {
          clock.advance(advance);
          const call = takes ? "take" : "peek";
          expect(shared[worker]![call](who, perMinute)).toEqual(own[call](who, perMinute));
        }
        for (const one of shared) one[Symbol.dispose]();
      }),
      { numRuns: 60 },
    );
  });

  test("give them over many rounds of a window", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    using shared = ways[way]!(folder.path, clock, () => clock.monotonic());
    const own = new RateLimiter(clock);
    for (let takes = 0; takes < 3_000; takes += 1) {
      clock.advance(takes % 7 === 0 ? 900 : 1);
      expect(shared.take("a", 500)).toEqual(own.take("a", 500));
    }
  });

  test("let exactly so many through as they hold, however processes race", async () => {
    using folder = new TempFolder();
    const racer = `
      const { openTakeRows } = await import(SRC + "/store/take-rows.ts");
      const { SharedLimiter } = await import(SRC + "/services/shared-limiter.ts");
      const { SharedWindows } = await import(SRC + "/services/shared-windows.ts");
      const { systemClock } = await import(SRC + "/lib/clock.ts");
      const { sharedMonotonic } = await import(SRC + "/lib/shared-clock.ts");
      const now = sharedMonotonic(systemClock);
      const folder = ${JSON.stringify(folder.path)};
      const limiter = ${JSON.stringify(way)} === "in a database"
        ? new SharedLimiter(openTakeRows(folder + "/takes.db"), systemClock, now)
        : new SharedWindows(folder + "/windows", systemClock, now);
      const left = [];
      for (let calls = 0; calls < 3000; calls += 1) {
        const { allowed, remaining } = limiter.take("a", 5000);
        if (allowed) left.push(remaining);
      }
      console.log(JSON.stringify(left));`;
    const results = await Promise.all([1, 2, 3].map(() => runScript(racer)));
    expect(results.map(({ errors }) => errors)).toEqual(["", "", ""]);
    const left = results.flatMap(({ lines }) => lines[0] as number[]);
    expect(left.toSorted((one, other) => one - other)).toEqual(Array.from({ length: 5000 }, (_, at) => at));
  }, 60_000);
});

describe("windows in shared memory", () => {
  test("lose nothing with a process that is killed between its take and the head", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const shared = new SharedWindows(folder.path, clock, () => clock.monotonic());
    for (let takes = 0; takes < 3; takes += 1) shared.take("a", 5);
    const numbers = mapNumbers(join(folder.path, readdirSync(folder.path)[0]!), 512);
    expect(numbers[511]).toBe(3n);
    numbers[3] = numbers[2]!;
    expect(shared.take("a", 5)).toMatchObject({ allowed: true, remaining: 0 });
    expect(shared.take("a", 5)).toMatchObject({ allowed: false, remaining: 0 });
    clock.advance(60_000);
    expect(shared.peek("a", 5)).toMatchObject({ allowed: true, remaining: 5 });
  });
});

describe("windows in a database", () => {
  test("forget who is silent", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const rows = openTakeRows(folder.file("takes.db"));
    const limiter = new SharedLimiter(rows, clock, () => clock.monotonic());
    for (let who = 0; who < 100; who += 1) limiter.take(`silent ${who}`, 10);
    clock.advance(60_000);
    for (let takes = 0; takes < 8 * 103; takes += 1) limiter.take("z", 10);
    expect(rows.count()).toBe(10);
    rows.close();
  });

  test("start anew where invented callers have filled the file", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const rows = openTakeRows(folder.file("takes.db"), 64 * 1024);
    const limiter = new SharedLimiter(rows, clock, () => clock.monotonic());
    let full = 0;
    for (let who = 0; who < 10_000; who += 1) {
      try {
        expect(limiter.take(`${who}`, 1).allowed).toBe(true);
      } catch (error) {
        expect((error as { code: string }).code).toBe("SQLITE_FULL");
        full += 1;
      }
    }
    expect(full).toBeWithin(1, 20);
    expect(rows.count()).toBeLessThan(2_000);
    expect(limiter.take("9999", 1).allowed).toBe(false);
    rows.close();
  });
});

test("where the shared windows fail each process allows its part of a limit, and complains once a minute", () => {
  const clock = new ManualClock();
  let errors = 0;
  const count = () => {
    errors += 1;
  };
  const log: Logger = { ...silentLogger, error: count };
  const fail = () => {
    throw new Error("no");
  };
  const limiter = new GuardedLimiter({ take: fail, peek: fail }, { clock, log, sharers: 2 });
  const verdicts = Array.from({ length: 6 }, () => limiter.take("a", 8));
  expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true, true, true, false, false]);
  expect(limiter.take("b", 1)).toMatchObject({ allowed: true, limit: 1 });
  expect(errors).toBe(1);
  clock.advance(60_000);
  expect(limiter.peek("a", 8)).toMatchObject({ allowed: true, remaining: 4 });
  expect(errors).toBe(2);
});

test("the machine's monotonic clock is the same in another process", async () => {
  const script = `
    const { sharedMonotonic } = await import(SRC + "/lib/shared-clock.ts");
    const { systemClock } = await import(SRC + "/lib/clock.ts");
    console.log(JSON.stringify(sharedMonotonic(systemClock)()));`;
  const now = sharedMonotonic(systemClock);
  const before = now();
  const { lines } = await runScript(script);
  expect(Number(lines[0])).toBeGreaterThan(before);
  expect(Number(lines[0])).toBeLessThan(now());
});
