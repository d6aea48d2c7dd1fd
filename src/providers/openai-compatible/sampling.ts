/**
 * What a model that thinks refuses of sampling. A caller of chat completions who names the model is told so by the upstream; a persona's
 * caller does not know the model, and clients of other formats send these fields with every call, so theirs are left out, as for Claude.
 */

import type { Quirks } from "../../facts/vocabulary/chat.ts";
import type { Call } from "../provider.ts";

/** "temperature, top_p, logprobs" go by the effort: https://platform.openai.com/docs/guides/latest-model (parameter compatibility) */
const byEffort = ["temperature", "top_p", "logprobs", "top_logprobs"];
/** "Unsupported parameter": https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning (not supported) */
const always = ["presence_penalty", "frequency_penalty", "logit_bias"];
const noNames: readonly string[] = [];

/** @param effort as it goes up @returns the names of the request's fields that are not to be sent */
export function refusedSampling(
  { isPersonas, clientFormat }: Pick<Call, "isPersonas" | "clientFormat">,
  { sampling }: Quirks,
  effort: unknown,
): readonly string[] {
  if (sampling === undefined || sampling === "always" || (isPersonas !== true && clientFormat === undefined))
    return noNames;
  const isTaken =
    (effort === "none" && sampling !== "never") || (effort === undefined && sampling === "without_effort");
  return isTaken ? always : [...always, ...byEffort];
}
