import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ManualClock } from "../../src/lib/clock.ts";
import { type Logger, silentLogger } from "../../src/lib/log.ts";
import { sharedMonotonic } from "../../src/lib/shared-clock.ts";
import { RateLimiter } from "../../src/services/rate-limiter.ts";
import { SharedLimiter } from "../../src/services/shared-limiter.ts";
import { openTakeRows, type TakeRows } from "../../src/store/take-rows.ts";
import { runScript } from "../helpers/child-process.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const sharers = 2;

function limiterOn(rows: TakeRows, clock: ManualClock, log: Logger = silentLogger): SharedLimiter {
  return new SharedLimiter(rows, { clock, log, sharers, now: () => clock.monotonic() });
}

function countingLog(): Logger & { errors: number } {
  const log = {
    ...silentLogger,
    errors: 0,
    error: () => {
      log.errors += 1;
    },
  };
  return log;
}

describe("a window that processes share", () => {
  test("gives every verdict that one process' own would give, whichever of two is asked", () => {
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
        const clock = new ManualClock();
        const files = [openTakeRows(folder.file("takes.db")), openTakeRows(folder.file("takes.db"))];
        const shared = files.map((rows) => limiterOn(rows, clock));
        const own = new RateLimiter(clock);
        for (const { worker, who, perMinute, takes, advance } of steps) {
          clock.advance(advance);
          const call = takes ? "take" : "peek";
          expect(shared[worker]![call](who, perMinute)).toEqual(own[call](who, perMinute));
        }
        for (const file of files) file.close();
      }),
      { numRuns: 60 },
    );
  });

  test("lets exactly so many through as it holds, however processes race", async () => {
    using folder = new TempFolder();
    openTakeRows(folder.file("takes.db")).close();
    const racer = `
      const { openTakeRows } = await import(SRC + "/store/take-rows.ts");
      const { SharedLimiter } = await import(SRC + "/services/shared-limiter.ts");
      const { systemClock } = await import(SRC + "/lib/clock.ts");
      const { silentLogger } = await import(SRC + "/lib/log.ts");
      const rows = openTakeRows(${JSON.stringify(folder.file("takes.db"))});
      const limiter = new SharedLimiter(rows, { clock: systemClock, log: silentLogger, sharers: 3 });
      let allowed = 0;
      for (let calls = 0; calls < 3000; calls += 1) if (limiter.take("a", 5000).allowed) allowed += 1;
      console.log(JSON.stringify(allowed));`;
    const results = await Promise.all([1, 2, 3].map(() => runScript(racer)));
    expect(results.map(({ errors }) => errors)).toEqual(["", "", ""]);
    expect(results.reduce((sum, { lines }) => sum + Number(lines[0]), 0)).toBe(5000);
  }, 60_000);

  test("forgets who is silent", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const rows = openTakeRows(folder.file("takes.db"));
    const limiter = limiterOn(rows, clock);
    for (let who = 0; who < 100; who += 1) limiter.take(`silent ${who}`, 10);
    clock.advance(60_000);
    for (let takes = 0; takes < 8 * 103; takes += 1) limiter.take("z", 10);
    expect(rows.count()).toBe(10);
    rows.close();
  });

  test("starts anew where invented callers have filled its file", () => {
    using folder = new TempFolder();
    const log = countingLog();
    const rows = openTakeRows(folder.file("takes.db"), 64 * 1024);
    const limiter = limiterOn(rows, new ManualClock(), log);
    for (let who = 0; who < 10_000; who += 1) expect(limiter.take(`${who}`, 1).allowed).toBe(true);
    expect(log.errors).toBe(1);
    expect(rows.count()).toBeLessThan(2_000);
    expect(limiter.take("9999", 1).allowed).toBe(false);
    rows.close();
  });

  test("that fails leaves each process its part of a limit, and is complained of once a minute", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const log = countingLog();
    const rows = openTakeRows(folder.file("takes.db"));
    const limiter = limiterOn(rows, clock, log);
    rows.close();
    const verdicts = Array.from({ length: 6 }, () => limiter.take("a", 8));
    expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true, true, true, false, false]);
    expect(limiter.take("b", 1)).toMatchObject({ allowed: true, limit: 1 });
    expect(log.errors).toBe(1);
    clock.advance(60_000);
    expect(limiter.peek("a", 8)).toMatchObject({ allowed: true, remaining: 4 });
    expect(log.errors).toBe(2);
  });
});

test("the machine's monotonic clock is the same in another process", async () => {
  const script = `
    const { sharedMonotonic } = await import(SRC + "/lib/shared-clock.ts");
    const { systemClock } = await import(SRC + "/lib/clock.ts");
    console.log(JSON.stringify(sharedMonotonic(systemClock)()));`;
  const now = sharedMonotonic({ ...new ManualClock(), monotonic: () => performance.now() } as never);
  const before = now();
  const { lines } = await runScript(script);
  expect(Number(lines[0])).toBeGreaterThan(before);
  expect(Number(lines[0])).toBeLessThan(now());
});
