import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { parse } from "yaml";
import { formatDiagnostic } from "../../../src/lib/yaml/yaml.ts";
import { assertionTypes } from "../../../src/personas/suites/assertion-schema.ts";
import { graderFrom } from "../../../src/personas/suites/graders.ts";
import { testJsonSchema } from "../../../src/personas/suites/schema.ts";
import { requestOf, type TestSuite } from "../../../src/personas/suites/suite.ts";
import { parseTestFile, type TestFileOptions } from "../../../src/personas/suites/test-file.ts";

const persona = "acme/support";
const options: TestFileOptions = { persona, declared: new Set(["language"]) };

function suiteOf(text: string, given = options): TestSuite {
  const parsed = parseTestFile(text, "a.test.yaml", given);
  if ("errors" in parsed) throw new Error(parsed.errors.map(formatDiagnostic).join("\n"));
  return parsed.suite;
}

function errorsOf(text: string, given = options): string[] {
  const parsed = parseTestFile(text, "a.test.yaml", given);
  return "errors" in parsed ? parsed.errors.map(formatDiagnostic) : [];
}

describe("tests of a file", () => {
  test("have their prompts filled in, and the persona's variables beside them", () => {
    const { tests } = suiteOf(`
prompts: ["Question: {{question}}", {raw: '[{"role":"user","content":"Ask {{question}}"}]', label: chat}]
defaultTest: {vars: {language: German}}
tests:
  - description: parcel
    vars: {question: "Where \\"is\\" it?"}
`);
    expect(tests.map(({ name, messages }) => ({ name, messages }))).toEqual([
      { name: "parcel (prompt 1)", messages: [{ role: "user", content: 'Question: Where "is" it?' }] },
      { name: "parcel (chat)", messages: [{ role: "user", content: 'Ask Where "is" it?' }] },
    ]);
    expect(requestOf(tests[0]!, options.declared!)).toEqual({
      messages: [{ role: "user", content: 'Question: Where "is" it?' }],
      variables: { language: "German" },
    } as never);
  });

  test("are filled in by Nunjucks' rules, values that name others too, and null is empty", () => {
    const { tests } = suiteOf(`
prompts: ['{{a}} {{b}} \\{{c}}{# no #}{{- d }} {"x": {{n}}}']
tests:
  - vars: {a: "<{{b}}>", b: "({{c}} {{absent}} {{b}})", c: "deep", d: "{% if %}", n: null, w: "unused but {{a}}"}
    assert: [{type: equals, value: "{{w}}"}]
`);
    expect(tests[0]!.messages[0]!.content).toBe(
      '<(deep {{absent}} {{b}})> (deep {{absent}} {{b}}) \\deep{% if %} {"x": }',
    );
    expect(tests[0]!.assertions).toMatchObject([{ value: "unused but <(deep {{absent}} {{b}})>" }]);
  });

  test("may have lists and schemas as texts", () => {
    const { tests } = suiteOf(`
tests:
  - vars: {prompt: x, word: "y, z"}
    assert:
      - {type: contains-any, value: 'a, "b, ""c""" , {{word}},'}
      - {type: not-icontains-all, value: "one"}
      - {type: tool-call-f1, value: "find,  send "}
      - {type: contains-json, value: "{type: object, nullable: true}"}
`);
    expect(tests[0]!.assertions.map((one) => "value" in one && one.value)).toEqual([
      ["a", 'b, "c"', "y", "z"],
      ["one"],
      ["find", "send"],
      { type: "object", nullable: true },
    ]);
    const fault = (assertion: string) => errorsOf(`tests: [{vars: {prompt: x}, assert: [${assertion}]}]`)[0];
    expect(fault("{type: contains-any, value: ' , '}")).toContain("assert[0].value: lists nothing");
    expect(fault(`{type: contains-any, value: '"a'}`)).toContain("assert[0].value: has a quote without its end");
    expect(fault("{type: is-json, value: 'a b'}")).toContain("assert[0].value: is no JSON Schema");
    expect(fault("{type: 'not-similar:cosine', value: x}")).toContain(
      "'not-similar:cosine' is an assertion of promptfoo that is not evaluated here",
    );
  });

  test("ask {{prompt}} where the file has no prompts, or messages of their own", () => {
    const { tests } = suiteOf(`
tests:
  - vars: {prompt: "Hello\\n"}
  - vars: {who: Ada}
    messages: [{role: user, content: "I am {{who}}"}, {role: assistant, content: Hi}, {role: user, content: And?}]
`);
    expect(tests.map(({ name, messages }) => [name, messages])).toEqual([
      ["test 1", [{ role: "user", content: "Hello" }]],
      [
        "test 2",
        [
          { role: "user", content: "I am Ada" },
          { role: "assistant", content: "Hi" },
          { role: "user", content: "And?" },
        ],
      ],
    ]);
  });

  test("are one for each combination of lists of texts", () => {
    const { tests } = suiteOf(`
prompts: "{{a}}{{b}}{{c}}"
tests:
  - description: all
    vars: {a: [x, y], b: ["1", "2"], c: [3, 4]}
  - description: one
    vars: {a: [x, y], b: 1, c: true}
    options: {disableVarExpansion: true}
`);
    expect(tests.map(({ name, messages }) => `${name}: ${String(messages[0]!.content)}`)).toEqual([
      "all (a=x, b=1): x1[3,4]",
      "all (a=x, b=2): x2[3,4]",
      "all (a=y, b=1): y1[3,4]",
      "all (a=y, b=2): y2[3,4]",
      'one: ["x","y"]1true',
    ]);
  });

  test("have unique names", () => {
    const { tests } = suiteOf("prompts: Hi\ntests:\n- description: a\n- description: a\n- {}\n- description: a\n");
    expect(tests.map(({ name }) => name)).toEqual(["a", "a (2)", "test 3", "a (3)"]);
  });

  test("take over what every test has", () => {
    const { tests } = suiteOf(`
prompts: Hi
evaluateOptions: {repeat: 3, maxConcurrency: 2}
defaultTest:
  threshold: 0.5
  options: {provider: "openai:chat:gpt-5.4-mini", passthrough: {temperature: 0}}
  assert: [{type: is-json}]
tests:
  - assert: [{type: llm-rubric, value: "Answers in {{language}}", weight: 2, metric: tone}]
    vars: {language: German}
  - options: {repeat: 1, disableDefaultAsserts: true}
    threshold: 1
`);
    expect(tests).toMatchObject([
      {
        threshold: 0.5,
        repeat: 3,
        fields: { temperature: 0 },
        assertions: [
          { type: "is-json", line: 7, weight: 1 },
          {
            type: "llm-rubric",
            value: "Answers in German",
            line: 9,
            weight: 2,
            metric: "tone",
            grader: { model: "openai/gpt-5.4-mini" },
          },
        ],
      },
      { threshold: 1, repeat: 1, assertions: [] },
    ]);
  });

  test("have the grader that is given in place of theirs", () => {
    const { tests } = suiteOf("prompts: Hi\ntests:\n- assert: [{type: llm-rubric, value: Kind}]\n", {
      persona,
      grader: "google/gemini-3-flash",
    });
    expect(tests[0]!.assertions).toMatchObject([{ grader: { model: "google/gemini-3-flash" } }]);
  });
});

const faults: [text: string, errors: string[]][] = [
  ["tests: [", ["a.test.yaml:1:8: This [ is not closed"]],
  ["prompts: Hi\n", ["a.test.yaml:1:1: tests: is required"]],
  [
    "prompts: Hi\ntests:\n- assert:\n  - type: contians\n    value: x\n",
    ["a.test.yaml:4:11: tests[0].assert[0].type: 'contians' is no assertion; did you mean 'contains'?"],
  ],
  [
    "prompts: Hi\ntests:\n- assert:\n  - type: not-javascript\n    value: x\n",
    [
      "a.test.yaml:4:11: tests[0].assert[0].type: 'not-javascript' is an assertion of promptfoo that is not evaluated here",
    ],
  ],
  [
    "prompts: Hi\ndefaultTest:\n  assert:\n  - type: assert-set\n    assert:\n    - type: zzzzzzzz\ntests: [{}]\n",
    [
      expect.stringContaining(
        "a.test.yaml:6:13: defaultTest.assert[0].assert[0].type: 'zzzzzzzz' is no assertion; known here: equals, contains",
      ),
    ],
  ],
  [
    "prompts: Hi\ntests:\n- assert:\n  - type: contains\n    valu: x\n",
    [
      "a.test.yaml:4:5: tests[0].assert[0].value: is required",
      "a.test.yaml:5:5: tests[0].assert[0].valu: is not a known key; did you mean 'value'?",
    ],
  ],
  [
    "prompts: Hi\ntests:\n- assert:\n  - {type: cost, value: 3}\n",
    [
      "a.test.yaml:4:5: tests[0].assert[0].threshold: is required",
      "a.test.yaml:4:18: tests[0].assert[0].value: is not a known key; known here: type, threshold, weight, metric",
    ],
  ],
  [
    "prompts: Hi {{name}}\ntests:\n- vars: {nmae: x}\n",
    [
      "a.test.yaml:3:3: tests[0]: uses {{name}}, which vars does not have",
      "a.test.yaml:3:10: tests[0].vars.nmae: is used by nothing: it is no variable of acme/support; did you mean 'name'?",
    ],
  ],
  [
    "prompts: Hi {{name | upper}}\ntests: [{vars: {language: x}}]\n",
    ["a.test.yaml:2:9: tests[0]: has '{{' without a plain name; filters are not known here"],
  ],
  [
    "prompts: '{% if x %}'\ntests: [{}]\n",
    ["a.test.yaml:2:9: tests[0]: holds a statement ({% or {#); only {{name}} is filled in here"],
  ],
  [
    "prompts: Hi\ntests:\n- assert:\n  - type: regex\n    value: '('\n",
    [expect.stringMatching(/^a\.test\.yaml:5:12: tests\[0\]\.assert\[0\]\.value: is no regular expression: /)],
  ],
  [
    "prompts: Hi\ntests:\n- assert:\n  - type: llm-rubric\n    value: Kind\n",
    ["a.test.yaml:4:5: tests[0].assert[0]: names no model to grade it: add provider, here or in defaultTest.options"],
  ],
  [
    "prompts: Hi\ntests:\n- assert:\n  - {type: llm-rubric, value: Kind, provider: gpt}\n",
    ["a.test.yaml:4:47: tests[0].assert[0].provider: names no model, such as openai/gpt-5.4-mini"],
  ],
  [
    "prompts: Hi\ntests:\n- options:\n    passthrough:\n      stream: true\n",
    ["a.test.yaml:5:7: tests[0].options.passthrough.stream: is not for tests: an answer is judged whole"],
  ],
  [
    "prompts: Hi\ntests:\n- assert:\n  - type: trajectory:tool-used\n    value: {min: 1}\n",
    ["a.test.yaml:5:12: tests[0].assert[0].value: must have a name or a pattern"],
  ],
];

test.each(faults)("a fault is reported at its place: %j", (text, expected) => {
  expect(errorsOf(text)).toEqual(expected);
});

const graders: [given: Parameters<typeof graderFrom>[0], model: string | undefined][] = [
  ["openai/gpt-5.4-mini", "openai/gpt-5.4-mini"],
  ["openai:gpt-5.4-mini", "openai/gpt-5.4-mini"],
  ["openai:chat:gpt-5.4-mini", "openai/gpt-5.4-mini"],
  ["anthropic:messages:claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"],
  ["openrouter:meta-llama/llama-4", "openrouter/meta-llama/llama-4"],
  [
    { id: "openai:chat:google/gemini-3-flash", config: { apiBaseUrl: "http://127.0.0.1:8080/gateway/v1" } },
    "google/gemini-3-flash",
  ],
  ["gpt-5", undefined],
];

test.each(graders)("a grader's name: %j", (given, model) => {
  expect(graderFrom(given)?.model).toBe(model);
});

test("a grader's sampling is taken from its config", () => {
  expect(graderFrom({ id: "openai:gpt-5.4", config: { temperature: 0, max_tokens: 300, apiKeyEnvar: "X" } })).toEqual({
    model: "openai/gpt-5.4",
    fields: { temperature: 0, max_tokens: 300 },
  });
});

describe("the JSON Schema of test files", () => {
  const schema = testJsonSchema();

  test("is docs/persona-test.schema.json", () => {
    const kept = readFileSync(join(import.meta.dir, "../../../docs/persona-test.schema.json"), "utf8");
    expect(JSON.parse(kept)).toEqual(schema);
  });

  test("takes what the parser takes, and refuses an unknown assertion", () => {
    const validate = new Ajv({ strict: false }).compile(schema);
    const file = (type: string) => parse(`tests: [{assert: [{type: '${type}', value: x, threshold: 1}]}]`);
    expect(validate(parse("tests: [{assert: [{type: not-contains, value: x}]}]"))).toBe(true);
    expect(validate(file("contians"))).toBe(false);
  });

  test("knows every type", () => {
    const text = JSON.stringify(schema);
    expect(assertionTypes.filter((type) => !text.includes(`"const":"${type}"`))).toEqual([]);
  });
});
