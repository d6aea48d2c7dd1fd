import { edenGC, heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { reportGarbage, returnMemoryWhenQuiet } from "../../src/lib/garbage-collection.ts";
import { ManualClock } from "../helpers/manual-clock.ts";

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

test("what a burst took goes back to the system in the first quiet second after it", () => {
  const clock = new ManualClock(0);
  const stop = returnMemoryWhenQuiet(clock);
  const before = process.memoryUsage.rss();
  const grown = () => (process.memoryUsage.rss() - before) / 1024 ** 2;
  // Small ones: the engine takes large ones from the system itself, and gives them back by itself.
  (() => Array.from({ length: 400_000 }, (_, at) => ({ at, text: `${at} of many`, list: [at] })))();
  expect(grown()).toBeGreaterThan(40);
  clock.advance(1000);
  expect(grown()).toBeGreaterThan(40);
  clock.advance(1000);
  expect(grown()).toBeLessThan(20);
  stop();
});
