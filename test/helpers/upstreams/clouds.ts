/**
 * Stand-ins of clouds that serve other makers' models: each takes its own address, key and names, and refuses what the maker's own stand-in
 * refuses. Sources: https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, …/claude-in-microsoft-foundry,
 * https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html, https://learn.microsoft.com/azure/ai-foundry/openai/reference
 */
import { jsonResponse, type RecordedRequest, type UpstreamHandler } from "../upstream-server.ts";
import { anthropicKey, anthropicUpstream } from "./anthropic.ts";
import { bedrockKey, converseAnswer, converseStream, strictBedrock, textEvents } from "./bedrock.ts";
import { googleKey, strictGemini } from "./google.ts";
import { strictEndpoints } from "./native-endpoints.ts";
import { strictResponses } from "./responses.ts";

type Json = Record<string, unknown>;
type Answer = (body: unknown, request: RecordedRequest) => Response;

const refused = (status: number, message: string) => jsonResponse({ error: { message } }, status);

/** The same request as it would be at the maker's own. */
function moved(request: RecordedRequest, path: string, headers: Json, model?: string): RecordedRequest {
  const json = model === undefined ? request.json : { ...(request.json as Json), model };
  const all = new Headers(request.headers);
  for (const [name, value] of Object.entries(headers)) all.set(name, String(value));
  return { ...request, path, headers: all, json, text: JSON.stringify(json) };
}

const claudeHeaders = { "x-api-key": anthropicKey, "anthropic-version": "2023-06-01" };
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

function foundry(answer: Answer): UpstreamHandler {
  const claude = anthropicUpstream(answer);
  return (request) => {
    if (request.headers.get("api-key") !== "key-of-foundry") return refused(401, "no such key");
    if (request.headers.get("anthropic-version") !== "2023-06-01") return refused(400, "anthropic-version: required");
    return claude(moved(request, request.path.replace("/anthropic", ""), { "x-api-key": anthropicKey }));
  };
}

const vertexPath = /^\/projects\/p\/locations\/global\/publishers\/(anthropic|google)\/models\/([^:]+):(\w+)(.*)$/;

function vertex(answer: Answer): UpstreamHandler {
  const [claude, gemini] = [anthropicUpstream(answer), strictGemini(answer)];
  return (request) => {
    const [, publisher, model = "", method, query] = vertexPath.exec(request.path) ?? [];
    if (request.headers.get("authorization") !== "Bearer key-of-vertex") return refused(401, "no such token");
    const { anthropic_version: version, ...body } = request.json as Json;
    if (publisher === "google") {
      if (/"functionCall":\{[^}]*"id"/.test(request.text)) return refused(400, 'Unknown name "id"');
      return gemini(moved(request, `/v1beta/models/${model}:${method}${query}`, { "x-goog-api-key": googleKey }));
    }
    const isStream = body["stream"] === true;
    if (publisher === undefined || method !== (isStream ? "streamRawPredict" : "rawPredict"))
      return refused(404, `no such path: ${request.path}`);
    if ("model" in body || version !== "vertex-2023-10-16" || request.headers.has("anthropic-version"))
      return refused(400, "model: Extra inputs are not permitted");
    return claude(moved({ ...request, json: body }, "/v1/messages", claudeHeaders, model));
  };
}

/** Names of models at Bedrock, without region and maker. */
const bareName = (model: unknown) =>
  String(model)
    .replace(/^(?:[a-z]+\.)+/, "")
    .replace(/-v\d+:\d+$/, "");

function bedrock(answer: Answer): UpstreamHandler {
  const claude = anthropicUpstream(answer);
  const converse = strictBedrock(
    ({ isStream }) => (isStream ? converseStream(textEvents("Hello")) : converseAnswer([{ text: '{"a":"Hello"}' }])),
    "us-east-1",
  );
  const gpt = openai(answer, bedrockKey);
  return (request) => {
    if (request.headers.get("authorization") !== `Bearer ${bedrockKey}`) return refused(403, "no such key");
    const model = bareName((request.json as Json)["model"]);
    if (request.path === "/anthropic/v1/messages") return claude(moved(request, "/v1/messages", claudeHeaders, model));
    return request.path.startsWith("/openai/v1/")
      ? gpt(moved(request, request.path.replace("/openai", ""), {}, model))
      : converse(request);
  };
}

function openai(answer: Answer, key: string): UpstreamHandler {
  const responses = strictResponses("openai", key, answer);
  return (request) => {
    const inOrder = () => answer(undefined, request);
    const chat = strictEndpoints("openai", key, { chat: inOrder, messages: inOrder, responses: inOrder });
    return request.path.endsWith("/responses") ? responses(request) : (gptRefusal(request) ?? chat(request));
  };
}

function azure(answer: Answer): UpstreamHandler {
  const gpt = openai(answer, "key-of-azure");
  return (request) =>
    request.headers.get("api-key") !== "key-of-azure" || !request.path.startsWith("/openai/v1/")
      ? refused(401, "Access denied due to invalid subscription key")
      : gpt(moved(request, request.path.replace("/openai", ""), bearer("key-of-azure")));
}

/**
 * What chat completions refuse of GPT: https://github.com/openai/openai-openapi/issues/541, https://github.com/BerriAI/litellm/pull/34569
 */
export function gptRefusal({ path, json }: RecordedRequest): Response | undefined {
  const { model, tools: declared, reasoning_effort: effort, max_tokens } = json as Json;
  const [, major, minor = "0"] = /^gpt-(\d)(?:\.(\d+))?/.exec(String(model)) ?? [];
  if (!path.endsWith("/chat/completions") || major === undefined) return undefined;
  const version = Number(major) * 100 + Number(minor);
  const hasTools =
    declared !== undefined && (version >= 506 ? effort !== "none" : version >= 504 && effort !== undefined);
  const wrong = hasTools ? "reasoning_effort" : version >= 500 && max_tokens !== undefined ? "max_tokens" : undefined;
  const error = { message: `'${wrong}' is not supported with ${model}.`, type: "invalid_request_error", param: wrong };
  return wrong === undefined ? undefined : jsonResponse({ error }, 400);
}

export const clouds: Readonly<Record<string, (answer: Answer) => UpstreamHandler>> = {
  azure,
  bedrock,
  foundry,
  vertex,
};
