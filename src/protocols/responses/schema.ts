/**
 * Requests of the Responses format. Schemas check what comes in, loosely: unknown fields pass, and what only upstreams of this
 * format know (their own tools and items) is an object with a type.
 * Source: https://platform.openai.com/docs/api-reference/responses/create
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Nullable, Open, Tagged, titled, WordBut, Words } from "../../lib/json/schemas.ts";
import { Judged } from "../body/judged.ts";
import { AudioPart, ChatRequestBody, FunctionDefinition } from "../chat/schema.ts";

const named = Type.String({ minLength: 1 });
/** An object of a type that only upstreams of this format know. */
const otherThan = (known: readonly string[]) => Open({ type: WordBut(known, 64) });

const InputText = Tagged("input_text", { text: Type.String() });
const InputImage = Tagged("input_image", {
  image_url: Nullable(named),
  file_id: Nullable(named),
  detail: Nullable(Type.String()),
});
const InputFile = Tagged("input_file", {
  file_data: Nullable(Type.String()),
  file_url: Nullable(Type.String()),
  file_id: Nullable(Type.String()),
  filename: Nullable(Type.String()),
});
const OutputText = Tagged("output_text", { text: Type.String() });
const Refusal = Tagged("refusal", { refusal: Type.String() });

/** Parts by their type. */
export const partSchemas = {
  input_text: InputText,
  input_image: InputImage,
  input_file: InputFile,
  input_audio: AudioPart,
  output_text: OutputText,
  refusal: Refusal,
} as const;
export type PartType = keyof typeof partSchemas;
export type Part = Static<(typeof partSchemas)[PartType]>;

/** The parts that each message may hold. */
export const partsOf = {
  user: ["input_text", "input_image", "input_file", "input_audio"],
  system: ["input_text"],
  developer: ["input_text"],
  assistant: ["output_text", "refusal", "input_text"],
  output: ["input_text", "input_image", "input_file"],
} as const satisfies Record<string, readonly PartType[]>;

const contentOf = (types: readonly PartType[]) =>
  Type.Union([Type.String(), Type.Array(Type.Union(types.map((type) => partSchemas[type]) as TSchema[]))]);

const roles = ["user", "assistant", "system", "developer"] as const;
export type Role = (typeof roles)[number];
const messageOf = (role: Role) =>
  Open({
    type: Type.Optional(Type.Literal("message")),
    role: Type.Literal(role),
    content: contentOf(partsOf[role]),
  });

/** A message's outside; its parts are checked one by one, so that an error names the place. */
export const MessageItem = Open({
  role: Words(roles),
  content: Type.Union([Type.String(), Type.Array(Open({ type: named }))]),
});

const FunctionCall = Tagged("function_call", {
  call_id: named,
  name: named,
  arguments: Type.String(),
  namespace: Nullable(Type.String()),
});
const CustomToolCall = Tagged("custom_tool_call", {
  call_id: named,
  name: named,
  input: Type.String(),
  namespace: Nullable(Type.String()),
});
const texts = Type.Array(Open({ text: Type.String() }));
const Reasoning = Tagged("reasoning", {
  id: Nullable(Type.String()),
  summary: Nullable(texts),
  content: Nullable(texts),
  encrypted_content: Nullable(Type.String()),
});

/** An image that the model made, as the answer had it. */
const ImageCall = Tagged("image_generation_call", {
  id: Nullable(Type.String()),
  result: Nullable(Type.String()),
  output_format: Nullable(Type.String({ pattern: "^[a-z]{1,16}$" })),
});

/** Tools from here on: https://platform.openai.com/docs/api-reference/responses/create (additional_tools) */
const AddedTools = Tagged("additional_tools", { tools: Type.Array(Open({ type: named })) });

/** What the answers from here on are made by: https://platform.openai.com/docs/api-reference/responses/create (configuration_update) */
const ConfigurationUpdate = Tagged("configuration_update", {
  reasoning: Nullable(Open({ effort: Nullable(Type.String({ minLength: 1, maxLength: 64 })) })),
  text: Nullable(Open({ format: Nullable(Open({ type: named })) })),
});

/** A result without the id of its call names the tool that it is of. */
const FunctionResult = Tagged("function_call_output", {
  call_id: Nullable(named),
  name: Nullable(named),
  namespace: Nullable(Type.String()),
  output: contentOf(partsOf.output),
});

/** Items by their type, beside messages, which may go without one. */
export const itemSchemas = {
  additional_tools: AddedTools,
  configuration_update: ConfigurationUpdate,
  function_call: FunctionCall,
  function_call_output: FunctionResult,
  custom_tool_call: CustomToolCall,
  custom_tool_call_output: Tagged("custom_tool_call_output", { call_id: named, output: contentOf(partsOf.output) }),
  reasoning: Reasoning,
  image_generation_call: ImageCall,
} as const;
export type ItemType = keyof typeof itemSchemas;

const OtherItem = otherThan(["message", ...Object.keys(itemSchemas)]);

const Item = Type.Union([...roles.map(messageOf), ...Object.values(itemSchemas), OtherItem] as TSchema[]);

const FunctionTool = Tagged("function", FunctionDefinition.properties);
const CustomTool = Tagged("custom", {
  name: Type.String({ minLength: 1, maxLength: 128 }),
  description: Nullable(Type.String()),
  format: Nullable(Open({})),
});
const NamespaceTool = Tagged("namespace", {
  name: Type.String({ minLength: 1, maxLength: 128 }),
  description: Nullable(Type.String()),
  tools: Type.Array(Open({ type: named })),
});

/** Tools by their type. */
export const toolSchemas = { function: FunctionTool, custom: CustomTool, namespace: NamespaceTool } as const;
export type FunctionTool = Static<typeof FunctionTool>;
const Tool = Type.Union([...Object.values(toolSchemas), otherThan(Object.keys(toolSchemas))] as TSchema[]);

titled(
  {
    InputText,
    InputImage,
    InputFile,
    OutputText,
    Refusal,
    FunctionCall,
    CustomToolCall,
    Reasoning,
    ImageCall,
    AddedTools,
    ConfigurationUpdate,
    OtherItem,
    Item,
    FunctionTool,
    CustomTool,
    NamespaceTool,
    Tool,
    FunctionCallOutput: FunctionResult,
  },
  "Responses",
);

export const choiceSchemas = {
  function: Tagged("function", { name: named }),
  custom: Tagged("custom", { name: named }),
  allowed_tools: Tagged("allowed_tools", {
    mode: Words(["auto", "required"]),
    tools: Type.Array(Open({ type: named })),
  }),
} as const;
const OtherChoice = otherThan(Object.keys(choiceSchemas));
const toolModes = ["none", "auto", "required"].map((mode) => Type.Literal(mode));

export const formatSchemas = {
  text: Tagged("text", {}),
  json_object: Tagged("json_object", {}),
  json_schema: Tagged("json_schema", {
    name: Type.String({ minLength: 1, maxLength: 64 }),
    description: Nullable(Type.String()),
    schema: Open({}),
    strict: Nullable(Type.Boolean()),
  }),
} as const;

const inChat = ChatRequestBody.properties;
const anyWord = Type.String({ maxLength: 64 });

/** Every field but those whose values differ by their type. */
const fields = {
  model: Nullable(inChat.model),
  stream: inChat.stream,
  stream_options: Nullable(Open({ include_obfuscation: Nullable(Type.Boolean()) })),
  parallel_tool_calls: inChat.parallel_tool_calls,
  max_tool_calls: Nullable(Judged(Type.Integer({ minimum: 1 }), Type.Integer())),
  max_output_tokens: inChat.max_completion_tokens,
  temperature: inChat.temperature,
  top_p: inChat.top_p,
  top_logprobs: inChat.top_logprobs,
  include: Nullable(Type.Array(Type.String())),
  reasoning: Nullable(
    Open({
      effort: Nullable(Type.String({ minLength: 1, maxLength: 64 })),
      summary: Nullable(Type.String({ description: "auto, concise or detailed: the model's thoughts are shown." })),
    }),
  ),
  truncation: Nullable(Judged(Words(["auto", "disabled"]), anyWord)),
  metadata: inChat.metadata,
  user: inChat.user,
  safety_identifier: inChat.safety_identifier,
  prompt_cache_key: inChat.prompt_cache_key,
  prompt_cache_retention: inChat.prompt_cache_retention,
  service_tier: inChat.service_tier,
  store: Nullable(Type.Boolean()),
  background: Nullable(Type.Boolean()),
  previous_response_id: Nullable(Type.String({ minLength: 1 })),
} as const;

const choices = Type.Union([...toolModes, Open({ type: named })]);

/** The fields that are checked as one; items, tools, the choice and the format are checked by their types. */
export const RequestFields = Open({
  ...fields,
  instructions: Nullable(Type.String()),
  input: Nullable(Type.Union([Type.String(), Type.Array(Open({}))])),
  tools: Nullable(Type.Array(Open({ type: named }))),
  tool_choice: Nullable(Judged(choices, Type.Union([...choices.anyOf, anyWord]))),
  text: Nullable(Open({ format: Nullable(Open({ type: named })), verbosity: inChat.verbosity })),
});
export type RequestFields = Static<typeof RequestFields>;

const AnyChoice = Type.Union([...toolModes, ...Object.values(choiceSchemas), OtherChoice] as TSchema[]);
const TextFormat = Type.Union(Object.values(formatSchemas));
titled({ ResponsesToolChoice: AnyChoice, ResponsesTextFormat: TextFormat });

/** The whole of a request, for its description. */
export const ResponsesRequestBody = Open({
  ...fields,
  model: inChat.model,
  instructions: Nullable(Type.String({ description: "Stands before all that the input says." })),
  input: Type.Union([Type.String(), Type.Array(Item, { minItems: 1 })]),
  tools: Nullable(Type.Array(Tool)),
  tool_choice: Nullable(AnyChoice),
  text: Nullable(Open({ format: Nullable(TextFormat), verbosity: inChat.verbosity })),
});
