import { expect, test } from "bun:test";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { LeaseOwner } from "../../../src/store/postgres/lease-owner.ts";
import type { QueryPool } from "../../../src/store/postgres/query-pool.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

test("a lease that lapsed while its renewal was under way is not held again under the same name", async () => {
  const clock = new ManualClock();
  const renewals: (() => void)[] = [];
  const run = (text: string) => {
    if (!text.startsWith("update")) return Promise.resolve({ count: 1 });
    return new Promise((resolve) => renewals.push(() => resolve({ count: 1 })));
  };
  const leaseOwner = new LeaseOwner({ run } as unknown as QueryPool, "model", clock, 15_000);
  const name = await leaseOwner.current();
  clock.advance(5_000);
  expect(renewals.length).toBe(1);
  clock.advance(10_000);
  expect(leaseOwner.holds(name)).toBe(false);
  renewals[0]!();
  await new Promise((resolve) => setImmediate(resolve));
  expect(leaseOwner.holds(name)).toBe(false);
  expect(leaseOwner.state).toEqual({ lost: 1, failed: 0, ageSeconds: 0 });
  expect(await leaseOwner.current()).not.toBe(name);
  clock.advance(2_000);
  expect(leaseOwner.state).toEqual({ lost: 1, failed: 0, ageSeconds: 2 });
});

test("a renewal that failed is tried again soon, for as long as the lease holds", async () => {
  const clock = new ManualClock();
  const renewedAt: number[] = [];
  let isAway = true;
  const run = async (text: string) => {
    if (text.startsWith("update")) renewedAt.push(clock.monotonic());
    if (isAway && text.startsWith("update")) throw new StorageError("away", "model", "no answer in time");
    return { count: 1 };
  };
  const leaseOwner = new LeaseOwner({ run } as unknown as QueryPool, "model", clock, 15_000);
  const begunAt = clock.monotonic();
  const name = await leaseOwner.current();
  await clock.advanceSlowly(6_700);
  isAway = false;
  await clock.advanceSlowly(10_000);
  const times = renewedAt.map((at) => at - begunAt);
  expect(times).toEqual([5_000, 5_500, 6_000, 6_500, 7_000, 12_000]);
  expect(leaseOwner.state).toMatchObject({ lost: 0, failed: 4 });
  expect(leaseOwner.holds(name)).toBe(true);
  isAway = true;
  await clock.advanceSlowly(30_000);
  expect(leaseOwner.holds(name)).toBe(false);
  // Every half of a second until it has lapsed.
  expect(renewedAt.length).toBe(times.length + 20);
  expect(leaseOwner.state).toEqual({ lost: 1, failed: 24, ageSeconds: 0 });
  await leaseOwner.close();
  expect(leaseOwner.state.lost).toBe(1);
});
