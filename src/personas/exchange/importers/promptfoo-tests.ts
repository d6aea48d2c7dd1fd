/** promptfoo's tests as a test file of a persona: the part of its vocabulary that is read here; the rest is listed. */
import { exampleModels } from "../../../facts/examples.ts";
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../../lib/json/schema-errors.ts";
import { assertionNames } from "../../suites/assertion-schema.ts";
import { graderFrom } from "../../suites/graders.ts";
import { parseTestFile } from "../../suites/test-file.ts";
import { variableNamesIn } from "../../suites/vars.ts";
import type { Omissions } from "./draft.ts";
import { providerNamed } from "./models.ts";

type Prompt = {
  /** Of the persona. */
  readonly variables: readonly string[];
  /** The caller's turn as a template, and its variables; absent where the prompt has none. */
  readonly question: string | undefined;
  readonly asked: readonly string[];
};

const assertionKeys = ["type", "value", "threshold", "weight", "metric", "provider"];
const optionKeys = ["provider", "repeat", "passthrough", "disableVarExpansion", "disableDefaultAsserts"];
/** Who grades where nothing names a model: promptfoo takes one of OpenAI's. */
const usualGrader = `openai:chat:${exampleModels.openaiSmall}`;
/** What a prompt without a turn of its own is asked. */
const opening = "Begin.";

/** @returns undefined where there are no tests */
export function testsOf(config: JsonObject, prompt: Prompt, omissions: Omissions): JsonObject | undefined {
  if (typeof config["tests"] === "string") omissions.add("tests", "names a file: put its tests in its place");
  const reader = new TestReader(prompt, omissions);
  const tests = listOf(config["tests"]).flatMap((test, at): JsonObject[] => {
    if (isObject(test)) return [reader.test(test, ["tests", at])];
    omissions.add(["tests", at], "names a file: put its tests in its place");
    return [];
  });
  if (tests.length === 0) return undefined;
  if (prompt.question === undefined)
    omissions.add("prompts", `has no message of the user's own: each test sends '${opening}'`);
  const defaultTest = objectOf(config["defaultTest"]);
  if (typeof config["defaultTest"] === "string")
    omissions.add("defaultTest", "names a file: put its test in its place");
  const named = defaultTest === undefined ? {} : reader.test(defaultTest, ["defaultTest"]);
  const common = withGrader(named, tests, config, omissions);
  const evaluate = objectOf(config["evaluateOptions"]) ?? {};
  omissions.addRest(evaluate, ["repeat", "maxConcurrency"], ["evaluateOptions"]);
  const { repeat, maxConcurrency } = evaluate;
  const options = { ...(repeat !== undefined && { repeat }), ...(maxConcurrency !== undefined && { maxConcurrency }) };
  return {
    ...(textOf(config["description"]) !== undefined && { description: config["description"] }),
    prompts: [prompt.question ?? opening],
    ...(Object.keys(common).length > 0 && { defaultTest: common }),
    tests: tests.map((test) => withEmptyVars(test, common, prompt)),
    ...(Object.keys(options).length > 0 && { evaluateOptions: options }),
  };
}

/** Rubrics that name no grader get one of the file's own models, or the usual one. */
function withGrader(
  common: JsonObject,
  tests: readonly JsonObject[],
  config: JsonObject,
  omissions: Omissions,
): JsonObject {
  const options = objectOf(common["options"]) ?? {};
  if (options["provider"] !== undefined) return common;
  const lacks = (test: JsonObject) =>
    objectOf(test["options"])?.["provider"] === undefined &&
    rubricsIn(test["assert"]).some((one) => one["provider"] === undefined);
  if (![common, ...tests].some(lacks)) return common;
  const [first] = [config["providers"] ?? config["targets"] ?? []].flat();
  const id = textOf(first) ?? textOf(objectOf(first)?.["id"]);
  const isModel = id !== undefined && providerNamed(id.split(":")[0]!) !== undefined && graderFrom(id) !== undefined;
  const provider = isModel ? id : usualGrader;
  omissions.add("defaultTest.options.provider", `is named by nothing, and ${provider} grades`);
  return { ...common, options: { ...options, provider } };
}

const rubricsIn = (assertions: unknown): JsonObject[] =>
  listOf(assertions)
    .filter(isObject)
    .flatMap((one) => (/^(?:not-)?llm-rubric$/.test(textOf(one["type"]) ?? "") ? [one] : rubricsIn(one["assert"])));

/** A name that no variable has is empty there. */
function withEmptyVars(test: JsonObject, common: JsonObject, { question }: Prompt): JsonObject {
  const vars = objectOf(test["vars"]) ?? {};
  const known = { ...objectOf(common["vars"]), ...vars };
  const missing = [...variableNamesIn([question ?? "", common["assert"], test["assert"]])].filter(
    (name) => !Object.hasOwn(known, name),
  );
  if (missing.length === 0) return test;
  return { ...test, vars: { ...vars, ...Object.fromEntries(missing.map((name) => [name, ""])) } };
}

/** @returns what the checker says of an assertion; undefined where it takes it */
function assertionProblem(assertion: JsonObject): string | undefined {
  const file = {
    prompts: ["x"],
    tests: [
      {
        vars: Object.fromEntries([...variableNamesIn(assertion)].map((name) => [name, "x"])),
        options: { provider: usualGrader },
        assert: [assertion],
      },
    ],
  };
  const parsed = parseTestFile(JSON.stringify(file), "", { persona: "imported/x" });
  if (!("errors" in parsed)) return undefined;
  const [{ path, message } = { path: "", message: "is refused" }] = parsed.errors;
  const inside = path.replace(/^tests\[0\]\.assert\[0\]\.?/, "");
  return inside === "" ? message : `${inside} ${message}`;
}

class TestReader {
  readonly #prompt: Prompt;
  readonly #omissions: Omissions;

  constructor(prompt: Prompt, omissions: Omissions) {
    this.#prompt = prompt;
    this.#omissions = omissions;
  }

  test(test: JsonObject, path: readonly PathPart[]): JsonObject {
    this.#omissions.addRest(test, ["description", "vars", "assert", "threshold", "options", "metadata"], path);
    const asserted = listOf(test["assert"]).flatMap((one, at) => this.#assertion(one, [...path, "assert", at]) ?? []);
    const vars = this.#vars(test["vars"], JSON.stringify([asserted, test["vars"] ?? {}]), [...path, "vars"]);
    const options = objectOf(test["options"]) ?? {};
    this.#omissions.addRest(options, optionKeys, [...path, "options"]);
    const taken = Object.fromEntries(
      optionKeys.flatMap((key) => (options[key] === undefined ? [] : [[key, options[key]]])),
    );
    const { description, threshold, metadata } = test;
    return {
      ...(typeof description === "string" && description !== "" && { description }),
      ...(Object.keys(vars).length > 0 && { vars }),
      ...(asserted.length > 0 && { assert: asserted }),
      ...(typeof threshold === "number" && { threshold }),
      ...(Object.keys(taken).length > 0 && { options: taken }),
      ...(isObject(metadata) && { metadata }),
    };
  }

  /** @param asserted the test's assertions, which may use variables too */
  #vars(value: unknown, asserted: string, path: readonly PathPart[]): JsonObject {
    if (typeof value === "string") this.#omissions.add(path, "names a file");
    const vars: JsonObject = {};
    for (const [name, given] of Object.entries(objectOf(value) ?? {})) {
      const place = [...path, name];
      const isUsed =
        path[0] === "defaultTest" || this.#prompt.variables.includes(name) || this.#prompt.asked.includes(name);
      const isAsserted = new RegExp(`\\{\\{\\s*${RegExp.escape(name)}\\s*\\}\\}`).test(asserted);
      const values = [given].flat();
      if (!isUsed && !isAsserted) this.#omissions.add(place, "is not used by the prompt or an assertion");
      else if (values.some((one) => typeof one === "string" && one.startsWith("file://")))
        this.#omissions.add(place, "names a file");
      else if (values.some((one) => typeof one === "object" && one !== null)) this.#omissions.add(place, "is no text");
      else vars[name] = Array.isArray(given) ? given.map(textIn) : textIn(given);
    }
    return vars;
  }

  #assertion(value: unknown, path: readonly PathPart[]): JsonObject | undefined {
    const omit = (message: string) => this.#omissions.add(path, message);
    if (!isObject(value)) return void omit("is no assertion");
    const type = textOf(value["type"]) ?? "";
    if (type === "assert-set") {
      const inner = listOf(value["assert"]).flatMap((one, at) => this.#assertion(one, [...path, "assert", at]) ?? []);
      if (inner.length === 0) return void omit("has no assertion that is known here");
      return { ...pick(value, ["type", "threshold", "weight", "metric"]), assert: inner };
    }
    if (!assertionNames.includes(type.replace(/^not-/, "")))
      return void omit(`${type.slice(0, 60)} is no assertion that is known here`);
    const text = JSON.stringify(value["value"] ?? "");
    if (text.includes("file://")) return void omit("names a file");
    if (/\{%|\{\{[^}]*\|/.test(text)) return void omit("has a template with filters or statements");
    for (const key of Object.keys(value)) {
      if (!assertionKeys.includes(key)) this.#omissions.add(formatPath([...path, key]), "has no place in a test here");
    }
    // What is null is not there, but for a whole answer that has to be null.
    const isNull = value["value"] === null && !type.endsWith("equals");
    const made = pick(isNull ? { ...value, value: undefined } : value, assertionKeys);
    const problem = assertionProblem(made);
    return problem === undefined ? made : void omit(`${problem}: it is left out`);
  }
}

const textIn = (value: unknown): string => (value === null || value === undefined ? "" : String(value));

const pick = (value: JsonObject, keys: readonly string[]): JsonObject =>
  Object.fromEntries(keys.flatMap((key) => (value[key] === undefined ? [] : [[key, value[key]]])));
