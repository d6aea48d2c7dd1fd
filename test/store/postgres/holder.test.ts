import { expect, test } from "bun:test";
import { Holder } from "../../../src/store/postgres/holder.ts";
import type { QueryPool } from "../../../src/store/postgres/query-pool.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

test("a lease that lapsed while its renewal was under way is not held again under the same name", async () => {
  const clock = new ManualClock();
  const renewals: (() => void)[] = [];
  const run = (text: string) => {
    if (!text.startsWith("update")) return Promise.resolve({ count: 1 });
    return new Promise((resolve) => renewals.push(() => resolve({ count: 1 })));
  };
  const holder = new Holder({ run } as unknown as QueryPool, "model", clock, 15_000);
  const name = await holder.current();
  clock.advance(5_000);
  expect(renewals.length).toBe(1);
  clock.advance(10_000);
  expect(holder.holds(name)).toBe(false);
  renewals[0]!();
  await new Promise((resolve) => setImmediate(resolve));
  expect(holder.holds(name)).toBe(false);
  expect(await holder.current()).not.toBe(name);
});
