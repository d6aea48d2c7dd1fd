/**
 * In what an upstream that speaks chat completions differs from the public format, as data.
 * The same keys may stand in a provider's `quirks`, in its rows for single models, and in the `model_rules` of the config.
 */
import { type Static, Type } from "@sinclair/typebox";
import { KeyedRecord, keyOfLength } from "../../lib/json/keyed-record.ts";
import { Words } from "../../lib/json/schemas.ts";

const field = (description: string) => ({ description });
const names = (description: string) => Type.Optional(Type.Array(Type.String(), field(description)));
const flag = (description: string) => Type.Optional(Type.Boolean(field(description)));
const oneOf = <const W extends string>(words: readonly W[], description: string) =>
  Type.Optional(Words(words, field(description)));

export const Quirks = Type.Object({
  max_tokens_field: oneOf(
    ["max_tokens", "max_completion_tokens"],
    "The only token limit that is understood: the other one is sent under this name.",
  ),
  renamed: Type.Optional(
    KeyedRecord(keyOfLength(64), Type.String(), field("Request fields that have another name here.")),
  ),
  dropped: names("Request fields that are never sent."),
  dropped_when_neutral: names("Request fields that are refused, and not sent where they ask for nothing (n: 1)."),
  developer_role: oneOf(["developer", "system"], "How the role developer is called."),
  message_keys: names("The only keys a message may hold; absent: any."),
  text_roles: names("Roles whose content must be a string: text parts are joined."),
  tool_call_ids: oneOf(
    ["nine_alphanumerics", "at_most_40_characters"],
    "What tool call ids must look like: others are replaced by nine letters and digits, the same every time.",
  ),
  alternating: flag(
    "After the instructions the user and the assistant must take turns, beginning and ending with the user: neighbours of one role are merged, and a missing turn of the user is put in.",
  ),
  empty_answers: flag("false: an earlier answer without text and calls is refused, and left out."),
  answer_after_tools: flag("A user message may not follow a tool's result: an assistant's is put between."),
  prefill_field: Type.Optional(
    Type.String(field("Marks a last assistant message as the beginning of the answer, with true.")),
  ),
  reasoning_replay: oneOf(
    ["reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "thinking_part", "think_tags"],
    "Where an earlier answer's thoughts go back to the model; absent: they are left out.",
  ),
  reasoning_beside_calls: flag("An earlier answer with tool calls must carry its thoughts, though they be empty."),
  thinking_field: flag("There is a field thinking:{type}: reasoning_effort switches it."),
  thinking_flag: Type.Optional(
    Type.String(
      field("A field that switches thinking by true and false: reasoning_effort and thinking:{type} set it."),
    ),
  ),
  efforts: Type.Optional(
    KeyedRecord(
      keyOfLength(64),
      Type.Union([Type.String(), Type.Null()]),
      field("Values of reasoning_effort under their name here; null: the field is not sent. '*' is any other value."),
    ),
  ),
  sampling: oneOf(
    ["always", "without_effort", "at_none", "never"],
    "When the model takes temperature, top_p and log probabilities: always, with no effort or with none, with the effort none alone, or never. A persona's calls and those of other formats' clients go without them elsewhere, and without penalties unless it is always.",
  ),
  json_schema_as_object: flag("No json_schema: asked for as json_object, with the schema as an instruction."),
  json_object_as_schema: flag("No json_object: asked for as a json_schema of any object."),
  allowed_tools: flag("tool_choice may be allowed_tools; where not, only the allowed tools are sent."),
  required_choice: flag("false: a tool can't be demanded; the model is left to choose."),
  typed_variants: flag(
    "Schemas say a type within their variants (anyOf), not beside them, and the items of a tuple by prefixItems.",
  ),
  refusal_parts: flag("Earlier refusals may be said as such; where not, they are sent as text."),
  answer_fields: flag("Earlier answers may come back with their annotations and images."),
  cache_control: flag("Prompt-cache markers of other formats' clients are understood; where not, they are left out."),
  top_k: flag("top_k is understood; where not, what clients of other formats say of it is left out."),
  tool_images: flag("Tool results may hold images and files; where not, these follow in a user message."),
  inline_images: flag("Images must come inline: those named by URL are fetched."),
  stream_usage: flag("false: stream_options are not understood."),
  usage_include: flag("A request may ask for its cost by usage:{include}; where not, that is left out."),
  completions: flag(
    "There is a route for legacy completions: they pass as they are. Where not, the prompt is a message.",
  ),
  options: names("Extra options of other providers that are understood as request fields."),
  think_tags: flag("Thoughts may open the content, between <think> and </think>."),
  echoes_last_answer: flag("An answer may begin with a repetition of the assistant message that ended the request."),
  repeats_prefill: flag(
    "A whole answer begins with the assistant message that ended the request, which a stream does not repeat.",
  ),
  usage_without_reasoning: flag("completion_tokens do not include the reasoning tokens."),
});

export type Quirks = Static<typeof Quirks>;
