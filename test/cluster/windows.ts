/** What a key's requests per minute are held to: admissions, as their callers and the upstream saw them. */
import type { FaultWindow } from "./history.ts";

/** One request that reached the upstream. It was admitted between the two. */
export type Admission = { readonly startedAt: number; readonly arrivedAt: number };

export const windowMs = 60_000;
/** Clocks of the store and of this process, and the moment between two readings. */
const slackMs = 100;

/**
 * More were certainly admitted in some 60 s than may be.
 * @param losses when a node could not reach the windows, or they were lost
 * @param kills of nodes, which then forget what they admitted
 * @returns a sentence for each key
 */
export function overAdmissionsOf(
  key: string,
  limit: number,
  admissions: readonly Admission[],
  losses: readonly FaultWindow[],
  kills: readonly FaultWindow[] = [],
): string[] {
  const starts = admissions.toSorted((a, b) => a.startedAt - b.startedAt);
  for (const [at, { startedAt: from }] of starts.entries()) {
    const within = starts.slice(at).filter(({ arrivedAt }) => arrivedAt < from + windowMs - slackMs);
    if (within.length <= limit) continue;
    // Up to one more limit where a node counts alone, for as long as what was admitted meanwhile counts.
    const isNear = (fault: FaultWindow) => fault.from < from + windowMs && fault.to > from - windowMs;
    const isLost = losses.some(isNear);
    // A node that forgot may admit its share again: half of the limit at most, as there are others.
    const forgotten = kills.filter(isNear).length * Math.ceil(limit / 2);
    const most = isLost ? 2 * limit + forgotten : limit;
    if (within.length <= most) continue;
    const told = isLost ? ", though shares apply" : "";
    return [`${key}: ${within.length} admitted within 60 s from ${Math.round(from)}, where ${most} may be${told}`];
  }
  return [];
}
