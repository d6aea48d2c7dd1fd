const given = process.env["TROUPE_TEST_SEED"];

/**
 * Where all made-up values begin that have no seed of their own. Always the same, as a suite that judges a change must not fail by chance
 * on another one's bug: `TROUPE_TEST_SEED=random` looks for those, and a number comes back to one.
 */
export const testSeed: number = given === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(given ?? 14);
