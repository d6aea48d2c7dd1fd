/** What is asked of a model to see whether it takes what the facts say of it, and refuses what they say it refuses. Pure. */
import type { ModelFacts } from "../../facts/facts.ts";
import { isObject, parseJson } from "../../lib/json/json.ts";
import type { ChatRequest, CompletionBody } from "../../protocols/chat/schema.ts";

type Asked = Omit<ChatRequest, "model">;

export type Play = {
  readonly name: string;
  readonly asked: Asked;
  /** The facts by which it is asked, or not: those that are told where the upstream says otherwise. */
  readonly facts: readonly string[];
  /** True where the facts don't claim it. Absent: it is claimed of every model. */
  readonly isUnclaimed?: (facts: ModelFacts) => boolean;
  /** False where an answer does not have what was asked for. Absent: every answer has. */
  readonly isShown?: (answer: CompletionBody) => boolean;
};

/** What is asked against a fact: the model is called as if the fact were not there. */
export type Contrary = Play & {
  readonly fact: string;
  /** The fact's values that refuse something. */
  readonly values: readonly unknown[];
  /** Goes before the facts; absent: the facts hold nothing back of what is asked. */
  readonly rule?: Readonly<Record<string, unknown>>;
};

const say = (content: string, max_tokens: number): Asked => ({ messages: [{ role: "user", content }], max_tokens });

const lookUp: Asked["tools"] = [
  {
    type: "function",
    function: {
      ...{ name: "look_up", description: "Looks a word up." },
      parameters: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
    },
  },
];
const withTools: Asked = { ...say("Look up the word 'ok'.", 1024), tools: lookUp };
const forced: Asked = { ...withTools, tool_choice: "required" };
const schema = {
  ...{ type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false },
};
/** 32 by 32 grey points: smaller ones are refused by some. */
const grey =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAAAAABWESUoAAAAFklEQVR4nGNoIAAYRhWMKhhVMFIVAABCAAAfNUt+NwAAAABJRU5ErkJggg==";
const picture: Asked = {
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "Of which colour is it? Answer with a word." },
        { type: "image_url", image_url: { url: grey } },
      ],
    },
  ],
  max_tokens: 256,
};

const calls = ({ choices }: CompletionBody) => (choices[0]?.message.tool_calls?.length ?? 0) > 0;
const isSchemas = ({ choices }: CompletionBody) => {
  try {
    const value = parseJson(choices[0]?.message.content ?? "");
    return isObject(value) && typeof value["ok"] === "boolean";
  } catch {
    return false;
  }
};
const hasNoTools = ({ tools }: ModelFacts) => tools === false;
const hasNoImages = ({ input_modalities: reads }: ModelFacts) => reads?.includes("image") === false;

const toolFacts = ["tools", "tools_road", "responses_only"];

export const plays: readonly Play[] = [
  { name: "plain", asked: say("Say ok.", 64), facts: ["max_tokens_field", "responses_only"] },
  { name: "stream", asked: { ...say("Say ok.", 64), stream: true }, facts: ["stream_usage", "responses_only"] },
  { name: "tools", asked: withTools, facts: toolFacts, isUnclaimed: hasNoTools },
  {
    ...{ name: "forced tool", asked: forced, facts: ["forced_tools", "required_choice", ...toolFacts] },
    ...{ isUnclaimed: hasNoTools, isShown: calls },
  },
  {
    name: "structured",
    asked: {
      ...say("Is water wet? Answer as JSON.", 1024),
      response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
    },
    facts: ["structured_output", "json_schema_as_object", "schemas"],
    isShown: isSchemas,
  },
  {
    name: "thinking",
    asked: { ...say("Is 91 prime?", 4096), reasoning_effort: "low" },
    facts: ["thinking", "efforts", "thinks", "thinking_field", "thinking_flag", "reasoning"],
    isUnclaimed: ({ reasoning }) => reasoning === false,
  },
  { name: "image", asked: picture, facts: ["input_modalities"], isUnclaimed: hasNoImages },
];

/** Those of chat completions, and those of Anthropic's Messages. */
export const contraries: readonly Contrary[] = [
  {
    ...{ name: "tools by chat completions", fact: "tools_road", values: ["responses"], facts: [] },
    ...{ asked: withTools, rule: { tools_road: "chat" } },
  },
  {
    ...{ name: "tools beside an effort", fact: "tools_road", values: ["responses_beside_effort"], facts: [] },
    ...{ asked: { ...withTools, reasoning_effort: "low" }, rule: { tools_road: "chat" } },
  },
  {
    ...{ name: "a forced tool", fact: "forced_tools", values: [false], facts: [] },
    ...{ asked: forced, rule: { forced_tools: true }, isShown: calls },
  },
  {
    ...{ name: "a forced tool", fact: "required_choice", values: [false], facts: [] },
    ...{ asked: forced, rule: { required_choice: true }, isShown: calls },
  },
  {
    ...{ name: "temperature", fact: "sampling", values: ["never", "at_none", "without_effort"], facts: [] },
    ...{ asked: { ...say("Say ok.", 64), temperature: 0.5 }, rule: { sampling: "always" } },
  },
  {
    ...{ name: "temperature", fact: "sampling", values: ["none"], facts: [] },
    ...{ asked: { ...say("Say ok.", 64), temperature: 0.5 }, rule: { sampling: "both" } },
  },
  { name: "a tool", fact: "tools", values: [false], facts: [], asked: forced, isShown: calls },
];
