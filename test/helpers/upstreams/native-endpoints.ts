/**
 * Stand-ins for the further formats of upstreams that speak chat completions. Each wants its path and key, refuses what the real one
 * refuses, and answers 599 to what that drops in silence, though a translated call would carry it: such a call should not have come.
 * Written from the public pages named in `src/providers/openai-compatible/upstreams/native-endpoints.ts`, not from the rows.
 */
import { jsonResponse, type RecordedRequest, type UpstreamHandler } from "../upstream-server.ts";
import { type Body, strictCompatible } from "./compatible.ts";

type KeyHeader = "authorization" | "x-api-key";

type Rules = {
  readonly path: string;
  /** The only header that holds the key. */
  readonly key: KeyHeader;
  /** Members of the body that it knows, or overlooks without harm; any other is refused. */
  readonly fields: readonly string[];
  /** Types of tools; `""` are plain functions of Messages. */
  readonly tools: readonly string[];
  readonly models?: RegExp;
  readonly refusal?: (body: Body) => string | undefined;
  /** What is dropped in silence. */
  readonly loss?: (body: Body) => string | undefined;
};

type MessagesRules = Rules & {
  readonly parts: readonly string[];
  readonly systemTurns?: true;
  readonly urls?: true;
  readonly counts?: true;
  readonly signed?: true;
};

const sampling = ["temperature", "top_p", "top_k", "stop_sequences", "metadata"];
const messagesFields = [
  ...["model", "messages", "max_tokens", "system", "stream", "tools", "tool_choice", "thinking", "output_config"],
  ...sampling,
];
const ownParts = ["text", "image", "thinking", "tool_use", "tool_result"];
const formatOf = ({ output_config }: Body) => (output_config as Body | undefined)?.["format"];

/** Its cloud speaks as its servers do: https://docs.ollama.com/cloud */
const ollamaMessages: MessagesRules = {
  path: "/v1/messages",
  key: "authorization",
  fields: [...messagesFields, "cache_control"],
  parts: ownParts,
  tools: ["", "custom"],
  loss: (body) => (formatOf(body) === undefined ? undefined : "output_config.format"),
};

export const messagesRules: Readonly<Record<string, MessagesRules>> = {
  deepseek: {
    path: "/anthropic/v1/messages",
    key: "x-api-key",
    fields: [...messagesFields, "service_tier", "cache_control"],
    parts: [...ownParts, "server_tool_use", "web_search_tool_result"],
    urls: true,
    tools: ["", "custom", "web_search_20250305"],
    loss: (body) =>
      formatOf(body) !== undefined
        ? "output_config.format"
        : (body["tool_choice"] as Body | undefined)?.["type"] === "any"
          ? "tool_choice"
          : undefined,
  },
  moonshot: {
    path: "/anthropic/v1/messages",
    key: "authorization",
    fields: [...messagesFields, "cache_control"],
    parts: ownParts,
    urls: true,
    tools: ["", "custom", "web_search_20250305"],
    models: /^kimi-k3/,
  },
  zai: {
    path: "/api/anthropic/v1/messages",
    key: "authorization",
    fields: [...messagesFields, "cache_control"],
    parts: ownParts,
    tools: ["", "custom"],
  },
  minimax: {
    path: "/anthropic/v1/messages",
    key: "authorization",
    fields: [...messagesFields, "cache_control", "service_tier"],
    parts: ownParts,
    urls: true,
    tools: ["", "custom", "web_search_20250305"],
    loss: (body) =>
      body["stop_sequences"] !== undefined
        ? "stop_sequences"
        : ["any", "tool"].includes(String((body["tool_choice"] as Body | undefined)?.["type"]))
          ? "tool_choice"
          : undefined,
  },
  databricks: {
    path: "/serving-endpoints/anthropic/v1/messages",
    key: "authorization",
    fields: [...messagesFields, "cache_control"],
    parts: [...ownParts, "redacted_thinking", "document"],
    urls: true,
    tools: ["", "custom"],
    models: /^databricks-claude-/,
    signed: true,
  },
  snowflake: {
    path: "/api/v2/cortex/v1/messages",
    key: "authorization",
    fields: [...messagesFields, "cache_control"],
    parts: [...ownParts, "redacted_thinking", "document"],
    urls: true,
    tools: ["", "custom"],
    models: /^claude/,
    signed: true,
  },
  openrouter: {
    path: "/api/v1/messages",
    key: "authorization",
    fields: [...messagesFields, "service_tier", "cache_control", "provider", "models"],
    parts: [...ownParts, "document"],
    urls: true,
    tools: ["", "custom", "web_search_20250305"],
  },
  ollama: ollamaMessages,
  "ollama-cloud": ollamaMessages,
  vllm: {
    path: "/v1/messages",
    counts: true,
    key: "authorization",
    fields: [...messagesFields, "cache_control", "service_tier"],
    parts: [...ownParts, "redacted_thinking"],
    urls: true,
    systemTurns: true,
    tools: ["", "custom"],
    loss: (body) => (body["thinking"] === undefined ? undefined : "thinking"),
  },
  llamacpp: {
    path: "/v1/messages",
    counts: true,
    key: "authorization",
    fields: [...messagesFields, "cache_control"],
    parts: ownParts,
    urls: true,
    tools: ["", "custom"],
    loss: (body) => (formatOf(body) === undefined ? undefined : "output_config.format"),
  },
  lmstudio: {
    path: "/v1/messages",
    key: "authorization",
    fields: [...messagesFields, "cache_control"],
    parts: ownParts,
    urls: true,
    tools: ["", "custom"],
  },
};

const responsesFields = [
  ...["model", "input", "instructions", "stream", "temperature", "top_p", "max_output_tokens", "tools", "tool_choice"],
  ...["reasoning", "text", "parallel_tool_calls", "metadata", "user", "store", "service_tier", "background"],
];
const more = ["include", "prompt_cache_key", "safety_identifier", "truncation", "top_logprobs", "max_tool_calls"];

const keepsNothing = ({ store, previous_response_id: previous }: Body) =>
  previous == null && store === false ? undefined : "nothing is stored here";

/** Its cloud speaks as its servers do: https://docs.ollama.com/cloud */
const ollamaResponses: Rules = {
  path: "/v1/responses",
  key: "authorization",
  fields: [...responsesFields, ...more],
  tools: ["function"],
  refusal: keepsNothing,
  loss: (body) => {
    const type = ((body["text"] as Body | undefined)?.["format"] as Body | undefined)?.["type"] ?? "text";
    return type === "text" ? undefined : "text.format";
  },
};

export const responsesRules: Readonly<Record<string, Rules>> = {
  moonshot: {
    path: "/v1/responses",
    key: "authorization",
    fields: [...responsesFields, ...more],
    tools: ["function", "namespace", "custom", "web_search"],
    models: /^kimi-k3/,
    refusal: keepsNothing,
  },
  openrouter: {
    path: "/api/v1/responses",
    key: "authorization",
    fields: [...responsesFields, ...more],
    tools: ["function", "web_search", "custom"],
    refusal: keepsNothing,
  },
  groq: {
    path: "/openai/v1/responses",
    key: "authorization",
    fields: responsesFields,
    tools: ["function", "mcp", "browser_search", "code_interpreter"],
    refusal: keepsNothing,
  },
  ollama: ollamaResponses,
  "ollama-cloud": ollamaResponses,
  vllm: {
    path: "/v1/responses",
    key: "authorization",
    fields: [...responsesFields, ...more],
    tools: ["function", "mcp", "code_interpreter", "web_search_preview"],
    refusal: keepsNothing,
  },
  lmstudio: {
    path: "/v1/responses",
    key: "authorization",
    fields: [...responsesFields, ...more],
    tools: ["function", "mcp"],
  },
};

type Answers = Readonly<Record<"messages" | "responses" | "chat", (body: Body) => Response>> & {
  readonly count?: (body: Body) => Response;
};

/** All formats of one row. @param answers to what is in order */
export function strictEndpoints(name: string, apiKey: string, answers: Answers): UpstreamHandler {
  const chat = strictCompatible(name, apiKey, (body) => answers.chat(body));
  const [messages, responses] = [messagesRules[name], responsesRules[name]];
  return (request) => {
    const body = request.json as Body;
    if (messages !== undefined && request.path === messages.path) {
      const problem = problemOf(messages, apiKey, request) ?? messagesProblem(messages, request);
      return problem === undefined ? answers.messages(body) : asAnthropic(...problem);
    }
    if (messages !== undefined && request.path === `${messages.path}/count_tokens` && answers.count !== undefined)
      return answers.count(body);
    if (responses !== undefined && request.path === responses.path) {
      const problem = problemOf(responses, apiKey, request);
      return problem === undefined ? answers.responses(body) : asOpenAi(...problem);
    }
    return chat(request);
  };
}

type Problem = [status: number, message: string];

const asAnthropic = (status: number, message: string) =>
  jsonResponse({ type: "error", error: { type: "invalid_request_error", message } }, status);
const asOpenAi = (status: number, message: string) =>
  jsonResponse({ error: { message, type: "invalid_request_error", param: null, code: null } }, status);

function problemOf(rules: Rules, apiKey: string, { method, headers, json }: RecordedRequest): Problem | undefined {
  const body = json as Body;
  const other = rules.key === "authorization" ? "x-api-key" : "authorization";
  const said = rules.key === "authorization" ? `Bearer ${apiKey}` : apiKey;
  if (method !== "POST" || headers.get("content-type") !== "application/json") return [405, "POST JSON"];
  if (headers.get(rules.key) !== said || headers.has(other)) return [401, "the key is not where it belongs"];
  for (const field in body) if (!rules.fields.includes(field)) return [400, `${field}: unknown`];
  if (rules.models?.test(String(body["model"])) === false) return [404, `no such model: ${body["model"]}`];
  for (const { type = "" } of (body["tools"] ?? []) as Body[])
    if (!rules.tools.includes(String(type))) return [400, `no such tool: ${type}`];
  const refusal = rules.refusal?.(body);
  if (refusal !== undefined) return [400, refusal];
  const lost = rules.loss?.(body);
  return lost === undefined ? undefined : [599, `${lost} would be dropped`];
}

function messagesProblem(rules: MessagesRules, { json, headers }: RecordedRequest): Problem | undefined {
  const body = json as Body;
  if (headers.get("anthropic-version") === null) return [400, "anthropic-version: required"];
  if (!Number.isInteger(body["max_tokens"])) return [400, "max_tokens: required"];
  for (const { role, content } of body["messages"] as Body[]) {
    if (role === "system" && rules.systemTurns !== true) return [422, "Input should be 'user' or 'assistant'"];
    const parts = Array.isArray(content) ? (content as Body[]) : [];
    const nested = parts.flatMap((part) => (Array.isArray(part["content"]) ? (part["content"] as Body[]) : []));
    for (const part of [...parts, ...nested]) {
      const type = String(part["type"]);
      if (!rules.parts.includes(type)) return [422, `unknown variant ${type}`];
      if (rules.urls !== true && (part["source"] as Body | undefined)?.["type"] === "url") return [400, "image format"];
    }
  }
  return undefined;
}
