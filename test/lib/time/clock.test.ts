import { expect, test } from "bun:test";
import { repeat, systemClock } from "../../../src/lib/time/clock.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

test("ids are 32 hexadecimal characters, differ, and sort by time of birth", () => {
  const ids = Array.from({ length: 5000 }, () => systemClock.newId());
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.toSorted()).toEqual(ids);
  const bornAt = Number.parseInt(systemClock.newId().slice(0, 12), 16);
  expect(Math.abs(bornAt - Date.now())).toBeLessThan(60_000);
});

test("a timer does not end before its time, to parts of a millisecond", async () => {
  const elapsed = Array.from({ length: 100 }, (_, at) => {
    const ms = 1 + at / 101;
    const begun = systemClock.monotonic();
    return new Promise<number>((resolve) => {
      systemClock.setTimer(ms, () => resolve(systemClock.monotonic() - begun - ms));
    });
  });
  expect(Math.min(...(await Promise.all(elapsed)))).toBeGreaterThanOrEqual(0);
});

test("a repeated task runs again the time after it ended, one run at a time, until it is stopped", async () => {
  const clock = new ManualClock();
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const stop = repeat(clock, 10, () => {
    begun.push(clock.now());
    return new Promise<void>((resolve) => void ends.push(resolve));
  });
  const start = clock.now();
  await clock.advanceSlowly(25);
  expect(begun).toEqual([start + 10]);
  ends[0]!();
  await clock.advanceSlowly(1);
  await clock.advanceSlowly(10);
  expect(begun).toHaveLength(2);
  let isStopped = false;
  const stopped = stop().then(() => {
    isStopped = true;
  });
  await clock.advanceSlowly(30);
  expect([begun.length, isStopped]).toEqual([2, false]);
  ends[1]!();
  await stopped;
  await clock.advanceSlowly(30);
  expect(begun).toHaveLength(2);
});

test("a repeated task without a promise runs at each of its times, however far the clock is moved", () => {
  const clock = new ManualClock();
  let runs = 0;
  const stop = repeat(clock, 10, () => {
    runs += 1;
  });
  clock.advance(35);
  expect(runs).toBe(3);
  void stop();
  clock.advance(35);
  expect(runs).toBe(3);
});
