/** A parsed body of this format as a call of the inner form, or the one `ApiError` that names what is wrong and where. */
import { isObject, type JsonObject, objectOf, textOf } from "../../lib/json/json.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { checked, checkedAt } from "../body/checked.ts";
import { withoutUnset } from "../body/judged.ts";
import type { ChatRequest, ResponseFormat } from "../chat/schema.ts";
import { ApiError } from "../errors.ts";
import { NativeOnly } from "../native-only.ts";
import type { EarlierAnswers } from "../protocol.ts";
import { refuseKind } from "./check.ts";
import { configuredBy } from "./configuration.ts";
import { conversationOf } from "./input.ts";
import { optionsOf, type ResponsesOptions } from "./options.ts";
import { formatSchemas, RequestFields } from "./schema.ts";
import { addedTools, innerChoice, innerTools, namesIn, ToolNames } from "./tools.ts";

type ParsedRequest = {
  readonly request: ChatRequest;
  readonly options: ResponsesOptions;
  readonly nativeOnly: NativeOnly;
};

const maybeUnset = ["top_p"];
const noAnswers: EarlierAnswers = new Map();
const nothing: readonly unknown[] = [];

/** @param earlier answers that the input refers to @throws ApiError invalid_value or missing_field */
export function parseResponsesRequest(parsed: JsonObject, earlier: EarlierAnswers = noAnswers): ParsedRequest {
  const nativeOnly = new NativeOnly();
  const body = checkedAt(RequestFields, withoutUnset(parsed, maybeUnset), undefined, (error) =>
    nativeOnly.refuse(error),
  );
  if (parsed["conversation"] != null) {
    throw ApiError.unsupported("conversation", "conversation: continue an answer by previous_response_id instead.");
  }
  // An answer in the background is followed by a stream here, and a window of hours is for one that nobody follows.
  if (parsed["background_options"] != null) {
    throw ApiError.unsupported(
      "background_options",
      "background_options: no window can be kept here, as an answer in the background is made at once.",
    );
  }
  const prompt = objectOf(parsed["prompt"]);
  const model = body.model ?? textOf(prompt?.["id"]);
  if (model === undefined) throw ApiError.missingField("model");
  // A prompt may say all there is to say.
  const input = body.input ?? (prompt === undefined ? undefined : []);
  if (input === undefined) throw ApiError.missingField("input");
  if (input.length === 0 && typeof input !== "string" && body.previous_response_id == null && prompt === undefined) {
    nativeOnly.refuse(ApiError.invalidValue("input", "input must not be empty."));
  }
  const said = typeof input === "string" ? nothing : input;
  const added = addedTools(said);
  const names = new ToolNames(
    body.tools,
    added.flatMap((one) => one.tools),
  );
  const { tools, places } = innerTools(body.tools, added, names, nativeOnly);
  const configured = configuredBy(body, said, nativeOnly);
  const continues = body.previous_response_id != null;
  const conversation = conversationOf(body.instructions, input, { names, continues, earlier, nativeOnly });
  const request = {
    model,
    messages: conversation.messages,
    ...samplingOf(configured.body),
    ...toolsOf(body, tools, names),
    ...outputOf(configured),
    ...labelsOf(body, parsed),
  } as ChatRequest;
  return {
    request,
    options: {
      ...optionsOf(parsed),
      ...(added.length > 0 && { added: added.flatMap((one) => one.tools.map(namesIn)) }),
      places: {
        messages: conversation.places,
        tools: places,
        ...(parsed["variables"] == null && { variables: "prompt.variables" }),
      },
    },
    nativeOnly,
  };
}

/** Members that are null or absent are left out. */
function present(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null));
}

function samplingOf({
  temperature,
  top_p,
  max_output_tokens,
  reasoning,
  stream,
  stream_options,
}: RequestFields): JsonObject {
  return present({
    temperature,
    top_p,
    max_completion_tokens: max_output_tokens,
    reasoning_effort: reasoning?.effort,
    // A summary is what asks for the text of the thoughts; an effort alone does not.
    include_thoughts: reasoning?.summary == null ? undefined : true,
    reasoning_summary: summaryKinds.find((kind) => kind === reasoning?.summary),
    stream,
    stream_options: stream === true ? { include_usage: true, ...stream_options } : undefined,
  });
}

const summaryKinds = ["auto", "concise", "detailed"];

function toolsOf(
  { tool_choice, parallel_tool_calls }: RequestFields,
  tools: ReturnType<typeof innerTools>["tools"],
  names: ToolNames,
): JsonObject {
  const choice = innerChoice(tool_choice, names);
  // Without tools a choice is refused elsewhere.
  return tools.length === 0 ? {} : present({ tools, tool_choice: choice, parallel_tool_calls });
}

/** Log probabilities are asked for by `include` here; where that says nothing of them, a number of them does. */
const logprobsIncluded = "message.output_text.logprobs";

function outputOf({ body: { text, include, top_logprobs }, formatPath }: ReturnType<typeof configuredBy>): JsonObject {
  const logprobs = include?.includes(logprobsIncluded) === true || (top_logprobs != null && top_logprobs > 0);
  return present({
    response_format: formatOf(text?.format, formatPath),
    verbosity: text?.verbosity,
    logprobs: logprobs ? true : undefined,
    top_logprobs: logprobs ? top_logprobs : undefined,
  });
}

/** @throws ApiError */
function formatOf(format: { type: string } | null | undefined, path: readonly PathPart[]): ResponseFormat | undefined {
  if (format == null) return undefined;
  switch (format.type) {
    case "text":
      return undefined;
    case "json_object":
      return { type: "json_object" };
    case "json_schema": {
      const { name, description, schema, strict } = checked(formatSchemas.json_schema, format, path);
      return { type: "json_schema", json_schema: { name, schema, ...present({ description, strict }) } };
    }
    default:
      return refuseKind(format.type, path, Object.keys(formatSchemas));
  }
}

function labelsOf(body: RequestFields, parsed: JsonObject): JsonObject {
  const { metadata, user, safety_identifier, prompt_cache_key, prompt_cache_retention, service_tier } = body;
  return present({
    metadata,
    user,
    safety_identifier,
    prompt_cache_key,
    prompt_cache_retention,
    service_tier,
    previous_response_id: body.previous_response_id,
    // Thoughts of a translated call can be continued in this format alone.
    use_responses_api: true,
    // Here an answer is kept unless its caller says otherwise.
    store: body.store !== false,
    variables: parsed["variables"] ?? textsOf(objectOf(parsed["prompt"])?.["variables"]),
    extra_body: parsed["extra_body"],
  });
}

/** A prompt's variables may be texts in the form of input: https://platform.openai.com/docs/api-reference/responses/create */
function textsOf(variables: unknown): unknown {
  if (!isObject(variables)) return variables;
  const entries = Object.entries(variables).map(([name, value]) => {
    const isText = isObject(value) && value["type"] === "input_text" && typeof value["text"] === "string";
    return [name, isText ? value["text"] : value] as const;
  });
  return Object.fromEntries(entries);
}
