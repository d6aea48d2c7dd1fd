/**
 * The fields that each Claude model takes and refuses, as data, as of 2026-11-28. The first row that fits a model and names a key wins, so
 * the newest and most special models stand first and the widest globs last. A model that came after the table has the rules of the newest
 * of its line.
 */
import { type Static, Type } from "@sinclair/typebox";
import { type ModelRule, rulesFor } from "../../facts/rules.ts";
import { Closed, Words } from "../../lib/schemas.ts";
import type { Call } from "../provider.ts";

const Effort = Words(["low", "medium", "high", "xhigh", "max"]);
export type Effort = Static<typeof Effort>;

export const AnthropicRules = Closed({
  thinking: Words(["none", "budget", "both", "adaptive"], {
    description: "How the model is made to think: with a budget of tokens, by itself (adaptive), or either.",
  }),
  thinking_off: Words(["omit", "disabled", "between_tools", "never"], {
    description: "How thinking is turned off: by leaving the field out, by a type, or not at all.",
  }),
  thinking_display: Type.Boolean({ description: "Thoughts come without their text unless it is asked for." }),
  efforts: Type.Array(Effort, { description: "The levels of output_config.effort, lowest first." }),
  sampling: Words(["both", "one", "none"], {
    description: "temperature and top_p: together, only one of them, or neither.",
  }),
  forced_tools: Type.Boolean({ description: "tool_choice may demand a call." }),
  prefill: Type.Boolean({ description: "The last message may be the beginning of the answer." }),
  system_turns: Type.Boolean({ description: "messages may hold the role system." }),
  structured_output: Type.Boolean({ description: "output_config.format and strict tools." }),
  default_output: Type.Integer({ minimum: 1, description: "max_tokens where the caller names none." }),
  max_output: Type.Integer({ minimum: 1, description: "The largest max_tokens." }),
});
export type AnthropicRules = Static<typeof AnthropicRules>;

/** Adaptive thinking that is on unless turned off, and none of what the 4.7 generation did away with. */
const fifth: AnthropicRules = {
  thinking: "adaptive",
  thinking_off: "disabled",
  thinking_display: true,
  efforts: ["low", "medium", "high", "xhigh", "max"],
  sampling: "none",
  forced_tools: true,
  prefill: false,
  system_turns: false,
  structured_output: true,
  default_output: 64_000,
  max_output: 128_000,
};

/** Thinking with a budget, off unless asked for; everything else that came and went is still there. */
const fourth: Omit<AnthropicRules, "default_output" | "max_output"> = {
  thinking: "budget",
  thinking_off: "omit",
  thinking_display: false,
  efforts: [],
  sampling: "one",
  forced_tools: true,
  prefill: true,
  system_turns: false,
  structured_output: false,
};

/** https://platform.claude.com/docs/en/about-claude/models/migration-guide: budgets deprecated, prefill gone, no xhigh */
const lastWithBudgets: AnthropicRules = {
  ...fourth,
  thinking: "both",
  efforts: ["low", "medium", "high", "max"],
  prefill: false,
  structured_output: true,
  default_output: fifth.default_output,
  max_output: fifth.max_output,
};

const structured: AnthropicRules = {
  ...fourth,
  structured_output: true,
  default_output: 32_000,
  max_output: 64_000,
};

type Row = Partial<AnthropicRules> & ModelRule;

/**
 * Sources: thinking by model https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting,
 * effort https://platform.claude.com/docs/en/build-with-claude/effort,
 * output limits https://platform.claude.com/docs/en/about-claude/models/overview,
 * prefill https://platform.claude.com/docs/en/api/errors#prefill-not-supported,
 * system turns https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages,
 * structured outputs https://platform.claude.com/docs/en/build-with-claude/structured-outputs.
 */
const modelRules: readonly Row[] = [
  // https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5: always thinks, no forced tools
  { match: "claude-opus-*", since: "5-5", ...fifth, thinking_off: "never", forced_tools: false, system_turns: true },
  // https://platform.claude.com/docs/en/models/opus-5/migration-guide: thinks unless disabled
  { match: "claude-opus-*", since: "5", ...fifth, system_turns: true },
  // https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-8: thinking off unless asked for
  { match: "claude-opus-*", since: "4-8", ...fifth, thinking_off: "omit", system_turns: true },
  // https://platform.claude.com/docs/en/about-claude/models/migration-guide#migrating-to-claude-opus-4-7
  { match: "claude-opus-*", since: "4-7", ...fifth, thinking_off: "omit" },
  { match: "claude-opus-*", since: "4-6", ...lastWithBudgets },
  { match: "claude-opus-*", since: "4-5", ...structured, efforts: ["low", "medium", "high"] },
  {
    match: "claude-opus-*",
    since: "4-1",
    ...fourth,
    structured_output: true,
    default_output: 16_000,
    max_output: 32_000,
  },
  { match: "claude-opus-*", since: "4", ...fourth, default_output: 16_000, max_output: 32_000 },
  // https://platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5
  {
    match: "claude-sonnet-*",
    since: "5-5",
    ...fifth,
    thinking_off: "between_tools",
    forced_tools: false,
    system_turns: true,
  },
  { match: "claude-sonnet-*", since: "5", ...fifth },
  { match: "claude-sonnet-*", since: "4-6", ...lastWithBudgets },
  { match: "claude-sonnet-*", since: "4-5", ...structured },
  // https://platform.claude.com/docs/en/models/haiku-5-5/whats-new-haiku-5-5
  { match: "claude-haiku-*", since: "5-5", ...fifth, system_turns: true },
  { match: "claude-haiku-*", since: "5", ...fifth },
  { match: "claude-haiku-*", since: "4-5", ...structured },
  // https://platform.claude.com/docs/en/models/fable-5-1/migration-guide
  { match: "claude-fable-*", thinking_off: "never", forced_tools: false, system_turns: true },
  { match: "claude-mythos-preview*", system_turns: false },
  { match: "claude-mythos-*", thinking_off: "never", forced_tools: false, system_turns: true },
  { match: "claude-3-7-*", sampling: "both" },
  ...["claude-sonnet-4*", "claude-3-7-*"].map((match) => ({
    match,
    ...fourth,
    default_output: 16_000,
    max_output: 64_000,
  })),
  { match: "claude-3-5-*", ...fourth, thinking: "none", sampling: "both", default_output: 8192, max_output: 8192 },
  { match: "claude-3-*", ...fourth, thinking: "none", sampling: "both", default_output: 4096, max_output: 4096 },
  // Lines that came after this table.
  { match: "claude-*", ...fifth },
  // Other vendors' models behind this format take its older form.
  { match: "*", ...fourth, sampling: "both", default_output: 8192, max_output: 1_000_000 },
];

export function anthropicRules(call: {
  readonly model: string;
  readonly account: Pick<Call["account"], "modelRules">;
}): AnthropicRules {
  return rulesFor<Partial<AnthropicRules>>(call.model, call.account.modelRules, modelRules) as AnthropicRules;
}
