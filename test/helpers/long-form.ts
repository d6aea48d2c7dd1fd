import { test } from "bun:test";

/** Whether the long form of the suite runs (`npm run test:long`): searches, clusters under faults, and what else takes minutes. */
export const isLongForm = process.env["TROUPE_TEST_LONG"] === "1";

/** A test of the long form alone; elsewhere it is skipped by its name. */
export const longTest = isLongForm ? test : test.skip;

const scale = Number(process.env["TROUPE_TEST_RUNS"] ?? 1);
if (!(scale > 0))
  throw new Error(`TROUPE_TEST_RUNS must be a number above 0, such as 10: ${process.env["TROUPE_TEST_RUNS"]}`);

/** How often a property is tried: `TROUPE_TEST_RUNS` times as often as the suite does by itself, and at least once. */
export const runs = (usual: number): number => Math.max(1, Math.round(usual * scale));
