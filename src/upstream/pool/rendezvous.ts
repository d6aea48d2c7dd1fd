/**
 * Weighted rendezvous hashing: each member gets a score for a conversation, and the highest one has it. A member that is added takes its
 * share from all others, and one that is removed leaves its own to them; nothing else moves.
 * Source: https://www.ietf.org/archive/id/draft-ietf-bess-weighted-hrw-00.html
 */
export type Weighted = {
  /** 32 bits, of what the member is. */
  readonly seed: number;
  readonly weight: number;
};

/** @returns the score of a member for a conversation */
export function score(key: string, { seed, weight }: Weighted): number {
  return -weight / Math.log(uniform(key, seed));
}

/** In (0, 1). */
const uniform = (key: string, seed: number) => (Bun.hash.xxHash32(key, seed) + 0.5) / 2 ** 32;

/** @returns 32 bits of a text */
export const seedOf = (text: string): number => Bun.hash.xxHash32(text, 0);
