import { edenGC, heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { reportGarbage, returnMemoryWhenQuiet } from "../../../src/lib/process/garbage-collection.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
/** Objects of a kind that nothing else makes. */
const leave = () => {
  for (let at = 0; at < 200; at += 1) new Blob(["x"]);
};
const left = () => heapStats().objectTypeCounts["Blob"] ?? 0;

/** The engine may collect by itself at any time, which is rare: whether they are left after one of many tries tells. */
async function areLeftAfter(report: () => void): Promise<boolean> {
  for (let tries = 0; tries < 20; tries += 1) {
    leave();
    report();
    await turn();
    if (left() > 150) return true;
  }
  return false;
}

test("what was dropped is collected once the turn has ended, when it is worth it", async () => {
  const much = 1024 ** 3;
  reportGarbage(much);
  await turn();
  expect(await areLeftAfter(() => reportGarbage(64 * 1024))).toBe(true);
  reportGarbage(much);
  await turn();
  expect(left()).toBeLessThan(50);
});

test("what is old is collected as well", async () => {
  leave();
  edenGC();
  edenGC();
  reportGarbage(1024 ** 3);
  await turn();
  expect(left()).toBeLessThan(50);
});

test("what a burst took goes back to the system in the first quiet second after it, where it is worth it", () => {
  const clock = new ManualClock(0);
  const mb = 1024 ** 2;
  let cpuMs = 0;
  let resident = 70 * mb;
  let collections = 0;
  const collect = () => {
    collections += 1;
    cpuMs += 50;
    resident -= 20 * mb;
  };
  const stop = returnMemoryWhenQuiet(clock, { cpuMs: () => cpuMs, resident: () => resident, collect });
  const second = (usedMs: number, grownMb: number) => {
    cpuMs += usedMs;
    resident += grownMb * mb;
    clock.advance(1000);
    return collections;
  };
  // A burst of two seconds, and then less than nothing: it collects once, and what that took is no work.
  expect([second(900, 60), second(900, 0), second(3, 0), second(3, 0)]).toEqual([0, 0, 1, 1]);
  // 110 MB are kept: a quarter more is worth it, less is not.
  expect([second(900, 26), second(3, 0), second(900, 2), second(3, 0)]).toEqual([1, 1, 1, 2]);
  // What the system takes by itself is not kept.
  expect([second(3, -60), second(900, 20), second(3, 0)]).toEqual([2, 2, 3]);
  stop();
  expect([second(900, 100), second(3, 0)]).toEqual([3, 3]);
});
