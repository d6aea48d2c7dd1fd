import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { mapFile } from "../../../src/lib/files/mapped-file.ts";
import type { Logger } from "../../../src/lib/process/log.ts";
import type { Clock } from "../../../src/lib/time/clock.ts";
import { type Limiter, MemoryLimiter } from "../../../src/limits/limiter.ts";
import { openMachineLimits } from "../../../src/limits/machine/limiter.ts";
import { runScript } from "../../helpers/child-process.ts";
import { runs } from "../../helpers/long-form.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { silentLogger } from "../../helpers/silent-logger.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

/** Of what is opened in one process on that folder. */
const callersOf = (folder: string, clock: Clock, log: Logger = silentLogger): Limiter =>
  openMachineLimits(folder, { clock, log, processes: 1, isSweeper: false }).callers;

/** The file of the only caller. */
const fileIn = (folder: TempFolder) => folder.file(`limits/keys/${readdirSync(folder.file("limits/keys"))[0]}`);

describe("the shared windows of keys", () => {
  test("give every decision that one process' own would give, whichever of two is asked, whenever they are opened anew", () => {
    const step = fc.record({
      worker: fc.nat(1),
      caller: fc.constantFrom("a", "b", "c"),
      perMinute: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.constantFrom(511, 512, 1_023)),
      hits: fc.boolean(),
      advance: fc.constantFrom(0, 0, 0, 1, 999, 20_000, 59_999, 60_000, 50 * 86_400_000),
      restarts: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        using folder = new TempFolder();
        const clock = new ManualClock();
        const open = () => callersOf(folder.path, clock);
        const shared = [open(), open()];
        const own = new MemoryLimiter(clock);
        for (const { worker, caller, perMinute, hits, advance, restarts } of steps) {
          clock.advance(advance);
          if (restarts) shared[worker] = open();
          const call = hits ? "hit" : "peek";
          expect(shared[worker]![call](caller, perMinute)).toEqual(own[call](caller, perMinute));
        }
      }),
      { numRuns: runs(40) },
    );
  });

  test("give them over many rounds of a window, and over the end of the times", () => {
    using folder = new TempFolder();
    // Times are kept modulo 2^32 ms.
    const clock = new ManualClock(400 * 2 ** 32 - 60_000);
    const shared = callersOf(folder.path, clock);
    const own = new MemoryLimiter(clock);
    for (let hits = 0; hits < 3_000; hits += 1) {
      clock.advance(hits % 7 === 0 ? 900 : 1);
      expect(shared.hit("a", 500)).toEqual(own.hit("a", 500));
    }
  });

  test("of large limits never hold more, and keep a request for 120 ms longer at most", () => {
    const step = fc.record({
      worker: fc.nat(1),
      perMinute: fc.constantFrom(3, 1_024, 1_030, 100_000, 1_000_000),
      hits: fc.constantFrom(0, 1, 1, 1, 700),
      advance: fc.constantFrom(0, 0, 1, 60, 119, 120, 999, 20_000, 59_879, 60_000, 60_120, 50 * 86_400_000),
      restarts: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.nat(119), fc.array(step, { maxLength: 40 }), (offset, steps) => {
        using folder = new TempFolder();
        const clock = new ManualClock(1_700_000_000_000 + offset);
        const shared = [callersOf(folder.path, clock), callersOf(folder.path, clock)];
        const taken: number[] = [];
        for (const { worker, perMinute, hits, advance, restarts } of steps) {
          clock.advance(advance);
          if (restarts) shared[worker] = callersOf(folder.path, clock);
          for (let at = 0; at <= hits; at += 1) {
            const now = clock.now();
            const least = taken.filter((time) => time > now - 60_000).length;
            const most = taken.filter((time) => time > now - 60_120).length;
            const decision = shared[worker]![at < hits ? "hit" : "peek"]("a", perMinute);
            if (decision.allowed) expect(least).toBeLessThan(perMinute);
            else expect(most).toBeGreaterThanOrEqual(perMinute);
            if (decision.allowed && at < hits) taken.push(now);
            const counted = at < hits && decision.allowed ? 1 : 0;
            expect(decision.remaining).toBeLessThanOrEqual(Math.max(0, perMinute - least - counted));
            expect(decision.remaining).toBeGreaterThanOrEqual(Math.max(0, perMinute - most - counted));
            if (!decision.allowed) expect(decision.retryAfterSeconds).toBeWithin(1, 62);
          }
        }
      }),
      { numRuns: runs(15) },
    );
  });

  test("of a large limit let whoever waits as long as told in", () => {
    using folder = new TempFolder();
    const clock = new ManualClock(1_700_000_000_001);
    const limiter = callersOf(folder.path, clock);
    for (let hits = 0; hits < 2_000; hits += 1) expect(limiter.hit("a", 2_000).remaining).toBe(1_999 - hits);
    const { allowed, retryAfterSeconds, resetAt } = limiter.hit("a", 2_000);
    expect([allowed, retryAfterSeconds]).toEqual([false, 61]);
    clock.advance(retryAfterSeconds * 1000);
    expect(clock.now()).toBeGreaterThanOrEqual(resetAt * 1000 - 1000);
    expect(limiter.peek("a", 2_000)).toMatchObject({ allowed: true, remaining: 2_000 });
  });

  test("take as much for a million a minute as for six hundred", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const sizes = [600, 1_000_000].map((limit, at) => {
      const limiter = callersOf(folder.path, clock);
      const before = new Set(existsSync(folder.file("limits/keys")) ? readdirSync(folder.file("limits/keys")) : []);
      for (let hits = 0; hits < 3_000; hits += 1) limiter.hit(`${at}`, limit);
      const made = readdirSync(folder.file("limits/keys")).filter((name) => !before.has(name));
      return made.map((name) => Math.ceil(statSync(folder.file(`limits/keys/${name}`)).size / 4096));
    });
    expect(sizes).toEqual([[2], [2]]);
  });

  test("carry over what was counted when a limit is raised beyond what is kept one by one, and lowered again", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const limiter = callersOf(folder.path, clock);
    for (let hits = 0; hits < 5; hits += 1) {
      limiter.hit("a", 600);
      clock.advance(1_000);
    }
    expect(limiter.hit("a", 5_000)).toMatchObject({ allowed: true, remaining: 4_994 });
    expect(callersOf(folder.path, clock).peek("a", 6)).toMatchObject({ allowed: false, remaining: 0 });
    clock.advance(55_120);
    expect(limiter.peek("a", 6)).toMatchObject({ allowed: true, remaining: 1 });
  });

  test("let exactly so many through as they hold, however processes race, while the limit is raised", async () => {
    using folder = new TempFolder();
    const racer = `
      const { systemClock } = await import(SRC + "/lib/time/clock.ts");
      const { openMachineLimits } = await import(SRC + "/limits/machine/limiter.ts");
      const log = { error: (words, { error }) => { throw error; } };
      const options = { clock: systemClock, log, processes: 3, isSweeper: false };
      const limiter = openMachineLimits(${JSON.stringify(folder.path)}, options).callers;
      const left = [];
      for (let calls = 0; calls < 4000; calls += 1) {
        const limit = calls < 1000 ? 400 : calls < 2000 ? 2000 : 5000;
        const { allowed, remaining } = limiter.hit("a", limit);
        if (allowed) left.push(5000 - limit + remaining);
      }
      console.log(JSON.stringify(left));`;
    const results = await Promise.all([1, 2, 3].map(() => runScript(racer)));
    expect(results.map(({ errors }) => errors)).toEqual(["", "", ""]);
    const left = results.flatMap(({ lines }) => lines[0] as number[]);
    expect(left.toSorted((one, other) => one - other)).toEqual(Array.from({ length: 5000 }, (_, at) => at));
  });

  test("peeking makes no file", () => {
    using folder = new TempFolder();
    const limiter = callersOf(folder.path, new ManualClock());
    expect(limiter.peek("a", 5)).toMatchObject({ allowed: true, remaining: 5 });
    expect(readdirSync(folder.file("limits"), { recursive: true }).sort()).toEqual(["clock", "keys", "lock"]);
  });

  test("a file that is damaged or empty is made anew", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    for (const damage of [
      () => truncateSync(fileIn(folder), 0),
      () => truncateSync(fileIn(folder), 640),
      () => writeFileSync(fileIn(folder), "no"),
    ]) {
      callersOf(folder.path, clock).hit("a", 5);
      damage();
      expect(callersOf(folder.path, clock).hit("a", 5)).toMatchObject({ allowed: true, remaining: 4 });
    }
  });

  test.each([5, 5_000])(
    "whatever stands in a file, nobody is locked out for more than two minutes, and nothing hangs: limit %d",
    (limit) => {
      fc.assert(
        fc.property(fc.integer({ min: 1, max: 2 ** 32 - 1 }), (seed) => {
          using folder = new TempFolder();
          const clock = new ManualClock();
          const limiter = callersOf(folder.path, clock);
          limiter.hit("a", limit);
          const bytes = mapFile(fileIn(folder));
          const part = Buffer.alloc(bytes.length - 64);
          let state = seed;
          for (let at = 0; at < part.length; at += 1) {
            state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
            part[at] = state >>> 24;
          }
          bytes.set(part, 64);
          limiter.hit("a", limit);
          clock.advance(120_000);
          expect(limiter.hit("a", limit)).toMatchObject({ allowed: true });
        }),
        { numRuns: runs(20) },
      );
    },
  );
});

describe("a process that is killed", () => {
  /** The words of the only window. */
  const wordsOf = (folder: TempFolder) => {
    const bytes = mapFile(fileIn(folder));
    return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  };

  test("between its hit and the head loses nothing", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const limiter = callersOf(folder.path, clock);
    for (let hits = 0; hits < 3; hits += 1) limiter.hit("a", 5);
    const words = wordsOf(folder);
    expect(words[16]).toBe(3);
    words[17 + 3] = words[17 + 2]!;
    expect(limiter.hit("a", 5)).toMatchObject({ allowed: true, remaining: 0 });
    expect(limiter.hit("a", 5)).toMatchObject({ allowed: false, remaining: 0 });
    clock.advance(60_000);
    expect(limiter.peek("a", 5)).toMatchObject({ allowed: true, remaining: 5 });
  });

  test("between freezing a file and replacing it loses nothing", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const limiter = callersOf(folder.path, clock);
    for (let hits = 0; hits < 3; hits += 1) limiter.hit("a", 5);
    const words = wordsOf(folder);
    words[16] = words[16]! | 0x8000_0000;
    expect(limiter.hit("a", 5)).toMatchObject({ allowed: true, remaining: 1 });
    expect(callersOf(folder.path, clock).hit("a", 5)).toMatchObject({ allowed: true, remaining: 0 });
    expect(limiter.hit("a", 5).allowed).toBe(false);
  });
});

describe("addresses", () => {
  test("have a bounded part of the memory, and of a process of four a quarter of the limit", () => {
    using folder = new TempFolder();
    const options = { clock: new ManualClock(), log: silentLogger, processes: 4, isSweeper: false };
    const { addresses } = openMachineLimits(folder.path, options);
    for (let hits = 0; hits < 100; hits += 1) expect(addresses.hit("busy", 400).allowed).toBe(true);
    expect(addresses.hit("busy", 400)).toMatchObject({ allowed: false, limit: 100 });
    for (let caller = 0; caller < 30_000; caller += 1) addresses.hit(`${caller}`, 4);
    expect(addresses.peek("29999", 4)).toMatchObject({ allowed: false });
    expect(addresses.peek("busy", 400)).toMatchObject({ allowed: true, remaining: 100 });
    expect(existsSync(folder.file("limits"))).toBe(false);
  });
});

describe("files of keys", () => {
  test("that nobody uses are removed, and no hit is lost by it", async () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const limits = openMachineLimits(folder.path, { clock, log: silentLogger, processes: 1, isSweeper: true });
    const names = () => readdirSync(folder.file("limits/keys"));
    for (let caller = 0; caller < 100; caller += 1) limits.callers.hit(`${caller}`, 2);
    const abandoned = folder.file(`limits/keys/${"0".repeat(64)}.unfinished`);
    writeFileSync(abandoned, "");
    utimesSync(abandoned, 1, 1);
    clock.advance(599_000);
    limits.callers.hit("0", 2);
    limits.callers.hit("1", 2);
    clock.advance(3_600_000 - 599_000 - 1_000);
    limits.callers.hit("1", 2);
    expect(names().length).toBe(101);
    clock.advance(61_000);
    while (names().length > 1) await new Promise((resolve) => setImmediate(resolve));
    expect(existsSync(abandoned)).toBe(false);
    // A mapping of a file that is gone counts for nothing.
    const other = callersOf(folder.path, clock);
    for (const caller of ["1", "5"]) {
      limits.callers.hit(caller, 2);
      other.hit(caller, 2);
      expect(limits.callers.hit(caller, 2).allowed).toBe(false);
    }
    limits.close();
  });
});

test("where the files can't be used each process allows its part of a limit, and complains once a minute", () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("limits"), "in the way");
  const clock = new ManualClock();
  let errors = 0;
  const count = () => {
    errors += 1;
  };
  const log: Logger = { ...silentLogger, error: count };
  const { callers } = openMachineLimits(folder.path, { clock, log, processes: 2, isSweeper: false });
  const decisions = Array.from({ length: 6 }, () => callers.hit("a", 8));
  expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, true, false, false]);
  expect(callers.hit("b", 1)).toMatchObject({ allowed: true, limit: 1 });
  expect(errors).toBe(1);
  clock.advance(60_000);
  expect(callers.peek("a", 8)).toMatchObject({ allowed: true, remaining: 4 });
  expect(errors).toBe(2);
});

test("a folder that can't be used is tried again with the next call", () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("limits"), "in the way");
  const clock = new ManualClock();
  const limits = openMachineLimits(folder.path, { clock, log: silentLogger, processes: 1, isSweeper: false });
  expect(limits.callers.hit("a", 2)).toMatchObject({ allowed: true, remaining: 1 });
  expect(limits.callers.hit("a", 2)).toMatchObject({ allowed: true, remaining: 0 });
  expect(limits.callers.hit("a", 2)).toMatchObject({ allowed: false });
  rmSync(folder.file("limits"));
  limits.callers.hit("a", 2);
  expect(readdirSync(folder.file("limits/keys"))).toHaveLength(1);
  limits.close();
});
