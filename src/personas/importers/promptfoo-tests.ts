/** promptfoo's tests as a test file of a persona: the part of its vocabulary that is read here; the rest is listed. */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/schema-errors.ts";
import type { Omissions } from "./draft.ts";

type Prompt = {
  /** Of the persona. */
  readonly variables: readonly string[];
  /** The caller's turn as a template, and its variables; absent where the prompt has none. */
  readonly question: string | undefined;
  readonly asked: readonly string[];
};

/** Assertions that `troupe personas test` judges, each with `not-` before it too. */
const assertions = [
  ...[
    "equals",
    "contains",
    "icontains",
    "starts-with",
    "regex",
    "contains-all",
    "contains-any",
    "icontains-all",
    "icontains-any",
  ],
  ...[
    "is-json",
    "contains-json",
    "is-valid-openai-tools-call",
    "tool-call-f1",
    "trajectory:tool-used",
    "trajectory:tool-args-match",
  ],
  ...["finish-reason", "cost", "latency", "llm-rubric"],
];
const assertionKeys = ["type", "value", "threshold", "weight", "metric", "provider"];
const optionKeys = ["provider", "repeat", "passthrough", "disableVarExpansion", "disableDefaultAsserts"];
/** What a prompt without a turn of its own is asked. */
const opening = "Begin.";

/** @returns undefined where there are no tests */
export function testsOf(config: JsonObject, prompt: Prompt, omissions: Omissions): JsonObject | undefined {
  if (typeof config["tests"] === "string") omissions.add("tests", "names a file: put its tests in its place");
  const reader = new TestReader(prompt, omissions);
  const tests = listOf(config["tests"]).flatMap((test, at) => {
    if (isObject(test)) return reader.test(test, ["tests", at]);
    omissions.add(["tests", at], "names a file: put its tests in its place");
    return [];
  });
  if (tests.length === 0) return undefined;
  if (prompt.question === undefined)
    omissions.add("prompts", `has no message of the user's own: each test sends '${opening}'`);
  const defaultTest = objectOf(config["defaultTest"]);
  const common = defaultTest === undefined ? {} : reader.test(defaultTest, ["defaultTest"]);
  const evaluate = objectOf(config["evaluateOptions"]) ?? {};
  omissions.addRest(evaluate, ["repeat", "maxConcurrency"], ["evaluateOptions"]);
  const { repeat, maxConcurrency } = evaluate;
  const options = { ...(repeat !== undefined && { repeat }), ...(maxConcurrency !== undefined && { maxConcurrency }) };
  return {
    ...(textOf(config["description"]) !== undefined && { description: config["description"] }),
    prompts: [prompt.question ?? opening],
    ...(Object.keys(common).length > 0 && { defaultTest: common }),
    tests,
    ...(Object.keys(options).length > 0 && { evaluateOptions: options }),
  };
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
    const vars = this.#vars(test["vars"], JSON.stringify(asserted), [...path, "vars"]);
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
      else if (values.some((one) => typeof one === "object")) this.#omissions.add(place, "is no text");
      else vars[name] = Array.isArray(given) ? given.map(String) : String(given);
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
    if (!assertions.includes(type.replace(/^not-/, "")))
      return void omit(`${type.slice(0, 60)} is no assertion that is known here`);
    const text = JSON.stringify(value["value"] ?? "");
    if (text.includes("file://")) return void omit("names a file");
    if (/\{%|\{\{[^}]*\|/.test(text)) return void omit("has a template with filters or statements");
    for (const key of Object.keys(value)) {
      if (!assertionKeys.includes(key)) this.#omissions.add(formatPath([...path, key]), "has no place in a test here");
    }
    return pick(value, assertionKeys);
  }
}

const pick = (value: JsonObject, keys: readonly string[]): JsonObject =>
  Object.fromEntries(keys.flatMap((key) => (value[key] === undefined ? [] : [[key, value[key]]])));
