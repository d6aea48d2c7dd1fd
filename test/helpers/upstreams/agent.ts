/**
 * A model as an agent's client meets it, in the true format of each family of upstreams: it calls the tools that a test says,
 * streamed or whole, and reads what came of them in the next request.
 */
import { jsonResponse, type RecordedRequest, sseResponse } from "../upstream-server.ts";

type Json = Record<string, unknown>;
export type Call = { readonly id: string; readonly name: string; readonly args: Json };
/** What the model says: calls, after a signed thought, or a text. */
export type Turn = { readonly calls: readonly Call[] } | { readonly text: string };
export type AgentTool = { readonly name: string; readonly parameters: Json };
export type ToolResult = { readonly id: string | undefined; readonly text: string };

/** A request, read in its family's own format. */
export type AgentRequest = {
  /** As the upstream was asked for it. */
  readonly model: string;
  readonly isStream: boolean;
  readonly tools: readonly AgentTool[];
  /** All results in it, in their order. */
  readonly results: readonly ToolResult[];
  /** The signed thoughts in it. */
  readonly seals: readonly string[];
};

export type AgentFamily = {
  /** Whether a path of a request is this family's. */
  readonly serves: (path: string) => boolean;
  read(request: RecordedRequest): AgentRequest;
  answer(turn: Turn, request: Pick<AgentRequest, "model" | "isStream">): Response;
};

const thought = "Let me look.";
/** What each family's thoughts are signed with. */
export const seals = { anthropic: "c2lnbmVk", responses: "gAAAA", google: "Z29vZ2xl" };

const listOf = (value: unknown) => (Array.isArray(value) ? (value as Json[]) : []);
const textOf = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value ?? ""));
const dataOf = (...values: object[]) => values.map((value) => `data: ${JSON.stringify(value)}\n\n`);
const namedOf = (...values: { type: string }[]) =>
  values.map((value) => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`);
/** A text in two pieces, as streams have it. */
const pieces = (text: string) => [text.slice(0, 3), text.slice(3)].filter((piece) => piece !== "");

const chatUsage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };

/** https://platform.openai.com/docs/api-reference/chat */
const chat: AgentFamily = {
  serves: (path) => path.endsWith("/chat/completions"),
  read({ json }) {
    const { model, stream, tools, messages } = json as Json;
    return {
      model: String(model),
      isStream: stream === true,
      tools: listOf(tools).map(({ function: declared }) => declared as AgentTool),
      results: listOf(messages).flatMap(({ role, tool_call_id, content }) =>
        role === "tool" ? [{ id: String(tool_call_id), text: textOf(content) }] : [],
      ),
      seals: [],
    };
  },
  answer(turn, { model, isStream }) {
    const finish_reason = "calls" in turn ? "tool_calls" : "stop";
    const called = ("calls" in turn ? turn.calls : []).map(({ id, name, args }) => ({
      id,
      type: "function",
      function: { name, arguments: JSON.stringify(args) },
    }));
    const answer = { id: "chatcmpl-1", created: 1, model };
    if (!isStream) {
      const message = {
        role: "assistant",
        ...("calls" in turn ? { content: null, tool_calls: called } : { content: turn.text }),
      };
      return jsonResponse({
        ...answer,
        object: "chat.completion",
        choices: [{ index: 0, message, finish_reason, logprobs: null }],
        usage: chatUsage,
      });
    }
    const chunk = (delta: object, finish: string | null = null) => ({
      ...answer,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
    const deltas =
      "calls" in turn
        ? called.flatMap(({ function: { name, arguments: args }, ...call }, index) => [
            { tool_calls: [{ index, ...call, function: { name, arguments: "" } }] },
            ...pieces(args).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
          ])
        : pieces(turn.text).map((content) => ({ content }));
    return sseResponse([
      ...dataOf(chunk({ role: "assistant", content: "" }), ...deltas.map((delta) => chunk(delta))),
      ...dataOf(chunk({}, finish_reason), { ...chunk({}), choices: [], usage: chatUsage }),
      "data: [DONE]\n\n",
    ]);
  },
};

const messageUsage = { input_tokens: 9, output_tokens: 4 };

/** https://platform.claude.com/docs/en/build-with-claude/streaming */
const anthropic: AgentFamily = {
  serves: (path) => path.startsWith("/v1/messages"),
  read({ json }) {
    const { model, stream, tools, messages } = json as Json;
    const blocks = listOf(messages).flatMap(({ content }) => listOf(content));
    return {
      model: String(model),
      isStream: stream === true,
      tools: listOf(tools).map(({ name, input_schema }) => ({ name: String(name), parameters: input_schema as Json })),
      results: blocks.flatMap(({ type, tool_use_id, content }) =>
        type === "tool_result" ? [{ id: String(tool_use_id), text: textOf(content) }] : [],
      ),
      seals: blocks.flatMap(({ signature }) => (typeof signature === "string" ? [signature] : [])),
    };
  },
  answer(turn, { model, isStream }) {
    const content: Json[] =
      "calls" in turn
        ? [
            { type: "thinking", thinking: thought, signature: seals.anthropic },
            ...turn.calls.map(({ id, name, args }) => ({ type: "tool_use", id, name, input: args })),
          ]
        : [{ type: "text", text: turn.text }];
    const stop_reason = "calls" in turn ? "tool_use" : "end_turn";
    const message = { id: "msg_1", type: "message", role: "assistant", model, stop_sequence: null };
    if (!isStream) return jsonResponse({ ...message, content, stop_reason, usage: messageUsage });
    const blocks = content.flatMap((block, index) => [
      { type: "content_block_start", index, content_block: begunBlock(block) },
      ...blockDeltas(block).map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]);
    const begun = { ...message, content: [], stop_reason: null, usage: { input_tokens: 9, output_tokens: 1 } };
    const ended = { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: messageUsage };
    const start = { type: "message_start", message: begun };
    return sseResponse(namedOf(start, { type: "ping" }, ...blocks, ended, { type: "message_stop" }));
  },
};

function begunBlock(block: Json): Json {
  if (block["type"] === "thinking") return { ...block, thinking: "", signature: "" };
  return block["type"] === "text" ? { ...block, text: "" } : { ...block, input: {} };
}

function blockDeltas({ type, thinking, signature, text, input }: Json): Json[] {
  if (type === "thinking") {
    return [
      { type: "thinking_delta", thinking },
      { type: "signature_delta", signature },
    ];
  }
  if (type === "text") return pieces(String(text)).map((piece) => ({ type: "text_delta", text: piece }));
  return ["", ...pieces(JSON.stringify(input))].map((piece) => ({ type: "input_json_delta", partial_json: piece }));
}

/** https://ai.google.dev/api/generate-content */
const google: AgentFamily = {
  serves: (path) => /:(streamGenerateContent|generateContent)\b/.test(path),
  read({ json, path }) {
    const { tools, contents } = json as Json;
    const parts = listOf(contents).flatMap((content) => listOf(content["parts"]));
    const declared = listOf(tools).flatMap((tool) => listOf(tool["functionDeclarations"]));
    return {
      model: /models\/([^:]+):/.exec(path)![1]!,
      isStream: path.includes(":stream"),
      tools: declared.map(({ name, parametersJsonSchema, parameters }) => ({
        name: String(name),
        parameters: (parametersJsonSchema ?? parameters ?? {}) as Json,
      })),
      results: parts.flatMap(({ functionResponse }) => {
        if (functionResponse === undefined) return [];
        const { id, response } = functionResponse as Json;
        return [{ id: id === undefined ? undefined : String(id), text: textOf(response) }];
      }),
      seals: parts.flatMap(({ thoughtSignature }) => (typeof thoughtSignature === "string" ? [thoughtSignature] : [])),
    };
  },
  answer(turn, { model, isStream }) {
    const parts =
      "calls" in turn
        ? turn.calls.map(({ id, name, args }, at) => ({
            functionCall: { name, args, id },
            ...(at === 0 && { thoughtSignature: seals.google }),
          }))
        : pieces(turn.text).map((text) => ({ text }));
    const usageMetadata = { promptTokenCount: 9, candidatesTokenCount: 4, totalTokenCount: 13 };
    const body = (given: object[], finishReason?: string) => ({
      candidates: [{ index: 0, content: { role: "model", parts: given }, ...(finishReason && { finishReason }) }],
      usageMetadata,
      modelVersion: model,
      responseId: "r1",
    });
    if (!isStream) return jsonResponse(body(parts, "STOP"));
    return sseResponse(dataOf(...parts.map((part, at) => body([part], at === parts.length - 1 ? "STOP" : undefined))));
  },
};

const responsesUsage = {
  input_tokens: 9,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 4,
  output_tokens_details: { reasoning_tokens: 1 },
  total_tokens: 13,
};

/** https://platform.openai.com/docs/api-reference/responses */
const responses: AgentFamily = {
  serves: (path) => path.endsWith("/responses"),
  read({ json }) {
    const { model, stream, tools, input } = json as Json;
    const within = (tool: Json) => (tool["type"] === "namespace" ? listOf(tool["tools"]) : [tool]);
    return {
      model: String(model),
      isStream: stream === true,
      tools: listOf(tools)
        .flatMap(within)
        .flatMap(({ type, name, parameters }) =>
          type === "function" ? [{ name: String(name), parameters: (parameters ?? {}) as Json }] : [],
        ),
      results: listOf(input).flatMap(({ type, call_id, output }) =>
        String(type).endsWith("_call_output") ? [{ id: String(call_id), text: textOf(output) }] : [],
      ),
      seals: listOf(input).flatMap(({ encrypted_content: sealed }) => (typeof sealed === "string" ? [sealed] : [])),
    };
  },
  answer(turn, { model, isStream }) {
    const status = "completed";
    const output: (Json & { id: string })[] =
      "calls" in turn
        ? [
            { id: "rs_1", type: "reasoning", summary: [], encrypted_content: seals.responses },
            ...turn.calls.map(({ id, name, args }) => ({
              id: `fc_${id}`,
              type: "function_call",
              status,
              call_id: id,
              name,
              arguments: JSON.stringify(args),
            })),
          ]
        : [{ id: "msg_1", type: "message", role: "assistant", status, content: [outputText(turn.text)] }];
    const response = {
      ...{ id: `resp_${"calls" in turn ? 1 : 2}`, object: "response", created_at: 1, model, status },
      ...{ error: null, incomplete_details: null, instructions: null, metadata: {}, output, parallel_tool_calls: true },
      ...{ temperature: 1, top_p: 1, tool_choice: "auto", tools: [], usage: responsesUsage },
    };
    if (!isStream) return jsonResponse(response);
    const begun = { ...response, status: "in_progress", output: [], usage: null };
    const events = [
      { type: "response.created", response: begun },
      { type: "response.in_progress", response: begun },
      ...output.flatMap((item, output_index) => [
        { type: "response.output_item.added", output_index, item: { ...item, ...begunItem(item) } },
        ...itemEvents(item, { item_id: item.id, output_index }),
        { type: "response.output_item.done", output_index, item },
      ]),
      { type: "response.completed", response },
    ];
    return sseResponse(namedOf(...events.map((event, sequence_number) => ({ ...event, sequence_number }))));
  },
};

const outputText = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] });

function begunItem({ type }: Json): Json {
  if (type === "reasoning") return {};
  return { status: "in_progress", ...(type === "message" ? { content: [] } : { arguments: "" }) };
}

function itemEvents({ type, content, arguments: args }: Json, item: Json): (Json & { type: string })[] {
  if (type === "function_call") {
    const deltas = pieces(String(args)).map((delta) => ({ type: "response.function_call_arguments.delta", delta }));
    return [...deltas, { type: "response.function_call_arguments.done", arguments: args }].map((event) => ({
      ...event,
      ...item,
    }));
  }
  if (type !== "message") return [];
  const [part] = content as [{ text: string }];
  const place = { ...item, content_index: 0 };
  return [
    { type: "response.content_part.added", ...place, part: { ...part, text: "" } },
    ...pieces(part.text).map((delta) => ({ type: "response.output_text.delta", ...place, delta, logprobs: [] })),
    { type: "response.output_text.done", ...place, text: part.text, logprobs: [] },
    { type: "response.content_part.done", ...place, part },
  ];
}

export const agentFamilies = { chat, anthropic, google, responses };
export type AgentFamilyName = keyof typeof agentFamilies;

/** @returns the family whose format a request is in; undefined for what is none's, as a counter's is */
export function agentFamilyOf({ path }: RecordedRequest): AgentFamilyName | undefined {
  const pathname = path.split("?")[0]!;
  const names = Object.keys(agentFamilies) as AgentFamilyName[];
  return names.find((name) => agentFamilies[name].serves(pathname) && !pathname.endsWith("count_tokens"));
}
