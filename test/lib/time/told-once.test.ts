import { expect, test } from "bun:test";
import { ToldOnce } from "../../../src/lib/time/told-once.ts";

test("each thing is let through once, and only so many of them", () => {
  const told = new ToldOnce(2);
  expect(["a", "b", "a", "c", "b"].map((thing) => told.takes(thing))).toEqual([true, true, false, false, false]);
});
