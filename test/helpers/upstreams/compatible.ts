/**
 * Stand-ins for the upstreams that speak chat completions: each refuses what the real one refuses, in its own words, and
 * otherwise answers what the test says. What is refused is from the pages named in `src/providers/openai-compatible/upstreams/`.
 */
import { jsonResponse, type RecordedRequest, type UpstreamHandler } from "../upstream-server.ts";

export type Body = Record<string, unknown>;
type Message = Body & { role: string };

type UpstreamRules = {
  readonly path: string;
  /** What stands before the path's `/chat/completions` without being part of the base address. */
  readonly ownPrefix?: string;
  /** Holds the bare key; absent: `authorization` does, as a bearer token. */
  readonly keyHeader?: string;
  /** Request fields that are known; absent: unknown ones are overlooked. */
  readonly fields?: readonly string[];
  /** Refused whatever they hold. */
  readonly refused?: readonly string[];
  readonly roles: readonly string[];
  /** Keys that a message may hold; absent: unknown ones are overlooked. */
  readonly messageKeys?: readonly string[];
  readonly callIds?: RegExp;
  /** Texts must be strings, not lists of parts. */
  readonly textOnly?: boolean;
  readonly inlineImagesOnly?: boolean;
  /** An assistant message with calls must carry this key. */
  readonly besideCalls?: string;
  readonly rules?: (body: Body) => string | undefined;
  /** What one message may not follow. */
  readonly order?: (role: unknown, before: unknown, isLast: boolean, message: Body) => string | undefined;
  readonly refuse: (status: number, message: string, param: string) => Response;
};

/** https://platform.openai.com/docs/api-reference/chat/create */
const publicFields = [
  ...[
    "model",
    "messages",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "n",
  ],
  ...["stop", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "seed", "tools"],
  ...["tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "user"],
];
const platformFields = [
  ...["store", "metadata", "service_tier", "prediction", "safety_identifier", "prompt_cache_key"],
  ...["prompt_cache_retention", "verbosity", "modalities", "audio", "web_search_options", "moderation"],
];
const without = (fields: readonly string[], ...gone: string[]) => fields.filter((field) => !gone.includes(field));
const publicKeys = ["role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "annotations"];
const olderRoles = ["system", "user", "assistant", "tool"];

const asOpenAi = (status: number, message: string, param: string) =>
  jsonResponse({ error: { message, type: "invalid_request_error", param, code: null } }, status, {
    "x-request-id": "req_up",
  });
/** Errors come with a 200: https://platform.minimax.io/docs/api-reference/errorcode */
const asMiniMax = (status: number, message: string) =>
  jsonResponse({ choices: null, base_resp: { status_code: status === 401 ? 1004 : 2013, status_msg: message } });
/** Everything else overlooked, as servers of one's own do. */
const easy: UpstreamRules = { path: "/v1/chat/completions", roles: olderRoles, refuse: asOpenAi };

const upstreamRules: Readonly<Record<string, UpstreamRules>> = {
  openai: {
    path: "/v1/chat/completions",
    fields: [...publicFields, ...platformFields],
    roles: ["developer", ...olderRoles],
    messageKeys: publicKeys,
    callIds: /^.{1,40}$/,
    rules: ({ model, max_tokens }) =>
      /^(o\d|gpt-[56])/.test(String(model)) && max_tokens !== undefined
        ? "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        : undefined,
    refuse: asOpenAi,
  },
  azure: {
    path: "/openai/v1/chat/completions",
    ownPrefix: "/openai/v1",
    keyHeader: "api-key",
    fields: [...publicFields, ...platformFields],
    roles: ["developer", ...olderRoles],
    messageKeys: publicKeys,
    refuse: asOpenAi,
  },
  xai: {
    ...easy,
    refused: ["presence_penalty", "frequency_penalty", "stop", "store", "metadata", "search_parameters"],
    refuse: (status, message) => jsonResponse({ code: "Client specified an invalid argument", error: message }, status),
  },
  mistral: {
    path: "/v1/chat/completions",
    fields: [
      ...without(
        publicFields,
        "stream_options",
        "max_completion_tokens",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "seed",
        "user",
      ),
      ...["random_seed", "prediction", "safe_prompt", "prompt_mode", "prompt_cache_key"],
    ],
    roles: olderRoles,
    messageKeys: ["role", "content", "name", "tool_calls", "tool_call_id", "prefix"],
    callIds: /^[A-Za-z0-9]{9}$/,
    order: (role, before, isLast, { prefix, content, tool_calls }) => {
      if (role === "assistant" && !content && tool_calls === undefined)
        return "Assistant message must have either content or tool_calls, but not none.";
      if (role === "user" && before === "tool") return "Unexpected role 'user' after role 'tool'";
      return isLast && role === "assistant" && prefix !== true
        ? "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        : undefined;
    },
    refuse: (_, msg, param) =>
      jsonResponse({ detail: [{ type: "extra_forbidden", loc: ["body", param], msg, input: null }] }, 422),
  },
  groq: {
    path: "/openai/v1/chat/completions",
    fields: [...without(publicFields, "logit_bias", "logprobs", "top_logprobs"), "service_tier", "reasoning_format"],
    refused: ["logit_bias", "logprobs", "top_logprobs"],
    roles: olderRoles,
    messageKeys: ["role", "content", "tool_calls", "tool_call_id", "reasoning"],
    textOnly: true,
    rules: ({ n }) => (n !== undefined && n !== 1 ? "'n' : number must be at most 1" : undefined),
    refuse: (status, message) => jsonResponse({ error: { message, type: "invalid_request_error" } }, status),
  },
  deepseek: {
    ...easy,
    path: "/chat/completions",
    textOnly: true,
    besideCalls: "reasoning_content",
    rules: ({ response_format }) =>
      (response_format as Body | undefined)?.["type"] === "json_schema"
        ? "This response_format type is unavailable now"
        : undefined,
  },
  together: { ...easy, refused: ["max_completion_tokens"] },
  fireworks: { ...easy, path: "/inference/v1/chat/completions", refused: ["max_completion_tokens"] },
  openrouter: { ...easy, path: "/api/v1/chat/completions", roles: ["developer", ...olderRoles] },
  perplexity: {
    ...easy,
    path: "/chat/completions",
    refused: ["stream_options", "seed", "user", "parallel_tool_calls"],
    order: (role, before, isLast) => {
      const speakers = ["user", "assistant"];
      if (isLast && role === "assistant") return "Last message must have role `user`.";
      return speakers.includes(String(role)) && role === before
        ? "After the (optional) system message(s), user and assistant roles should be alternating."
        : undefined;
    },
  },
  cerebras: {
    path: "/v1/chat/completions",
    fields: without(publicFields, "presence_penalty", "frequency_penalty", "logit_bias"),
    roles: olderRoles,
    messageKeys: ["role", "content", "name", "tool_calls", "tool_call_id", "reasoning"],
    textOnly: true,
    refuse: (status, message, param) =>
      jsonResponse({ message, type: "invalid_request_error", param, code: "wrong_api_format" }, status),
  },
  moonshot: {
    ...easy,
    inlineImagesOnly: true,
    besideCalls: "reasoning_content",
    rules: ({ tool_choice, tools, response_format }) => {
      if (tool_choice === "required") return "tool_choice 'required' is incompatible with thinking enabled";
      const text = JSON.stringify([tools, response_format]);
      if (/"items":\[/.test(text)) return "At path 'items': tuples are said by prefixItems";
      return /"type":"[a-z]+","anyOf"|\],"type":"/.test(text)
        ? "type should be defined in anyOf items instead of the parent schema"
        : undefined;
    },
  },
  zai: { ...easy, path: "/api/paas/v4/chat/completions", refused: ["user", "max_completion_tokens"] },
  alibaba: {
    ...easy,
    path: "/compatible-mode/v1/chat/completions",
    refused: ["max_tokens", "reasoning_effort"],
  },
  minimax: { ...easy, refused: ["max_tokens", "reasoning_effort"], refuse: asMiniMax },
  volcengine: { ...easy, path: "/api/v3/chat/completions" },
  nvidia: { ...easy, textOnly: true },
  sambanova: easy,
  nebius: easy,
  deepinfra: {
    ...easy,
    path: "/v1/openai/chat/completions",
    refused: ["max_completion_tokens"],
    rules: ({ reasoning_effort }) =>
      reasoning_effort === undefined || ["none", "low", "medium", "high"].includes(String(reasoning_effort))
        ? undefined
        : "Input should be 'none', 'low', 'medium' or 'high'",
    refuse: (status, msg, param) =>
      jsonResponse({ detail: [{ type: "value_error", loc: ["body", param], msg }] }, status === 400 ? 422 : status),
  },
  "ollama-cloud": { ...easy, inlineImagesOnly: true },
  huggingface: easy,
  vercel: { ...easy, roles: ["developer", ...olderRoles] },
  cloudflare: {
    ...easy,
    path: "/client/v4/accounts/an-account/ai/v1/chat/completions",
    ownPrefix: "/accounts/an-account/ai/v1",
    roles: ["developer", ...olderRoles],
    refuse: (status, message) =>
      jsonResponse({ result: null, success: false, errors: [{ code: 7000, message }], messages: [] }, status),
  },
  "cloudflare-gateway": {
    ...easy,
    path: "/v1/an-account/a-gateway/compat/chat/completions",
    ownPrefix: "/an-account/a-gateway/compat",
    roles: ["developer", ...olderRoles],
  },
  databricks: {
    ...easy,
    path: "/serving-endpoints/chat/completions",
    ownPrefix: "/serving-endpoints",
    refused: ["stream_options", "max_completion_tokens"],
    refuse: (status, message) => jsonResponse({ error_code: "BAD_REQUEST", message }, status),
  },
  snowflake: {
    ...easy,
    path: "/api/v2/cortex/v1/chat/completions",
    ownPrefix: "/api/v2/cortex/v1",
    refused: ["max_tokens"],
    roles: ["developer", ...olderRoles],
  },
  sglang: easy,
  docker: { ...easy, path: "/engines/v1/chat/completions" },
  litellm: { ...easy, roles: ["developer", ...olderRoles] },
  ollama: { ...easy, inlineImagesOnly: true },
  vllm: easy,
  llamacpp: easy,
  lmstudio: {
    ...easy,
    inlineImagesOnly: true,
    rules: ({ response_format }) =>
      (response_format as Body | undefined)?.["type"] === "json_object"
        ? "'response_format.type' must be 'json_schema' or 'text'"
        : undefined,
  },
};

/** Settings without which there is no address. */
export const accountOptions: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  cloudflare: { account_id: "an-account" },
  "cloudflare-gateway": { account_id: "an-account", gateway_id: "a-gateway" },
};

/** The part of its address that stands before `/chat/completions`. */
export function basePath(name: string): string {
  const { path, ownPrefix = "" } = upstreamRules[name]!;
  return path.replace(`${ownPrefix}/chat/completions`, "");
}

/** @param answer what a request that is in order gets */
export function strictCompatible(name: string, apiKey: string, answer: (body: Body) => Response): UpstreamHandler {
  const own = upstreamRules[name]!;
  return (request) => {
    const { keyHeader } = own;
    const isRight =
      keyHeader === undefined
        ? request.headers.get("authorization") === `Bearer ${apiKey}`
        : request.headers.get(keyHeader) === apiKey;
    if (!isRight) return own.refuse(401, "Incorrect API key provided", "");
    if (request.method !== "POST" || request.path !== own.path)
      return own.refuse(404, `no such path: ${request.path}`, "");
    return errorFor(own, request) ?? answer(request.json as Body);
  };
}

function errorFor(own: UpstreamRules, { json, headers }: RecordedRequest): Response | undefined {
  const body = json as Body;
  if (headers.get("content-type") !== "application/json") return own.refuse(415, "send JSON", "");
  for (const field in body) {
    const known = own.fields?.includes(field) ?? true;
    if (!known || own.refused?.includes(field)) return own.refuse(400, `property '${field}' is unsupported`, field);
    if (body[field] === null) return own.refuse(400, `${field} is null`, field);
  }
  if (body["stream_options"] !== undefined && body["stream"] !== true) {
    return own.refuse(
      400,
      "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
      "stream_options",
    );
  }
  const broken = own.rules?.(body);
  if (broken !== undefined) return own.refuse(400, broken, "");
  return messagesError(own, body["messages"] as Message[]);
}

function messagesError(own: UpstreamRules, messages: readonly Message[]): Response | undefined {
  const open = new Set<string>();
  for (const [at, message] of messages.entries()) {
    const fault = (text: string) => own.refuse(400, text, `messages[${at}]`);
    if (!own.roles.includes(message.role)) return fault(`unknown role ${message.role}`);
    for (const key in message) {
      if (own.messageKeys?.includes(key) === false) return fault(`property '${key}' is unsupported`);
      if (message[key] === null && key !== "content") return fault(`${key} is null`);
    }
    const { content } = message;
    const isTexts = Array.isArray(content) && content.every(({ type }) => type === "text");
    if (own.textOnly && isTexts) return fault("content must be a string");
    for (const part of Array.isArray(content) ? (content as Body[]) : []) {
      const url = (part["image_url"] as Body | undefined)?.["url"];
      if (message.role !== "user" && url !== undefined) return fault("images belong into user messages");
      if (own.inlineImagesOnly && typeof url === "string" && !url.startsWith("data:"))
        return fault("invalid image input");
    }
    const disordered = own.order?.(message.role, messages[at - 1]?.role, at === messages.length - 1, message);
    if (disordered !== undefined) return fault(disordered);
    if (message.role !== "tool" && open.size > 0) {
      return fault(`tool_call_ids without response messages: ${[...open].join(", ")}`);
    }
    for (const call of (message["tool_calls"] ?? []) as Body[]) {
      const id = String(call["id"]);
      if (own.callIds?.test(id) === false) return fault(`Tool call id has to fit ${own.callIds}: ${id}`);
      if ("extra_content" in call || "index" in call) return fault("unknown key in a tool call");
      open.add(id);
    }
    if (message["tool_calls"] !== undefined && own.besideCalls !== undefined && !(own.besideCalls in message)) {
      return fault(`The ${own.besideCalls} in the thinking mode must be passed back to the API.`);
    }
    if (message.role === "tool" && !open.delete(String(message["tool_call_id"]))) return fault("no such tool call");
  }
  return open.size > 0 ? own.refuse(400, "tool calls without results", "messages") : undefined;
}

/** The plainest answer: a text, or a call. */
export function simpleAnswer(message: Body = { content: "Hello" }): Response {
  const finish_reason = message["tool_calls"] === undefined ? "stop" : "tool_calls";
  return jsonResponse({
    id: "up-1",
    object: "chat.completion",
    created: 1770774046,
    model: "upstream-model",
    choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  });
}
