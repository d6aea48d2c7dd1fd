/** Calls under way: those of one process that are asked for, and those of several together. */

import type { LedgerFilter, LedgerLine } from "../../store/contract/usage.ts";
import { isChosen } from "../../store/ledger/chosen-lines.ts";

/** What is asked for. `own` may have how long calls take, which is how long they have taken. */
export type OpenCallsQuestion = Pick<LedgerFilter, "where" | "own"> & { readonly limit: number };

/** Calls under way, the oldest first, and how many there are beyond those listed too. */
export type OpenCalls = { readonly lines: readonly LedgerLine[]; readonly total: number };

/** @param begun lines of calls in the order in which they began @param now Unix milliseconds */
export function openCalls(
  begun: readonly LedgerLine[],
  { limit, ...filter }: OpenCallsQuestion,
  now: number,
): OpenCalls {
  const chosen = begun.filter((line) => isChosen({ ...line, totalMs: Math.max(0, now - line.at) }, filter));
  return { lines: chosen.slice(0, limit), total: chosen.length };
}

/** @param parts of one process each @param limit how many are listed */
export function joinOpenCalls(parts: readonly OpenCalls[], limit: number): OpenCalls {
  const lines = parts.flatMap((part) => part.lines).sort((a, b) => a.at - b.at);
  return { lines: lines.slice(0, limit), total: parts.reduce((sum, { total }) => sum + total, 0) };
}
