/**
 * Estimates what a call will use, for what budgets reserve before it is made: its text by its bytes, and its `max_tokens`. What it really
 * used counts in the end.
 */
import type { Config } from "../../config/config.ts";
import { billed, type Usage } from "../../protocols/chat/schema.ts";
import type { AttemptBounds, HostedTools } from "../attempt.ts";

type Assumed = Pick<Config["budgets"], "assumedOutputTokens" | "assumedToolUses">;

/** Tokens that a use of a hosted tool brings for the model to read: more than the 20 passages of a file search have. */
const tokensPerUse = 20_000;
/** A request may name any number; no budget pays for so many. */
const maxCounted = 1_000_000;

/** UTF-8 has about three bytes for a token of most languages and of code, and four of English. */
const bytesPerToken = 3;

export const inputTokensOf = ({ inputBytes, inputTokens = 0 }: AttemptBounds): number =>
  Math.ceil(inputBytes / bytesPerToken) + inputTokens;

export function estimateUse(bounds: AttemptBounds, { assumedOutputTokens, assumedToolUses }: Assumed): Usage {
  const { maxOutputTokens = assumedOutputTokens, choices = 1 } = bounds;
  const { hosted, images, audioSeconds, serviceTier, surcharges } = bounds;
  const uses = hosted && usesOf(hosted, assumedToolUses);
  const input = inputTokensOf(bounds) + (uses === undefined ? 0 : uses.total * tokensPerUse);
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
      ...(surcharges !== undefined && { surcharges }),
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
