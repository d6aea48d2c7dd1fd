/** The fields that each Gemini and Gemma model takes and refuses. */
import { rowsOf } from "../../facts/facts.ts";
import { rulesFor } from "../../facts/rules.ts";
import type { GoogleRules } from "../../facts/vocabulary/gemini.ts";
import { modelIn } from "../../protocols/generate-content/address.ts";
import type { Call } from "../provider.ts";

export const modelRules = rowsOf("generate-content", "google");

/** The model's name without the resource prefix that the upstream's own listings put before it. */
export function modelName({ model }: Call): string {
  return modelIn(model);
}

/** @param rows of the upstream's models */
export function googleRules(call: Call, rows = modelRules): GoogleRules {
  return rulesFor<Partial<GoogleRules>>(modelName(call), call.account.modelRules, rows) as GoogleRules;
}
