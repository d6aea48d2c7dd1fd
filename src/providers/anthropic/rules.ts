/** The fields that each Claude model takes and refuses. */
import { rowsOf } from "../../facts/facts.ts";
import { rulesFor } from "../../facts/rules.ts";
import type { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import type { Call } from "../provider.ts";

const rows = rowsOf("messages", "anthropic");

export function anthropicRules(call: {
  readonly model: string;
  readonly account: Pick<Call["account"], "modelRules">;
}): AnthropicRules {
  return rulesFor<Partial<AnthropicRules>>(call.model, call.account.modelRules, rows) as AnthropicRules;
}
