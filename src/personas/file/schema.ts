/**
 * The schema of a persona file. Where it holds fields of the public format it takes their schemas, made strict: a client's
 * unknown field may mean something to an upstream, an author's is a mistake that must be reported.
 */

import { KindGuard, type Static, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { exampleNames } from "../../facts/examples.ts";
import { strategies } from "../../lib/http/strategies.ts";
import { KeyedRecord } from "../../lib/json/keyed-record.ts";
import { Closed, Open, Words } from "../../lib/json/schemas.ts";
import {
  ChatRequestBody,
  FunctionTool,
  knownEfforts,
  ResponseFormat,
  SamplingFields,
} from "../../protocols/chat/schema.ts";
import { tiers } from "../../protocols/tiers.ts";
import { presentationFields } from "../compose/presentation.ts";
import { KnowledgeField, LorebookField } from "../knowledge/schema.ts";
import { McpField, McpLimitsField } from "../mcp.ts";
import { SkillsField } from "../skills/schema.ts";

const closed = { additionalProperties: false } as const;

/** The same schema without unknown keys and without `null` for "absent". An object that lists no keys stays open. */
function strict<T extends TSchema>(schema: T): T {
  return narrowed(schema) as T;
}

function narrowed(schema: TSchema): TSchema {
  if (KindGuard.IsArray(schema)) return { ...schema, items: narrowed(schema.items) };
  if (KindGuard.IsUnion(schema)) {
    const [first, ...others] = schema.anyOf.filter((member) => !KindGuard.IsNull(member)).map(narrowed);
    const union = others.length === 0 ? first! : Type.Union([first!, ...others]);
    return KindGuard.IsOptional(schema) ? Type.Optional(union) : union;
  }
  if (KindGuard.IsObject(schema) && Object.keys(schema.properties).length > 0) {
    return { ...schema, ...closed, properties: eachNarrowed(schema.properties) };
  }
  return schema;
}

const eachNarrowed = (properties: TProperties): TProperties =>
  Object.fromEntries(Object.entries(properties).map(([key, schema]) => [key, narrowed(schema)]));

/** `patternErrorMessage` is what editors and our own errors say instead of showing the pattern. */
const patterned = (pattern: string, patternErrorMessage: string) =>
  Type.String({ pattern, patternErrorMessage: `must be ${patternErrorMessage}` });

const ModelReference = patterned("^[a-z0-9][a-z0-9._-]*/\\S+$", `<provider>/<model>, e.g. ${exampleNames.openaiSmall}`);
const ToolName = patterned("^[A-Za-z0-9_-]{1,64}$", "1 to 64 letters, digits, _ or -");

const variableName = {
  pattern: "^[A-Za-z_][A-Za-z0-9_]{0,63}$",
  message: "must be named by up to 64 letters, digits and '_', not beginning with a digit",
};
const Variable = Closed({
  description: Type.Optional(Type.String({ description: "For whoever calls the persona." })),
  default: Type.Optional(Type.String({ description: "What stands in when the caller gives none." })),
  required: Type.Optional(Type.Boolean({ description: "true: a call without it is refused. Default false." })),
  enum: Type.Optional(
    Type.Array(Type.String(), { minItems: 1, maxItems: 256, description: "The only values allowed." }),
  ),
  max_length: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100_000, description: "Most characters. Default 2000." }),
  ),
});

const ExampleCall = Closed({
  id: Type.String({ minLength: 1 }),
  type: Type.Optional(Type.Literal("function")),
  function: Closed({
    name: ToolName,
    arguments: Type.Union([Type.String(), Open({})], {
      description: "A mapping, or the JSON text of one.",
    }),
  }),
});

const said = Type.String({ minLength: 1 });
const ExampleTurn = Type.Union([
  Closed({ role: Type.Literal("user"), content: said }),
  Closed({
    role: Type.Literal("assistant"),
    content: Type.Optional(said),
    tool_calls: Type.Optional(Type.Array(ExampleCall, { minItems: 1, maxItems: 32 })),
  }),
  Closed({ role: Type.Literal("tool"), content: said, tool_call_id: said }),
]);

const Tool = Closed({
  type: Type.Literal("function"),
  function: Closed({ ...strict(FunctionTool).properties.function.properties, name: ToolName }),
});

const { seed: _seed, ...numbered } = SamplingFields;
/** The fields that have an order: of efforts, those that are known here. */
const cappable = {
  ...numbered,
  reasoning_effort: Type.Optional(Words(knownEfforts)),
};

const share = (description: string) => Type.Optional(Type.Number({ minimum: 0, exclusiveMaximum: 1, description }));

const Until = Closed(
  {
    calls: Type.Integer({ minimum: 10, maximum: 100_000, description: "Calls of a window, over which it is judged." }),
    error_rate: share("The share of calls that may fail, e.g. 0.05."),
    refusals: share("The share of calls that the model may refuse."),
    p95_seconds: Type.Optional(
      Type.Number({ exclusiveMinimum: 0, description: "At most 5 % of the calls may take longer." }),
    ),
    cost: Type.Optional(Type.Number({ exclusiveMinimum: 0, description: "Dollars that a call may cost on average." })),
  },
  { description: "When it stops itself: beyond a bound, and beyond what the other variants do." },
);

/** Which version answers a prompt of an application; a version that names itself would change by that, so this is no part of it. */
const PromptIds = KeyedRecord(
  { pattern: "^[A-Za-z0-9_-]{1,128}$", message: "must be a prompt's id, of letters, digits, '_' and '-'" },
  KeyedRecord(
    { pattern: "^[A-Za-z0-9._-]{1,64}$", message: "must be a version of the prompt, or default" },
    patterned(
      "^[a-z0-9][a-z0-9._-]{0,63}$",
      "a version or a label of this persona, or current; quoted where it is all digits",
    ),
    {
      description: "By version of the prompt, with default for calls that name none: a version or a label, or current.",
    },
  ),
  { description: "Prompts of OpenAI's Responses that it answers, by their ids." },
);

/** The persona's own members, which are absent from `options`; beside them it has `variants`. */
const own = {
  description: Type.String({ minLength: 1, maxLength: 1000, description: "The persona's role, in a sentence." }),
  owned_by: Type.Optional(Type.String({ description: "The owner's name: the namespace, which is the default." })),
  tier: Type.Optional(Words(tiers, { description: "The lowest plan that may use it. Default free." })),
  created: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: 9_999_999_999 }), Type.String()], {
      description: "2026-11-21, 2026-11-21T10:00:00Z, or Unix time in seconds.",
    }),
  ),
  model: Type.Union([ModelReference, Type.Array(ModelReference, { minItems: 1, maxItems: 16 })], {
    description: "<provider>/<model>, or several in order of preference.",
  }),
  strategy: Type.Optional(
    Words(strategies, {
      description:
        "How one of several models is chosen, which then stand for one another: that of the `sticky` conversation, the `first` in order, `weighted` at random, the `least_busy`, or the one with the `fastest` first token. Default: in their order, from the first on with each call.",
    }),
  ),
  weights: Type.Optional(
    Type.Array(Type.Number({ minimum: 0.001, maximum: 1000 }), {
      minItems: 2,
      maxItems: 16,
      description: "Shares of the models, in their order, for a strategy. Default: equal ones.",
    }),
  ),
  system: Type.Optional(
    Type.String({
      minLength: 1,
      description: "The system text, with {{variables}} and {{> partials}}; on every turn, first.",
    }),
  ),
  system_file: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 512,
      description: "In place of system: a Markdown or text file that holds it, relative to this file.",
    }),
  ),
  variables: Type.Optional(KeyedRecord(variableName, Variable, { description: "What callers may fill in." })),
  examples: Type.Optional(
    Type.Array(ExampleTurn, { maxItems: 128, description: "Turns that show how to answer, before the caller's." }),
  ),
  defaults: Type.Optional(
    Closed(strict(Type.Object(SamplingFields)).properties, {
      description: "Sampling fields for when the caller gives none.",
    }),
  ),
  limits: Type.Optional(
    Closed(strict(Type.Object(cappable)).properties, { description: "The most a caller may ask." }),
  ),
  stop: Type.Optional(
    Type.Union(
      [Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: 4 })],
      { description: "Text at which the answer ends." },
    ),
  ),
  tools: Type.Optional(Type.Array(Tool, { maxItems: 128, description: "Functions, beside those of the caller." })),
  response_format: Type.Optional(strict(ResponseFormat)),
  store: Type.Optional(Type.Boolean({ description: "Whether exchanges are kept, unless the caller says." })),
  hide_upstream: Type.Optional(
    Type.Boolean({ description: "Whether answers keep to themselves which provider and model gave them." }),
  ),
  metadata: Type.Optional(strict(ChatRequestBody.properties.metadata)),
  knowledge: Type.Optional(KnowledgeField),
  lorebook: Type.Optional(LorebookField),
  skills: Type.Optional(SkillsField),
  mcp: Type.Optional(McpField),
  mcp_limits: Type.Optional(McpLimitsField),
  ...presentationFields,
  prompt_ids: Type.Optional(PromptIds),
};

/** What shapes a request: fields that a variant may have in place of the persona's. All but `options`, which providers know. */
const overrides = {
  model: Type.Optional(own.model),
  strategy: own.strategy,
  weights: own.weights,
  system: own.system,
  system_file: own.system_file,
  examples: own.examples,
  defaults: own.defaults,
  limits: own.limits,
  stop: own.stop,
  tools: own.tools,
  response_format: own.response_format,
  store: own.store,
  metadata: own.metadata,
  mcp: own.mcp,
  mcp_limits: own.mcp_limits,
};
/** Fields of a variant's content. */
export const variantFields: readonly string[] = [...Object.keys(overrides), "options"];

/** @param options as the persona has them */
const variantsOf = <O extends TSchema>(options: O) =>
  Type.Optional(
    Type.Array(
      Closed({
        name: Type.Optional(
          patterned(
            "^[a-z0-9][a-z0-9._-]{0,63}$",
            "1 to 64 lower-case letters, digits, '.', '_' and '-', and begin with a letter or digit",
          ),
        ),
        weight: Type.Integer({
          minimum: 0,
          maximum: 10_000,
          description: "Its share of the callers is its weight of the weights of all.",
        }),
        until: Type.Optional(Until),
        ...overrides,
        options,
      }),
      { minItems: 2, maxItems: 16, description: "Variants, each with other fields in place of the persona's." },
    ),
  );

/** Request fields that only a caller can know. */
const callers = new Set([
  ...["messages", "stream", "stream_options", "usage", "previous_response_id", "functions", "function_call"],
  "extra_body",
]);

/** @returns why a key can't stand in `options`, or undefined when it can */
export function misplacedOption(key: string): string | undefined {
  if (Object.hasOwn(SamplingFields, key)) return "belongs in defaults";
  if (Object.hasOwn(own, key) || key === "variants") return "belongs at the top level of the file";
  return callers.has(key) ? "is the caller's to say" : undefined;
}

/** Words of other tools for what has another name here. */
const otherNames: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ["prompt", "instructions", "system_prompt", "content"].map((key) => [key, "is called system here"]),
  ),
  messages: "is the caller's to say; turns that show how to answer are examples",
  models: "is called model here, and takes a list",
  functions: "is called tools here",
  character_book: "is called lorebook here",
  max_output_tokens: "is called max_tokens here, and belongs in defaults or limits",
  ...Object.fromEntries(
    ["id", "name", "namespace"].map((key) => [key, "is said by the file's path: <namespace>/<name>.yaml"]),
  ),
  provider: "is said by model: <provider>/<model>",
};

/** @param options the extra options that are known @returns where a key belongs that stands at the top of a file and is not known there */
function explainKey(key: string, options: TProperties): string | undefined {
  if (Object.hasOwn(SamplingFields, key)) return "belongs in defaults, or in limits for the most a caller may ask";
  if (Object.hasOwn(otherNames, key)) return otherNames[key];
  if (callers.has(key)) return "is the caller's to say";
  const isOption = Object.hasOwn(options, key) || Object.hasOwn(ChatRequestBody.properties, key);
  return isOption ? "belongs in options" : undefined;
}

const requestOptions = Object.entries(ChatRequestBody.properties).filter(([key]) => misplacedOption(key) === undefined);

/** For editors; our own check names the place. */
const oneSystem = { oneOf: [{ required: ["system"] }, { required: ["system_file"] }] };

function fileSchema(known: TProperties) {
  const options = Type.Optional(
    Open(
      { ...known, ...eachNarrowed(Object.fromEntries(requestOptions)) },
      { description: "Extra options, and request fields that have no place of their own here." },
    ),
  );
  const explained = (key: string) => explainKey(key, known);
  return Closed(
    { ...own, options, variants: variantsOf(options) },
    { ...oneSystem, title: "A persona of Troupe", explainKey: explained },
  );
}

/** A persona file whose extra options may be anything. */
export const PersonaFile = fileSchema({});

export type PersonaFileValue = Static<typeof PersonaFile>;
/** The same with its includes in place: JSON, of which a persona can be made anew. */
export type PersonaContent = Omit<PersonaFileValue, "system" | "system_file" | "variants" | "prompt_ids"> & {
  readonly system: string;
  readonly variants?: readonly VariantContent[];
};
export type VariantContent = Omit<NonNullable<PersonaFileValue["variants"]>[number], "system_file">;

/** @param options the schemas of the extra options that providers know */
export function personaFileWith(options: TProperties): typeof PersonaFile {
  return fileSchema(Object.fromEntries(Object.entries(options).filter(([key]) => misplacedOption(key) === undefined)));
}

/** For editors: what `docs/persona.schema.json` holds. @param options as for `personaFileWith` */
export function personaJsonSchema(options: TProperties): Record<string, unknown> {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    ...JSON.parse(JSON.stringify(personaFileWith(options))),
  };
}
