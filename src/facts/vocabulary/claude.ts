/** The facts of a model that speaks Anthropic's Messages: what it takes and refuses. */
import { type Static, Type } from "@sinclair/typebox";
import { Closed, Words } from "../../lib/json/schemas.ts";

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
