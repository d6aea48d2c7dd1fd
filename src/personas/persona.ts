/** One YAML file's text, made into a persona, or into the errors that keep it from being one. */

import type { Strategy } from "../lib/http/strategies.ts";
import { canonical } from "../lib/json/canonical.ts";
import { deepFreeze } from "../lib/json/freeze.ts";
import { isObject } from "../lib/json/json.ts";
import { isSameList } from "../lib/json/same-list.ts";
import { formatPath, type PathPart } from "../lib/json/schema-errors.ts";
import { versionOf } from "../lib/text/version-of.ts";
import { byPlace, type Diagnostic, type Position, YamlSource } from "../lib/yaml/yaml.ts";
import type { FunctionTool, Message, Metadata, ResponseFormat } from "../protocols/chat/schema.ts";
import { parseModelId } from "../protocols/model-id.ts";
import type { Tier } from "../protocols/tiers.ts";
import { type Presentation, toPresentation } from "./compose/presentation.ts";
import type { Sampling } from "./compose/sampling.ts";
import { findMarks, parseTemplate, type Template } from "./compose/template.ts";
import { defaultMaxLength, type Variable } from "./compose/variables.ts";
import { createdByDefault, parseCreated } from "./file/created.ts";
import {
  type Expanded,
  expandIncludes,
  noPartials,
  type Partials,
  pieceAt,
  positionIn,
  positionInYaml,
} from "./file/includes.ts";
import type { RuleError } from "./file/rule-error.ts";
import { validationErrors } from "./file/rules.ts";
import { type PersonaContent, PersonaFile, type PersonaFileValue } from "./file/schema.ts";
import { type Knowledge, type Lorebook, toKnowledge, toLorebook } from "./knowledge/schema.ts";
import { type ToolGrant, type ToolLimits, toolLimitsOf } from "./mcp.ts";
import { findSkills } from "./skills/find-skills.ts";
import { type Skill, type Skills, toSkills } from "./skills/schema.ts";
import { type StopRule, stopRule, variantName, withVariant } from "./versions/variants.ts";

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
  /** How one of them is chosen. Absent: they are tried in their order. */
  readonly strategy?: Strategy;
  /** Their shares, in their order. Absent: equal ones. */
  readonly weights?: readonly number[];
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
  /** True where answers do not name the provider and model behind it. Absent: they do. */
  readonly hidesUpstream?: boolean;
  readonly metadata?: Metadata;
  readonly knowledge?: Knowledge;
  readonly lorebook?: Lorebook;
  /** What it can read up while it answers. Absent: nothing. */
  readonly skills?: Skills;
  /** Tools that are called here while it answers. Absent: none. */
  readonly mcp?: readonly ToolGrant[];
  readonly mcpLimits?: ToolLimits;
  /** Absent: there are none. */
  readonly variants?: readonly Variant[];
  /** The prompts of applications that it answers, by their ids: by version of the prompt, which version of the persona. */
  readonly promptIds?: Readonly<Record<string, Readonly<Record<string, string>>>>;
};

/**
 * One of a persona's variants: it has other fields in place of the persona's, gets its share of the callers, and may stop itself. It is
 * resolved when the file is read, so that a call only chooses.
 */
export type Variant = {
  readonly name: string;
  /** Its share of the callers is its weight of the weights of all. */
  readonly weight: number;
  /** The persona with the variant's fields, and without variants. */
  readonly persona: Persona;
  /** Absent: it never stops. */
  readonly until?: StopRule;
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

/** A system text stands in the file, or in another that it names; a variant need not have one. */
function systemErrors(source: YamlSource, value: unknown): Diagnostic[] {
  if (!isObject(value)) return [];
  const { file } = source;
  if (!("system" in value) && !("system_file" in value))
    return [{ file, ...source.locateKey(["system"]), path: "system", message: "is required" }];
  return placesOfSystem(value as PersonaFileValue).flatMap(({ within, system, systemFile }) => {
    if (system === undefined || systemFile === undefined) return [];
    const path = [...within, "system_file"];
    const message = "stands beside system, which says the same: give one";
    return [{ file, ...source.locateKey(path), path: formatPath(path), message }];
  });
}

/** The persona's system text, and those of its variants that have their own. */
function placesOfSystem({ variants = [], ...file }: PersonaFileValue) {
  return [file, ...variants].flatMap(({ system, system_file: systemFile }, at) => {
    const within = at === 0 ? [] : ["variants", at - 1];
    return system === undefined && systemFile === undefined ? [] : [{ within, system, systemFile }];
  });
}

type DraftFile = {
  readonly id: string;
  readonly namespace: string;
  readonly text: string;
  readonly source: YamlSource;
};

/** A system text with its includes in place. */
type SystemText = {
  /** Its path in the content, and in the file. */
  readonly path: readonly PathPart[];
  readonly inFile: readonly PathPart[];
  /** As it stands in the file; absent: in another one. */
  readonly system: string | undefined;
  readonly expanded: Expanded;
};

function resolved(value: PersonaFileValue, draft: DraftFile, partials: Partials): ReturnType<PersonaDraft["resolve"]> {
  const { id, namespace, text, source } = draft;
  const texts = placesOfSystem(value).map(({ within, system, systemFile = "" }): SystemText => {
    const own = system === undefined ? { systemFile } : { text: system };
    const inFile = [...within, system === undefined ? "system_file" : "system"];
    return { path: [...within, "system"], inFile, system, expanded: expandIncludes(`${id}.yaml`, own, partials) };
  });
  const known = findSkills(value.skills ?? [], `${id}.yaml`, partials);
  const missing = [...texts.flatMap(({ expanded }) => expanded.missing), ...known.missing];
  if (missing.length > 0) return { missing: [...new Set(missing)] };
  const uses = [...new Set([...texts.flatMap(({ expanded }) => expanded.uses), ...known.uses])];
  /** @param index in the text at that path @param marked names the persona where the text is not its own */
  const placed = ({ inFile, system }: SystemText, at: ReturnType<typeof pieceAt>, message: string): Diagnostic => {
    if (at.path === undefined) {
      const start = source.locate(inFile);
      const place = system === undefined ? start : (positionInYaml(text, start, system, at.index) ?? start);
      return { file: source.file, ...place, path: formatPath(inFile), message };
    }
    const partial = partials.find(at.path);
    const place = positionIn(partial !== undefined && "text" in partial ? partial.text : "", at.index);
    return { file: partials.nameOf(at.path), ...place, path: "", message: `${message} (in the system text of ${id})` };
  };
  const content = contentWith(value, texts, known.skills);
  const includeErrors = [
    ...texts.flatMap((one) => one.expanded.errors.map((error) => placed(one, error, error.message))),
    ...known.errors.map(({ at, message }) => source.diagnosticAt(["skills", at], message)),
    ...known.faults.map((fault) => ({ ...fault, message: `${fault.message} (in a skill of ${id})` })),
  ];
  const found =
    includeErrors.length > 0
      ? includeErrors
      : [...validationErrors(content, namespace)].map((error) => {
          const { path, at, message } = error;
          const inText = texts.find((one) => isSameList(one.path, path));
          if (inText !== undefined && typeof at === "number") {
            const { expanded } = inText;
            return placed(inText, pieceAt(expanded, findMarks(expanded.text)[at]!.index), message);
          }
          const inFile = inText === undefined ? error : { ...error, path: inText.inFile };
          return { file: source.file, ...placeOf(inFile, source, value, text), path: formatPath(inFile.path), message };
        });
  if (found.length > 0) return { errors: found.toSorted(byPlace), uses };
  const persona = personaFrom(content, id, value.prompt_ids);
  sources.set(persona, text);
  return { persona, uses };
}

function contentWith(value: PersonaFileValue, texts: readonly SystemText[], skills: readonly Skill[]): PersonaContent {
  const { system: _, system_file: __, prompt_ids: ___, variants, ...rest } = value;
  const textAt = (path: readonly PathPart[]) =>
    texts.find((one) => isSameList(one.path, path))?.expanded.text.trimEnd();
  return {
    ...rest,
    system: textAt(["system"])!,
    ...(value.skills !== undefined && { skills: [...skills] }),
    ...(variants !== undefined && {
      variants: variants.map(({ system: _, system_file: __, ...variant }, at) => {
        const system = textAt(["variants", at, "system"]);
        return { ...variant, ...(system !== undefined && { system }) };
      }),
    }),
  };
}

/** The files that personas were read from, as they were written. */
const sources = new WeakMap<Persona, string>();
export const sourceOf = (persona: Persona): string | undefined => sources.get(persona);

/** The contents that personas were made of, as JSON. */
const contents = new WeakMap<Persona, string>();
export const contentOf = (persona: Persona): string => contents.get(persona)!;
export const hasContent = (persona: Persona): boolean => contents.has(persona);

/** @param content that has been checked, by `parsePersona` or when the executable was built */
export function personaFrom(content: PersonaContent, id: string, promptIds?: Persona["promptIds"]): Persona {
  const persona = deepFreeze({
    ...toPersona(content, id, parseModelId(id)!.namespace),
    ...(promptIds !== undefined && { promptIds }),
  });
  contents.set(persona, JSON.stringify(content));
  return persona;
}

function placeOf({ path, at }: RuleError, source: YamlSource, root: PersonaFileValue, text: string): Position {
  const start = source.locate(path);
  if (at === undefined) return start;
  if (at === "key") return source.locateKey(path);
  const marked = path.reduce<unknown>((value, part) => (value as Record<string, unknown>)[part], root) as string;
  return positionInYaml(text, start, marked, findMarks(marked)[at]!.index) ?? start;
}

function toPersona(file: PersonaContent, id: string, namespace: string): Persona {
  const { response_format: responseFormat, store, metadata, variants } = file;
  const lorebook = file.lorebook && toLorebook(file.lorebook);
  const skills = toSkills(file.skills);
  const version = versionOf(canonical(file));
  return {
    id,
    version,
    description: file.description,
    ownedBy: file.owned_by ?? namespace,
    tier: file.tier ?? "free",
    created: file.created === undefined ? createdByDefault : parseCreated(file.created)!,
    targets: [file.model].flat(),
    ...(file.strategy !== undefined && { strategy: file.strategy }),
    ...(file.weights !== undefined && { weights: file.weights }),
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
    ...(file.hide_upstream === true && { hidesUpstream: true }),
    ...(metadata != null && { metadata }),
    ...(file.knowledge !== undefined && { knowledge: toKnowledge(file.knowledge) }),
    ...(lorebook !== undefined && { lorebook }),
    ...(skills !== undefined && { skills }),
    ...(file.mcp !== undefined && { mcp: file.mcp }),
    ...(file.mcp_limits !== undefined && { mcpLimits: toolLimitsOf(file.mcp_limits) }),
    ...toPresentation(file),
    ...(variants !== undefined && {
      variants: variants.map((variant, at) => ({
        name: variantName(variant, at),
        weight: variant.weight,
        persona: { ...toPersona(withVariant(file, variant), id, namespace), version },
        ...(variant.until !== undefined && { until: stopRule(variant.until) }),
      })),
    }),
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
