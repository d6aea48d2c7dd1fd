/**
 * What clients ask of a server, as far as something between them can get in the way: their routes, headers and forms. All ask the model
 * `builtin/probe`, which costs nothing.
 *
 * Sources: https://code.claude.com/docs/en/llm-gateway, https://github.com/openai/codex (codex-rs/codex-api),
 * https://github.com/google-gemini/gemini-cli (packages/core), https://github.com/openai/openai-node
 */
import { isObject, textOf } from "../../../lib/json/json.ts";

export const clientNames = ["claude-code", "codex", "gemini-cli", "openai"] as const;
export type ClientName = (typeof clientNames)[number];

const model = "builtin/probe";

export type PlayedRequest = { readonly path: string; readonly body: object };

export type Contract = {
  /** Headers of each request. */
  readonly headers: (key: string) => Readonly<Record<string, string>>;
  /** What is worse where a header does not arrive. */
  readonly needs: Readonly<Record<string, string>>;
  readonly call: (text: string, stream: boolean) => PlayedRequest;
  /** The text of a plain answer. */
  readonly said: (answer: unknown) => string;
  /** Absent: the client counts no tokens. */
  readonly count?: PlayedRequest;
  readonly list: string;
  /** The names in a list of the client's form; undefined: it is of another form. */
  readonly listed: (answer: unknown) => readonly string[] | undefined;
  /** A request that the server has to refuse. */
  readonly wrong: PlayedRequest;
  readonly isError: (answer: unknown) => boolean;
  /** The route that it also asks for by WebSocket. */
  readonly socket?: string;
};

const at = (value: unknown, ...path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((now, name) => (isObject(now) || Array.isArray(now) ? (now as never)[name] : undefined), value);
const text = (value: unknown, ...path: readonly (string | number)[]) => textOf(at(value, ...path)) ?? "";
const isText = (value: unknown, ...path: readonly (string | number)[]) => typeof at(value, ...path) === "string";
const names = (list: unknown, member: string): string[] | undefined =>
  Array.isArray(list) && list.every((one) => isText(one, member)) ? list.map((one) => text(one, member)) : undefined;

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const stainless = { "x-stainless-lang": "js", "x-stainless-runtime": "node", "x-stainless-retry-count": "0" };
const asked = "the server does not know which client asks: usage by client is wrong";
const messages = (content: string) => [{ role: "user", content }];

export const contracts: Readonly<Record<ClientName, Contract>> = {
  "claude-code": {
    headers: (key) => ({
      ...{ ...bearer(key), ...stainless, "x-app": "cli", "user-agent": "claude-cli/2.1.9 (external, cli)" },
      "anthropic-version": "2023-06-01",
      "anthropic-beta": "interleaved-thinking-2025-05-14,context-management-2025-06-27,prompt-caching-scope-2026-01-05",
    }),
    needs: {
      "anthropic-beta":
        "what is in beta is refused or silently off: thinking between tools, context management, long context",
      "anthropic-version": "lists of models and errors come in OpenAI's form",
      "user-agent": asked,
    },
    call: (content, stream) => ({
      path: "/v1/messages?beta=true",
      body: { model, max_tokens: 8192, stream, messages: messages(content) },
    }),
    said: (answer) => text(answer, "content", 0, "text"),
    count: { path: "/v1/messages/count_tokens?beta=true", body: { model, messages: messages("Hello") } },
    list: "/v1/models?limit=1000",
    listed: (answer) => (typeof at(answer, "has_more") === "boolean" ? names(at(answer, "data"), "id") : undefined),
    wrong: { path: "/v1/messages?beta=true", body: { model, max_tokens: 1, messages: "none" } },
    isError: (answer) =>
      at(answer, "type") === "error" && isText(answer, "error", "type") && isText(answer, "error", "message"),
  },
  codex: {
    headers: (key) => ({
      ...{ ...bearer(key), originator: "codex_cli_rs", "user-agent": "codex_cli_rs/0.99.0" },
      ...{ session_id: "0199a213-81c0-7800-8aa1-bbab2a035a53", "session-id": "0199a213-81c0-7800-8aa1-bbab2a035a53" },
    }),
    needs: {
      session_id: "turns of older clients are not kept at one key of a pool, and its prompt cache is missed",
      "session-id": "turns are not kept at one key of a pool, and its prompt cache is missed",
      "user-agent": asked,
    },
    call: (input, stream) => ({ path: "/v1/responses", body: { model, stream, store: false, input } }),
    said: (answer) => text(answer, "output", 0, "content", 0, "text"),
    list: "/v1/models?client_version=0.99.0",
    listed: (answer) => names(at(answer, "data"), "id"),
    wrong: { path: "/v1/responses", body: { model, input: 7 } },
    isError: (answer) => isText(answer, "error", "message") && isText(answer, "error", "type"),
    socket: "/v1/responses",
  },
  "gemini-cli": {
    headers: (key) => ({
      ...{ "x-goog-api-key": key, "user-agent": "GeminiCLI/0.30.0 (linux; x64)" },
      "x-goog-api-client": "google-genai-sdk/1.30.0 gl-node/v22",
    }),
    needs: { "user-agent": asked },
    call: (content, stream) => ({
      path: `/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
      body: { contents: [{ role: "user", parts: [{ text: content }] }] },
    }),
    said: (answer) => text(answer, "candidates", 0, "content", "parts", 0, "text"),
    count: { path: `/v1beta/models/${model}:countTokens`, body: { contents: [{ parts: [{ text: "Hello" }] }] } },
    list: "/v1beta/models?pageSize=1000",
    listed: (answer) => names(at(answer, "models"), "name")?.map((name) => name.replace(/^models\//, "")),
    wrong: { path: `/v1beta/models/${model}:generateContent`, body: { contents: 7 } },
    isError: (answer) => typeof at(answer, "error", "code") === "number" && isText(answer, "error", "status"),
  },
  openai: {
    headers: (key) => ({ ...bearer(key), ...stainless, "user-agent": "OpenAI/JS 6.9.0" }),
    needs: { "user-agent": asked, "x-stainless-lang": "the server can't tell the SDK's retries from others" },
    call: (content, stream) => ({ path: "/v1/chat/completions", body: { model, stream, messages: messages(content) } }),
    said: (answer) => text(answer, "choices", 0, "message", "content"),
    list: "/v1/models",
    listed: (answer) => (at(answer, "object") === "list" ? names(at(answer, "data"), "id") : undefined),
    wrong: { path: "/v1/chat/completions", body: { model, messages: "none" } },
    isError: (answer) => isText(answer, "error", "message") && isText(answer, "error", "type"),
  },
};
