/**
 * The body of a Messages request, checked loosely: fields, tools and blocks that are not known here pass, as Anthropic adds some
 * with every beta.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox";

/** Clients in typed languages write null where they leave a field out. */
const Nullable = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));
const open = { additionalProperties: true } as const;
const object = Type.Object({}, open);
const words = Type.String({ minLength: 1 });

/** Any type but these; to the compiler a literal of its own, so that `type` tells the kinds apart. */
const typeBut = (...known: string[]) =>
  Type.Unsafe<"(another type)">(Type.String({ pattern: `^(?!(?:${known.join("|")})$)[\\s\\S]{1,256}$` }));

const cache_control = Nullable(object);

export const TextBlock = Type.Object({ type: Type.Literal("text"), text: Type.String(), cache_control }, open);

const Base64Source = Type.Object({ type: Type.Literal("base64"), media_type: words, data: words }, open);
const UrlSource = Type.Object({ type: Type.Literal("url"), url: words }, open);
const FileSource = Type.Object({ type: Type.Literal("file"), file_id: words }, open);
const TextSource = Type.Object({ type: Type.Literal("text"), data: Type.String() }, open);

const ImageBlock = Type.Object(
  { type: Type.Literal("image"), source: Type.Union([Base64Source, UrlSource, FileSource]), cache_control },
  open,
);
const ContentSource = Type.Object(
  {
    type: Type.Literal("content"),
    content: Type.Union([Type.String(), Type.Array(Type.Union([TextBlock, ImageBlock]))]),
  },
  open,
);
const DocumentBlock = Type.Object(
  {
    type: Type.Literal("document"),
    source: Type.Union([Base64Source, TextSource, ContentSource, UrlSource, FileSource]),
    title: Nullable(Type.String()),
    context: Nullable(Type.String()),
    citations: Nullable(object),
    cache_control,
  },
  open,
);
const SearchResultBlock = Type.Object(
  {
    type: Type.Literal("search_result"),
    source: Type.String(),
    title: Type.String(),
    content: Type.Array(TextBlock),
    cache_control,
  },
  open,
);
const ThinkingBlock = Type.Object(
  { type: Type.Literal("thinking"), thinking: Type.String(), signature: Nullable(Type.String()) },
  open,
);
const RedactedThinkingBlock = Type.Object({ type: Type.Literal("redacted_thinking"), data: Type.String() }, open);
const ToolUseBlock = Type.Object(
  { type: Type.Literal("tool_use"), id: words, name: words, input: Type.Unknown(), cache_control },
  open,
);
const resultTypes = ["text", "image", "document", "search_result"];
const ToolResultBlock = Type.Object(
  {
    type: Type.Literal("tool_result"),
    tool_use_id: words,
    content: Nullable(
      Type.Union([
        Type.String(),
        Type.Array(
          Type.Union([
            TextBlock,
            ImageBlock,
            DocumentBlock,
            SearchResultBlock,
            Type.Object({ type: typeBut(...resultTypes) }, open),
          ]),
        ),
      ]),
    ),
    is_error: Nullable(Type.Boolean()),
    cache_control,
  },
  open,
);
const OtherBlock = Type.Object(
  { type: typeBut(...resultTypes, "thinking", "redacted_thinking", "tool_use", "tool_result") },
  open,
);

const ContentBlock = Type.Union([
  TextBlock,
  ImageBlock,
  DocumentBlock,
  SearchResultBlock,
  ThinkingBlock,
  RedactedThinkingBlock,
  ToolUseBlock,
  ToolResultBlock,
  OtherBlock,
]);
const content = Type.Union([Type.String(), Type.Array(ContentBlock)]);
const turn = <R extends string>(role: R) => Type.Object({ role: Type.Literal(role), content }, open);

const CustomTool = Type.Object(
  {
    type: Nullable(Type.Literal("custom")),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: Nullable(Type.String()),
    input_schema: object,
    strict: Nullable(Type.Boolean()),
    cache_control,
  },
  open,
);
/** What the provider runs itself, or brings the schema of. */
const HostedTool = Type.Object({ type: typeBut("custom") }, open);

const oneCall = { disable_parallel_tool_use: Nullable(Type.Boolean()) };
const ToolChoice = Type.Union([
  Type.Object({ type: Type.Literal("auto"), ...oneCall }, open),
  Type.Object({ type: Type.Literal("any"), ...oneCall }, open),
  Type.Object({ type: Type.Literal("tool"), name: words, ...oneCall }, open),
  Type.Object({ type: Type.Literal("none") }, open),
]);

const Thinking = Type.Union([
  Type.Object({ type: Type.Literal("enabled"), budget_tokens: Type.Integer({ minimum: 1 }) }, open),
  Type.Object({ type: Type.Literal("adaptive") }, open),
  Type.Object({ type: Type.Literal("disabled") }, open),
  Type.Object({ type: typeBut("enabled", "adaptive", "disabled") }, open),
]);

const OutputFormat = Type.Object({ type: Type.Literal("json_schema"), schema: object }, open);

/** What a prompt is made of: what is counted, too. */
export const PromptFields = {
  model: Type.String({
    minLength: 1,
    maxLength: 256,
    description: "Gateway: <provider>/<model>, or an alias. Orchestrator: <namespace>/<name>.",
  }),
  messages: Type.Array(Type.Union([turn("user"), turn("assistant"), turn("system")])),
  system: Nullable(Type.Union([Type.String(), Type.Array(TextBlock)])),
  tools: Nullable(Type.Array(Type.Union([CustomTool, HostedTool]))),
  tool_choice: Nullable(ToolChoice),
  thinking: Nullable(Thinking),
  output_config: Nullable(
    Type.Object(
      { effort: Nullable(Type.String({ minLength: 1, maxLength: 64 })), format: Nullable(OutputFormat) },
      open,
    ),
  ),
  output_format: Nullable(OutputFormat),
  mcp_servers: Nullable(Type.Array(object)),
  thread: Nullable(object),
  cache_control,
};

export const MessagesBody = Type.Object(
  {
    ...PromptFields,
    max_tokens: Type.Integer({ minimum: 0, description: "The most tokens to generate, thinking included." }),
    stop_sequences: Nullable(Type.Array(Type.String())),
    temperature: Nullable(Type.Number({ minimum: 0, maximum: 1 })),
    top_p: Nullable(Type.Number({ minimum: 0, maximum: 1 })),
    top_k: Nullable(Type.Integer({ minimum: 0 })),
    metadata: Nullable(Type.Object({ user_id: Nullable(Type.String()) }, open)),
    service_tier: Nullable(Type.String()),
    stream: Nullable(Type.Boolean({ description: "true: a Server-Sent Events stream. Default false." })),
  },
  open,
);

/** Of a request to count a prompt's tokens. */
export const CountBody = Type.Object(PromptFields, open);

export type MessagesBody = Static<typeof MessagesBody>;
export type CountBody = Static<typeof CountBody>;
export type Turn = MessagesBody["messages"][number];
export type ContentBlock = Static<typeof ContentBlock>;
export type TextBlock = Static<typeof TextBlock>;
export type ImageBlock = Static<typeof ImageBlock>;
export type DocumentBlock = Static<typeof DocumentBlock>;
export type SearchResultBlock = Static<typeof SearchResultBlock>;
export type ToolUseBlock = Static<typeof ToolUseBlock>;
export type ToolResultBlock = Static<typeof ToolResultBlock>;
export type MessagesTool = NonNullable<MessagesBody["tools"]>[number];
