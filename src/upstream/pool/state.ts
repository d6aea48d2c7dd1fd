/** Sums up the state of an account's keys and endpoints in a word. */
import type { MemberView, PoolView } from "./pools.ts";

/** `degraded`: some rest. `resting`: all do, and calls wait for the first of them. */
export type PoolState = "ok" | "degraded" | "resting";

/** @param workers processes that a joined view is of: what rests in a part of them serves in the others */
export function poolState({ members }: PoolView, workers = 1): PoolState {
  const isResting = ({ rests, breaker }: MemberView) =>
    (breaker.state === "open" && breaker.workers >= workers) ||
    rests.some((rest) => rest.model === undefined && rest.workers >= workers);
  if (members.every(isResting)) return "resting";
  return members.some(({ rests, breaker }) => breaker.state === "open" || rests.length > 0) ? "degraded" : "ok";
}
