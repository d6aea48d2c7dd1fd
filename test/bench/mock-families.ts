/** The answers of each provider family, byte for byte as its public reference describes them. */
import {
  type AnswerShape,
  cachedTokens,
  filler,
  fragmentText,
  plainCompletionTokens,
  promptTokens,
} from "./answer-shape.ts";

/** A stream's parts as text: the first fragment is sent together with `opening`, the last one with `closing`. */
export type StreamText = { readonly opening: string; readonly fragments: readonly string[]; readonly closing: string };

export type Family = {
  readonly headers: Readonly<Record<string, string>>;
  plain(model: string, text: string): string;
  stream(model: string, shape: AnswerShape, includeUsage: boolean): StreamText;
};

const created = 1_770_933_883;
const reasoningTokens = 0;

const numbered = (shape: AnswerShape, write: (text: string, index: number) => string) =>
  Array.from({ length: shape.fragments }, (_, index) => write(fragmentText(index, shape), index));

/** https://platform.openai.com/docs/api-reference/chat/object */
const openAiUsage = (completionTokens: number) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: reasoningTokens,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
});

const openAi: Family = {
  headers: {
    "x-request-id": "req_5f1c0a4be9f04e4bb3b1f3a1c2d3e4f5",
    "openai-processing-ms": "12",
    "openai-version": "2020-10-01",
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-remaining-requests": "9999",
    "x-ratelimit-reset-requests": "6ms",
  },
  plain: (model, text) =>
    JSON.stringify({
      id: "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
      object: "chat.completion",
      created,
      model: `${model}-2025-04-14`,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: text, refusal: null, annotations: [] },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: openAiUsage(plainCompletionTokens),
      service_tier: "default",
      system_fingerprint: "fp_b376dfbbd5",
    }),
  stream: (model, shape, includeUsage) => {
    const event = (choices: unknown[], usage: unknown = null) =>
      `data: ${JSON.stringify({
        id: "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        object: "chat.completion.chunk",
        created,
        model: `${model}-2025-04-14`,
        service_tier: "default",
        system_fingerprint: "fp_b376dfbbd5",
        choices,
        ...(includeUsage ? { usage } : {}),
      })}\n\n`;
    const chunk = (delta: unknown, finishReason: string | null = null) =>
      event([{ index: 0, delta, logprobs: null, finish_reason: finishReason }]);
    return {
      opening: chunk({ role: "assistant", content: "", refusal: null }),
      fragments: numbered(shape, (content) => chunk({ content })),
      closing: `${chunk({}, "stop")}${includeUsage ? event([], openAiUsage(shape.fragments)) : ""}data: [DONE]\n\n`,
    };
  },
};

/** https://docs.anthropic.com/en/api/messages and https://docs.anthropic.com/en/docs/build-with-claude/streaming */
const anthropic: Family = {
  headers: { "request-id": "req_011CSHoEeqs5C35K2UUqR7Fy", "anthropic-organization-id": "org" },
  plain: (model, text) =>
    JSON.stringify({
      id: "msg_01XFDUDYJgAACzvnptvVoYEL",
      type: "message",
      role: "assistant",
      model,
      content: [{ type: "text", text }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: anthropicUsage(plainCompletionTokens),
    }),
  stream: (model, shape) => {
    const event = (data: { type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
    const message = {
      id: "msg_01XFDUDYJgAACzvnptvVoYEL",
      type: "message",
      role: "assistant",
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: anthropicUsage(1),
    };
    const opened = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
    const ended = {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: shape.fragments },
    };
    return {
      opening: [{ type: "message_start", message }, opened, { type: "ping" }].map(event).join(""),
      fragments: numbered(shape, (text, index) => {
        const data = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } };
        // The real one puts spaces behind its data, now more, now less.
        return event(data).replace(/\n\n$/, `${" ".repeat((index * 7) % 13)}\n\n`);
      }),
      closing: [{ type: "content_block_stop", index: 0 }, ended, { type: "message_stop" }].map(event).join(""),
    };
  },
};

const anthropicUsage = (outputTokens: number) => ({
  input_tokens: promptTokens - cachedTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cachedTokens,
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
  output_tokens: outputTokens,
  service_tier: "standard",
});

/** https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse */
const google: Family = {
  headers: { "server-timing": "gfet4t7; dur=12" },
  plain: (model, text) => JSON.stringify(googleAnswer(model, text, plainCompletionTokens, true)),
  stream: (model, shape) => {
    const event = (text: string, index: number) =>
      `data: ${JSON.stringify(googleAnswer(model, text, index + 1, index === shape.fragments - 1))}\r\n\r\n`;
    return { opening: "", fragments: numbered(shape, event), closing: "" };
  },
};

const googleAnswer = (model: string, text: string, candidatesTokenCount: number, last: boolean) => ({
  candidates: [{ content: { parts: [{ text }], role: "model" }, ...(last ? { finishReason: "STOP" } : {}), index: 0 }],
  usageMetadata: {
    promptTokenCount: promptTokens,
    candidatesTokenCount,
    totalTokenCount: promptTokens + candidatesTokenCount,
    cachedContentTokenCount: cachedTokens,
    promptTokensDetails: [{ modality: "TEXT", tokenCount: promptTokens }],
  },
  modelVersion: model,
  responseId: "mAitaLmkHPPlz7IPvtfUqQ4",
});

/** https://docs.x.ai/docs/api-reference#create-new-response */
const xaiResponses: Family = {
  headers: { "x-request-id": "25de2f84-1f42-4f4c-9d2b-0f0f8a4a6f11" },
  plain: (model, text) => JSON.stringify(xaiResponse(model, "completed", text, plainCompletionTokens)),
  stream: (model, shape) => {
    let sequence = 0;
    const event = (data: { type: string }) =>
      `event: ${data.type}\ndata: ${JSON.stringify({ ...data, sequence_number: sequence++ })}\n\n`;
    const place = { item_id: xaiMessageId, output_index: 0, content_index: 0 };
    const running = xaiResponse(model, "in_progress", undefined, 0);
    const item = { id: xaiMessageId, type: "message", role: "assistant", content: [], status: "in_progress" };
    const part = (text: string) => ({ type: "output_text", text, logprobs: [], annotations: [] });
    const opening = [
      { type: "response.created", response: running },
      { type: "response.in_progress", response: running },
      { type: "response.output_item.added", output_index: 0, item },
      { type: "response.content_part.added", ...place, part: part("") },
    ]
      .map(event)
      .join("");
    const fragments = numbered(shape, (delta) => {
      const data = { type: "response.output_text.delta", ...place, delta, logprobs: [] };
      return event(data);
    });
    const text = numbered(shape, (fragment) => fragment).join("");
    const closing = [
      { type: "response.output_text.done", ...place, text, logprobs: [] },
      { type: "response.content_part.done", ...place, part: part(text) },
      {
        type: "response.output_item.done",
        output_index: 0,
        item: { ...item, content: [part(text)], status: "completed" },
      },
      { type: "response.completed", response: xaiResponse(model, "completed", text, shape.fragments) },
    ]
      .map(event)
      .join("");
    return { opening, fragments, closing };
  },
};

const xaiResponseId = "25de2f84-5d1c-7a40-8d44-1a3f0f6f2c10";
const xaiMessageId = `msg_${xaiResponseId}`;

function xaiResponse(model: string, status: string, text: string | undefined, outputTokens: number) {
  const content = [{ type: "output_text", text, logprobs: [], annotations: [] }];
  return {
    id: xaiResponseId,
    object: "response",
    created_at: created,
    model,
    status,
    output: text === undefined ? [] : [{ id: xaiMessageId, type: "message", role: "assistant", status, content }],
    usage:
      text === undefined
        ? null
        : {
            input_tokens: promptTokens,
            input_tokens_details: { cached_tokens: cachedTokens },
            output_tokens: outputTokens,
            output_tokens_details: { reasoning_tokens: reasoningTokens },
            total_tokens: promptTokens + outputTokens,
            num_sources_used: 0,
            num_server_side_tools_used: 0,
          },
    incomplete_details: null,
    previous_response_id: null,
    store: false,
    error: null,
    metadata: {},
  };
}

export const families = { openai: openAi, anthropic, google, xai: xaiResponses } satisfies Record<string, Family>;
export type FamilyName = keyof typeof families;

/** The text of a plain answer. */
export const plainText = (shape: AnswerShape) => filler(0, shape.plainChars);
