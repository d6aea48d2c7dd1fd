/** The options by which callers of any provider ask for the model's thoughts; each adapter says how far it can follow. */
import type { Call } from "./provider.ts";

/** Whether the call asks for the text of the thoughts, by `include_thoughts`, `thinking`, `thinking_budget` or an effort. */
export function asksForThoughts({ request, extras }: Call): boolean {
  const { include_thoughts, thinking, thinking_budget: budget } = extras;
  return (
    include_thoughts === true ||
    (typeof budget === "number" && budget !== 0) ||
    (typeof thinking === "object" && thinking !== null && (thinking as { type?: unknown }).type !== "disabled") ||
    (request.reasoning_effort !== undefined && request.reasoning_effort !== "none")
  );
}
