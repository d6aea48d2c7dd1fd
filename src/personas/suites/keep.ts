/** Puts a request into a test file, as one more test: what the file holds stays as it was written. */
import { type Document, isMap, isSeq, parseDocument } from "yaml";
import { isObject, listOf } from "../../lib/json/json.ts";
import { type DetailKind, redacted } from "../../lib/text/redact.ts";
import { YamlSource } from "../../lib/yaml/yaml.ts";
import type { Message } from "../../protocols/chat/schema.ts";
import { writeYaml } from "../file/persona-yaml.ts";
import { reservedFields } from "./test-file.ts";

type Json = Readonly<Record<string, unknown>>;

/** A request of a persona, and what its answer has to be. */
export type KeptRequest = {
  readonly description?: string;
  readonly messages: readonly Message[];
  /** Those that the persona has not are left out, as of another that was asked. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Other fields of the request; those that a test can't have are left out. */
  readonly fields?: Json;
  readonly assert: readonly Json[];
};

const maxDescription = 100;
/** What a file without prompts asks. Source: docs/persona-tests.md */
const usualPrompt = "{{prompt}}";
const ownPrompt = "{{question}}";

/**
 * Texts that hold what templates would take for their own become values of variables, which are put in as they are.
 * @param vars gets them, by new names
 */
function literals(vars: Record<string, unknown>, taken: (name: string) => boolean) {
  const kept = (value: unknown): unknown => {
    if (typeof value === "string") {
      if (!/\{[{%#]/.test(value)) return value;
      let name = "text";
      for (let count = 2; Object.hasOwn(vars, name) || taken(name); count += 1) name = `text_${count}`;
      vars[name] = value;
      return `{{${name}}}`;
    }
    if (Array.isArray(value)) return value.map(kept);
    return isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, kept(one)])) : value;
  };
  return kept;
}

/** @returns the name that the one prompt of a file is; undefined: it asks otherwise */
function promptName(prompts: unknown): string | undefined {
  const [prompt, ...others] = [prompts ?? usualPrompt].flat();
  return others.length === 0 && typeof prompt === "string" ? /^\{\{ *(\w+) *\}\}$/.exec(prompt)?.[1] : undefined;
}

/** Whether texts of this value are filled in. */
const isFilled = (value: unknown) => typeof value === "string" || Array.isArray(value);

function testOf(request: KeptRequest, prompts: unknown, declared: ReadonlySet<string>): Json {
  const { description, messages, variables = {}, fields = {}, assert } = request;
  const vars: Record<string, unknown> = Object.fromEntries(
    Object.entries(variables).filter(([name]) => declared.has(name)),
  );
  const [{ role, content } = {}, ...more] = messages as readonly { role?: unknown; content?: unknown }[];
  const prompt = promptName(prompts);
  const isQuestion = more.length === 0 && role === "user" && typeof content === "string";
  const isAsked = isQuestion && prompt !== undefined && !declared.has(prompt);
  if (isAsked) vars[prompt] = content;
  const literal = literals(vars, (name) => declared.has(name));
  const passthrough = literal(
    Object.fromEntries(Object.entries(fields).filter(([name]) => !Object.hasOwn(reservedFields, name))),
  ) as Json;
  const asked = isAsked ? {} : { messages: literal(messages) };
  const judged = assert.map((one) => (isFilled(one["value"]) ? { ...one, value: literal(one["value"]) } : one));
  const words = description ?? (typeof content === "string" ? content.trim().split("\n")[0]! : "");
  return {
    ...(words !== "" && { description: words.slice(0, maxDescription).toWellFormed() }),
    ...(Object.keys(vars).length > 0 && { vars }),
    ...asked,
    ...(Object.keys(passthrough).length > 0 && { options: { passthrough } }),
    assert: judged,
  };
}

/** @param indent columns before the list's dashes */
function listed(test: Json, indent: number): string {
  const [, ...lines] = writeYaml({ tests: [test] }).split("\n");
  const space = " ".repeat(indent);
  return lines.map((line) => (line === "" ? "" : `${space}${line.slice(2)}`)).join("\n");
}

const lineEnd = (text: string) => (text === "" || text.endsWith("\n") ? "" : "\n");

/** The test below the others, in a text that is changed nowhere else; undefined where that can't be, as in a list within brackets. */
function inserted(text: string, document: Document.Parsed, test: Json): string | undefined {
  const { contents } = document;
  if (contents === null) return `${text}${lineEnd(text)}tests:\n${listed(test, 2)}`;
  if (!isMap(contents) || contents.flow) return undefined;
  const tests = contents.get("tests");
  if (tests === undefined) return `${text}${lineEnd(text)}tests:\n${listed(test, 2)}`;
  if (!isSeq(tests) || tests.flow || tests.items.length === 0 || !tests.range) return undefined;
  const [from, to] = tests.range;
  const before = text.slice(0, to);
  return `${before}${lineEnd(before)}${listed(test, from - text.lastIndexOf("\n", from - 1) - 1)}${text.slice(to)}`;
}

/** Writes the file anew, with its comments and order. */
function rewritten(document: Document.Parsed, test: Json): string {
  const { contents } = document;
  if (isMap(contents)) contents.flow = false;
  const tests = document.get("tests");
  if (isSeq(tests)) {
    tests.flow = false;
    tests.add(document.createNode(test));
  } else document.set("tests", document.createNode([test]));
  return document.toString({ lineWidth: 0 });
}

/**
 * @param text of the test file, without errors; empty, or of comments alone: there is none yet
 * @param declared names of the persona's variables
 * @param redact people's details that examples take the place of
 */
export function keepAsTest(
  text: string,
  request: KeptRequest,
  declared: ReadonlySet<string>,
  redact: readonly DetailKind[] = [],
): string {
  const isNew = (readYaml(text) ?? null) === null && !declared.has("question");
  const base = isNew ? `${text}${lineEnd(text)}prompts: ["${ownPrompt}"]\n` : text;
  const value = (readYaml(base) ?? {}) as Json;
  const test = testOf(redacted(request, redact), value["prompts"], declared);
  const expected = { ...value, tests: [...listOf(value["tests"]), test] };
  const document = parseDocument(base);
  const quick = inserted(base, document, test);
  const isRight = quick !== undefined && Bun.deepEquals(readYaml(quick), expected);
  return isRight ? quick : rewritten(document, test);
}

/** Takes a tenth of the time that the library's document takes. */
const readYaml = (text: string): unknown => new YamlSource(text, "").value;
