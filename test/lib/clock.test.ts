import { expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";

test("ids are 32 hexadecimal characters, differ, and sort by time of birth", () => {
  const ids = Array.from({ length: 5000 }, () => systemClock.newId());
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.toSorted()).toEqual(ids);
  const bornAt = Number.parseInt(systemClock.newId().slice(0, 12), 16);
  expect(Math.abs(bornAt - Date.now())).toBeLessThan(60_000);
});
