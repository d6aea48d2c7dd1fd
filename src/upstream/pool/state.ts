/** Sums up the state of an account's keys and endpoints in a word. */
import type { MemberView, PoolView } from "./pools.ts";

/** `degraded`: some are in cooldown. `resting`: all are, and calls wait for the first of them. */
type PoolState = "ok" | "degraded" | "resting";

/** @param workers processes that a joined view is of: what is in cooldown in a part of them serves in the others */
export function poolState({ members }: PoolView, workers = 1): PoolState {
  const isInCooldown = ({ cooldowns, breaker }: MemberView) =>
    (breaker.state === "open" && breaker.workers >= workers) ||
    cooldowns.some((cooldown) => cooldown.model === undefined && cooldown.workers >= workers);
  if (members.every(isInCooldown)) return "resting";
  return members.some(({ cooldowns, breaker }) => breaker.state === "open" || cooldowns.length > 0) ? "degraded" : "ok";
}
