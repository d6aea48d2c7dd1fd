/** Differences between the providers that speak the Responses format, and between their models. */

export type ResponsesQuirks = {
  /** Under this name an assistant message carries its reasoning in `extra_content`. */
  readonly provider: string;
  /** There is a route that counts an input's tokens: `/responses/input_tokens`. */
  readonly countsInput: boolean;
  /** The `format` of this provider's entries in another gateway's `reasoning_details`. */
  readonly reasoningFormats: readonly string[];
  readonly developerRole: "developer" | "system";
  /** True if a system message may hold parts; where not, their texts are joined. */
  readonly systemParts: boolean;
  /** True if files may come inline; where not, by URL or id only. */
  readonly inlineFiles: boolean;
  /** True if parts may end a cached prefix (`prompt_cache_breakpoint`). */
  readonly cacheBreakpoints: boolean;
  /** Tools with free-text input. Where there are none, `custom_tool_call` items are the server's own doings. */
  readonly customTools: boolean;
  /** True if `tool_choice` may narrow the tools; where not, only the allowed ones are sent. */
  readonly allowedTools: boolean;
  /** Sent with a function that names no strictness, where the endpoint's own default is another than the public format's. */
  readonly strictByDefault?: false;
  /** True if its clients' input may hold items that add tools and change the configuration; where not, such calls are translated. */
  readonly takesChanges: boolean;
  /** True if a replayed call carries an item id beside its `call_id`. */
  readonly callItemIds: boolean;
  /** True if replayed items say that they are complete. */
  readonly itemStatus: boolean;
  /** True if each message says that it is one. */
  readonly messageTypes?: true;
  /** The longest `call_id` that is taken. */
  readonly callIdLimit: number;
  /** The least `max_output_tokens` that is taken. */
  readonly minOutputTokens?: number;
  /** True if thoughts come only when a summary is asked for. */
  readonly summaryOnRequest: boolean;
  /** The way to ask for log probabilities. */
  readonly logprobs: "field" | "include";
  readonly topLogprobsLimit: number;
  readonly verbosity: boolean;
  /** It has a route that compacts a conversation. */
  readonly compacts?: true;
  /** The search tool takes `web_search_options`. */
  readonly webSearchOptions: boolean;
  readonly streamOptions: boolean;
  /** The origin of an answer's `metadata`: the caller's own, or notes of the upstream. */
  readonly metadata: "caller" | "upstream";
  /** True if a stored conversation is continued there, and not by sending it again. */
  readonly holdsConversation: boolean;
  /** Request fields without a counterpart, beside those that have none in either. */
  readonly dropped: readonly string[];
};

/** Source: https://docs.x.ai/docs/api-reference#create-new-response, https://docs.x.ai/docs/guides/chat */
export const xaiResponses: ResponsesQuirks = {
  provider: "xai",
  countsInput: false,
  reasoningFormats: ["xai-responses-v1"],
  developerRole: "system",
  systemParts: false,
  // https://docs.x.ai/docs/guides/files/chat-with-files: a public URL or an uploaded file's id, nothing else
  inlineFiles: false,
  cacheBreakpoints: false,
  customTools: false,
  allowedTools: false,
  takesChanges: false,
  callItemIds: true,
  itemStatus: true,
  callIdLimit: Number.POSITIVE_INFINITY,
  summaryOnRequest: false,
  logprobs: "field",
  topLogprobsLimit: 8,
  verbosity: false,
  webSearchOptions: false,
  streamOptions: false,
  // "Only included for compatibility"; in truth it holds `system_fingerprint`.
  metadata: "upstream",
  holdsConversation: true,
  dropped: ["metadata", "safety_identifier", "prompt_cache_retention"],
};

/** Source: https://platform.openai.com/docs/api-reference/responses/create */
export const openaiResponses: ResponsesQuirks = {
  provider: "openai",
  countsInput: true,
  reasoningFormats: ["openai-responses-v1", "azure-openai-responses-v1"],
  developerRole: "developer",
  systemParts: true,
  // https://platform.openai.com/docs/guides/file-inputs
  inlineFiles: true,
  cacheBreakpoints: true,
  customTools: true,
  allowedTools: true,
  takesChanges: true,
  // https://platform.openai.com/docs/guides/migrate-to-responses: functions are strict here unless they say otherwise
  strictByDefault: false,
  // An id must be one that OpenAI gave out ("Expected an ID that begins with 'fc'"), and then its reasoning item must come along.
  callItemIds: false,
  itemStatus: false,
  // "Expected a string with maximum length 64": https://github.com/AnswerDotAI/fastllm/issues/45
  callIdLimit: 64,
  // "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16": https://github.com/vectorize-io/hindsight/issues/58
  minOutputTokens: 16,
  summaryOnRequest: true,
  logprobs: "include",
  topLogprobsLimit: 20,
  verbosity: true,
  compacts: true,
  webSearchOptions: true,
  streamOptions: true,
  metadata: "caller",
  holdsConversation: false,
  dropped: ["seed"],
};

/** Source: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses */
export const azureResponses: ResponsesQuirks = {
  ...openaiResponses,
  // It is not documented there.
  countsInput: false,
  // Projects of Foundry refuse messages without it: "Invalid value: ''. Supported values are: 'additional_tools', …":
  // https://github.com/vercel/ai/issues/20180
  messageTypes: true,
};

/** Source: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html */
export const bedrockResponses: ResponsesQuirks = { ...openaiResponses, countsInput: false };
