import { expect, test } from "bun:test";
import { nextSlice, slicesBegun } from "../../../src/lib/time/cooperative-scheduling.ts";

test("one piece begins in each turn of the event loop, in the order in which they asked", async () => {
  const before = slicesBegun();
  const order: number[] = [];
  const seen: number[] = [];
  let isOver = false;
  const look = () => {
    seen.push(slicesBegun() - before);
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  await Promise.all(
    [1, 2, 3, 4, 5].map(async (caller) => {
      for (let piece = 0; piece < 2; piece += 1) {
        await nextSlice();
        order.push(caller);
      }
    }),
  );
  isOver = true;
  expect(order).toEqual([1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
  for (const [at, pieces] of seen.entries()) expect(pieces - (seen[at - 1] ?? 0)).toBeLessThanOrEqual(1);
  expect(slicesBegun() - before).toBe(10);
});
