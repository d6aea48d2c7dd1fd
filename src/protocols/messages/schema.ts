/**
 * The body of a Messages request, checked loosely: fields, tools and blocks that are not known here pass, as Anthropic adds some
 * with every beta.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import { type Static, Type } from "@sinclair/typebox";
import { Nullable, Open, Tagged, titled, WordBut } from "../../lib/json/schemas.ts";
import { Judged } from "../body/judged.ts";

const object = Open({});
const words = Type.String({ minLength: 1 });

const typeBut = (...known: string[]) => WordBut(known, 256);

const cache_control = Nullable(object);

export const TextBlock = Tagged("text", { text: Type.String(), cache_control });

const Base64Source = Tagged("base64", { media_type: words, data: words });
const UrlSource = Tagged("url", { url: words });
const FileSource = Tagged("file", { file_id: words });
const TextSource = Tagged("text", { data: Type.String() });

const ImageBlock = Tagged("image", { source: Type.Union([Base64Source, UrlSource, FileSource]), cache_control });
const ContentSource = Tagged("content", {
  content: Type.Union([Type.String(), Type.Array(Type.Union([TextBlock, ImageBlock]))]),
});
const DocumentBlock = Tagged("document", {
  source: Type.Union([Base64Source, TextSource, ContentSource, UrlSource, FileSource]),
  title: Nullable(Type.String()),
  context: Nullable(Type.String()),
  citations: Nullable(object),
  cache_control,
});
const SearchResultBlock = Tagged("search_result", {
  source: Type.String(),
  title: Type.String(),
  content: Type.Array(TextBlock),
  cache_control,
});
const ThinkingBlock = Tagged("thinking", { thinking: Type.String(), signature: Nullable(Type.String()) });
const RedactedThinkingBlock = Tagged("redacted_thinking", { data: Type.String() });
const ToolUseBlock = Tagged("tool_use", { id: words, name: words, input: Type.Unknown(), cache_control });
const resultTypes = ["text", "image", "document", "search_result"];
const ToolResultBlock = Tagged("tool_result", {
  tool_use_id: words,
  content: Nullable(
    Type.Union([
      Type.String(),
      Type.Array(
        Type.Union([TextBlock, ImageBlock, DocumentBlock, SearchResultBlock, Open({ type: typeBut(...resultTypes) })]),
      ),
    ]),
  ),
  is_error: Nullable(Type.Boolean()),
  cache_control,
});
const OtherBlock = Open({ type: typeBut(...resultTypes, "thinking", "redacted_thinking", "tool_use", "tool_result") });

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
const turn = <R extends string>(role: R) => Open({ role: Type.Literal(role), content });
/** Libraries that leave out what is empty send an answer without blocks back without its content. */
const AssistantTurn = Open({ role: Type.Literal("assistant"), content: Nullable(content) });

const CustomTool = Open({
  type: Nullable(Type.Literal("custom")),
  name: Type.String({ minLength: 1, maxLength: 128 }),
  description: Nullable(Type.String()),
  input_schema: object,
  strict: Nullable(Type.Boolean()),
  cache_control,
});
/** A tool that the provider runs itself, or brings the schema of. */
const HostedTool = Open({ type: typeBut("custom") });

const oneCall = { disable_parallel_tool_use: Nullable(Type.Boolean()) };
const ToolChoice = Type.Union([
  Tagged("auto", oneCall),
  Tagged("any", oneCall),
  Tagged("tool", { name: words, ...oneCall }),
  Tagged("none", {}),
]);

const Thinking = Type.Union([
  Tagged("enabled", { budget_tokens: Judged(Type.Integer({ minimum: 1 }), Type.Integer()) }),
  Tagged("adaptive", {}),
  Tagged("disabled", {}),
  Open({ type: typeBut("enabled", "adaptive", "disabled") }),
]);

const OutputFormat = Tagged("json_schema", { schema: object });

/** The fields of a prompt, which can be counted too. */
const PromptFields = {
  model: Type.String({
    minLength: 1,
    maxLength: 256,
    description: "Gateway: <provider>/<model>, or an alias. Orchestrator: <namespace>/<name>.",
  }),
  messages: Type.Array(Type.Union([turn("user"), AssistantTurn, turn("system")])),
  system: Nullable(Type.Union([Type.String(), Type.Array(TextBlock)])),
  tools: Nullable(Type.Array(Type.Union([CustomTool, HostedTool]))),
  tool_choice: Nullable(ToolChoice),
  thinking: Nullable(Thinking),
  output_config: Nullable(
    Open({ effort: Nullable(Type.String({ minLength: 1, maxLength: 64 })), format: Nullable(OutputFormat) }),
  ),
  output_format: Nullable(OutputFormat),
  mcp_servers: Nullable(Type.Array(object)),
  thread: Nullable(object),
  cache_control,
};

const share = Type.Number({ minimum: 0, maximum: 1 });

export const MessagesBody = Open({
  ...PromptFields,
  max_tokens: Type.Integer({ minimum: 0, description: "The most tokens to generate, thinking included." }),
  stop_sequences: Nullable(Type.Array(Type.String())),
  temperature: Nullable(Judged(share, Type.Number())),
  top_p: Nullable(Judged(share, Type.Number())),
  top_k: Nullable(Judged(Type.Integer({ minimum: 0 }), Type.Integer())),
  metadata: Nullable(Open({ user_id: Nullable(Type.String()) })),
  service_tier: Nullable(Type.String()),
  stream: Nullable(Type.Boolean({ description: "true: a Server-Sent Events stream. Default false." })),
});

/** The body of a request to count a prompt's tokens. */
export const CountBody = Open(PromptFields);

titled(
  {
    TextBlock,
    ImageBlock,
    DocumentBlock,
    SearchResultBlock,
    ThinkingBlock,
    RedactedThinkingBlock,
    ToolUseBlock,
    ToolResultBlock,
    OtherBlock,
    ContentBlock,
    AssistantTurn,
    CustomTool,
    HostedTool,
    ToolChoice,
    Thinking,
    Request: MessagesBody,
    CountRequest: CountBody,
  },
  "Messages",
);

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
