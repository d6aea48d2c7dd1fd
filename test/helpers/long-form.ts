import { test } from "bun:test";

/** Whether the long form of the suite runs (`npm run test:long`): searches, clusters under faults, and what else takes minutes. */
export const isLongForm = process.env["TROUPE_TEST_LONG"] === "1";

/** A test of the long form alone; elsewhere it is skipped by its name. */
export const longTest = isLongForm ? test : test.skip;

/** The suite is for every change, and the long form looks further: a property that 30 values don't break is rarely broken by the next 70. */
const scale = Number(process.env["TROUPE_TEST_RUNS"] ?? (isLongForm ? 1 : 0.3));
if (!(scale > 0))
  throw new Error(`TROUPE_TEST_RUNS must be a number above 0, such as 10: ${process.env["TROUPE_TEST_RUNS"]}`);

/** How often a property is tried: `TROUPE_TEST_RUNS` times the usual, and at least once. */
export const runs = (usual: number): number => Math.max(1, Math.round(usual * scale));

/**
 * What is tried of a list whose members prove nearly the same: in the long form all, in the suite one of each `every`.
 * @param from which one; where a list is gone through again and again, another each time leaves none out
 */
export const some = <T>(list: readonly T[], every: number, from = 0): readonly T[] =>
  isLongForm ? list : list.filter((_, at) => at % every === from % every);
