/** Times to the first token of many calls, by the counts that the ledger keeps of them. */
import { firstTokenBounds } from "../api/words.ts";

export type FirstTokens = {
  /** Calls that had a first token. */
  readonly calls: number;
  /** Milliseconds; null: there was no such call. */
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
};

/** @param counts as `firstTokenBounds` part them */
export function firstTokensOf(counts: readonly number[]): FirstTokens {
  const calls = counts.reduce((sum, count) => sum + count, 0);
  const quantile = (share: number) => (calls === 0 ? null : quantileOf(counts, share * calls));
  return { calls, p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99) };
}

/** Interpolates within the bucket that the call of that rank is in; beyond the last bound that bound is all that is known. */
function quantileOf(counts: readonly number[], rank: number): number {
  let below = 0;
  for (const [at, count] of counts.entries()) {
    const bound = firstTokenBounds[at];
    if (bound === undefined) break;
    if (count > 0 && below + count >= rank) {
      const from = at === 0 ? 0 : firstTokenBounds[at - 1]!;
      return Math.round(from + ((bound - from) * (rank - below)) / count);
    }
    below += count;
  }
  return firstTokenBounds.at(-1)!;
}
