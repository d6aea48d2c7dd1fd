/** xAI's chat completions: https://docs.x.ai/docs/api-reference#chat-completions, https://docs.x.ai/docs/models */

import { listedModels } from "../../facts/facts.ts";
import { xaiModelList } from "../model-lists.ts";
import { xaiResponses } from "../responses/quirks.ts";
import { openAiCompatible } from "./openai-compatible.ts";
import { platformFields } from "./upstreams/fields.ts";

/** `search_parameters`: 410, Live Search is gone. `deferred`: the answer would come by another call. */
const dropped = [...platformFields.filter((name) => name !== "service_tier"), "search_parameters", "deferred"];
/** "Argument not supported on this model: presencePenalty", even when it is 0: https://docs.x.ai/docs/guides/reasoning */
const droppedForReasoners = [...dropped, "presence_penalty", "frequency_penalty", "stop"];
export const xai = openAiCompatible({
  name: "xai",
  baseUrl: "https://api.x.ai/v1",
  environment: { keys: ["XAI_API_KEY"], baseUrl: ["XAI_BASE_URL"] },
  models: listedModels("xai"),
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
});
