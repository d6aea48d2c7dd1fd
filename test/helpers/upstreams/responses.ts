/**
 * A stand-in for `/v1/responses` of xAI or OpenAI that refuses what the real one refuses, with its words, keeps what it is
 * told to store, and otherwise answers what the test says.
 * Sources: https://platform.openai.com/docs/api-reference/responses/create, https://docs.x.ai/docs/api-reference#create-new-response
 */
import { jsonResponse, type RecordedRequest, type UpstreamHandler } from "../upstream-server.ts";

type Body = Record<string, unknown>;
type Item = Record<string, unknown>;

/** What differs between the two. */
type UpstreamRules = {
  readonly fields: ReadonlySet<string>;
  readonly partTypes: ReadonlySet<string>;
  /** Whether an unknown field is an error; where not, it is overlooked. */
  readonly isStrict: boolean;
  refuse(status: number, problem: Problem): Response;
};
type Problem = { message: string; param?: string; code?: string };

class Rejection extends Error {
  readonly status: number;
  readonly problem: Problem;

  constructor(status: number, problem: Problem) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
  }
}

const shared = [
  ...[
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "temperature",
    "top_p",
    "stream",
    "store",
    "include",
    "tools",
  ],
  ...["tool_choice", "parallel_tool_calls", "previous_response_id", "reasoning", "text", "top_logprobs", "user"],
  ...["service_tier", "prompt_cache_key", "truncation", "metadata", "background"],
];

const openai: UpstreamRules = {
  fields: new Set([...shared, "safety_identifier", "prompt_cache_retention", "stream_options", "max_tool_calls"]),
  partTypes: new Set(["input_text", "input_image", "input_file"]),
  isStrict: true,
  refuse: (status, { message, param, code }) =>
    jsonResponse(
      { error: { message, type: "invalid_request_error", param: param ?? null, code: code ?? null } },
      status,
      { "x-request-id": "req_up", "openai-version": "2020-10-01" },
    ),
};

const xai: UpstreamRules = {
  fields: new Set([...shared, "logprobs", "search_parameters", "seed"]),
  partTypes: new Set(["input_text", "input_image", "input_file"]),
  isStrict: false,
  refuse: (status, { message }) =>
    jsonResponse(
      {
        code: status === 404 ? "Some requested entity was not found" : "Client specified an invalid argument",
        error: message,
      },
      status,
    ),
};

/** @param answer what a request that is in order gets */
export function strictResponses(
  family: "xai" | "openai",
  apiKey: string,
  answer: (body: Body, request: RecordedRequest) => Response | Promise<Response>,
): UpstreamHandler {
  const upstreamRules = { xai, openai }[family];
  const stored = new Map<string, readonly Item[]>();
  return async (request) => {
    try {
      checkCaller(request, apiKey);
      const body = request.json as Body;
      const input = checkBody(body, upstreamRules, stored);
      const response = await answer(body, request);
      if (body["store"] !== false) stored.set(await idIn(response.clone()), input);
      return response;
    } catch (error) {
      if (error instanceof Rejection) return upstreamRules.refuse(error.status, error.problem);
      throw error;
    }
  };
}

async function idIn(response: { text(): Promise<string> }): Promise<string> {
  return /"id":\s*"((?:resp_)?[0-9a-f-]{20,}[^"]*)"/.exec(await response.text())?.[1] ?? "";
}

function checkCaller({ method, path, headers, json }: RecordedRequest, apiKey: string): void {
  if (method !== "POST" || path !== "/v1/responses")
    throw new Rejection(404, { message: `No such route: ${method} ${path}` });
  if (headers.get("authorization") !== `Bearer ${apiKey}`) {
    throw new Rejection(401, { message: "Incorrect API key provided.", code: "invalid_api_key" });
  }
  if (typeof json !== "object" || json === null)
    throw new Rejection(400, { message: "We could not parse the JSON body." });
}

/** @returns the whole conversation, what was stored before included */
function checkBody(
  body: Body,
  upstreamRules: UpstreamRules,
  stored: ReadonlyMap<string, readonly Item[]>,
): readonly Item[] {
  for (const field in body) {
    if (upstreamRules.isStrict && !upstreamRules.fields.has(field)) unknown(field);
  }
  if (upstreamRules === xai) checkXai(body);
  else checkOpenAi(body);
  const previous = body["previous_response_id"];
  const before = typeof previous === "string" ? stored.get(previous) : [];
  if (before === undefined) notFound(upstreamRules, String(previous));
  if (!Array.isArray(body["input"]))
    throw new Rejection(400, { message: "Missing required parameter: 'input'.", param: "input" });
  const input = body["input"] as Item[];
  for (const [at, item] of input.entries()) checkItem(item, `input[${at}]`, upstreamRules);
  const all = [...before!, ...input];
  // The answer to a stored call is in the storage, which this stand-in does not read.
  if (previous === undefined) checkPairs(all);
  return all;
}

function unknown(param: string): never {
  throw new Rejection(400, { message: `Unknown parameter: '${param}'.`, param, code: "unknown_parameter" });
}

function notFound(upstreamRules: UpstreamRules, id: string): never {
  if (upstreamRules === xai) throw new Rejection(404, { message: `Response with id=${id} not found.` });
  const message = `Previous response with id '${id}' not found.`;
  throw new Rejection(400, { message, param: "previous_response_id", code: "previous_response_not_found" });
}

function checkXai(body: Body): void {
  for (const [field, name] of [
    ["presence_penalty", "presencePenalty"],
    ["frequency_penalty", "frequencyPenalty"],
    ["stop", "stop"],
  ]) {
    if (body[field!] !== undefined)
      throw new Rejection(400, { message: `Argument not supported on this model: ${name}` });
  }
  if (body["instructions"] != null && body["previous_response_id"] != null) {
    throw new Rejection(400, { message: "instructions cannot be used with previous_response_id" });
  }
  if (body["search_parameters"] !== undefined)
    throw new Rejection(410, { message: "Live Search is no longer available." });
}

function checkOpenAi(body: Body): void {
  const reasons = /^(ft:)?(gpt-([5-9]|1\d)(?!\d|.*chat)|o\d|codex)/.test(String(body["model"]));
  const include = (body["include"] ?? []) as string[];
  if (include.includes("reasoning.encrypted_content") && !reasons) {
    throw new Rejection(400, { message: "Encrypted content is not supported with this model.", param: "include" });
  }
  if (body["reasoning"] !== undefined && !reasons) {
    const param = `reasoning.${Object.keys(body["reasoning"] as object)[0]}`;
    const message = `Unsupported parameter: '${param}' is not supported with this model.`;
    throw new Rejection(400, { message, param, code: "unsupported_parameter" });
  }
  for (const [at, tool] of ((body["tools"] ?? []) as Item[]).entries()) {
    if (tool["type"] === "function" && tool["name"] === undefined) {
      const param = `tools[${at}].name`;
      throw new Rejection(400, {
        message: `Missing required parameter: '${param}'.`,
        param,
        code: "missing_required_parameter",
      });
    }
    const { additionalProperties } = (tool["parameters"] ?? {}) as Body;
    if (tool["type"] === "function" && tool["strict"] !== false && additionalProperties !== false) {
      const message = `Invalid schema for function '${tool["name"]}': In context=(), 'additionalProperties' is required to be supplied and to be false.`;
      throw new Rejection(400, { message, param: `tools[${at}].parameters`, code: "invalid_function_parameters" });
    }
  }
}

const itemKeys: Readonly<Record<string, readonly string[]>> = {
  message: ["type", "role", "content", "phase", "id", "status"],
  reasoning: ["type", "id", "summary", "content", "encrypted_content", "status"],
  function_call: ["type", "id", "call_id", "name", "arguments", "status"],
  function_call_output: ["type", "id", "call_id", "output", "status"],
  custom_tool_call: ["type", "id", "call_id", "name", "input"],
  custom_tool_call_output: ["type", "id", "call_id", "output"],
};

function checkItem(item: Item, path: string, upstreamRules: UpstreamRules): void {
  const type = String(item["type"] ?? "message");
  const keys = itemKeys[type];
  if (keys === undefined || (upstreamRules === xai && type.startsWith("custom_"))) {
    throw new Rejection(400, { message: `Invalid value: '${type}'.`, param: `${path}.type`, code: "invalid_value" });
  }
  for (const key in item) if (!keys.includes(key)) unknown(`${path}.${key}`);
  if (type === "reasoning" && !item["encrypted_content"]) {
    // Nothing was stored under that id that this stand-in could look up.
    throw new Rejection(404, { message: `Item with id '${item["id"]}' not found.`, param: "input" });
  }
  if (upstreamRules === openai) checkIds(item, path, type);
  for (const content of [item["content"], item["output"]]) {
    if (Array.isArray(content)) checkParts(content, `${path}.content`, upstreamRules);
  }
}

function checkIds({ id, call_id }: Item, path: string, type: string): void {
  if (type === "function_call" && id !== undefined && !String(id).startsWith("fc")) {
    const message = `Invalid '${path}.id': '${id}'. Expected an ID that begins with 'fc'.`;
    throw new Rejection(400, { message, param: `${path}.id`, code: "invalid_value" });
  }
  if (typeof call_id === "string" && call_id.length > 64) {
    const message = `Invalid '${path}.call_id': string too long. Expected a string with maximum length 64, but got a string with length ${call_id.length} instead.`;
    throw new Rejection(400, { message, param: `${path}.call_id`, code: "string_above_max_length" });
  }
}

function checkParts(parts: readonly Item[], path: string, upstreamRules: UpstreamRules): void {
  for (const [at, part] of parts.entries()) {
    if (!upstreamRules.partTypes.has(String(part["type"]))) {
      const message = `Invalid value: '${part["type"]}'. Supported values are: ${[...upstreamRules.partTypes].join(", ")}.`;
      throw new Rejection(400, { message, param: `${path}[${at}]`, code: "invalid_value" });
    }
    if (upstreamRules === xai && part["file_data"] !== undefined) {
      throw new Rejection(422, { message: "Failed to deserialize the JSON body into the target type: file_data" });
    }
  }
}

/** Each call has its output, of its kind, and each output its call before it. */
function checkPairs(items: readonly Item[]): void {
  const open = new Map<string, string>();
  for (const { type, call_id } of items) {
    if (type === "function_call" || type === "custom_tool_call") open.set(String(call_id), `${type}_output`);
    if (type !== "function_call_output" && type !== "custom_tool_call_output") continue;
    const expected = open.get(String(call_id));
    const wanted = type === "function_call_output" ? type : "custom_tool_call_output";
    if (expected !== wanted) {
      throw new Rejection(400, {
        message: `No tool call found for function call output with call_id ${call_id}.`,
        param: "input",
      });
    }
    open.delete(String(call_id));
  }
  const [left] = open.keys();
  if (left !== undefined) {
    throw new Rejection(400, { message: `No tool output found for function call ${left}.`, param: "input" });
  }
}
