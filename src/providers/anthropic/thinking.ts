/**
 * Whether, how and how much the model is to think, from what the caller said in any of the known ways.
 * Source: https://platform.claude.com/docs/en/build-with-claude/thinking#configuring-thinking
 */
import { type Static, Type } from "@sinclair/typebox";
import { type KnownEffort, knownEfforts } from "../../protocols/chat/schema.ts";
import type { Call } from "../provider.ts";
import { thinkingOptions } from "../thinking-options.ts";
import type { AnthropicRules, Effort } from "./rules.ts";

export const ThinkingExtras = {
  ...thinkingOptions,
  thinking: Type.Optional(
    Type.Object(
      {
        type: Type.Union(
          ["enabled", "adaptive", "disabled", "between_tools"].map((type) => Type.Literal(type)),
          { description: "As the Messages API names them." },
        ),
        budget_tokens: Type.Optional(Type.Integer()),
        display: Type.Optional(Type.String()),
      },
      { additionalProperties: true },
    ),
  ),
};
const Extras = Type.Object(ThinkingExtras);

type Level = Exclude<KnownEffort, "none">;

type Wish = {
  readonly on: boolean;
  readonly budget?: number | undefined;
  readonly effort?: Level | undefined;
  readonly display?: string | undefined;
  readonly hidden?: boolean;
  /** The caller counted the budget within its max_tokens, as the Messages API does. */
  readonly counted?: boolean;
};

export type ThinkingPlan = {
  readonly thinking?: { type: string; budget_tokens?: number; display?: string };
  readonly effort?: Effort;
  /** The caller's max_tokens holds the budget already. */
  readonly counted?: boolean;
};

const minBudget = 1024;
/** The budget that stands for an effort where the model knows only budgets, and the other way round. */
const budgets: Readonly<Record<Level, number>> = {
  minimal: minBudget,
  low: 2048,
  medium: 10_000,
  high: 16_384,
  xhigh: 32_768,
  max: 32_768,
};
const levels: readonly Effort[] = ["low", "medium", "high", "xhigh", "max"];

/** @param budgetAllowed false where thinking with a budget would be refused for the rest of the request */
export function planThinking(call: Call, rules: AnthropicRules, budgetAllowed: boolean): ThinkingPlan {
  const wish = wishOf(call);
  if (wish === undefined || rules.thinking === "none") return {};
  if (!wish.on) return thinkingOff(rules);
  const budgeted = rules.thinking === "budget" || (rules.thinking === "both" && wish.budget !== undefined);
  if (budgeted && !budgetAllowed) return thinkingOff(rules);
  const display = displayOf(wish, rules);
  if (budgeted) {
    const wanted = wish.budget ?? budgets[wish.effort ?? "medium"];
    const budget_tokens = Math.max(minBudget, Math.min(wanted, rules.max_output - minBudget));
    return { thinking: { type: "enabled", budget_tokens, ...display }, counted: wish.counted === true };
  }
  const effort = nearestEffort(wish.effort ?? effortFor(wish.budget), rules.efforts);
  return {
    thinking: { type: "adaptive", ...display },
    ...(effort !== undefined && { effort }),
  };
}

/** False only where the caller wants no text of the thoughts. */
export function showsThoughts(call: Call): boolean {
  return (call.extras as Static<typeof Extras>).include_thoughts !== false;
}

function wishOf({ request, extras }: Call): Wish | undefined {
  const { thinking, thinking_budget, include_thoughts } = extras as Static<typeof Extras>;
  const { reasoning_effort } = request;
  const effort = levelOf(reasoning_effort);
  const hidden = include_thoughts === false;
  if (thinking !== undefined) {
    const on = thinking.type === "enabled" || thinking.type === "adaptive";
    return { on, budget: thinking.budget_tokens, effort, display: thinking.display, hidden, counted: true };
  }
  if (thinking_budget !== undefined) {
    const budget = thinking_budget > 0 ? thinking_budget : undefined;
    return { on: thinking_budget !== 0, budget, effort, hidden };
  }
  if (reasoning_effort === "none") return { on: false };
  return effort !== undefined || include_thoughts === true ? { on: true, effort, hidden } : undefined;
}

/** A word of another provider's says nothing here: the model does as it does without one. */
function levelOf(effort: string | undefined): Level | undefined {
  const known = knownEfforts.find((one) => one === effort);
  return known === "none" ? undefined : known;
}

function thinkingOff(rules: AnthropicRules): ThinkingPlan {
  switch (rules.thinking_off) {
    case "omit":
      return {};
    case "never": {
      const effort = rules.efforts[0];
      return effort === undefined ? {} : { effort };
    }
    default:
      return { thinking: { type: rules.thinking_off } };
  }
}

function displayOf(wish: Wish, rules: AnthropicRules): { display?: string } {
  if (wish.display !== undefined) return { display: wish.display };
  // Older models show their thoughts unasked.
  return rules.thinking_display ? { display: wish.hidden === true ? "omitted" : "summarized" } : {};
}

function effortFor(budget: number | undefined): Effort | undefined {
  return budget === undefined ? undefined : (levels.find((level) => budgets[level] >= budget) ?? "max");
}

/** The wanted level, or the highest one below it that the model knows. */
function nearestEffort(wanted: Level | undefined, known: readonly Effort[]): Effort | undefined {
  if (wanted === undefined) return undefined;
  const limit = wanted === "minimal" ? 0 : levels.indexOf(wanted);
  return known.findLast((level) => levels.indexOf(level) <= limit) ?? known[0];
}
