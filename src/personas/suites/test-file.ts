/** Parses a test file: its text, made into tests, or into the errors that keep it from being one, each with its place. */

import type { Static } from "@sinclair/typebox";
import { exampleNames } from "../../facts/examples.ts";
import { isObject, listOf } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { suggest } from "../../lib/text/suggest.ts";
import { byPlace, type Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import type { Message } from "../../protocols/chat/schema.ts";
import {
  type AssertionFile,
  assertionNames,
  assertionTypes,
  foreignTypes,
  type GraderFile,
} from "./assertion-schema.ts";
import { graderFrom } from "./graders.ts";
import { TestFile } from "./schema.ts";
import type { Assertion, AssertionSet, TestCase, TestSuite } from "./suite.ts";
import { combinationsOf, fillAll, resolved, TemplateError, type Vars, variableNamesIn } from "./vars.ts";

export type ParsedTests = { readonly suite: TestSuite } | { readonly errors: readonly Diagnostic[] };

export type TestFileOptions = {
  /** The persona that the file stands beside. */
  readonly persona: string;
  /** Names of its variables; undefined: they are not known. */
  readonly declared?: ReadonlySet<string> | undefined;
  /** The model that grades in place of those that the file names. */
  readonly grader?: string | undefined;
};

type File = Static<typeof TestFile>;
type Entry = File["tests"][number];
type Path = readonly PathPart[];

/** @param file names the text in errors */
export function parseTestFile(text: string, file: string, options: TestFileOptions): ParsedTests {
  const source = new YamlSource(text, file);
  if (source.errors.length > 0) return { errors: source.errors };
  const value = source.value ?? {};
  const unknown = [...unknownTypes(value)].map(({ path, message }) => source.diagnosticAt(path, message));
  const places = new Set(unknown.map(({ path }) => path));
  const isKnownFault = ({ path }: Diagnostic) => [...places].some((place) => place.startsWith(path) && path !== "");
  const invalid = [
    ...unknown,
    ...source
      .check(TestFile, value)
      .filter((one) => !places.has(one.path) && !(unknown.length > 0 && isKnownFault(one))),
  ];
  if (invalid.length > 0) return { errors: invalid.toSorted(byPlace) };
  return new Builder(source, value as File, options).build();
}

/** Finds assertions whose type is none: a union's own message would list them all. */
function* unknownTypes(file: unknown): Generator<{ path: Path; message: string }> {
  const { tests, defaultTest } = isObject(file) ? file : {};
  const tested: [Path, unknown][] = [
    [["defaultTest"], defaultTest],
    ...listOf(tests).map((one, at): [Path, unknown] => [["tests", at], one]),
  ];
  for (const [path, one] of tested) if (isObject(one)) yield* unknownIn(one["assert"], [...path, "assert"]);
}

function* unknownIn(assertions: unknown, path: Path): Generator<{ path: Path; message: string }> {
  for (const [at, one] of listOf(assertions).entries()) {
    if (!isObject(one)) continue;
    const { type } = one;
    yield* unknownIn(one["assert"], [...path, at, "assert"]);
    if (typeof type !== "string" || assertionTypes.includes(type)) continue;
    const place = [...path, at, "type"];
    const guess = suggest(type, assertionTypes);
    if (foreignTypes.has(type.replace(/^not-/, "")))
      yield { path: place, message: `'${type}' is an assertion of promptfoo that is not evaluated here` };
    else if (guess !== undefined) yield { path: place, message: `'${type}' is no assertion; did you mean '${guess}'?` };
    else
      yield { path: place, message: `'${type}' is no assertion; known here: ${assertionNames.join(", ")}, assert-set` };
  }
}

/** Fields of a request that a test can't pass on. */
export const reservedFields: Readonly<Record<string, string>> = {
  model: "is the persona that the file stands beside",
  messages: "belongs to the test itself",
  stream: "is not for tests: an answer is judged whole",
  stream_options: "is not for tests: an answer is judged whole",
  usage: "is set by the tests themselves",
  n: "is not for tests: repeat asks again",
};

class Builder {
  readonly #source: YamlSource;
  readonly #file: File;
  readonly #options: TestFileOptions;
  readonly #errors: Diagnostic[] = [];
  readonly #names = new Set<string>();

  constructor(source: YamlSource, file: File, options: TestFileOptions) {
    this.#source = source;
    this.#file = file;
    this.#options = options;
  }

  build(): ParsedTests {
    this.#checkNames();
    const tests = this.#file.tests.flatMap((entry, at) => this.#testsOf(entry, at));
    if (this.#errors.length > 0) return { errors: this.#errors.toSorted(byPlace) };
    const { maxConcurrency } = this.#file.evaluateOptions ?? {};
    const { file } = this.#source;
    return { suite: { file, persona: this.#options.persona, tests, ...(maxConcurrency && { maxConcurrency }) } };
  }

  /** Reports names in `vars` that nothing uses, as a misspelt one would go unnoticed. */
  #checkNames(): void {
    const { declared } = this.#options;
    if (declared === undefined) return;
    const { prompts = "{{prompt}}", tests, defaultTest } = this.#file;
    const inUse = variableNamesIn([
      prompts,
      [defaultTest ?? {}, ...tests].map(({ assert, options }) => [assert, options?.passthrough]),
      tests.map(({ messages }) => messages),
      [defaultTest ?? {}, ...tests].map(({ vars }) => vars),
    ]);
    const check = (vars: Vars | undefined, path: Path) => {
      for (const name of Object.keys(vars ?? {})) {
        if (declared.has(name) || inUse.has(name)) continue;
        const guess = suggest(name, [...declared, ...inUse]);
        const hint = guess === undefined ? "" : `; did you mean '${guess}'?`;
        this.#report(
          [...path, name],
          `is used by nothing: it is no variable of ${this.#options.persona}${hint}`,
          "key",
        );
      }
    };
    check(defaultTest?.vars, ["defaultTest", "vars"]);
    for (const [at, { vars }] of tests.entries()) check(vars, ["tests", at, "vars"]);
  }

  #testsOf(entry: Entry, at: number): TestCase[] {
    const { defaultTest = {}, evaluateOptions, prompts = "{{prompt}}" } = this.#file;
    const path: Path = ["tests", at];
    const options = { ...defaultTest.options, ...entry.options };
    const vars: Vars = { ...defaultTest.vars, ...entry.vars };
    const combined = options.disableVarExpansion ? [{ vars, expanded: [] }] : combinationsOf(vars);
    const sets = combined?.map((set) => ({ ...set, given: set.vars, vars: resolved(set.vars) }));
    if (sets === undefined) {
      this.#report([...path, "vars"], "has lists of more than 1000 combinations");
      return [];
    }
    this.#checkFields(options.passthrough ?? {}, entry.options?.passthrough === undefined ? ["defaultTest"] : path);
    const threshold = entry.threshold ?? defaultTest.threshold;
    const all = [prompts].flat();
    const asked = entry.messages === undefined ? all : [undefined];
    return sets.flatMap(({ vars, given, expanded }) =>
      asked.map((prompt, number) => {
        const label = typeof prompt === "object" ? prompt.label : undefined;
        const details = [
          ...expanded.map((name) => `${name}=${String(given[name])}`),
          ...(asked.length > 1 ? [label ?? `prompt ${number + 1}`] : []),
        ];
        const raw = typeof prompt === "object" ? prompt.raw : prompt;
        return {
          name: this.#nameOf(entry.description ?? `test ${at + 1}`, details),
          line: this.#source.locate(path).line,
          vars,
          messages: raw === undefined ? this.#messages(entry.messages!, vars, path) : this.#prompt(raw, vars, path),
          fields: this.#filled(options.passthrough ?? {}, vars, [...path, "options"]),
          assertions: [
            ...(options.disableDefaultAsserts
              ? []
              : this.#assertions(defaultTest.assert, ["defaultTest"], vars, options)),
            ...this.#assertions(entry.assert, path, vars, options),
          ],
          ...(threshold !== undefined && { threshold }),
          repeat: options.repeat ?? evaluateOptions?.repeat ?? 1,
          ...(options.threshold !== undefined && { share: options.threshold }),
        };
      }),
    );
  }

  #nameOf(description: string, details: readonly string[]): string {
    const name = details.length === 0 ? description : `${description} (${details.join(", ")})`;
    let unique = name;
    for (let count = 2; this.#names.has(unique); count += 1) unique = `${name} (${count})`;
    this.#names.add(unique);
    return unique;
  }

  #checkFields(fields: object, path: Path): void {
    for (const name of Object.keys(fields)) {
      const message = Object.hasOwn(reservedFields, name) ? reservedFields[name] : undefined;
      if (message !== undefined) this.#report([...path, "options", "passthrough", name], message, "key");
    }
  }

  #messages(messages: readonly Message[], vars: Vars, path: Path): readonly Message[] {
    return this.#filled(messages, vars, [...path, "messages"]);
  }

  /** A prompt is a user's message, or messages as JSON, in whose texts the variables are filled in. */
  #prompt(raw: string, vars: Vars, path: Path): readonly Message[] {
    const given = messagesIn(raw);
    if (given === undefined) return [{ role: "user", content: this.#filled(raw, vars, path) }];
    return this.#filled(given, vars, path);
  }

  #filled<T>(value: T, vars: Vars, path: Path): T {
    try {
      return fillAll(value, vars);
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      this.#report(path, error.message);
      return value;
    }
  }

  #assertions(
    given: readonly unknown[] | undefined,
    path: Path,
    vars: Vars,
    options: { readonly provider?: GraderFile },
  ): (Assertion | AssertionSet)[] {
    return ((given ?? []) as AssertionFile[]).map((one, at) => {
      const place = [...path, "assert", at];
      if (one.assert === undefined) return this.#assertion(one, place, vars, options);
      return {
        type: "assert-set",
        assertions: one.assert.map((inner, number) =>
          this.#assertion(inner, [...place, "assert", number], vars, options),
        ),
        ...this.#common(one, place),
      };
    });
  }

  #common({ weight = 1, metric, threshold }: AssertionFile, place: Path) {
    return {
      weight,
      ...(metric !== undefined && { metric }),
      ...(threshold !== undefined && { threshold }),
      line: this.#source.locate(place).line,
    };
  }

  #assertion(one: AssertionFile, place: Path, vars: Vars, options: { readonly provider?: GraderFile }): Assertion {
    const isNegated = one.type.startsWith("not-");
    const base = isNegated ? one.type.slice(4) : one.type;
    const value = this.#valueOf(one, base, place, vars);
    const { grader: forced } = this.#options;
    const provider = forced ?? one.provider ?? options.provider;
    const grader = base === "llm-rubric" && provider !== undefined ? graderFrom(provider) : undefined;
    if (base === "llm-rubric" && provider === undefined)
      this.#report(place, "names no model to grade it: add provider, here or in defaultTest.options");
    else if (base === "llm-rubric" && grader === undefined)
      this.#report(
        one.provider === undefined ? place : [...place, "provider"],
        `names no model, such as ${exampleNames.openaiSmall}`,
      );
    return { type: one.type, base, isNegated, value, ...this.#common(one, place), ...(grader && { grader }) };
  }

  /** Texts and lists of texts are filled in; what a schema or an object holds is not, as in promptfoo. */
  #valueOf({ value }: AssertionFile, base: string, place: Path, vars: Vars): unknown {
    const at = [...place, "value"];
    if (base === "trajectory:tool-used" || base === "trajectory:tool-args-match") this.#checkTool(value, at);
    const isPlain = typeof value === "string" || (Array.isArray(value) && base !== "equals");
    const filled = isPlain ? this.#filled(value, vars, at) : value;
    if (typeof filled === "string" && listTypes.includes(base)) return this.#listIn(filled, base, at);
    if (typeof filled === "string" && schemaTypes.includes(base)) return this.#schemaIn(filled, at);
    if (base !== "regex") return filled;
    try {
      new RegExp(filled as string);
    } catch (error) {
      this.#report(at, `is no regular expression: ${(error as Error).message}`);
    }
    return filled;
  }

  /** Texts parted by commas, which may stand in quotes; names of tools may not. */
  #listIn(text: string, base: string, at: Path): string[] {
    const texts = base === "tool-call-f1" ? text.split(",").map((one) => one.trim()) : textsIn(text);
    const found = texts?.filter((one) => one !== "") ?? [];
    if (found.length === 0) this.#report(at, texts === undefined ? "has a quote without its end" : "lists nothing");
    return found;
  }

  /** A schema that is written as text, in YAML or JSON. */
  #schemaIn(text: string, at: Path): unknown {
    const { value, errors } = new YamlSource(text, "");
    if (errors.length > 0 || !isObject(value))
      this.#report(at, "is no JSON Schema: it must be a mapping, or text that is one");
    return value;
  }

  #checkTool(value: unknown, path: Path): void {
    if (!isObject(value) || value["name"] !== undefined || value["pattern"] !== undefined) return;
    this.#report(path, "must have a name or a pattern");
  }

  #report(path: Path, message: string, at: "key" | "value" = "value"): void {
    const position = at === "key" ? this.#source.locateKey(path) : this.#source.locate(path);
    const error = { file: this.#source.file, ...position, path: formatPath(path), message };
    if (!this.#errors.some((one) => Bun.deepEquals(one, error))) this.#errors.push(error);
  }
}

/** Types whose lists and schemas may be written as texts, as promptfoo takes them. */
const listTypes = ["contains-all", "contains-any", "icontains-all", "icontains-any", "tool-call-f1"];
const schemaTypes = ["is-json", "contains-json"];

/** @returns the texts of a list that is written with commas; undefined for a quote without its end */
function textsIn(list: string): string[] | undefined {
  const field = /\s*(?:"((?:[^"\\]|""|\\[\s\S])*)"\s*(?:,|$)|([^",][^,]*)(?:,|$)|(,))/y;
  const texts: string[] = [];
  for (field.lastIndex = 0; list.slice(field.lastIndex).trim() !== ""; ) {
    const [whole, quoted, plain] = field.exec(list) ?? [];
    if (whole === undefined) return undefined;
    if (quoted !== undefined) texts.push(quoted.replace(/""|\\(["\\])/g, (mark, one?: string) => one ?? mark[0]!));
    else if (plain !== undefined) texts.push(plain.trim());
  }
  return texts;
}

/** @returns the messages that a prompt is the JSON of; undefined for a text */
function messagesIn(raw: string): Message[] | undefined {
  if (!raw.trimStart().startsWith("[")) return undefined;
  try {
    const value: unknown = JSON.parse(raw);
    const isList = Array.isArray(value) && value.every((one) => isObject(one) && typeof one["role"] === "string");
    return isList ? (value as Message[]) : undefined;
  } catch {
    return undefined;
  }
}
