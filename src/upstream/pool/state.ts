/** Sums up the state of an account's keys and endpoints in a word. */
import type { MemberView, PoolView } from "./pools.ts";

/** `degraded`: some rest. `resting`: all do, and calls wait for the first of them. */
export type PoolState = "ok" | "degraded" | "resting";

const isResting = ({ rests, breaker }: MemberView) =>
  breaker.state === "open" || rests.some(({ model }) => model === undefined);

export function poolState({ members }: PoolView): PoolState {
  if (members.every(isResting)) return "resting";
  return members.some((member) => isResting(member) || member.rests.length > 0) ? "degraded" : "ok";
}
