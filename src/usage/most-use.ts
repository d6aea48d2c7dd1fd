/** The most that a call within its bounds may use, as it is reserved before it is made. */
import type { Config } from "../config/config.ts";
import { billed, type Usage } from "../protocols/chat/schema.ts";
import type { AttemptBounds, HostedTools } from "./attempt.ts";

type Assumed = Pick<Config["budgets"], "assumedOutputTokens" | "assumedToolUses">;

/** What a use of a hosted tool brings for the model to read: more than the 20 passages of a file search have. */
const tokensPerUse = 20_000;
/** A request may name any number; no budget pays for so many. */
const maxCounted = 1_000_000;

export function mostUse(bounds: AttemptBounds, { assumedOutputTokens, assumedToolUses }: Assumed): Usage {
  const { inputBytes, maxOutputTokens = assumedOutputTokens, choices = 1 } = bounds;
  const { hosted, images, audioSeconds, serviceTier } = bounds;
  const uses = hosted && usesOf(hosted, assumedToolUses);
  // No token is shorter than a byte.
  const input = inputBytes + (uses === undefined ? 0 : uses.total * tokensPerUse);
  const output = maxOutputTokens * choices;
  const tools = uses && Object.fromEntries(uses.priced);
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    [billed]: {
      ...(tools !== undefined && { tools }),
      ...(images !== undefined && { images }),
      ...(audioSeconds !== undefined && { audioSeconds }),
      ...(serviceTier !== undefined && { serviceTier }),
    },
  };
}

type Uses = { readonly priced: ReadonlyMap<string, number>; readonly total: number };

function usesOf({ tools, maxUses }: HostedTools, assumed: number): Uses {
  const priced = new Map<string, number>();
  let sum = 0;
  for (const { name, isFree, maxUses: said = maxUses ?? assumed } of tools) {
    const own = Math.min(said, maxCounted);
    sum += own;
    if (!isFree) priced.set(name, (priced.get(name) ?? 0) + own);
  }
  return { priced, total: Math.min(sum, maxUses ?? sum) };
}

/** The hosted tools whose uses cost something, for those who miss a price. */
export const pricedTools = ({ hosted }: AttemptBounds): string[] => [
  ...new Set((hosted?.tools ?? []).filter(({ isFree }) => !isFree).map(({ name }) => name)),
];
