/** xAI's chat completions: https://docs.x.ai/docs/api-reference#chat-completions, https://docs.x.ai/docs/models */
import { platformFields } from "./compatible-upstreams.ts";
import { openAiCompatible } from "./openai-compatible.ts";
import type { Quirks } from "./openai-quirks.ts";

const dropped = platformFields.filter((name) => name !== "service_tier");
/** "Argument not supported on this model: presencePenalty", even when it is 0: https://docs.x.ai/docs/guides/reasoning */
const refusedByReasoners = ["presence_penalty", "frequency_penalty", "stop"];
/** These take no reasoning_effort. */
const fixedEffort: Quirks = { efforts: { "*": null } };

export const xai = openAiCompatible({
  name: "xai",
  baseUrl: "https://api.x.ai/v1",
  environment: { apiKey: ["XAI_API_KEY"], baseUrl: ["XAI_BASE_URL"] },
  models: ["grok-4.6", "grok-4.5", "grok-4.3", "grok-4.20-reasoning", "grok-4.20-non-reasoning"],
  quirks: {
    dropped: [...dropped, ...refusedByReasoners],
    developer_role: "system",
    reasoning_replay: "reasoning_content",
    usage_without_reasoning: true,
    efforts: { minimal: "low", xhigh: "high", max: "high" },
  },
  modelRules: [
    { match: "grok-3-mini*", efforts: { none: "low", minimal: "low", low: "low", "*": "high" } },
    { match: "grok-3*", dropped, ...fixedEffort },
    { match: "grok-2*", dropped, ...fixedEffort },
    { match: "grok-4", ...fixedEffort },
    { match: "grok-4-*", ...fixedEffort },
    { match: "grok-4.1*", ...fixedEffort },
    { match: "grok-4.20*", ...fixedEffort },
    { match: "grok-code-*", ...fixedEffort },
    { match: "grok-4.6*", efforts: { minimal: "low", max: "xhigh" } },
    { match: "grok-4.7*", efforts: { minimal: "low", max: "xhigh" } },
  ],
});
