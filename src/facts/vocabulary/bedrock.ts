/** The facts of a model at Amazon Bedrock: the format in which it is called, and what it takes there. */
import { type Static, Type } from "@sinclair/typebox";
import { Words } from "../../lib/json/schemas.ts";
import { AnthropicRules } from "./claude.ts";

const OwnRules = {
  door: Words(["messages", "chat", "converse"], {
    description: "The format in which the model is called: Messages, chat completions, or Converse.",
  }),
  reasoning: Words(["claude", "nova", "effort", "none"], {
    description: "The fields by which Converse makes the model think.",
  }),
  cache_points: Words(["all", "messages", "none"], {
    description: "Where Converse takes cache points: everywhere, everywhere but among tools, or nowhere.",
  }),
  result_status: Type.Boolean({ description: "Converse takes the status of a tool's result." }),
  new_versions: Type.Boolean({ description: "Versions of Anthropic's API after 2023-06-01 are taken." }),
  top_k: Words(["claude", "nova", "none"], { description: "The field that Converse takes for top_k." }),
};

export const BedrockRules = Type.Object({ ...AnthropicRules.properties, ...OwnRules }, { additionalProperties: false });
export type BedrockRules = Static<typeof BedrockRules>;
