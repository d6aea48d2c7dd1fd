/**
 * The public format: chat completions, as every client library speaks it.
 * Schemas check what comes in (loosely: unknown fields pass), types describe what is passed between floors.
 * Source: https://platform.openai.com/docs/api-reference/chat
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { KeyedRecord, keyOfLength } from "../../lib/json/keyed-record.ts";
import { Nullable, Open, Tagged, titled, WordBut, Words } from "../../lib/json/schemas.ts";
import { Judged } from "../body/judged.ts";

export const TextPart = Tagged("text", { text: Type.String() });
export const ImagePart = Tagged("image_url", {
  image_url: Open({ url: Type.String({ minLength: 1 }), detail: Nullable(Type.String()) }),
});
export const AudioPart = Tagged("input_audio", {
  input_audio: Open({ data: Type.String(), format: Type.String() }),
});
export const FilePart = Tagged("file", {
  file: Open({
    filename: Nullable(Type.String()),
    file_data: Nullable(Type.String()),
    file_id: Nullable(Type.String()),
  }),
});
const RefusalPart = Tagged("refusal", { refusal: Type.String() });
/** Thoughts in an assistant's content array, as earlier answers of other gateways carry them. */
const ThinkingPart = Open({ type: Words(["thinking", "redacted_thinking", "reasoning"]) });

const UserPart = Type.Union([TextPart, ImagePart, AudioPart, FilePart]);
const AssistantPart = Type.Union([TextPart, RefusalPart, ThinkingPart]);
/** Tool results may hold images and files too: some families take them. */
const ToolResultPart = Type.Union([TextPart, ImagePart, FilePart]);

const FunctionToolCall = Open({
  id: Type.String({ minLength: 1 }),
  type: Type.Literal("function"),
  function: Open({ name: Type.String({ minLength: 1 }), arguments: Type.String() }),
});
const CustomToolCall = Open({
  id: Type.String({ minLength: 1 }),
  type: Type.Literal("custom"),
  custom: Open({ name: Type.String({ minLength: 1 }), input: Type.String() }),
});
/** The types that this build doesn't know, which upstreams of this format may: a tool of theirs goes there as it came. */
const OtherType = WordBut(["function", "custom", "allowed_tools"], 64);
/** A call of a tool of such a type, as an upstream that knows it gave it. */
const OtherToolCall = Open({ id: Type.String({ minLength: 1 }), type: OtherType });
const LegacyFunctionCall = Open({ name: Type.String({ minLength: 1 }), arguments: Type.String() });

const name = Nullable(Type.String());
const text = Type.Union([Type.String(), Type.Array(TextPart, { minItems: 1 })]);

const DeveloperMessage = Open({ role: Type.Literal("developer"), content: text, name });
export const SystemMessage = Open({ role: Type.Literal("system"), content: text, name });
export const UserMessage = Open({
  role: Type.Literal("user"),
  content: Type.Union([Type.String(), Type.Array(UserPart, { minItems: 1 })]),
  name,
});
export const AssistantMessage = Open({
  role: Type.Literal("assistant"),
  content: Nullable(Type.Union([Type.String(), Type.Array(AssistantPart)])),
  name,
  refusal: Nullable(Type.String()),
  tool_calls: Nullable(Type.Array(Type.Union([FunctionToolCall, CustomToolCall, OtherToolCall]))),
  audio: Nullable(Open({ id: Type.String() })),
  function_call: Nullable(LegacyFunctionCall),
  reasoning_content: Nullable(Type.String()),
});
export const ToolMessage = Open({
  role: Type.Literal("tool"),
  content: Type.Union([Type.String(), Type.Array(ToolResultPart)]),
  tool_call_id: Type.String({ minLength: 1 }),
  name,
});
const FunctionMessage = Open({
  role: Type.Literal("function"),
  content: Type.Union([Type.String(), Type.Null()]),
  name: Type.String({ minLength: 1 }),
});
export const Message = Type.Union([
  DeveloperMessage,
  SystemMessage,
  UserMessage,
  AssistantMessage,
  ToolMessage,
  FunctionMessage,
]);

export const FunctionDefinition = Open({
  name: Type.String({ minLength: 1, maxLength: 128 }),
  description: Nullable(Type.String()),
  parameters: Nullable(Open({})),
  strict: Nullable(Type.Boolean()),
});
export const FunctionTool = Tagged("function", { function: FunctionDefinition });
const CustomTool = Tagged("custom", {
  custom: Open({ name: Type.String({ minLength: 1 }), description: Nullable(Type.String()) }),
});
const OtherTool = Open({ type: OtherType });
export const Tool = Type.Union([FunctionTool, CustomTool, OtherTool]);

titled({
  TextPart,
  ImagePart,
  AudioPart,
  FilePart,
  RefusalPart,
  ThinkingPart,
  FunctionToolCall,
  CustomToolCall,
  OtherToolCall,
  LegacyFunctionCall,
  DeveloperMessage,
  SystemMessage,
  UserMessage,
  AssistantMessage,
  ToolMessage,
  FunctionMessage,
  Message,
  FunctionDefinition,
  FunctionTool,
  CustomTool,
  Tool,
});

/** A word of an upstream's own. */
const anyWord = Type.String({ minLength: 1, maxLength: 64 });

const toolChoices = Type.Union([
  Type.Literal("none"),
  Type.Literal("auto"),
  Type.Literal("required"),
  Tagged("function", { function: Open({ name: Type.String({ minLength: 1 }) }) }),
  Tagged("custom", { custom: Open({ name: Type.String({ minLength: 1 }) }) }),
  Tagged("allowed_tools", {
    allowed_tools: Open({
      mode: Words(["auto", "required"]),
      tools: Type.Array(Open({})),
    }),
  }),
  OtherTool,
]);
/** Mistral's word for `required` is `any`: https://docs.mistral.ai/api/#tag/chat */
export const ToolChoice = Judged(toolChoices, Type.Union([...toolChoices.anyOf, anyWord]));

const responseFormats = Type.Union([
  Tagged("text", {}),
  Tagged("json_object", {}),
  Tagged("json_schema", {
    json_schema: Open({
      name: Type.String({ minLength: 1, maxLength: 64 }),
      description: Nullable(Type.String()),
      schema: Nullable(Open({})),
      strict: Nullable(Type.Boolean()),
    }),
  }),
]);
/** Fireworks has `grammar`, vLLM `structural_tag`: https://docs.fireworks.ai/structured-responses/structured-output-grammar-based */
export const ResponseFormat = Judged(
  responseFormats,
  Type.Union([...responseFormats.anyOf, Open({ type: WordBut(["text", "json_object", "json_schema"], 64) })]),
);

titled({ ToolChoice, ResponseFormat });

/** The efforts that most families know, the lowest first. */
export const knownEfforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type KnownEffort = (typeof knownEfforts)[number];

/** An effort, of which upstreams say which there are: some have words of their own, and more will come. */
const ReasoningEffort = Type.String({
  minLength: 1,
  maxLength: 64,
  description: `How much a model that reasons may think: ${knownEfforts.join(", ")}, or a word of the upstream's own.`,
});

const anyNumber = Type.Number();
const penalty = Judged(Type.Number({ minimum: -2, maximum: 2 }), anyNumber);
/** -1: as many as the model likes: https://lmstudio.ai/docs/developer/openai-compat/chat-completions */
const unbounded = Type.Union([Type.Integer({ minimum: 1 }), Type.Literal(-1)]);
const tokens = (description: string) => Judged(Type.Integer({ minimum: 1, description }), unbounded);

/** The sampling fields that personas may preset and cap. */
export const SamplingFields = {
  temperature: Nullable(
    Judged(Type.Number({ minimum: 0, maximum: 2, description: "0 to 2; default 1.0." }), anyNumber),
  ),
  top_p: Nullable(Judged(Type.Number({ minimum: 0, maximum: 1 }), anyNumber)),
  max_tokens: Nullable(tokens("Most tokens to generate (older name).")),
  max_completion_tokens: Nullable(tokens("Most tokens to generate, visible and reasoning ones together.")),
  presence_penalty: Nullable(penalty),
  frequency_penalty: Nullable(penalty),
  seed: Nullable(Type.Integer()),
  reasoning_effort: Nullable(ReasoningEffort),
  verbosity: Nullable(Judged(Words(["low", "medium", "high"]), anyWord)),
} as const;

const stops = Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1, maxItems: 4 })]);
const tokenBias = (bias: TSchema) => KeyedRecord(keyOfLength(256), bias);

export const ChatRequestBody = Open({
  model: Type.String({
    minLength: 1,
    maxLength: 256,
    description: "Gateway: <provider>/<model>. Orchestrator: <namespace>/<name>.",
  }),
  messages: Type.Array(Message, { minItems: 1 }),
  stream: Nullable(Type.Boolean({ description: "true: a Server-Sent Events stream. Default false." })),
  stream_options: Nullable(
    Open({ include_usage: Nullable(Type.Boolean()), include_obfuscation: Nullable(Type.Boolean()) }),
  ),
  usage: Nullable(
    Open({
      include: Nullable(Type.Boolean({ description: "true: the answer's usage says what it cost, in dollars." })),
    }),
  ),
  ...SamplingFields,
  n: Nullable(Type.Integer({ minimum: 1, maximum: 128 })),
  stop: Nullable(Judged(stops, Type.Union([Type.String(), Type.Array(Type.String())]))),
  logit_bias: Nullable(Judged(tokenBias(Type.Number({ minimum: -100, maximum: 100 })), tokenBias(anyNumber))),
  logprobs: Nullable(Type.Boolean()),
  top_logprobs: Nullable(Judged(Type.Integer({ minimum: 0, maximum: 20 }), Type.Integer())),
  tools: Nullable(Type.Array(Tool)),
  tool_choice: Nullable(ToolChoice),
  parallel_tool_calls: Nullable(Type.Boolean()),
  functions: Nullable(Type.Array(FunctionDefinition, { minItems: 1, maxItems: 128 })),
  function_call: Nullable(
    Type.Union([Type.Literal("none"), Type.Literal("auto"), Open({ name: Type.String({ minLength: 1 }) })]),
  ),
  response_format: Nullable(ResponseFormat),
  modalities: Nullable(Type.Array(Type.String())),
  audio: Nullable(Open({})),
  prediction: Nullable(Open({})),
  web_search_options: Nullable(Open({})),
  store: Nullable(Type.Boolean({ description: "true: keep the exchange, so that previous_response_id continues it." })),
  metadata: Nullable(KeyedRecord(keyOfLength(64), Type.String({ maxLength: 512 }), { maxProperties: 16 })),
  service_tier: Nullable(Type.String()),
  user: Nullable(Type.String()),
  safety_identifier: Nullable(Type.String()),
  prompt_cache_key: Nullable(Type.String()),
  prompt_cache_retention: Nullable(Type.String()),
  previous_response_id: Nullable(
    Type.String({
      minLength: 1,
      description: "The id of a stored completion to continue; send only the new messages.",
    }),
  ),
});

type Present<T> = { [K in keyof T]: Exclude<T[K], null> };

export type TextPart = Static<typeof TextPart>;
export type ImagePart = Static<typeof ImagePart>;
export type AudioPart = Static<typeof AudioPart>;
export type FilePart = Static<typeof FilePart>;
export type UserPart = Static<typeof UserPart>;
export type Message = Static<typeof Message>;
export type SystemMessage = Static<typeof SystemMessage>;
export type UserMessage = Static<typeof UserMessage>;
/** State that continues a thought in the next turn, in the fields that clients and other gateways already carry. */
type ReplayState = {
  thinking_blocks?: ThinkingBlock[] | null;
  extra_content?: Record<string, unknown> | null;
  reasoning_details?: unknown[] | null;
};
export type AssistantMessage = Static<typeof AssistantMessage> & ReplayState;
export type ToolMessage = Static<typeof ToolMessage>;
export type FunctionTool = Static<typeof FunctionTool>;
export type Tool = Static<typeof Tool>;
export type ToolChoice = Static<typeof ToolChoice>;
export type ResponseFormat = Static<typeof ResponseFormat>;
/** A checked request. Keys that were `null` at the top level are gone: absent is the only form of absent. */
export type ChatRequest = Present<Static<typeof ChatRequestBody>>;

export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter" | "function_call";

/** Anthropic's thinking, in the shape that LiteLLM gave it: what must come back unchanged in the next turn. */
export type ThinkingBlock =
  | { type: "thinking"; thinking: string; signature?: string }
  | { type: "redacted_thinking"; data: string };

export type ToolCall = {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
  extra_content?: Record<string, unknown>;
};
export type CustomToolCall = { id: string; type: "custom"; custom: { name: string; input: string } };

/** A call of a tool of another type, as its upstream gave it. */
export type OtherToolCall = Static<typeof OtherToolCall>;

/** A citation. Its kind is another than `url_citation` only where its upstream invented it. */
export type Annotation = {
  type: string;
  url_citation?: { start_index: number; end_index: number; url: string; title: string } | undefined;
};

export type TokenLogprob = {
  token: string;
  logprob: number;
  bytes: number[] | null;
  top_logprobs: { token: string; logprob: number; bytes: number[] | null }[];
};
/** The public format's word for "very unlikely". */
export const impossible = -9999;

/** `refusal` is in every answer, null where nothing was refused: `upstream/stream/normaliser.ts` sees to it. */
export type Logprobs = { content: TokenLogprob[] | null; refusal?: TokenLogprob[] | null };

/** Under it stands, in a usage, what the public form has no place for. A symbol is never written as JSON. */
export const billed: unique symbol = Symbol("billed");

/** Counts of an upstream beyond the public form, because it bills them otherwise. */
type Billed = {
  /** Tokens written to a cache that holds them for an hour. */
  cacheWrite1h?: number;
  /** Cached tokens that are audio. */
  audioCacheRead?: number;
  imageInput?: number;
  imageOutput?: number;
  /** Images in the answer. */
  images?: number;
  /** Seconds of a recording that was billed by its length. */
  audioSeconds?: number;
  /** Uses of hosted tools, by their names: `web_search`. */
  tools?: Record<string, number>;
  /** The service tier, in the upstream's word. */
  serviceTier?: string;
  /** Other things in the answer that change the price, as prices name them: `inference_geo_us`. Absent: the usual. */
  surcharges?: readonly string[];
  /** The model that answered, where another than the one that was asked did. */
  servedBy?: string;
  /** What was done beside the answer, and is not among its own counts. */
  parts?: readonly BilledPart[];
};

/** @property what in a word or two, for notes @property model absent: the one that was asked */
export type BilledPart = { readonly what: string; readonly model?: string | undefined; readonly usage: Usage };

/** @returns the member of a usage with what of these is more than nothing; no member where none is */
export function billedAs(counts: { [K in keyof Billed]: Billed[K] | undefined }): { [billed]?: Billed } {
  const some = Object.entries(counts).filter(([, count]) => count !== undefined && count !== 0);
  return some.length === 0 ? {} : { [billed]: Object.fromEntries(some) };
}

/** Token counts in OpenAI's meaning: prompt includes cached ones, completion includes reasoning ones. */
export type Usage = {
  [billed]?: Billed;
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details?: Record<string, number>;
  completion_tokens_details?: Record<string, number>;
  [extra: string]: unknown;
};

/** The fields that a whole message and a fragment of one share. */
type Answered = {
  refusal?: string | null;
  reasoning_content?: string;
  annotations?: Annotation[];
  thinking_blocks?: ThinkingBlock[];
  extra_content?: Record<string, unknown>;
  [extra: string]: unknown;
};
export type AnswerMessage = Answered & {
  role: "assistant";
  content: string | null;
  tool_calls?: (ToolCall | CustomToolCall | OtherToolCall)[];
};
export type Choice = {
  index: number;
  message: AnswerMessage;
  finish_reason: FinishReason;
  logprobs?: Logprobs | null;
  [extra: string]: unknown;
};
/** Values stay strings: typed clients read `metadata` as a map of strings. */
export type Metadata = Record<string, string>;

/** The fields that a whole answer and a chunk of one share. */
type BodyFields = {
  metadata?: Metadata;
  service_tier?: string;
  system_fingerprint?: string | null;
  [extra: string]: unknown;
};
/** An upstream's answer, made by its adapter: everything but the envelope. */
export type CompletionBody = BodyFields & { choices: Choice[]; usage?: Usage };

export type ToolCallDelta = {
  index: number;
  id?: string;
  type?: "function" | "custom" | OtherToolCall["type"];
  function?: { name?: string; arguments?: string };
  custom?: { name?: string; input?: string };
  extra_content?: Record<string, unknown>;
};
export type Delta = Answered & {
  role?: "assistant";
  content?: string | null;
  tool_calls?: ToolCallDelta[];
};
export type ChunkChoice = {
  index: number;
  delta: Delta;
  finish_reason: FinishReason | null;
  logprobs?: Logprobs | null;
  [extra: string]: unknown;
};
/** An upstream's event, made by its adapter: everything but the envelope. */
export type ChunkBody = BodyFields & {
  choices: ChunkChoice[];
  /**
   * The state of a thought that has just ended, for formats that have it right behind the thought: in a chunk without choices,
   * which chat has not. The stream's last fragment has it too, with that of all thoughts.
   */
  ended_thought?: Pick<Delta, "thinking_blocks" | "extra_content">;
  usage?: Usage | null;
};

/** Names an answer; the same in every chunk of one stream. `created` is Unix time in seconds. */
export type Envelope = {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  /** The time at which the answer was whole, for formats that say so: Unix time in seconds, read when it is first asked. Absent: not known. */
  completed?(): number;
  /** An estimate of the prompt's tokens, for formats that begin a stream with them: most upstreams count at its end. Absent: not known. */
  promptTokens?(): number;
};
export type ChatCompletion = Omit<Envelope, "completed" | "promptTokens"> &
  CompletionBody & { object: "chat.completion" };
