/**
 * The thinking parameters of a request, from any of the options by which callers ask for thinking.
 * Source: https://platform.claude.com/docs/en/build-with-claude/thinking#configuring-thinking
 */
import { type Static, Type } from "@sinclair/typebox";
import type { AnthropicRules, Effort } from "../../facts/vocabulary/claude.ts";
import { listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { Open, Words } from "../../lib/json/schemas.ts";
import { type KnownEffort, knownEfforts } from "../../protocols/chat/schema.ts";
import type { Call } from "../provider.ts";
import { thinkingOptions } from "../thinking-options.ts";

export const ThinkingExtras = {
  ...thinkingOptions,
  thinking: Type.Optional(
    Open({
      type: Words(["enabled", "adaptive", "disabled", "between_tools"], {
        description: "As the Messages API names them.",
      }),
      budget_tokens: Type.Optional(Type.Integer()),
      display: Type.Optional(Type.String()),
    }),
  ),
};
const Extras = Type.Object(ThinkingExtras);

type Level = Exclude<KnownEffort, "none">;

type ThinkingRequest = {
  readonly enabled: boolean;
  readonly budget?: number | undefined;
  readonly effort?: Level | undefined;
  readonly display?: string | undefined;
  readonly hidden?: boolean;
  /** The caller's max_tokens includes the budget, as in the Messages API. */
  readonly budgetIncluded?: boolean;
};

export type ThinkingPlan = {
  readonly thinking?: { type: string; budget_tokens?: number; display?: string };
  readonly effort?: Effort;
  /** The caller's max_tokens includes the budget already. */
  readonly budgetIncluded?: boolean;
};

export const minBudget = 1024;
/** The budget for an effort where the model takes only budgets, and the other way round. */
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
  const requested = requestedThinking(call);
  if (requested === undefined || rules.thinking === "none") return {};
  if (!requested.enabled) return thinkingOff(rules);
  const budgeted = rules.thinking === "budget" || (rules.thinking === "both" && requested.budget !== undefined);
  if (budgeted && !budgetAllowed) return thinkingOff(rules);
  const display = displayOf(requested, rules);
  if (budgeted) {
    const budget = requested.budget ?? budgets[requested.effort ?? "medium"];
    const budget_tokens = Math.max(minBudget, Math.min(budget, rules.max_output - minBudget));
    return {
      thinking: { type: "enabled", budget_tokens, ...display },
      budgetIncluded: requested.budgetIncluded === true,
    };
  }
  const effort = nearestEffort(requested.effort ?? effortFor(requested.budget), rules.efforts);
  return {
    thinking: { type: "adaptive", ...display },
    ...(effort !== undefined && { effort }),
  };
}

/**
 * Thinking with a budget can't begin in the middle of a tool turn whose own thoughts were lost, nor of an answer.
 * https://platform.claude.com/docs/en/build-with-claude/extended-thinking#extended-thinking-with-tool-use
 */
export function canStartThinking(turns: readonly { readonly role?: unknown; readonly content?: unknown }[]): boolean {
  const last = turns.findLast(({ role }) => role !== "system");
  if (last?.role === "assistant") return false;
  if (!listOf(last?.content).some((block) => objectOf(block)?.["type"] === "tool_result")) return true;
  const called = listOf(turns.findLast(({ role }) => role === "assistant")?.content)[0];
  return ["thinking", "redacted_thinking"].includes(textOf(objectOf(called)?.["type"]) ?? "");
}

/** False only where the caller asked for no text of the thoughts. */
export function showsThoughts(call: Call): boolean {
  return (call.extras as Static<typeof Extras>).include_thoughts !== false;
}

function requestedThinking({ request, extras }: Call): ThinkingRequest | undefined {
  const { thinking, thinking_budget, include_thoughts } = extras as Static<typeof Extras>;
  const { reasoning_effort } = request;
  const effort = levelOf(reasoning_effort);
  const hidden = include_thoughts === false;
  if (thinking !== undefined) {
    const enabled = thinking.type === "enabled" || thinking.type === "adaptive";
    return { enabled, budget: thinking.budget_tokens, effort, display: thinking.display, hidden, budgetIncluded: true };
  }
  if (thinking_budget !== undefined) {
    const budget = thinking_budget > 0 ? thinking_budget : undefined;
    return { enabled: thinking_budget !== 0, budget, effort, hidden };
  }
  if (reasoning_effort === "none") return { enabled: false };
  return effort !== undefined || include_thoughts === true ? { enabled: true, effort, hidden } : undefined;
}

/** An effort that only other providers know is ignored. */
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

function displayOf(requested: ThinkingRequest, rules: AnthropicRules): { display?: string } {
  if (requested.display !== undefined) return { display: requested.display };
  // Older models return their thinking without this option.
  return rules.thinking_display ? { display: requested.hidden === true ? "omitted" : "summarized" } : {};
}

function effortFor(budget: number | undefined): Effort | undefined {
  return budget === undefined ? undefined : (levels.find((level) => budgets[level] >= budget) ?? "max");
}

/** The requested level, or the highest one below it that the model supports. */
export function nearestEffort(requested: unknown, known: readonly Effort[]): Effort | undefined {
  const at = levels.indexOf(requested as Effort);
  if (at < 0 && requested !== "minimal") return undefined;
  const limit = Math.max(0, at);
  return known.findLast((level) => levels.indexOf(level) <= limit) ?? known[0];
}
