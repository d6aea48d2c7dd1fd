/**
 * OpenAI's models, at OpenAI and at Azure, as data: what each takes and refuses, and by which road it is asked. The first row that fits
 * and names a key wins. As of 2026-11-28; a model that came after it has the rules of the newest version of its line.
 * Fine-tuned models have those of what they were made of.
 */
import type { ModelRule } from "../../facts/rules.ts";
import type { ResponsesRules } from "../responses/quirks.ts";
import type { Quirks } from "./quirks.ts";

const thinking = [
  { match: "gpt-*", since: "5" },
  { match: "o*", since: "1" },
];
/** Models by which a chat is led: since 5.5 they think, with one effort. */
const chatModels = [{ match: "chat-latest" }, { match: "gpt-*-chat*", since: "5.5" }];

export const openAiModels: readonly (Quirks & Partial<ResponsesRules> & ModelRule)[] = [
  // "This model is only supported in v1/responses and not in v1/chat/completions.": https://github.com/alvinunreal/tmuxai/issues/82
  ...["gpt-*-codex*", "gpt-*-pro*"].map((match) => ({ match, since: "5", responses_only: true })),
  { match: "o*-pro*", since: "1", responses_only: true },
  ...["codex-*", "*-deep-research*", "computer-use-*"].map((match) => ({ match, responses_only: true })),
  // https://developers.openai.com/api/docs/models/chat-latest: medium is its one effort; LiteLLM's list of models has the same (1.110)
  ...chatModels.map((row) => ({
    ...row,
    reasoning_items: true,
    tools_road: "responses" as const,
    sampling: "never" as const,
    max_tokens_field: "max_completion_tokens" as const,
    efforts: { "*": "medium" },
  })),
  // Models that do not think: they take no effort, and refuse no tools for it. "Encrypted content is not supported with this
  // model.": https://github.com/pydantic/pydantic-ai/issues/2865
  { match: "gpt-*-chat*", reasoning_items: false, tools_road: "chat" },
  // "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function tools, use
  // /v1/responses or set reasoning_effort to 'none'.", also where none is named: https://github.com/BerriAI/litellm/pull/34569,
  // https://github.com/danny-avila/LibreChat/issues/14355; at Azure: https://github.com/can1357/oh-my-pi/issues/11052
  { match: "gpt-*", since: "5.6", tools_road: "responses" },
  // "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead."
  // https://github.com/openai/openai-openapi/issues/541, https://github.com/charmbracelet/crush/issues/2913
  { match: "gpt-*", since: "5.4", tools_road: "responses_beside_effort" },
  ...thinking.map((row) => ({
    ...row,
    reasoning_items: true,
    // "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    // https://platform.openai.com/docs/guides/reasoning
    max_tokens_field: "max_completion_tokens" as const,
  })),
  ...["codex-*", "computer-use-*"].map((match) => ({ match, reasoning_items: true })),
  // "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model.": https://github.com/livekit/agents/pull/7169
  // They can't be without thinking: efforts of each model as LiteLLM's list has them (1.110), and for pro models
  // https://developers.openai.com/api/docs/models/gpt-5.5-pro, https://developers.openai.com/api/docs/models/gpt-5-pro
  ...[
    { match: "gpt-*-astra*", since: "6" },
    { match: "gpt-*-rosalind*", since: "6" },
    { match: "gpt-*-sol*", since: "6.1" },
  ].map((row) => ({ ...row, efforts: { none: "low", minimal: "low" } })),
  { match: "gpt-*-pro*", since: "5.2", efforts: { none: "medium", minimal: "medium", low: "medium" } },
  { match: "gpt-*-pro*", since: "5", efforts: { "*": "high" } },
  { match: "gpt-*", since: "5.6", efforts: { minimal: "low" } },
  // "none", which other formats' callers send to switch thinking off, is taken from gpt-5.1 on. Models that do not think refuse
  // the field, and older ones can't be without it: https://platform.openai.com/docs/api-reference/chat/create
  ...["gpt-5", "gpt-5-20*", "gpt-5-mini*", "gpt-5-nano*"].map((match) => ({ match, efforts: { none: "minimal" } })),
  ...["gpt-3*", "gpt-4*", "chatgpt-*", "gpt-5-*"].map((match) => ({ match, efforts: { none: null } })),
  { match: "o*", since: "1", efforts: { none: null } },
  // Temperature and its like: https://platform.openai.com/docs/guides/latest-model (parameter compatibility). Up to 5.4 the effort is none
  // where no other is named; later models think unless they are told not to, and those before 5.1 always do.
  { match: "gpt-5-chat*", sampling: "always" },
  { match: "gpt-*", since: "5.5", sampling: "at_none" },
  { match: "gpt-*", since: "5.1", sampling: "without_effort" },
  ...thinking.map((row) => ({ ...row, sampling: "never" as const })),
  // "This is a chat model and not supported in the v1/completions endpoint", say all others.
  ...["gpt-3.5-turbo-instruct*", "davinci-002", "babbage-002"].map((match) => ({
    match,
    completions: true,
  })),
];
