/**
 * What the clients of each format are promised of an answer's form, as schemas: the members that their typed libraries read. As
 * lenient as those are: members beside these may be there.
 * Sources: https://platform.openai.com/docs/api-reference/chat/object, https://platform.openai.com/docs/api-reference/completions/object,
 * https://platform.claude.com/docs/en/api/messages, https://ai.google.dev/api/generate-content
 */
import { type TSchema, Type } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { formatPath, schemaErrors } from "../../src/lib/json/schema-errors.ts";

const text = Type.String();
const whole = Type.Integer({ minimum: 0 });
const number = Type.Number();
const maybe = Type.Optional;
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const oneOf = (...values: string[]) => Type.Union(values.map((value) => Type.Literal(value)));
const bytes = orNull(Type.Array(whole));

const tokens = orNull(
  Type.Array(
    Type.Object({
      token: text,
      logprob: number,
      bytes,
      top_logprobs: Type.Array(Type.Object({ token: text, logprob: number, bytes })),
    }),
  ),
);
const logprobs = orNull(Type.Object({ content: tokens, refusal: tokens }));
const counts = Type.Record(text, whole);
const usage = Type.Object({
  prompt_tokens: whole,
  completion_tokens: whole,
  total_tokens: whole,
  prompt_tokens_details: maybe(counts),
  completion_tokens_details: maybe(counts),
});
const annotations = Type.Array(
  Type.Union([
    Type.Object({
      type: Type.Literal("url_citation"),
      url_citation: Type.Object({ url: text, title: text, start_index: whole, end_index: whole }),
    }),
    // Of kinds that upstreams invent.
    Type.Object({ type: Type.String({ pattern: "^(?!url_citation$)" }), url_citation: maybe(Type.Never()) }),
  ]),
);
const said = {
  refusal: maybe(orNull(text)),
  annotations: maybe(annotations),
  reasoning_content: maybe(text),
  function_call: maybe(Type.Object({ name: maybe(text), arguments: text })),
  extra_content: maybe(Type.Object({})),
  thinking_blocks: maybe(Type.Array(Type.Object({ type: oneOf("thinking", "redacted_thinking") }))),
  reasoning_details: maybe(Type.Array(Type.Object({}))),
};
const finish = oneOf("stop", "length", "tool_calls", "content_filter", "function_call");
const notes = {
  id: text,
  created: whole,
  model: text,
  service_tier: maybe(text),
  system_fingerprint: maybe(text),
  metadata: maybe(Type.Record(text, text)),
};
const completion = Type.Object({
  ...notes,
  // Whole answers say null where nobody gave one; chunks, which OpenRouter's client takes a text or nothing in, leave it out.
  system_fingerprint: maybe(orNull(text)),
  object: Type.Literal("chat.completion"),
  choices: Type.Array(
    Type.Object({
      index: whole,
      message: Type.Object({
        role: Type.Literal("assistant"),
        content: orNull(text),
        tool_calls: maybe(Type.Array(Type.Object({ id: text, type: text }))),
        ...said,
      }),
      finish_reason: finish,
      logprobs,
    }),
    { minItems: 1 },
  ),
  usage,
});
const chunk = Type.Object({
  ...notes,
  object: Type.Literal("chat.completion.chunk"),
  choices: Type.Array(
    Type.Object({
      index: whole,
      delta: Type.Object({
        role: maybe(Type.Literal("assistant")),
        content: maybe(orNull(text)),
        tool_calls: maybe(Type.Array(Type.Object({ index: whole, id: maybe(text) }))),
        ...said,
      }),
      finish_reason: orNull(finish),
      logprobs: maybe(logprobs),
    }),
  ),
  usage: maybe(orNull(usage)),
});
const textCompletion = Type.Object({
  ...notes,
  object: Type.Literal("text_completion"),
  choices: Type.Array(
    Type.Object({
      text,
      index: whole,
      logprobs: orNull(
        Type.Object({
          tokens: Type.Array(text),
          token_logprobs: Type.Array(number),
          top_logprobs: orNull(Type.Array(Type.Record(text, number))),
          text_offset: Type.Array(whole),
        }),
      ),
      finish_reason: orNull(oneOf("stop", "length", "content_filter")),
    }),
  ),
  usage: maybe(orNull(usage)),
});

const messageUsage = Type.Object({
  input_tokens: whole,
  output_tokens: whole,
  cache_creation_input_tokens: maybe(whole),
  cache_read_input_tokens: maybe(whole),
  service_tier: maybe(oneOf("standard", "priority", "batch")),
});
const citation = Type.Object({
  type: Type.Literal("web_search_result_location"),
  url: text,
  title: orNull(text),
  cited_text: text,
  encrypted_index: text,
});
const block = Type.Union([
  Type.Object({ type: Type.Literal("text"), text, citations: maybe(orNull(Type.Array(citation))) }),
  Type.Object({ type: Type.Literal("thinking"), thinking: text, signature: text }),
  Type.Object({ type: Type.Literal("redacted_thinking"), data: text }),
  Type.Object({ type: Type.Literal("tool_use"), id: text, name: text, input: Type.Object({}) }),
]);
const stopping = {
  stop_reason: orNull(oneOf("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal")),
  stop_sequence: orNull(text),
  stop_details: maybe(orNull(Type.Object({ type: text, explanation: orNull(text) }))),
};
const message = Type.Object({
  id: text,
  type: Type.Literal("message"),
  role: Type.Literal("assistant"),
  model: text,
  content: Type.Array(block),
  ...stopping,
  usage: messageUsage,
});
const at = { index: whole };
const blockDelta = Type.Union([
  Type.Object({ type: Type.Literal("text_delta"), text }),
  Type.Object({ type: Type.Literal("thinking_delta"), thinking: text }),
  Type.Object({ type: Type.Literal("signature_delta"), signature: text }),
  Type.Object({ type: Type.Literal("input_json_delta"), partial_json: text }),
  Type.Object({ type: Type.Literal("citations_delta"), citation }),
]);
const messageEvent = Type.Union([
  Type.Object({ type: Type.Literal("message_start"), message }),
  Type.Object({ type: Type.Literal("content_block_start"), ...at, content_block: block }),
  Type.Object({ type: Type.Literal("content_block_delta"), ...at, delta: blockDelta }),
  Type.Object({ type: Type.Literal("content_block_stop"), ...at }),
  Type.Object({ type: Type.Literal("message_delta"), delta: Type.Object(stopping), usage: messageUsage }),
  Type.Object({ type: Type.Literal("message_stop") }),
  Type.Object({ type: Type.Literal("ping") }),
]);

const token = Type.Object({ token: text, logProbability: number });
const generated = Type.Object({
  candidates: maybe(
    Type.Array(
      Type.Object({
        index: maybe(whole),
        finishReason: maybe(text),
        finishMessage: maybe(text),
        content: maybe(
          Type.Object({
            role: maybe(Type.Literal("model")),
            parts: Type.Array(
              Type.Object({
                text: maybe(text),
                thought: maybe(Type.Boolean()),
                thoughtSignature: maybe(text),
                functionCall: maybe(Type.Object({ id: maybe(text), name: text, args: Type.Object({}) })),
                inlineData: maybe(Type.Object({ mimeType: text, data: text })),
              }),
            ),
          }),
        ),
        logprobsResult: maybe(
          Type.Object({
            chosenCandidates: Type.Array(token),
            topCandidates: Type.Array(Type.Object({ candidates: Type.Array(token) })),
          }),
        ),
        citationMetadata: maybe(
          Type.Object({
            citationSources: Type.Array(
              Type.Object({ uri: text, title: maybe(text), startIndex: maybe(whole), endIndex: maybe(whole) }),
            ),
          }),
        ),
      }),
    ),
  ),
  usageMetadata: maybe(Type.Record(text, whole)),
  modelVersion: maybe(text),
  responseId: maybe(text),
});

const schemas = { completion, chunk, textCompletion, message, messageEvent, generated };
const compiled = new Map(Object.entries(schemas).map(([name, schema]) => [name, TypeCompiler.Compile(schema)]));

/** @returns what is wrong with it, in words */
export function faultsOf(name: keyof typeof schemas, value: unknown): string[] {
  if (compiled.get(name)!.Check(value)) return [];
  return schemaErrors(schemas[name], value, 3).map(({ path, message: words }) => `${formatPath(path)} ${words}`);
}
