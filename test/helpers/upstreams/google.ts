/**
 * A stand-in for generativelanguage.googleapis.com that is as strict as the real one: it refuses what that refuses, with the
 * same status and words, and else answers what the test says. Sources: https://ai.google.dev/api/generate-content,
 * https://ai.google.dev/gemini-api/docs/thought-signatures, https://ai.google.dev/gemini-api/docs/generate-content/thinking,
 * https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.6, and the messages in the issues of the public SDKs.
 */
import { exampleResponse } from "../fixtures.ts";
import { jsonResponse, type RecordedRequest, type UpstreamHandler } from "../upstream-server.ts";

type Json = Record<string, unknown>;
type Part = Json & { functionCall?: Json; functionResponse?: Json; thoughtSignature?: string };
type Turn = { role: string; parts: Part[] };
export type GeminiBody = Json & { contents: Turn[]; generationConfig?: Json; tools?: Json[] };

export const googleKey = "AIzaSy-test";
/** What the tests' answers are signed with; any other signature was made elsewhere. */
const ownSignatures = /^(?:CiQB0e2Kb1|Cg4BsigOne==|CpwCAdHtim9|Z29vZ2xl|s1|s2|skip_thought_signature_validator)$/;

/** How a model behaves, as its documentation says; written independently of the adapter's own table. */
type Model = {
  readonly levels: readonly string[];
  /** Lowest and highest budget; absent where none is taken. */
  readonly budget?: readonly [number, number];
  readonly system?: false;
  readonly penalties?: true;
  readonly candidates?: true;
  readonly jsonSchema?: false;
  readonly jsonWithTools?: false;
  readonly signed?: true;
  readonly strictIds?: true;
  readonly prefill?: false;
};
const third: Model = { levels: ["LOW", "MEDIUM", "HIGH"], budget: [-1, 65_536], signed: true };
const strictIds: Model = { ...third, strictIds: true };
const newest: Model = { ...strictIds, prefill: false };
const second: Model = { levels: [], candidates: true, jsonWithTools: false };
const models: Readonly<Record<string, Model>> = {
  "gemini-3.8-flash": newest,
  "gemini-3.5-flash": { ...strictIds, levels: ["MINIMAL", ...third.levels] },
  "gemini-3-flash-preview": { ...third, levels: ["MINIMAL", ...third.levels] },
  "gemini-3-pro-preview": { ...third, levels: ["LOW", "HIGH"] },
  "gemini-2.5-pro": { ...second, budget: [128, 32_768] },
  "gemini-2.5-flash": { ...second, budget: [0, 24_576] },
  "gemini-2.0-flash": { ...second, penalties: true, jsonSchema: false },
  "gemma-3-27b-it": { ...second, system: false },
};

const known: Readonly<Record<string, readonly string[]>> = {
  "": [
    ...["contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig"],
    ...["cachedContent", "continuationToken", "serviceTier", "labels", "store"],
  ],
  contents: ["role", "parts"],
  systemInstruction: ["role", "parts"],
  parts: [
    ...["text", "thought", "thoughtSignature", "inlineData", "fileData", "functionCall", "functionResponse"],
    ...["mediaResolution", "videoMetadata"],
  ],
  inlineData: ["mimeType", "data"],
  fileData: ["mimeType", "fileUri"],
  functionCall: ["id", "name", "args"],
  functionResponse: ["id", "name", "response", "parts"],
  tools: ["functionDeclarations", "googleSearch", "codeExecution", "urlContext"],
  functionDeclarations: ["name", "description", "parameters", "parametersJsonSchema"],
  toolConfig: ["functionCallingConfig"],
  functionCallingConfig: ["mode", "allowedFunctionNames"],
  safetySettings: ["category", "threshold"],
  generationConfig: [
    ...["temperature", "topP", "topK", "maxOutputTokens", "candidateCount", "stopSequences", "seed", "presencePenalty"],
    ...["frequencyPenalty", "responseLogprobs", "logprobs", "responseMimeType", "responseSchema", "responseJsonSchema"],
    ...["responseModalities", "thinkingConfig", "mediaResolution", "speechConfig", "imageConfig"],
  ],
  thinkingConfig: ["includeThoughts", "thinkingBudget", "thinkingLevel"],
  schema: [
    ...["type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties"],
    ...["minProperties", "maxProperties", "required", "minimum", "maximum", "minLength", "maxLength", "pattern"],
    ...["anyOf", "default", "example", "propertyOrdering"],
  ],
};
/** What holds the caller's own words: nothing in it is a field. */
const free = new Set(["args", "response", "parametersJsonSchema", "responseJsonSchema", "speechConfig", "imageConfig"]);
const schemas = new Set(["parameters", "responseSchema", "items", "anyOf"]);

class Rejection extends Error {
  readonly response: Response;

  constructor(code: number, status: string, message: string, details?: unknown[]) {
    super(message);
    const error = { code, message, status, ...(details !== undefined && { details }) };
    this.response = new Response(`${JSON.stringify({ error }, null, 2)}\n`, {
      status: code,
      headers: { "content-type": "application/json; charset=UTF-8", "x-gemini-test": "1" },
    });
  }
}

function refuse(message: string): never {
  throw new Rejection(400, "INVALID_ARGUMENT", message);
}

/** @param answer what comes when nothing is wrong */
export function strictGemini(answer: (body: GeminiBody, request: RecordedRequest) => Response): UpstreamHandler {
  return (request) => {
    try {
      const model = authorize(request);
      const body = request.json as GeminiBody;
      checkFields(body, "", "");
      checkTurns(body, model);
      checkTools(body, model);
      checkGeneration(body, model);
      return answer(body, request);
    } catch (error) {
      if (error instanceof Rejection) return error.response;
      throw error;
    }
  };
}

/** The answer of a case of test/fixtures/google. */
export function geminiExample(name: string): Response {
  const response = exampleResponse(`google/${name}`);
  if (response.headers.get("content-type") === "application/json")
    response.headers.set("content-type", "application/json; charset=UTF-8");
  return response;
}

function authorize({ method, path, headers }: RecordedRequest): Model {
  const [, name = "", action] = /^\/v1beta\/models\/([\w.-]+):(\w+)(?:\?alt=sse)?$/.exec(path) ?? [];
  if (method !== "POST" || (action !== "generateContent" && action !== "streamGenerateContent")) {
    throw new Rejection(404, "NOT_FOUND", "Requested entity was not found.");
  }
  const key = headers.get("x-goog-api-key");
  if (key === null) {
    const message = "Method doesn't allow unregistered callers (callers without established identity).";
    throw new Rejection(403, "PERMISSION_DENIED", message);
  }
  if (key !== googleKey) {
    const reason = { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" };
    throw new Rejection(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", [reason]);
  }
  const model = models[name];
  if (model !== undefined) return model;
  const message = `models/${name} is not found for API version v1beta, or is not supported for generateContent.`;
  throw new Rejection(404, "NOT_FOUND", message);
}

function checkFields(value: unknown, kind: string, path: string): void {
  if (Array.isArray(value)) for (const [at, one] of value.entries()) checkFields(one, kind, `${path}[${at}]`);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return;
  const allowed = known[kind];
  for (const [name, inner] of Object.entries(value)) {
    if (allowed !== undefined && !allowed.includes(name)) {
      const at = path === "" ? "" : ` at '${path}'`;
      refuse(`Invalid JSON payload received. Unknown name "${name}"${at}: Cannot find field.`);
    }
    if (free.has(name)) continue;
    const below = `${path}${path === "" ? "" : "."}${name}`;
    if (name === "properties") for (const one of Object.values(inner as Json)) checkFields(one, "schema", below);
    else checkFields(inner, schemas.has(name) ? "schema" : name, below);
  }
}

function checkTurns({ contents, systemInstruction }: GeminiBody, model: Model): void {
  if (!(contents?.length > 0)) refuse("* GenerateContentRequest.contents: contents is not specified\n");
  if (systemInstruction !== undefined && model.system === false) refuse("Developer instruction is not enabled");
  for (const [at, { role, parts }] of contents.entries()) {
    if (role !== "user" && role !== "model") refuse("Please use a valid role: user, model.");
    if (!(parts?.length > 0))
      refuse(`* GenerateContentRequest.contents[${at}].parts: contents.parts must not be empty.\n`);
    for (const part of parts) checkPart(part, role);
    checkResults(contents[at - 1], { role, parts }, model);
  }
  if (contents.at(-1)!.role === "model" && model.prefill === false) {
    refuse("Requests ending with a model turn are not supported.");
  }
  if (model.signed) checkSignatures(contents);
}

function checkPart(part: Part, role: string): void {
  const kinds = ["text", "inlineData", "fileData", "functionCall", "functionResponse"].filter((kind) => kind in part);
  if (kinds.length !== 1) refuse("Invalid value at 'contents' (oneof), oneof field 'data' is already set.");
  const { inlineData, functionResponse, thoughtSignature } = part as Record<string, Json | undefined>;
  const isBytes = (data: unknown) => typeof data === "string" && /^[A-Za-z0-9+/_-]*={0,2}$/.test(data);
  if (inlineData !== undefined && (!inlineData["mimeType"] || !isBytes(inlineData["data"]))) {
    refuse("Invalid value at 'contents[0].parts[0].inline_data.data' (TYPE_BYTES), Base64 decoding failed");
  }
  const response = functionResponse?.["response"];
  if (
    functionResponse !== undefined &&
    (typeof response !== "object" || response === null || Array.isArray(response))
  ) {
    refuse(
      "Invalid value at 'contents[0].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct)",
    );
  }
  if (thoughtSignature !== undefined && (role !== "model" || !ownSignatures.test(String(thoughtSignature)))) {
    refuse("Corrupted thought signature.");
  }
}

function checkResults(before: Turn | undefined, { parts }: Turn, model: Model): void {
  const calls = (before?.parts ?? []).map(({ functionCall }) => functionCall).filter((call) => call !== undefined);
  const results = parts.map(({ functionResponse }) => functionResponse).filter((result) => result !== undefined);
  if (calls.length !== results.length && (results.length > 0 || before?.role === "model")) {
    refuse(
      "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
    );
  }
  for (const [at, call] of calls.entries()) {
    if (results[at]?.["name"] !== call["name"]) refuse("function_response.name does not match function_call.name.");
    if (model.strictIds && (!call["id"] || results[at]?.["id"] !== call["id"])) {
      refuse("functionResponse.id does not match functionCall.id");
    }
  }
}

/** The first call of each step since the user last spoke. */
function checkSignatures(contents: readonly Turn[]): void {
  const spoken = contents.findLastIndex(({ role, parts }) => role === "user" && parts.some((part) => "text" in part));
  for (const [at, { role, parts }] of contents.entries()) {
    if (role !== "model" || at < spoken) continue;
    const first = parts.find(({ functionCall }) => functionCall !== undefined);
    if (first === undefined || first.thoughtSignature) continue;
    refuse(
      `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${first.functionCall!["name"]}\`, position ${at + 1}.`,
    );
  }
}

function checkTools({ tools, toolConfig, generationConfig }: GeminiBody, model: Model): void {
  const declarations = (tools ?? []).flatMap((tool) => (tool["functionDeclarations"] as Json[] | undefined) ?? []);
  const calling = (toolConfig as Json | undefined)?.["functionCallingConfig"] as Json | undefined;
  if (calling !== undefined && declarations.length === 0) {
    refuse("Function calling config is set without function_declarations.");
  }
  if (calling?.["allowedFunctionNames"] !== undefined && calling["mode"] !== "ANY" && calling["mode"] !== "VALIDATED") {
    refuse("Allowed function names should only be set when the function calling mode is ANY or VALIDATED.");
  }
  for (const { name, parameters, parametersJsonSchema } of declarations) {
    if (!/^[A-Za-z_][\w.:-]{0,127}$/.test(String(name))) refuse("Invalid function name.");
    if (parameters !== undefined && parametersJsonSchema !== undefined) refuse("Only one of parameters may be set.");
    if (parametersJsonSchema !== undefined && model.jsonSchema === false)
      refuse("parameters_json_schema is not supported.");
    if (parameters !== undefined && Object.keys(((parameters as Json)["properties"] as Json) ?? {}).length === 0) {
      refuse(
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty for OBJECT type\n",
      );
    }
  }
  const json = generationConfig?.["responseMimeType"] === "application/json";
  if (json && declarations.length > 0 && model.jsonWithTools === false) {
    refuse("Function calling with a response mime type: 'application/json' is unsupported");
  }
}

function checkGeneration({ generationConfig: config = {} }: GeminiBody, model: Model): void {
  if (("presencePenalty" in config || "frequencyPenalty" in config) && !model.penalties) {
    refuse("Penalty is not enabled for this model");
  }
  if (Number(config["candidateCount"] ?? 1) > 1 && !model.candidates) {
    refuse("Multiple candidates is not enabled for this model");
  }
  if ("responseSchema" in config && "responseJsonSchema" in config) refuse("Only one of the schemas may be set.");
  if ("responseJsonSchema" in config && (model.jsonSchema === false || config["responseMimeType"] === undefined)) {
    refuse("response_json_schema is not supported.");
  }
  if (((config["stopSequences"] as unknown[]) ?? []).length > 5) refuse("stop_sequences must not hold more than 5.");
  if ("thinkingConfig" in config) checkThinking(config["thinkingConfig"] as Json, model);
}

function checkThinking({ thinkingBudget, thinkingLevel }: Json, { levels, budget }: Model): void {
  if (budget === undefined) refuse("Thinking is not supported by this model.");
  if (thinkingBudget !== undefined && thinkingLevel !== undefined) {
    refuse("You can only set only one of thinking budget and thinking level.");
  }
  if (thinkingLevel !== undefined && !levels.includes(String(thinkingLevel))) {
    refuse(
      levels.length === 0
        ? "Thinking level is not supported for this model."
        : `Thinking level ${thinkingLevel} is not supported for this model. Please retry with other thinking level.`,
    );
  }
  if (typeof thinkingBudget !== "number" || thinkingBudget === -1) return;
  if (thinkingBudget === 0 && budget[0] > 0) refuse("Budget 0 is invalid. This model only works in thinking mode.");
  if (thinkingBudget < budget[0] || thinkingBudget > budget[1]) {
    refuse(
      `The thinking budget ${thinkingBudget} is invalid. Please choose a value between ${budget[0]} and ${budget[1]}.`,
    );
  }
}

/** A quota error as it comes: no Retry-After, the time is in the details. */
export function quotaExceeded(): Response {
  const details = [
    { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [{ quotaId: "GenerateRequestsPerDay" }] },
    { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" },
  ];
  const message = "You exceeded your current quota, please check your plan and billing details.";
  return jsonResponse({ error: { code: 429, message, status: "RESOURCE_EXHAUSTED", details } }, 429, {
    "content-type": "application/json; charset=UTF-8",
  });
}
