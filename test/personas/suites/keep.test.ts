/** Requests that are put into test files. */
import { expect, test } from "bun:test";
import { type KeptRequest, keepAsTest } from "../../../src/personas/suites/keep.ts";
import { parseTestFile } from "../../../src/personas/suites/test-file.ts";
import type { Message } from "../../../src/protocols/chat/schema.ts";

const none: ReadonlySet<string> = new Set();
const request = (question: string, more: Partial<KeptRequest> = {}): KeptRequest => ({
  messages: [{ role: "user", content: question }],
  assert: [{ type: "contains", value: "blue" }],
  ...more,
});

function parsed(text: string, declared = none) {
  const made = parseTestFile(text, "x.test.yaml", { persona: "acme/x", declared });
  if ("errors" in made) throw new Error(JSON.stringify(made.errors));
  return made.suite.tests;
}

test("a new file asks by prompts, as one in promptfoo would", () => {
  const text = keepAsTest("", request("Why?", { variables: { language: "German" } }), new Set(["language"]));
  expect(text).toBe(`prompts: ["{{question}}"]
tests:
  - description: Why?
    vars:
      language: German
      question: Why?
    assert:
      - type: contains
        value: blue
`);
  expect(keepAsTest("# Ours.\n", request("Why?"), none)).toStartWith('# Ours.\nprompts: ["{{question}}"]\ntests:\n');
  // A variable of the persona has another meaning.
  expect(keepAsTest("", request("Why?"), new Set(["question"]))).not.toContain("prompts");
});

test("what a file holds stays as it was written, to the byte", () => {
  const text = `# Ours.   
prompts: ["{{q}}"]   # one
tests:
- vars: {q:   Hello}   # keep
  assert:
  - type: llm-rubric
    provider:   "builtin/echo"
    value: >
      folded
      here

  # The end of the tests.
evaluateOptions: { repeat: 2 }  # and after
`;
  const kept = keepAsTest(text, request("Why?"), none);
  const at = kept.indexOf("- description: Why?");
  const added = "- description: Why?\n  vars:\n    q: Why?\n  assert:\n    - type: contains\n      value: blue\n";
  expect(kept.slice(0, at) + kept.slice(at + added.length)).toBe(text);
  expect(kept.slice(at, at + added.length)).toBe(added);
  expect(parsed(kept)).toHaveLength(2);
  expect(parsed(keepAsTest(kept, request("And?"), none)).map(({ messages }) => messages[0]!.content)).toEqual([
    "Hello",
    "Why?",
    "And?",
  ]);
});

test("a list in brackets is written anew with its comments; a file that does not end with a line end gets one", () => {
  const kept = keepAsTest("# A.\ntests: [{ vars: { prompt: a }, assert: [] }] # B.", request("Why?"), none);
  expect(kept).toMatch(/^# A\.\ntests:\n[\s\S]*# B\./);
  expect(parsed(kept)).toHaveLength(2);
  expect(parsed(keepAsTest("tests:\n  - vars: { prompt: a }", request("Why?"), none))).toHaveLength(2);
});

test("conversations, fields and texts that look like templates are asked as they are", () => {
  const messages: Message[] = [
    { role: "user", content: "Say {{name}} and {% if %}" },
    { role: "assistant", content: "{# no #}" },
    { role: "user", content: [{ type: "text", text: "And \\{{now}}?" }] },
  ];
  const tools = [{ type: "function", function: { name: "f", description: "{{x}}" } }];
  const fields = { temperature: 0.5, tools, stream: true, model: "a/b", usage: { include: true } };
  const assert = [{ type: "contains-any", value: ["{{a}}", "b"] }];
  for (const before of ["", "prompts: [a, b]\ntests: []\n", "tests:\n  - vars: { prompt: x }\n"]) {
    const kept = keepAsTest(before, { messages, fields, assert }, none);
    const [last] = parsed(kept).slice(-1);
    expect(last).toMatchObject({ messages, fields: { temperature: 0.5, tools } });
    expect(Object.keys(last!.fields)).toEqual(["temperature", "tools"]);
    expect(last!.assertions).toMatchObject([{ type: "contains-any", value: ["{{a}}", "b"] }]);
  }
});
