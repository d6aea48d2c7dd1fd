/** The order in which several members of a pool are called. */
export const strategies = ["sticky", "first", "weighted", "least_busy", "fastest"] as const;

export type Strategy = (typeof strategies)[number];
