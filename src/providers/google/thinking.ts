/**
 * Reads the amount that a model may think, and the wish for its thoughts, from the options that callers know and other gateways taught.
 * Source: https://ai.google.dev/gemini-api/docs/generate-content/thinking
 */
import type { ThinkingConfig, ThinkingLevel } from "@google/genai";
import { type Static, Type } from "@sinclair/typebox";
import type { GoogleRules } from "../../facts/vocabulary/gemini.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { Open, Words } from "../../lib/json/schemas.ts";
import type { Call } from "../provider.ts";
import { asksForThoughts, thinkingOptions } from "../thinking-options.ts";

const levels = ["minimal", "low", "medium", "high", "xhigh"] as const;
const Level = Words([...levels, ...levels.map((level) => level.toUpperCase())]);

export const thinkingExtras = {
  ...thinkingOptions,
  thinking_level: Type.Optional(Level),
  // The form of Google's own compatible endpoint: https://ai.google.dev/gemini-api/docs/openai#thinking
  thinking_config: Type.Optional(
    Open({
      thinking_budget: Type.Optional(Type.Integer({ minimum: -1 })),
      thinking_level: Type.Optional(Level),
      include_thoughts: Type.Optional(Type.Boolean()),
    }),
  ),
  // The form of Anthropic's API, which other gateways take for every provider.
  thinking: Type.Optional(Open({ type: Type.String(), budget_tokens: Type.Optional(Type.Integer({ minimum: 0 })) })),
} as const;
const ThinkingExtras = Type.Object(thinkingExtras);
type ThinkingExtras = Static<typeof ThinkingExtras>;

export function wantsThoughts(call: Call): boolean {
  const config = call.extras["thinking_config"] as
    | { include_thoughts?: unknown; includeThoughts?: unknown }
    | undefined;
  return asksForThoughts(call) || (config?.include_thoughts ?? config?.includeThoughts) === true;
}

/** True if the caller wants to see thoughts; undefined when nothing was said. */
export function thoughtsWanted(call: Call): boolean | undefined {
  const { include_thoughts, thinking_config, thinking } = call.extras as ThinkingExtras;
  const implied = thinking !== undefined && thinking.type !== "disabled" && thinking.budget_tokens !== 0;
  return include_thoughts ?? thinking_config?.include_thoughts ?? (implied || undefined);
}

/** A budget goes before a level, a level before an effort; never two of them. */
export function thinkingConfigOf(call: Call, rules: GoogleRules): ThinkingConfig | undefined {
  if (!rules.thinks) return undefined;
  const includeThoughts = thoughtsWanted(call);
  const amount = budgetOf(call.extras) ?? amountOf(call, rules.efforts);
  const config: ThinkingConfig = {
    ...(includeThoughts !== undefined && { includeThoughts }),
    ...(typeof amount === "number" && { thinkingBudget: amount }),
    ...(typeof amount === "string" && { thinkingLevel: amount as ThinkingLevel }),
  };
  return Object.keys(config).length === 0 ? undefined : config;
}

function budgetOf({ thinking_budget, thinking_config, thinking }: ThinkingExtras): number | undefined {
  const enabled = thinking?.type === "enabled" ? thinking.budget_tokens : undefined;
  return thinking_budget ?? thinking_config?.thinking_budget ?? enabled;
}

function amountOf({ extras, request }: Call, efforts: GoogleRules["efforts"]): number | string | undefined {
  const { thinking_level, thinking_config, thinking } = extras as ThinkingExtras;
  const level = thinking_level ?? thinking_config?.thinking_level;
  if (level !== undefined) return ownMember(efforts, level.toUpperCase()) ?? ownMember(efforts, level.toLowerCase());
  return ownMember(efforts, thinking?.type === "disabled" ? "none" : (request.reasoning_effort ?? ""));
}
