/** The options by which callers of any provider ask for the model's thoughts; each adapter says how far it can follow. */
import { Type } from "@sinclair/typebox";
import type { Call } from "./provider.ts";

export const thinkingOptions = {
  include_thoughts: Type.Optional(
    Type.Boolean({
      description: "true: the model's thoughts also go into metadata.thinking; false: they are not wanted.",
    }),
  ),
  thinking_budget: Type.Optional(
    Type.Integer({
      minimum: -1,
      description:
        "Tokens for thinking, where the model takes a number; 0 turns it off, -1 leaves the amount to the model.",
    }),
  ),
};

/** True if the call asks for the text of the thoughts, by `include_thoughts`, `thinking`, `thinking_budget` or an effort. */
export function asksForThoughts({ request, extras }: Call): boolean {
  const { include_thoughts, thinking, thinking_budget: budget } = extras;
  return (
    include_thoughts === true ||
    (typeof budget === "number" && budget !== 0) ||
    (typeof thinking === "object" && thinking !== null && (thinking as { type?: unknown }).type !== "disabled") ||
    (request.reasoning_effort !== undefined && request.reasoning_effort !== "none")
  );
}
