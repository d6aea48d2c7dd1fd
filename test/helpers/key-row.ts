import type { KeyRow } from "../../src/store/contract/store.ts";

/** A key of the pro tier that never expires, as the store holds it. */
export const keyRow = (id: string, changes: Partial<KeyRow> = {}): KeyRow => ({
  id,
  name: id,
  prefix: `trp_${id}`,
  hash: `hash-${id}`,
  tier: "pro",
  perMinute: null,
  tokensPerMinute: null,
  surfaces: "[]",
  models: "[]",
  tags: "[]",
  createdAt: 1,
  expiresAt: null,
  lastUsedAt: null,
  revokedAt: null,
  oldHash: null,
  oldUntil: null,
  ...changes,
});
