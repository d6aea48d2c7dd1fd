import type { LedgerLine } from "../../store/contract/usage.ts";

/** The value below which that share of the lines' values is, of those that have one; null: none has. */
export function quantileOf(
  lines: readonly LedgerLine[],
  share: number,
  of: (line: LedgerLine) => number | null,
): number | null {
  const values = lines.flatMap((line) => of(line) ?? []).sort((a, b) => a - b);
  return values[Math.ceil(share * values.length) - 1] ?? null;
}
