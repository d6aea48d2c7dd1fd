/**
 * What the published specification of the Responses format asks of answers and of stream events, as schemas. Written from the
 * reference at https://www.openresponses.org/reference, and as lenient as its own suite: members beside these may be there.
 */
import { type TSchema, Type } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { formatPath, schemaErrors } from "../../src/lib/json/schema-errors.ts";

const text = Type.String();
const whole = Type.Integer();
const number = Type.Number();
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const oneOf = (...values: string[]) => Type.Union(values.map((value) => Type.Literal(value)));
/** Told apart by `type`. */
const typed = (type: string, members: Record<string, TSchema>) => Type.Object({ type: Type.Literal(type), ...members });

const annotation = typed("url_citation", { url: text, title: text, start_index: whole, end_index: whole });
const topLogprob = Type.Object({ token: text, logprob: number, bytes: Type.Array(whole) });
const logprobs = Type.Array(
  Type.Object({ token: text, logprob: number, bytes: Type.Array(whole), top_logprobs: Type.Array(topLogprob) }),
);
const outputText = typed("output_text", {
  text,
  annotations: Type.Array(annotation),
  logprobs: Type.Optional(logprobs),
});
const refusal = typed("refusal", { refusal: text });
const part = Type.Union([
  outputText,
  refusal,
  typed("summary_text", { text }),
  typed("reasoning_text", { text }),
  typed("text", { text }),
]);

const itemStatus = oneOf("in_progress", "completed", "incomplete");
const item = Type.Union([
  typed("message", { id: text, status: itemStatus, role: Type.Literal("assistant"), content: Type.Array(part) }),
  typed("function_call", { id: text, call_id: text, name: text, arguments: text, status: itemStatus }),
  typed("reasoning", {
    id: text,
    summary: Type.Array(part),
    content: Type.Optional(Type.Array(part)),
    encrypted_content: Type.Optional(text),
  }),
  // Items and events of other kinds are the servers' own; these are OpenAI's.
  typed("custom_tool_call", { id: text, call_id: text, name: text, input: text, status: itemStatus }),
  typed("image_generation_call", { id: text, status: itemStatus, result: orNull(text) }),
]);

const choice = oneOf("none", "auto", "required");
const functionChoice = typed("function", { name: Type.Optional(text) });
const format = Type.Union([
  typed("text", {}),
  typed("json_object", {}),
  typed("json_schema", { name: text, description: orNull(text), strict: Type.Boolean() }),
]);

/** Every member is there: what nobody asked for has the value that the format gives it. */
export const response = Type.Object({
  id: text,
  object: Type.Literal("response"),
  created_at: whole,
  completed_at: orNull(whole),
  status: oneOf("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
  incomplete_details: orNull(Type.Object({ reason: text })),
  model: text,
  previous_response_id: orNull(text),
  instructions: orNull(text),
  output: Type.Array(item),
  error: orNull(Type.Object({ code: text, message: text })),
  tools: Type.Array(
    typed("function", {
      name: text,
      description: orNull(text),
      parameters: orNull(Type.Record(Type.String(), Type.Unknown())),
      strict: orNull(Type.Boolean()),
    }),
  ),
  tool_choice: Type.Union([
    choice,
    functionChoice,
    typed("allowed_tools", { tools: Type.Array(functionChoice), mode: choice }),
  ]),
  truncation: oneOf("auto", "disabled"),
  parallel_tool_calls: Type.Boolean(),
  text: Type.Object({ format }),
  top_p: number,
  presence_penalty: number,
  frequency_penalty: number,
  top_logprobs: whole,
  temperature: number,
  reasoning: orNull(Type.Object({ effort: orNull(text), summary: orNull(text) })),
  usage: orNull(
    Type.Object({
      input_tokens: whole,
      output_tokens: whole,
      total_tokens: whole,
      input_tokens_details: Type.Object({ cached_tokens: whole }),
      output_tokens_details: Type.Object({ reasoning_tokens: whole }),
    }),
  ),
  max_output_tokens: orNull(whole),
  max_tool_calls: orNull(whole),
  store: Type.Boolean(),
  background: Type.Boolean(),
  service_tier: text,
  metadata: Type.Record(Type.String(), Type.String()),
  safety_identifier: orNull(text),
  prompt_cache_key: orNull(text),
});

const ofItem = { item_id: text, output_index: whole };
const ofPart = { ...ofItem, content_index: whole };
const ofSummary = { ...ofItem, summary_index: whole };

const events: Readonly<Record<string, Record<string, TSchema>>> = {
  "response.created": { response },
  "response.in_progress": { response },
  "response.completed": { response },
  "response.incomplete": { response },
  "response.failed": { response },
  "response.output_item.added": { output_index: whole, item },
  "response.output_item.done": { output_index: whole, item },
  "response.content_part.added": { ...ofPart, part },
  "response.content_part.done": { ...ofPart, part },
  "response.output_text.delta": { ...ofPart, delta: text, logprobs },
  "response.output_text.done": { ...ofPart, text, logprobs },
  "response.output_text.annotation.added": { ...ofPart, annotation_index: whole, annotation },
  "response.refusal.delta": { ...ofPart, delta: text },
  "response.refusal.done": { ...ofPart, refusal: text },
  "response.reasoning_summary_part.added": { ...ofSummary, part },
  "response.reasoning_summary_part.done": { ...ofSummary, part },
  "response.reasoning_summary_text.delta": { ...ofSummary, delta: text },
  "response.reasoning_summary_text.done": { ...ofSummary, text },
  "response.function_call_arguments.delta": { ...ofItem, delta: text },
  "response.function_call_arguments.done": { ...ofItem, arguments: text },
  "response.custom_tool_call_input.delta": { ...ofItem, delta: text },
  "response.custom_tool_call_input.done": { ...ofItem, input: text },
};

const checkResponse = TypeCompiler.Compile(response);
const eventSchemas = Object.entries(events).map(([type, members]) => {
  const schema = typed(type, { sequence_number: whole, ...members });
  return [type, { schema, check: TypeCompiler.Compile(schema) }] as const;
});
const checkEvent = new Map(eventSchemas);

const said = (schema: TSchema, value: unknown) =>
  schemaErrors(schema, value, 3).map(({ path, message }) => `${formatPath(path)} ${message}`);

/** @returns what is wrong with a response object, in words */
export function faultsOfResponse(value: unknown): string[] {
  return checkResponse.Check(value) ? [] : said(response, value);
}

/** @returns what is wrong with a stream of events, in words: each by itself, and their numbers */
export function faultsOfEvents(list: readonly { readonly type: string; readonly sequence_number: number }[]): string[] {
  return list.flatMap((event, at) => {
    const { type, sequence_number } = event;
    const known = checkEvent.get(type);
    if (known === undefined) return [`${type} is no event of the specification`];
    const numbered = sequence_number === at ? [] : [`${type} has the number ${sequence_number}`];
    const faults = known.check.Check(event as unknown) ? [] : said(known.schema, event);
    return [...numbered, ...faults.map((one) => `${type}: ${one}`)];
  });
}
