/** One YAML file's text, made into a persona, or into the errors that keep it from being one. */
import { deepFreeze } from "../lib/freeze.ts";
import { canonical } from "../lib/json/canonical.ts";
import { isObject } from "../lib/json/json.ts";
import { formatPath } from "../lib/schema-errors.ts";
import { versionOf } from "../lib/version-of.ts";
import { type Diagnostic, type Position, YamlSource } from "../lib/yaml/yaml.ts";
import type { FunctionTool, Message, Metadata, ResponseFormat } from "../protocols/chat/schema.ts";
import { parseModelId } from "../protocols/model-id.ts";
import type { Tier } from "../protocols/tiers.ts";
import { createdByDefault, parseCreated } from "./created.ts";
import { expandIncludes, noPartials, originOf, type Partials, positionIn, positionInYaml } from "./includes.ts";
import { type Knowledge, type Lorebook, toKnowledge, toLorebook } from "./knowledge/schema.ts";
import { type Presentation, toPresentation } from "./presentation.ts";
import type { RuleError } from "./rule-error.ts";
import { validationErrors } from "./rules.ts";
import type { Sampling } from "./sampling.ts";
import { type PersonaContent, PersonaFile, type PersonaFileValue } from "./schema.ts";
import { findMarks, parseTemplate, type Template } from "./template.ts";
import { defaultMaxLength, type Variable } from "./variables.ts";

/** A checked persona. Frozen throughout: every call shares it. */
export type Persona = Presentation & {
  /** `<namespace>/<name>`. */
  readonly id: string;
  /** The first 12 hexadecimal digits of the SHA-256 of its file's canonical content, includes in place. */
  readonly version: string;
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

/** A file that fits its schema, whose includes have to be put in place. */
export type PersonaDraft = {
  /** Paths of partials that it needs and were not read yet; or the persona, or its errors, with the partials that it uses. */
  resolve(
    partials: Partials,
  ): { readonly missing: readonly string[] } | (ParsedPersona & { readonly uses: readonly string[] });
};

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
  const draft = draftPersona(text, file, id, schema);
  return "errors" in draft ? draft : (draft.resolve(noPartials) as ParsedPersona);
}

/** As `parsePersona`, for a file whose includes are read by the caller. */
export function draftPersona(
  text: string,
  file: string,
  id: string,
  schema = PersonaFile,
): PersonaDraft | { readonly errors: readonly Diagnostic[] } {
  const { namespace, name } = parseModelId(id) ?? { namespace: "", name: id };
  const misnamed = nameProblem(namespace) ?? nameProblem(name);
  if (misnamed !== undefined) {
    return {
      errors: [{ file, line: 0, column: 0, path: "", message: `'${id}' can't name a persona: each part ${misnamed}` }],
    };
  }
  const source = new YamlSource(text, file);
  const invalid =
    source.errors.length > 0
      ? source.errors
      : [...source.check(schema, source.value ?? {}), ...systemErrors(source, source.value ?? {})];
  if (invalid.length > 0) return { errors: invalid.toSorted(byPlace) };
  const value = source.value as PersonaFileValue;
  return { resolve: (partials) => resolved(value, { id, namespace, text, source }, partials) };
}

/** The system text stands in the file, or in another that it names. */
function systemErrors(source: YamlSource, value: unknown): Diagnostic[] {
  if (!isObject(value)) return [];
  const { file } = source;
  if (!("system" in value) && !("system_file" in value))
    return [{ file, ...source.locateKey(["system"]), path: "system", message: "is required" }];
  if (!("system" in value && "system_file" in value)) return [];
  const message = "stands beside system, which says the same: give one";
  return [{ file, ...source.locateKey(["system_file"]), path: "system_file", message }];
}

type DraftFile = {
  readonly id: string;
  readonly namespace: string;
  readonly text: string;
  readonly source: YamlSource;
};

function resolved(value: PersonaFileValue, draft: DraftFile, partials: Partials): ReturnType<PersonaDraft["resolve"]> {
  const { id, namespace, text, source } = draft;
  const { system, system_file: systemFile = "", ...rest } = value;
  const expanded = expandIncludes(`${id}.yaml`, system === undefined ? { systemFile } : { text: system }, partials);
  const { missing, uses } = expanded;
  if (missing.length > 0) return { missing };
  const name = system === undefined ? "system_file" : "system";
  /** @param index in the text at that path @param marked names the persona where the text is not its own */
  const placed = (at: ReturnType<typeof originOf>, message: string): Diagnostic => {
    if (at.path === undefined) {
      const start = source.locate([name]);
      const place = system === undefined ? start : (positionInYaml(text, start, system, at.index) ?? start);
      return { file: source.file, ...place, path: name, message };
    }
    const partial = partials.find(at.path);
    const place = positionIn(partial !== undefined && "text" in partial ? partial.text : "", at.index);
    return { file: partials.nameOf(at.path), ...place, path: "", message: `${message} (in the system text of ${id})` };
  };
  const content: PersonaContent = { ...rest, system: expanded.text.trimEnd() };
  const found =
    expanded.errors.length > 0
      ? expanded.errors.map((error) => placed(error, error.message))
      : [...validationErrors(content, namespace)].map((error) => {
          const { path, at, message } = error;
          const isInSystem = path.length === 1 && path[0] === "system";
          if (isInSystem && typeof at === "number")
            return placed(originOf(expanded, findMarks(content.system)[at]!.index), message);
          const inFile = isInSystem ? { ...error, path: [name] } : error;
          return { file: source.file, ...placeOf(inFile, source, value, text), path: formatPath(inFile.path), message };
        });
  if (found.length > 0) return { errors: found.toSorted(byPlace), uses };
  const persona = personaFrom(content, id);
  sources.set(persona, text);
  return { persona, uses };
}

/** The files that personas were read from, as they were written. */
const sources = new WeakMap<Persona, string>();
export const sourceOf = (persona: Persona): string | undefined => sources.get(persona);

/** The contents that personas were made of, as JSON. */
const contents = new WeakMap<Persona, string>();
export const contentOf = (persona: Persona): string => contents.get(persona)!;

/** @param content that has been checked, by `parsePersona` or when the executable was built */
export function personaFrom(content: PersonaContent, id: string): Persona {
  const persona = deepFreeze(toPersona(content, id, parseModelId(id)!.namespace));
  contents.set(persona, JSON.stringify(content));
  return persona;
}

const byPlace = (a: Diagnostic, b: Diagnostic) => a.line - b.line || a.column - b.column;

function placeOf({ path, at }: RuleError, source: YamlSource, root: PersonaFileValue, text: string): Position {
  const start = source.locate(path);
  if (at === undefined) return start;
  if (at === "key") return source.locateKey(path);
  const marked = path.reduce<unknown>((value, part) => (value as Record<string, unknown>)[part], root) as string;
  return positionInYaml(text, start, marked, findMarks(marked)[at]!.index) ?? start;
}

function toPersona(file: PersonaContent, id: string, namespace: string): Persona {
  const { response_format: responseFormat, store, metadata } = file;
  const lorebook = file.lorebook && toLorebook(file.lorebook);
  return {
    id,
    version: versionOf(canonical(file)),
    description: file.description,
    ownedBy: file.owned_by ?? namespace,
    tier: file.tier ?? "free",
    created: file.created === undefined ? createdByDefault : parseCreated(file.created)!,
    targets: [file.model].flat(),
    system: parseTemplate(file.system),
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
