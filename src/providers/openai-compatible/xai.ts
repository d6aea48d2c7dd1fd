/** xAI's chat completions: https://docs.x.ai/docs/api-reference#chat-completions, https://docs.x.ai/docs/models */

import { xaiModelList } from "../model-lists.ts";
import { xaiResponses } from "../responses/quirks.ts";
import { openAiCompatible } from "./openai-compatible.ts";
import type { Quirks } from "./quirks.ts";
import { platformFields } from "./upstreams/fields.ts";

/** `search_parameters`: 410, Live Search is gone. `deferred`: the answer would come by another call. */
const dropped = [...platformFields.filter((name) => name !== "service_tier"), "search_parameters", "deferred"];
/** "Argument not supported on this model: presencePenalty", even when it is 0: https://docs.x.ai/docs/guides/reasoning */
const droppedForReasoners = [...dropped, "presence_penalty", "frequency_penalty", "stop"];
/** These take no reasoning_effort. */
const fixedEffort: Quirks = { efforts: { "*": null } };

export const xai = openAiCompatible({
  name: "xai",
  baseUrl: "https://api.x.ai/v1",
  environment: { keys: ["XAI_API_KEY"], baseUrl: ["XAI_BASE_URL"] },
  models: ["grok-4.6", "grok-4.5", "grok-4.3", "grok-4.20-reasoning", "grok-4.20-non-reasoning"],
  modelList: xaiModelList,
  responses: xaiResponses,
  // https://docs.x.ai/docs/guides/function-calling (a maximum of 128 functions)
  maxTools: 128,
  quirks: {
    dropped: droppedForReasoners,
    developer_role: "system",
    reasoning_replay: "reasoning_content",
    usage_without_reasoning: true,
    // https://github.com/vercel/ai/blob/main/packages/xai/src/xai-chat-language-model.ts
    echoes_last_answer: true,
    efforts: { minimal: "low", xhigh: "high", max: "high" },
  },
  modelRules: [
    {
      match: "grok-3-mini*",
      dropped: droppedForReasoners,
      efforts: { none: "low", minimal: "low", low: "low", "*": "high" },
    },
    { match: "grok-3*", dropped, ...fixedEffort },
    { match: "grok-2*", dropped, ...fixedEffort },
    { match: "grok-4", ...fixedEffort },
    { match: "grok-4-*", ...fixedEffort },
    { match: "grok-4.1*", ...fixedEffort },
    // Here the effort is the number of agents: https://docs.x.ai/developers/model-capabilities/text/multi-agent
    { match: "grok-4.20-multi-agent*", efforts: { none: "low", minimal: "low", max: "xhigh" } },
    // It came before 4.3, whatever its number says.
    { match: "grok-4.20*", ...fixedEffort },
    { match: "grok-code-*", ...fixedEffort },
    // "Model grok-build does not support parameter reasoningEffort.": https://github.com/router-for-me/CLIProxyAPI/pull/3968
    { match: "grok-build*", ...fixedEffort },
    { match: "grok-composer-*", ...fixedEffort },
    { match: "grok-*-non-reasoning*", ...fixedEffort },
    { match: "grok-*", since: "4.6", efforts: { minimal: "low", max: "xhigh" } },
  ],
});
