import { expect, test } from "bun:test";
import fc from "fast-check";
import { type Clock, systemClock } from "../../../src/lib/time/clock.ts";
import { Deadlines } from "../../../src/lib/time/deadlines.ts";
import { runs } from "../../helpers/long-form.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

test("each expires after its time, never before, unless it is done", () => {
  const step = fc.record({ ms: fc.integer({ min: 0, max: 70 }), done: fc.option(fc.nat({ max: 30 })) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const clock = new ManualClock(0);
      const deadlines = new Deadlines(clock, 100);
      const expired: [number, number][] = [];
      const expected: [number, number][] = [];
      const open = new Map<number, { at: number; one: { expire(): void } }>();
      const settle = (until: number) => {
        for (const [id, { at }] of open) {
          if (at > until) continue;
          expected.push([id, at]);
          open.delete(id);
        }
      };
      for (const [id, { ms, done }] of steps.entries()) {
        const one = { expire: () => expired.push([id, clock.now()]) };
        deadlines.add(one);
        open.set(id, { at: clock.now() + 100, one });
        if (done !== null && open.has(done)) {
          deadlines.delete(open.get(done)!.one);
          open.delete(done);
        }
        clock.advance(ms);
        settle(clock.now());
      }
      clock.advance(1000);
      settle(clock.now());
      expect(expired).toEqual(expected);
    }),
    { numRuns: runs(500) },
  );
});

test("one that expires may end others, and begin anew, and fail", () => {
  const clock = new ManualClock(0);
  const deadlines = new Deadlines(clock, 100);
  const told: string[] = [];
  const late = { expire: () => told.push(`late ${clock.now()}`) };
  const ended = { expire: () => told.push("ended") };
  const first = {
    expire() {
      told.push(`first ${clock.now()}`);
      deadlines.delete(ended);
      if (told.length > 1) throw new Error("once is enough");
      deadlines.add(first);
    },
  };
  deadlines.add(first);
  deadlines.add(ended);
  clock.advance(50);
  deadlines.add(late);
  clock.advance(50);
  expect(told).toEqual(["first 100"]);
  clock.advance(50);
  expect(told).toEqual(["first 100", "late 150"]);
  deadlines.add(late);
  expect(() => clock.advance(50)).toThrow("once is enough");
  clock.advance(50);
  expect(told).toEqual(["first 100", "late 150", "first 200", "late 250"]);
});

test("one timer does for many, and none is left when all are done", () => {
  let set = 0;
  let cancelled = 0;
  const clock: Clock = {
    ...systemClock,
    setTimer() {
      set += 1;
      return () => {
        cancelled += 1;
      };
    },
  };
  const deadlines = new Deadlines(clock, 100);
  const all = Array.from({ length: 50 }, () => ({ expire() {} }));
  for (const one of all) deadlines.add(one);
  for (const one of all.slice(1)) deadlines.delete(one);
  expect({ set, cancelled }).toEqual({ set: 1, cancelled: 0 });
  deadlines.delete(all[0]!);
  deadlines.delete(all[0]!);
  expect({ set, cancelled }).toEqual({ set: 1, cancelled: 1 });
  deadlines.add(all[0]!);
  expect({ set, cancelled }).toEqual({ set: 2, cancelled: 1 });
});
