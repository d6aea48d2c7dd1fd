/** The order in which several keys, endpoints or models are called. */
export const strategies = ["sticky", "first", "weighted", "least_busy", "fastest"] as const;

export type Strategy = (typeof strategies)[number];
