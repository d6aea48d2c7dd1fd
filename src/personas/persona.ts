/** One YAML file's text, made into a persona, or into the errors that keep it from being one. */
import type { Static } from "@sinclair/typebox";
import { deepFreeze } from "../lib/freeze.ts";
import { formatPath } from "../lib/schema-errors.ts";
import { type Diagnostic, type Position, YamlSource } from "../lib/yaml/yaml.ts";
import type { FunctionTool, Message, Metadata, ResponseFormat } from "../protocols/chat/schema.ts";
import { parseModelId } from "../protocols/model-id.ts";
import type { Tier } from "../protocols/tiers.ts";
import { createdByDefault, parseCreated } from "./created.ts";
import { type Knowledge, type Lorebook, toKnowledge, toLorebook } from "./knowledge/schema.ts";
import { type Presentation, toPresentation } from "./presentation.ts";
import type { RuleError } from "./rule-error.ts";
import { validationErrors } from "./rules.ts";
import type { Sampling } from "./sampling.ts";
import { PersonaFile } from "./schema.ts";
import { findMarks, parseTemplate, type Template } from "./template.ts";
import { defaultMaxLength, type Variable } from "./variables.ts";

/** A checked persona. Frozen throughout: every call shares it. */
export type Persona = Presentation & {
  /** `<namespace>/<name>`. */
  readonly id: string;
  readonly description: string;
  readonly ownedBy: string;
  readonly tier: Tier;
  /** Unix time in seconds. */
  readonly created: number;
  /** `<provider>/<model>`, in order of preference; at least one. */
  readonly targets: readonly string[];
  readonly system: Template;
  readonly variables: ReadonlyMap<string, Variable>;
  readonly examples: readonly Message[];
  readonly defaults: Sampling;
  readonly limits: Sampling;
  readonly options: Readonly<Record<string, unknown>>;
  readonly stop: readonly string[];
  readonly tools: readonly FunctionTool[];
  readonly responseFormat?: ResponseFormat;
  readonly store?: boolean;
  readonly metadata?: Metadata;
  readonly knowledge?: Knowledge;
  readonly lorebook?: Lorebook;
};

export type ParsedPersona = { readonly persona: Persona } | { readonly errors: readonly Diagnostic[] };

/** A persona file's content. */
export type PersonaFileValue = Static<typeof PersonaFile>;

/** @returns what is wrong with a namespace or a persona's name, as a sentence without its subject */
export function nameProblem(name: string): string | undefined {
  if (name.length > 64) return "must have at most 64 characters";
  const fits = /^[a-z0-9][a-z0-9._-]*$/.test(name);
  return fits ? undefined : "must be of lower-case letters, digits, '.', '_' and '-', and begin with a letter or digit";
}

/**
 * @param file names the text in errors
 * @param id `<namespace>/<name>`, which the file's path gives
 * @param schema of the file, which may know providers' options
 */
export function parsePersona(text: string, file: string, id: string, schema = PersonaFile): ParsedPersona {
  const { namespace, name } = parseModelId(id) ?? { namespace: "", name: id };
  const misnamed = nameProblem(namespace) ?? nameProblem(name);
  if (misnamed !== undefined) {
    return {
      errors: [{ file, line: 0, column: 0, path: "", message: `'${id}' can't name a persona: each part ${misnamed}` }],
    };
  }
  const source = new YamlSource(text, file);
  const invalid = source.errors.length > 0 ? source.errors : source.check(schema, source.value ?? {});
  if (invalid.length > 0) return { errors: invalid.toSorted(byPlace) };
  const value = source.value as PersonaFileValue;
  const errors = [...validationErrors(value, namespace)].map((error) => ({
    file,
    ...placeOf(error, source, text),
    path: formatPath(error.path),
    message: error.message,
  }));
  if (errors.length > 0) return { errors: errors.toSorted(byPlace) };
  return { persona: personaFrom(value, id) };
}

/** @param value a persona file's content that has been checked, by `parsePersona` or when the executable was built */
export function personaFrom(value: PersonaFileValue, id: string): Persona {
  return deepFreeze(toPersona(value, id, parseModelId(id)!.namespace));
}

const byPlace = (a: Diagnostic, b: Diagnostic) => a.line - b.line || a.column - b.column;

function placeOf({ path, at }: RuleError, source: YamlSource, text: string): Position {
  const value = source.locate(path);
  if (at === undefined) return value;
  return at === "key" ? source.locateKey(path) : (placeOfMark(text, value, at) ?? value);
}

/** Marks have no escapes in YAML, so the same ones stand in the file, in the same order, from where the text begins. */
function placeOfMark(text: string, start: Position, at: number): Position | undefined {
  const offset = text.split("\n", start.line - 1).reduce((sum, line) => sum + line.length + 1, start.column - 1);
  const mark = findMarks(text.slice(offset))[at];
  if (mark === undefined) return undefined;
  const before = text.slice(0, offset + mark.index);
  return { line: before.split("\n").length, column: before.length - before.lastIndexOf("\n") };
}

function toPersona(file: PersonaFileValue, id: string, namespace: string): Persona {
  const { response_format: responseFormat, store, metadata } = file;
  const lorebook = file.lorebook && toLorebook(file.lorebook);
  return {
    id,
    description: file.description,
    ownedBy: file.owned_by ?? namespace,
    tier: file.tier ?? "free",
    created: file.created === undefined ? createdByDefault : parseCreated(file.created)!,
    targets: [file.model].flat(),
    system: parseTemplate(file.system.trimEnd()),
    variables: new Map(Object.entries(file.variables ?? {}).map(([name, variable]) => [name, toVariable(variable)])),
    examples: (file.examples ?? []).map(toMessage),
    defaults: (file.defaults ?? {}) as Sampling,
    limits: (file.limits ?? {}) as Sampling,
    options: file.options ?? {},
    stop: [file.stop ?? []].flat(),
    tools: (file.tools ?? []) as FunctionTool[],
    ...(responseFormat != null && { responseFormat }),
    ...(store !== undefined && { store }),
    ...(metadata != null && { metadata }),
    ...(file.knowledge !== undefined && { knowledge: toKnowledge(file.knowledge) }),
    ...(lorebook !== undefined && { lorebook }),
    ...toPresentation(file),
  };
}

function toVariable({
  max_length,
  required = false,
  ...rest
}: NonNullable<PersonaFileValue["variables"]>[string]): Variable {
  return { default: "", ...rest, required, maxLength: max_length ?? defaultMaxLength };
}

/** A turn as the public format has it: a call's arguments are JSON text. */
function toMessage(turn: NonNullable<PersonaFileValue["examples"]>[number]): Message {
  if (turn.role !== "assistant" || turn.tool_calls === undefined) return turn as Message;
  const calls = turn.tool_calls.map(({ id, function: { name, arguments: given } }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: typeof given === "string" ? given : JSON.stringify(given) },
  }));
  return { role: "assistant", content: turn.content ?? null, tool_calls: calls };
}
