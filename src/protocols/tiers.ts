/** The plan tiers, the lowest first: each may use what those before it may. */
export const tiers = ["free", "pro", "enterprise"] as const;
export type Tier = (typeof tiers)[number];
