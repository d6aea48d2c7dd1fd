/**
 * A stand-in for api.anthropic.com that is as strict as the real one: it refuses what that refuses, with the same status and
 * words, and else answers what the test says. Sources: https://platform.claude.com/docs/en/api/errors,
 * https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting.
 */
import { exampleResponse } from "../fixtures.ts";
import { jsonResponse, type RecordedRequest, type UpstreamHandler } from "../upstream-server.ts";

type Json = Record<string, unknown>;
type Block = Json & { type: string };
type Turn = { role: string; content: Block[] };

export type MessagesBody = Json & {
  model: string;
  max_tokens: number;
  messages: Turn[];
  system?: Block[];
  tools?: Json[];
  thinking?: { type: string; budget_tokens?: number; display?: string };
};

export const anthropicKey = "sk-ant-api03-test";
export const requestId = "req_011CSHoEeqs5C35K2UUqR7Fy";

/** How a Claude model behaves, as its documentation says; written independently of the adapter's own table. */
type Model = {
  readonly cap: number;
  readonly thinking: readonly string[];
  readonly efforts: readonly string[];
  readonly sampling: boolean;
  /** temperature and top_p may stand together. */
  readonly pair?: boolean;
  readonly prefill: boolean;
  readonly systemTurns?: boolean;
  readonly forcedTools?: boolean;
  readonly format?: boolean;
};
const newest = { cap: 128_000, efforts: ["low", "medium", "high", "xhigh", "max"], sampling: false, prefill: false };
const models: Readonly<Record<string, Model>> = {
  "claude-opus-5-5": { ...newest, thinking: ["adaptive"], systemTurns: true, forcedTools: false },
  "claude-sonnet-5-5": { ...newest, thinking: ["adaptive", "between_tools"], systemTurns: true, forcedTools: false },
  "claude-haiku-5-5": { ...newest, thinking: ["adaptive", "disabled"], systemTurns: true },
  "claude-opus-5": { ...newest, thinking: ["adaptive", "disabled"], systemTurns: true },
  "claude-opus-4-8": { ...newest, thinking: ["adaptive", "disabled"], systemTurns: true },
  "claude-opus-4-7": { ...newest, thinking: ["adaptive", "disabled"] },
  "claude-sonnet-4-6": {
    ...newest,
    thinking: ["adaptive", "enabled", "disabled"],
    efforts: ["low", "medium", "high", "max"],
    sampling: true,
  },
  "claude-sonnet-4-5": { cap: 64_000, thinking: ["enabled", "disabled"], efforts: [], sampling: true, prefill: true },
  "claude-haiku-4-5": { cap: 64_000, thinking: ["enabled", "disabled"], efforts: [], sampling: true, prefill: true },
  "claude-3-5-haiku-20241022": {
    cap: 8192,
    thinking: [],
    efforts: [],
    sampling: true,
    pair: true,
    prefill: true,
    format: false,
  },
};
export const strictModels = Object.keys(models);

/** @param answer what a request that stands every check is answered with */
export function anthropicUpstream(answer: (body: MessagesBody, request: RecordedRequest) => Response): UpstreamHandler {
  return (request) => {
    const rejection = errorFor(request);
    if (rejection === undefined) return answer(request.json as MessagesBody, request);
    return errorResponse(...rejection);
  };
}

/** The answer of a case of test/fixtures/anthropic. */
export function anthropicExample(name: string): Response {
  return exampleResponse(`anthropic/${name}`, { "request-id": requestId, "retry-after": "12" });
}

export function errorResponse(status: number, type: string, message: string): Response {
  const body = { type: "error", error: { type, message }, request_id: requestId };
  return jsonResponse(body, status, { "request-id": requestId, "x-should-retry": String(status >= 429) });
}

type Rejection = [status: number, type: string, message: string];

class Invalid extends Error {}

function errorFor(request: RecordedRequest): Rejection | undefined {
  if (request.method !== "POST" || request.path !== "/v1/messages") return [404, "not_found_error", "Not found"];
  const key = request.headers.get("x-api-key");
  if (key === null) return [401, "authentication_error", "x-api-key header is required"];
  if (key !== anthropicKey) return [401, "authentication_error", "invalid x-api-key"];
  if (request.headers.get("anthropic-version") !== "2023-06-01") {
    return [400, "invalid_request_error", "anthropic-version: header is required"];
  }
  const body = request.json as MessagesBody | undefined;
  const model = models[body?.model ?? ""];
  if (body !== undefined && model === undefined) return [404, "not_found_error", `model: ${body.model}`];
  try {
    checkBody(body, request.headers);
    return undefined;
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    return [400, "invalid_request_error", error.message];
  }
}

function demand(holds: boolean, message: string): asserts holds {
  if (!holds) throw new Invalid(message);
}

const bodyKeys = new Set([
  "model",
  "max_tokens",
  "messages",
  "system",
  "temperature",
  "top_p",
  "top_k",
  "stop_sequences",
  "stream",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "cache_control",
  "metadata",
  "service_tier",
  "context_management",
]);

/** @throws Invalid in the words of the real one */
export function checkBody(body: MessagesBody | undefined, headers: Headers): void {
  demand(typeof body === "object" && body !== null, "The request body is not valid JSON");
  for (const key of Object.keys(body)) demand(bodyKeys.has(key), `${key}: Extra inputs are not permitted`);
  const model = models[body.model]!;
  demand(Number.isInteger(body.max_tokens) && body.max_tokens > 0, "max_tokens: Field required");
  demand(
    body.max_tokens <= model.cap,
    `max_tokens: ${body.max_tokens} > ${model.cap}, which is the maximum allowed number of output tokens for ${body.model}`,
  );
  if (body.system !== undefined) {
    demand(Array.isArray(body.system) && body.system.length > 0, "system: Input should be a valid list");
    for (const block of body.system) checkBlock(block, "system", ["text"]);
  }
  checkTools(body, model);
  checkThinking(body, model);
  checkSampling(body, model);
  checkTurns(body, model);
  checkOutput(body, model);
  checkMarkers(body);
  for (const sequence of (body["stop_sequences"] as string[] | undefined) ?? []) {
    demand(sequence.trim() !== "", "stop_sequences: each stop sequence must contain non-whitespace");
  }
  const user = (body["metadata"] as { user_id?: string } | undefined)?.user_id;
  demand(!user?.includes("@"), "metadata.user_id: user_id appears to contain an email address");
  if (JSON.stringify(body.messages).includes('"file_id"')) {
    demand(
      headers.get("anthropic-beta")?.includes("files-api-2025-04-14") ?? false,
      "file: Extra inputs are not permitted",
    );
  }
}

function checkTools({ tools, tool_choice: choice, thinking }: MessagesBody, model: Model): void {
  demand(tools === undefined || tools.length > 0, "tools: List should have at least 1 item");
  const names = new Set<unknown>();
  for (const [at, tool] of (tools ?? []).entries()) {
    demand(/^[a-zA-Z0-9_-]{1,128}$/.test(String(tool["name"])), `tools.${at}.custom.name: String should match pattern`);
    demand(!names.has(tool["name"]), "tools: Tool names must be unique.");
    names.add(tool["name"]);
    const schema = tool["input_schema"] as Json | undefined;
    demand(schema?.["type"] === "object", `tools.${at}.custom.input_schema.type: Field required`);
    if (tool["strict"] === true) {
      demand(model.format !== false, `tools.${at}.custom.strict: Extra inputs are not permitted`);
      checkSchema(schema, `tools.${at}.custom`);
    }
  }
  if (choice === undefined) return;
  const { type, name, disable_parallel_tool_use } = choice as Json;
  demand(tools !== undefined, "tool_choice: may only be specified while providing `tools`.");
  demand(
    type !== "none" || disable_parallel_tool_use === undefined,
    "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted",
  );
  if (type === "tool") demand(names.has(name), `tool_choice: Tool '${name}' not found in provided tools`);
  if (type !== "any" && type !== "tool") return;
  demand(model.forcedTools !== false, "tool_choice: forced tool use is not supported for this model.");
  demand(thinking?.type !== "enabled", "Thinking may not be enabled when tool_choice forces tool use.");
}

function checkThinking(
  { thinking, output_config, max_tokens, messages, context_management: context }: MessagesBody,
  model: Model,
): void {
  // https://github.com/router-for-me/CLIProxyAPI/issues/4957
  const isEdited = JSON.stringify(context ?? {}).includes("clear_thinking_");
  const thinks = thinking === undefined ? !model.thinking.includes("enabled") : thinking.type !== "disabled";
  demand(
    !isEdited || (thinks && model.thinking.length > 0),
    "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
  );
  const effort = (output_config as { effort?: string } | undefined)?.effort;
  if (effort !== undefined) demand(model.efforts.includes(effort), "This model does not support the effort parameter.");
  if (thinking === undefined) return;
  const { type, budget_tokens: budget = 0 } = thinking;
  demand(model.thinking.includes(type), `"thinking.type.${type}" is not supported for this model.`);
  demand(
    type !== "disabled" || (effort !== "xhigh" && effort !== "max"),
    "thinking: may not be disabled at this effort",
  );
  if (type !== "enabled") return;
  demand(budget >= 1024, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024");
  demand(budget < max_tokens, "`max_tokens` must be greater than `thinking.budget_tokens`.");
  const last = messages.at(-1);
  demand(last?.role !== "assistant", "Prefilling is not supported when `thinking` is enabled.");
  if (last?.content[0]?.type !== "tool_result") return;
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  const found = messages[at]?.content[0]?.type;
  demand(
    found === "thinking" || found === "redacted_thinking",
    `messages.${at}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${found}\`.`,
  );
}

function checkSampling({ temperature, top_p, top_k, thinking }: MessagesBody, model: Model): void {
  const sampled = temperature !== undefined || top_p !== undefined || top_k !== undefined;
  demand(model.sampling || !sampled, "`temperature` is deprecated for this model.");
  demand(!(Number(temperature) > 1), "temperature: range: 0..1");
  demand(
    model.pair === true || temperature === undefined || top_p === undefined,
    "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
  );
  if (thinking?.type !== "enabled" && thinking?.type !== "adaptive") return;
  demand(temperature === undefined, "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.");
  demand(top_k === undefined, "`top_k` must be unset when thinking is enabled.");
  demand(top_p === undefined || Number(top_p) >= 0.95, "`top_p` must be greater than or equal to 0.95");
}

function checkTurns({ messages }: MessagesBody, model: Model): void {
  demand(Array.isArray(messages) && messages.length > 0, "messages: at least one message is required");
  const seen = new Set<unknown>();
  for (const [at, { role, content }] of messages.entries()) {
    demand(
      ["user", "assistant", "system"].includes(role),
      `messages.${at}.role: Input should be 'user' or 'assistant'`,
    );
    demand(content.length > 0, `messages.${at}: all messages must have non-empty content`);
    const next = messages[at + 1];
    if (role === "system") {
      demand(model.systemTurns === true, "role 'system' is not supported on this model");
      const isOther = (turn: { role: string }) => turn.role !== "system";
      const [before, behind] = [messages.slice(0, at).findLast(isOther), messages.slice(at).find(isOther)];
      const placed = before?.role === "user" && (behind === undefined || behind.role === "assistant");
      demand(placed, `messages.${at}: system messages must follow a user turn and end it`);
    }
    for (const [index, block] of content.entries())
      checkBlock(block, `messages.${at}.content.${index}`, kindsOf[role]!);
    if (role === "assistant") checkAssistantTurn(content, next, at, seen);
    if (role === "user") checkResults(content, messages[at - 1], at);
  }
  const last = messages.at(-1)!;
  if (last.role !== "assistant") return;
  demand(
    model.prefill,
    "This model does not support assistant message prefill. The conversation must end with a user message.",
  );
  const text = String(last.content.at(-1)?.["text"] ?? "");
  demand(text === text.trimEnd(), "messages: final assistant content cannot end with trailing whitespace");
}

const kindsOf: Readonly<Record<string, readonly string[]>> = {
  user: ["text", "image", "document", "tool_result"],
  assistant: ["text", "tool_use", "thinking", "redacted_thinking"],
  system: ["text"],
};

function checkAssistantTurn(content: Block[], next: Turn | undefined, at: number, seen: Set<unknown>): void {
  const last = content.at(-1)?.type;
  demand(
    last !== "thinking" && last !== "redacted_thinking",
    `messages.${at}: The final block in an assistant message cannot be \`thinking\`.`,
  );
  const ids = content.filter(({ type }) => type === "tool_use").map(({ id }) => id);
  for (const id of ids) demand(!seen.has(id) && seen.add(id).has(id), "messages: `tool_use` ids must be unique");
  const answered = new Set<unknown>();
  for (const block of next?.role === "user" ? next.content : []) {
    if (block.type !== "tool_result") break;
    answered.add(block["tool_use_id"]);
  }
  const open = ids.filter((id) => !answered.has(id));
  demand(
    open.length === 0,
    `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  );
}

function checkResults(content: Block[], previous: Turn | undefined, at: number): void {
  const calls = new Set(previous?.content.filter(({ type }) => type === "tool_use").map(({ id }) => id));
  for (const [index, { type, tool_use_id }] of content.entries()) {
    if (type !== "tool_result") continue;
    demand(
      calls.has(tool_use_id),
      `messages.${at}.content.${index}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${tool_use_id}.`,
    );
  }
}

const imageTypes = ["image/jpeg", "image/png", "image/gif", "image/webp"];

function checkBlock(block: Block, path: string, kinds: readonly string[]): void {
  demand(kinds.includes(block.type), `${path}.type: Input tag '${block.type}' found using 'type' does not match`);
  switch (block.type) {
    case "text":
      demand(block["text"] !== "", "messages: text content blocks must be non-empty");
      demand(String(block["text"]).trim() !== "", "messages: text content blocks must contain non-whitespace text");
      return;
    case "image":
    case "document":
      checkSource(block, path);
      return;
    case "tool_use": {
      const { id, input } = block;
      demand(
        /^[a-zA-Z0-9_-]+$/.test(String(id)),
        `${path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`,
      );
      const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
      demand(isObject, `${path}.tool_use.input: Input should be a valid dictionary`);
      return;
    }
    case "tool_result":
      demand(
        !Array.isArray(block["content"]) || block["content"].length > 0,
        `${path}.content: List should have at least 1 item`,
      );
      if (!Array.isArray(block["content"])) return;
      for (const inner of block["content"] as Block[]) checkBlock(inner, path, ["text", "image", "document"]);
      return;
    case "thinking":
      demand(typeof block["thinking"] === "string", `${path}.thinking.thinking: Field required`);
      demand(Boolean(block["signature"]), `${path}: Invalid \`signature\` in \`thinking\` block`);
      demand(block["cache_control"] === undefined, `${path}.thinking.cache_control: Extra inputs are not permitted`);
      return;
    case "redacted_thinking":
      demand(Boolean(block["data"]), `${path}: Invalid \`data\` in \`redacted_thinking\` block`);
  }
}

function checkSource({ type, source }: Block, path: string): void {
  const { type: kind, media_type, data, url } = source as Record<string, string | undefined>;
  if (kind === "url") demand(/^https:/.test(url ?? ""), `${path}: Only HTTPS URLs are supported.`);
  if (kind === "url" || kind === "file") return;
  const types = type === "image" ? imageTypes : [kind === "text" ? "text/plain" : "application/pdf"];
  demand(
    types.includes(media_type ?? ""),
    `${path}.${type}.source.base64.media_type: Input should be ${types.join(", ")}`,
  );
  demand(typeof data === "string" && data !== "", `${path}.${type}.source.base64.data: Field required`);
}

function checkOutput({ output_config }: MessagesBody, model: Model): void {
  const format = (output_config as { format?: Json } | undefined)?.format;
  if (format === undefined) return;
  demand(model.format !== false, "output_config.format: Extra inputs are not permitted");
  checkSchema(format["schema"] as Json, "output_config.format.schema");
}

const unsupported = [
  "minimum",
  "maximum",
  "multipleOf",
  "minLength",
  "maxLength",
  "maxItems",
  "oneOf",
  "not",
  "pattern",
];

function checkSchema(schema: unknown, path: string): void {
  if (typeof schema !== "object" || schema === null) return;
  if (Array.isArray(schema)) {
    for (const entry of schema) checkSchema(entry, path);
    return;
  }
  const node = schema as Json;
  if (node["type"] === "object") {
    demand(
      node["additionalProperties"] === false,
      `${path}: For 'object' type, 'additionalProperties' must be explicitly set to false`,
    );
  }
  for (const key of unsupported) {
    demand(
      !(key in node) || typeof node[key] === "object",
      `${path}: For '${node["type"]}' type, property '${key}' is not supported`,
    );
  }
  demand(!("$ref" in node) || node["properties"] === undefined, `${path}: '$ref' may have no siblings`);
  for (const value of Object.values(node)) checkSchema(value, path);
}

function checkMarkers(body: MessagesBody): void {
  const found = JSON.stringify(body).split('"cache_control":').length - 1;
  demand(found <= 4, `A maximum of 4 blocks with cache_control may be provided. Found ${found}.`);
  const { tools, system, messages } = body as { tools?: Json[]; system?: Json[]; messages: { content: Json[] }[] };
  const blocks = [...(tools ?? []), ...(system ?? []), ...messages.flatMap(({ content }) => content), body as Json];
  const lifetimes = blocks.flatMap(({ cache_control: mark }) => (mark == null ? [] : [(mark as Json)["ttl"] ?? "5m"]));
  const first = lifetimes.indexOf("5m");
  demand(
    first < 0 || !lifetimes.includes("1h", first),
    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
  );
}
