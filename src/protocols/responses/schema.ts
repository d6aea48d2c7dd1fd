/**
 * Requests of the Responses format. Schemas check what comes in, loosely: unknown fields pass, and what only upstreams of this
 * format know (their own tools and items) is an object with a type.
 * Source: https://platform.openai.com/docs/api-reference/responses/create
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { KeyedRecord, keyOfLength } from "../../lib/keyed-record.ts";

const Nullable = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));
const open = { additionalProperties: true } as const;
const named = Type.String({ minLength: 1 });

const InputText = Type.Object({ type: Type.Literal("input_text"), text: Type.String() }, open);
const InputImage = Type.Object(
  {
    type: Type.Literal("input_image"),
    image_url: Nullable(named),
    file_id: Nullable(named),
    detail: Nullable(Type.String()),
  },
  open,
);
const InputFile = Type.Object(
  {
    type: Type.Literal("input_file"),
    file_data: Nullable(Type.String()),
    file_url: Nullable(Type.String()),
    file_id: Nullable(Type.String()),
    filename: Nullable(Type.String()),
  },
  open,
);
const InputAudio = Type.Object(
  {
    type: Type.Literal("input_audio"),
    input_audio: Type.Object({ data: Type.String(), format: Type.String() }, open),
  },
  open,
);
const OutputText = Type.Object({ type: Type.Literal("output_text"), text: Type.String() }, open);
const Refusal = Type.Object({ type: Type.Literal("refusal"), refusal: Type.String() }, open);

/** Parts by their type. */
export const partSchemas = {
  input_text: InputText,
  input_image: InputImage,
  input_file: InputFile,
  input_audio: InputAudio,
  output_text: OutputText,
  refusal: Refusal,
} as const;
export type PartType = keyof typeof partSchemas;
export type Part = Static<(typeof partSchemas)[PartType]>;

/** Which parts may stand where. */
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
  Type.Object(
    {
      type: Type.Optional(Type.Literal("message")),
      role: Type.Literal(role),
      content: contentOf(partsOf[role]),
    },
    open,
  );

/** A message's outside; its parts are checked one by one, so that an error names the place. */
export const MessageItem = Type.Object(
  {
    role: Type.Union(roles.map((role) => Type.Literal(role))),
    content: Type.Union([Type.String(), Type.Array(Type.Object({ type: named }, open))]),
  },
  open,
);

const FunctionCall = Type.Object(
  {
    type: Type.Literal("function_call"),
    call_id: named,
    name: named,
    arguments: Type.String(),
    namespace: Nullable(Type.String()),
  },
  open,
);
const CustomToolCall = Type.Object(
  {
    type: Type.Literal("custom_tool_call"),
    call_id: named,
    name: named,
    input: Type.String(),
    namespace: Nullable(Type.String()),
  },
  open,
);
const outputOf = <T extends string>(type: T) =>
  Type.Object({ type: Type.Literal(type), call_id: named, output: contentOf(partsOf.output) }, open);
const texts = Type.Array(Type.Object({ text: Type.String() }, open));
const Reasoning = Type.Object(
  {
    type: Type.Literal("reasoning"),
    id: Nullable(Type.String()),
    summary: Nullable(texts),
    content: Nullable(texts),
    encrypted_content: Nullable(Type.String()),
  },
  open,
);

/** An image that the model made, as the answer had it. */
const ImageCall = Type.Object(
  {
    type: Type.Literal("image_generation_call"),
    id: Nullable(Type.String()),
    result: Nullable(Type.String()),
    output_format: Nullable(Type.String({ pattern: "^[a-z]{1,16}$" })),
  },
  open,
);

/** Items by their type, beside messages, which may go without one. */
export const itemSchemas = {
  function_call: FunctionCall,
  function_call_output: outputOf("function_call_output"),
  custom_tool_call: CustomToolCall,
  custom_tool_call_output: outputOf("custom_tool_call_output"),
  reasoning: Reasoning,
  image_generation_call: ImageCall,
} as const;
export type ItemType = keyof typeof itemSchemas;

/** An item that only upstreams of this format know. */
const knownItems = ["message", ...Object.keys(itemSchemas)].join("|");
const OtherItem = Type.Object({ type: Type.String({ pattern: `^(?!(?:${knownItems})$)[\\s\\S]{1,64}$` }) }, open);

const Item = Type.Union([...roles.map(messageOf), ...Object.values(itemSchemas), OtherItem] as TSchema[]);

const FunctionTool = Type.Object(
  {
    type: Type.Literal("function"),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: Nullable(Type.String()),
    parameters: Nullable(Type.Object({}, open)),
    strict: Nullable(Type.Boolean()),
  },
  open,
);
const CustomTool = Type.Object(
  {
    type: Type.Literal("custom"),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: Nullable(Type.String()),
    format: Nullable(Type.Object({}, open)),
  },
  open,
);
const NamespaceTool = Type.Object(
  {
    type: Type.Literal("namespace"),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: Nullable(Type.String()),
    tools: Type.Array(Type.Object({ type: named }, open)),
  },
  open,
);

/** Tools by their type. */
export const toolSchemas = { function: FunctionTool, custom: CustomTool, namespace: NamespaceTool } as const;
export type FunctionTool = Static<typeof FunctionTool>;
export type CustomTool = Static<typeof CustomTool>;
const OtherTool = Type.Object(
  { type: Type.String({ pattern: `^(?!(?:${Object.keys(toolSchemas).join("|")})$)[\\s\\S]{1,64}$` }) },
  open,
);
const Tool = Type.Union([...Object.values(toolSchemas), OtherTool] as TSchema[]);

export const choiceSchemas = {
  function: Type.Object({ type: Type.Literal("function"), name: named }, open),
  custom: Type.Object({ type: Type.Literal("custom"), name: named }, open),
  allowed_tools: Type.Object(
    {
      type: Type.Literal("allowed_tools"),
      mode: Type.Union([Type.Literal("auto"), Type.Literal("required")]),
      tools: Type.Array(Type.Object({ type: named }, open)),
    },
    open,
  ),
} as const;
const OtherChoice = Type.Object(
  { type: Type.String({ pattern: `^(?!(?:${Object.keys(choiceSchemas).join("|")})$)[\\s\\S]{1,64}$` }) },
  open,
);
const toolModes = ["none", "auto", "required"].map((mode) => Type.Literal(mode));

export const formatSchemas = {
  text: Type.Object({ type: Type.Literal("text") }, open),
  json_object: Type.Object({ type: Type.Literal("json_object") }, open),
  json_schema: Type.Object(
    {
      type: Type.Literal("json_schema"),
      name: Type.String({ minLength: 1, maxLength: 64 }),
      description: Nullable(Type.String()),
      schema: Type.Object({}, open),
      strict: Nullable(Type.Boolean()),
    },
    open,
  ),
} as const;

/** Every field but those whose values are told apart by their type. */
const fields = {
  model: Nullable(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: "Gateway: <provider>/<model>. Orchestrator: <namespace>/<name>.",
    }),
  ),
  stream: Nullable(Type.Boolean({ description: "true: a Server-Sent Events stream. Default false." })),
  stream_options: Nullable(Type.Object({ include_obfuscation: Nullable(Type.Boolean()) }, open)),
  parallel_tool_calls: Nullable(Type.Boolean()),
  max_tool_calls: Nullable(Type.Integer({ minimum: 1 })),
  max_output_tokens: Nullable(
    Type.Integer({ minimum: 1, description: "Most tokens to generate, visible and reasoning ones together." }),
  ),
  temperature: Nullable(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: Nullable(Type.Number({ minimum: 0, maximum: 1 })),
  top_logprobs: Nullable(Type.Integer({ minimum: 0, maximum: 20 })),
  include: Nullable(Type.Array(Type.String())),
  reasoning: Nullable(
    Type.Object(
      {
        effort: Nullable(Type.String({ minLength: 1, maxLength: 64 })),
        summary: Nullable(Type.String({ description: "auto, concise or detailed: the model's thoughts are shown." })),
      },
      open,
    ),
  ),
  truncation: Nullable(Type.Union([Type.Literal("auto"), Type.Literal("disabled")])),
  metadata: Nullable(KeyedRecord(keyOfLength(64), Type.String({ maxLength: 512 }), { maxProperties: 16 })),
  user: Nullable(Type.String()),
  safety_identifier: Nullable(Type.String()),
  prompt_cache_key: Nullable(Type.String()),
  prompt_cache_retention: Nullable(Type.String()),
  service_tier: Nullable(Type.String()),
  store: Nullable(Type.Boolean()),
  background: Nullable(Type.Boolean()),
  previous_response_id: Nullable(Type.String({ minLength: 1 })),
} as const;

const verbosity = Nullable(Type.Union(["low", "medium", "high"].map((level) => Type.Literal(level))));

/** What is checked as one; items, tools, the choice and the format are checked by their types. */
export const RequestFields = Type.Object(
  {
    ...fields,
    instructions: Nullable(Type.String()),
    input: Nullable(Type.Union([Type.String(), Type.Array(Type.Object({}, open))])),
    tools: Nullable(Type.Array(Type.Object({ type: named }, open))),
    tool_choice: Nullable(Type.Union([...toolModes, Type.Object({ type: named }, open)])),
    text: Nullable(Type.Object({ format: Nullable(Type.Object({ type: named }, open)), verbosity }, open)),
  },
  open,
);
export type RequestFields = Static<typeof RequestFields>;

/** The whole of a request, for its description. */
export const ResponsesRequestBody = Type.Object(
  {
    ...fields,
    model: fields.model.anyOf[0],
    instructions: Nullable(Type.String({ description: "Stands before all that the input says." })),
    input: Type.Union([Type.String(), Type.Array(Item, { minItems: 1 })]),
    tools: Nullable(Type.Array(Tool)),
    tool_choice: Nullable(Type.Union([...toolModes, ...Object.values(choiceSchemas), OtherChoice] as TSchema[])),
    text: Nullable(Type.Object({ format: Nullable(Type.Union(Object.values(formatSchemas))), verbosity }, open)),
  },
  open,
);
