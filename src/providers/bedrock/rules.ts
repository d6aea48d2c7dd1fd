/**
 * The models of Bedrock: the format in which each is called, and the fields that it takes there, as data. Names are those of models
 * (`amazon.nova-pro-v1:0`), of inference profiles (`us.anthropic.claude-…`) and ARNs, so globs begin with `*`.
 * Sources: doors https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html,
 * Converse by model https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html.
 */
import { type Static, Type } from "@sinclair/typebox";
import { type ModelRule, rulesFor } from "../../facts/rules.ts";
import { Words } from "../../lib/schemas.ts";
import { bedrockVersionsSince } from "../anthropic/clouds.ts";
import { AnthropicRules, anthropicRules } from "../anthropic/rules.ts";
import type { Call } from "../provider.ts";

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
  top_k: Words(["claude", "nova", "none"], { description: "The field that Converse takes for top_k." }),
};

export const BedrockRules = Type.Object({ ...AnthropicRules.properties, ...OwnRules }, { additionalProperties: false });
export type BedrockRules = Static<typeof BedrockRules>;

type Row = Partial<BedrockRules> & ModelRule;

/** What nothing is known of: texts, sampling, tools that the model chooses by itself. */
const plain: BedrockRules = {
  door: "converse",
  reasoning: "none",
  cache_points: "none",
  result_status: false,
  top_k: "none",
  thinking: "none",
  thinking_off: "omit",
  thinking_display: false,
  efforts: [],
  sampling: "both",
  forced_tools: false,
  prefill: false,
  system_turns: false,
  structured_output: false,
  default_output: 8192,
  max_output: 1_000_000,
};

/** https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html: models with `outputConfig.textFormat` */
const structured = ["qwen.", "deepseek.v3", "mistral.ministral", "mistral.magistral", "mistral.mistral-large-3"].concat(
  ["google.gemma", "nvidia.", "minimax.", "moonshot", "openai.gpt-oss"],
);

const rows: readonly Row[] = [
  // https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html
  {
    match: "*anthropic.claude-*",
    door: "messages",
    reasoning: "claude",
    cache_points: "all",
    result_status: true,
    top_k: "claude",
  },
  // https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html
  {
    match: "nova-*",
    since: "2",
    reasoning: "nova",
    thinking: "adaptive",
    efforts: ["low", "medium", "high"],
  },
  // https://docs.aws.amazon.com/nova/latest/userguide/prompting-tools-function.html (tool choice),
  // https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html (no checkpoints in tools)
  {
    match: "*amazon.nova-*",
    cache_points: "messages",
    result_status: true,
    top_k: "nova",
    forced_tools: true,
    prefill: true,
  },
  // Their chat completions write thoughts into the text; Converse has them apart.
  {
    match: "*openai.gpt-oss*",
    door: "converse",
    reasoning: "effort",
    thinking: "adaptive",
    efforts: ["low", "medium", "high"],
  },
  // https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html
  { match: "*openai.*", door: "chat" },
  { match: "*mistral.mistral-large*", forced_tools: true },
  ...structured.map((begin) => ({ match: `*${begin}*`, structured_output: true })),
];

/** The model's own name on Anthropic's platform: `claude-sonnet-4-5-20250929-v1:0`. */
const claudeName = (model: string): string | undefined => /(?:^|[./])anthropic\.(claude-.*)$/.exec(model)?.[1];

/** `claude-opus-4-6-v1`, `claude-sonnet-4-20250514-v1:0`, `claude-3-7-sonnet-20250219-v1:0`; a name without a version is a newer one. */
const claudeVersion = /^claude-(?:[a-z]+-)?(\d+)(?:-(\d{1,2}))?(?!\d)/;

/** Whether newer versions of the API are taken for a model; an ARN does not tell what it is of. */
export function takesNewVersions({ model }: Call): boolean {
  const name = claudeName(model);
  if (name === undefined) return false;
  const [, major, minor = "0"] = claudeVersion.exec(name) ?? [];
  const [firstMajor, firstMinor] = bedrockVersionsSince;
  return (
    major === undefined || Number(major) > firstMajor || (Number(major) === firstMajor && Number(minor) >= firstMinor)
  );
}

const complete = new WeakMap<object, readonly [BedrockRules & { match: string }]>();

function rulesRow({ model, account }: Call): readonly [BedrockRules & { match: string }] {
  const own = rulesFor<Partial<BedrockRules>>(model, account.modelRules, rows);
  const known = complete.get(own);
  if (known !== undefined) return known;
  const name = claudeName(model);
  const rest = name === undefined ? {} : anthropicRules({ model: name, account: { modelRules: [] } });
  const row = [{ ...plain, ...rest, ...own, match: "*" }] as const;
  complete.set(own, row);
  return row;
}

export const bedrockRules = (call: Call): BedrockRules => rulesRow(call)[0];

/** The same call with the rules of its model, for the code of the Messages API, which this format is built like. */
export function withRules<C extends Call>(call: C): C {
  return { ...call, account: { ...call.account, modelRules: rulesRow(call) } };
}
