import { edenGC, heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { reportGarbage } from "../../src/lib/garbage-collection.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
/** Objects of a kind that nothing else makes. */
const leave = () => {
  for (let at = 0; at < 200; at += 1) new Blob(["x"]);
};
const left = () => heapStats().objectTypeCounts["Blob"] ?? 0;

test("what was dropped is collected once the turn has ended, when it is worth it", async () => {
  const much = 1024 ** 3;
  reportGarbage(much);
  await turn();
  leave();
  reportGarbage(1024 * 1024);
  await turn();
  expect(left()).toBeGreaterThan(150);
  reportGarbage(much);
  expect(left()).toBeGreaterThan(150);
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
