import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { PersonaFile, personaFileWith, personaJsonSchema } from "../../src/personas/file/schema.ts";
import { type Persona, parsePersona } from "../../src/personas/persona.ts";
import { optionSchemas } from "../../src/providers/options.ts";
import { providers } from "../../src/providers/registry.ts";

const options = optionSchemas(providers);
const schema = personaFileWith(options);

const file = "troupe/guide.yaml";
const least = "description: A guide.\nmodel: builtin/echo\nsystem: You guide.\n";

function personaOf(text: string, id = "troupe/guide"): Persona {
  const parsed = parsePersona(text, file, id, schema);
  if ("errors" in parsed) throw new Error(parsed.errors.map(formatDiagnostic).join("\n"));
  return parsed.persona;
}

function errorsOf(text: string, id = "troupe/guide"): string[] {
  const parsed = parsePersona(text, file, id, schema);
  return "errors" in parsed
    ? parsed.errors.map(formatDiagnostic).map((diagnostic) => diagnostic.replace(`${file}:`, ""))
    : [];
}

describe("fields", () => {
  test("the least that makes a persona, and what everything else is by default", () => {
    expect(personaOf(least)).toEqual({
      id: "troupe/guide",
      version: expect.any(String),
      description: "A guide.",
      ownedBy: "troupe",
      tier: "free",
      created: 1_795_219_200,
      targets: ["builtin/echo"],
      system: [{ text: "You guide." }],
      variables: new Map(),
      examples: [],
      defaults: {},
      limits: {},
      options: {},
      stop: [],
      tools: [],
    });
  });

  test("all of them", () => {
    const persona = personaOf(`
description: A guide.
owned_by: troupe
tier: pro
created: 2026-11-21T10:00:00Z
model: [openai/gpt-5.4-mini, openrouter/anthropic/claude-sonnet-5:thinking]
system: |
  Guide {{who}} in JSON.

variables:
  who: { description: Whom., default: Ann, enum: [Ann, Bob], max_length: 3 }
  # The next one is in a comment only.
examples:
  - { role: user, content: Where? }
  - role: assistant
    content: Looking.
    tool_calls:
      - { id: c1, type: function, function: { name: look, arguments: { at: [1, 2] } } }
      - { id: c2, function: { name: look, arguments: '{ "at": [] }' } }
  - { role: tool, tool_call_id: c2, content: there }
  - { role: tool, tool_call_id: c1, content: here }
  - { role: assistant, content: Here. }
defaults: { temperature: 0.3, top_p: 0.9, max_tokens: 10, presence_penalty: -1, frequency_penalty: 0, seed: 4, reasoning_effort: low, verbosity: high }
limits: { temperature: 1, top_p: 0.9, max_completion_tokens: 10, presence_penalty: 0, frequency_penalty: 2, reasoning_effort: medium, verbosity: high }
options:
  system_cache_control: { type: ephemeral, ttl: 1h }
  thinking_budget: -1
  include_thoughts: true
  use_responses_api: false
  tool_choice: auto
  some_other: { deep: [1] }
stop: [END, "\\n\\n"]
tools:
  - { type: function, function: { name: look, description: Looks., strict: true, parameters: { type: object, odd: 1 } } }
response_format: { type: json_object }
store: true
metadata: { team: a }
`);
    expect(persona).toEqual({
      id: "troupe/guide",
      version: expect.any(String),
      description: "A guide.",
      ownedBy: "troupe",
      tier: "pro",
      created: 1_795_255_200,
      targets: ["openai/gpt-5.4-mini", "openrouter/anthropic/claude-sonnet-5:thinking"],
      system: [{ text: "Guide " }, { variable: "who" }, { text: " in JSON." }],
      variables: new Map([
        ["who", { description: "Whom.", default: "Ann", enum: ["Ann", "Bob"], maxLength: 3, required: false }],
      ]),
      examples: [
        { role: "user", content: "Where?" },
        {
          role: "assistant",
          content: "Looking.",
          tool_calls: [
            { id: "c1", type: "function", function: { name: "look", arguments: '{"at":[1,2]}' } },
            { id: "c2", type: "function", function: { name: "look", arguments: '{ "at": [] }' } },
          ],
        },
        { role: "tool", tool_call_id: "c2", content: "there" },
        { role: "tool", tool_call_id: "c1", content: "here" },
        { role: "assistant", content: "Here." },
      ],
      defaults: {
        temperature: 0.3,
        top_p: 0.9,
        max_tokens: 10,
        presence_penalty: -1,
        frequency_penalty: 0,
        seed: 4,
        reasoning_effort: "low",
        verbosity: "high",
      },
      limits: {
        temperature: 1,
        top_p: 0.9,
        max_completion_tokens: 10,
        presence_penalty: 0,
        frequency_penalty: 2,
        reasoning_effort: "medium",
        verbosity: "high",
      },
      options: {
        system_cache_control: { type: "ephemeral", ttl: "1h" },
        thinking_budget: -1,
        include_thoughts: true,
        use_responses_api: false,
        tool_choice: "auto",
        some_other: { deep: [1] },
      },
      stop: ["END", "\n\n"],
      tools: [
        {
          type: "function",
          function: { name: "look", description: "Looks.", strict: true, parameters: { type: "object", odd: 1 } },
        },
      ],
      responseFormat: { type: "json_object" },
      store: true,
      metadata: { team: "a" },
    });
  });

  test("a stop may be one text, a date Unix seconds, a variable bare", () => {
    const persona = personaOf(
      `${least.replace("You guide.", '"Guide {{who}}."')}stop: END\ncreated: 12\nvariables: { who: {} }\n`,
    );
    expect(persona.stop).toEqual(["END"]);
    expect(persona.created).toBe(12);
    expect(persona.variables.get("who")).toEqual({ default: "", required: false, maxLength: 2000 });
  });

  test("a persona is frozen throughout: no call can change it for the next", () => {
    const persona = personaOf(`${least}options: { a: { b: [1] } }\n`);
    expect(() => Object.assign(persona.options["a"] as object, { b: 2 })).toThrow(TypeError);
    expect(() => (persona.targets as string[]).push("x/y")).toThrow(TypeError);
  });

  test("a mapping merged in by an anchor counts as written out", () => {
    const text = `${least}defaults: &d { temperature: 0.5 }\nlimits: { <<: *d, max_tokens: 9 }\n`;
    expect(personaOf(text).limits).toEqual({ temperature: 0.5, max_tokens: 9 });
  });
});

describe("names", () => {
  test.each(["a/b", "0/9", "a.b_c-d/x.y_z-0", `${"n".repeat(64)}/${"p".repeat(64)}`])("%s", (id) => {
    expect(personaOf(least, id)).toMatchObject({ id, ownedBy: id.split("/")[0]! });
  });

  const rule = "must be of lower-case letters, digits, '.', '_' and '-', and begin with a letter or digit";
  test.each([
    ["Troupe/guide", rule],
    ["troupe/Guide", rule],
    ["troupe/.guide", rule],
    ["troupe/-guide", rule],
    ["troupe/a b", rule],
    ["troupe/a/b", rule],
    ["troupe/é", rule],
    ["guide", rule],
    [`${"n".repeat(65)}/p`, "must have at most 64 characters"],
    [`n/${"p".repeat(65)}`, "must have at most 64 characters"],
  ])("%s is refused, the file named", (id, why) => {
    expect(parsePersona(least, file, id)).toEqual({
      errors: [{ file, line: 0, column: 0, path: "", message: `'${id}' can't name a persona: each part ${why}` }],
    });
  });
});

/** Each text follows the three lines of `least`, so it begins on line 4. */
const afterLeast: readonly [string, string[]][] = [
  ["temprature: 1", ["4:1: temprature: is not a known key"]],
  ["sistem: x", ["4:1: sistem: is not a known key; did you mean 'system'?"]],
  ["foo: 1", ["4:1: foo: is not a known key"]],
  ["owned_by: studio", ["4:11: owned_by: must be troupe, the namespace the file stands in"]],
  ["tier: gold", ['4:7: tier: must be one of "free", "pro", "enterprise"']],
  ["tier: Pro", ['4:7: tier: must be one of "free", "pro", "enterprise"']],
  [
    "created: 2026-02-30",
    ["4:10: created: must be a date such as 2026-11-21 or 2026-11-21T10:00:00Z, or Unix seconds"],
  ],
  ["created: 1795219200000", ["4:10: created: must be an integer from 0 to 9999999999"]],
  ["created: -1", ["4:10: created: must be an integer from 0 to 9999999999"]],
  ["created: yes", ["4:10: created: must be a date such as 2026-11-21 or 2026-11-21T10:00:00Z, or Unix seconds"]],
  ["created: [1]", ["4:10: created: must be an integer from 0 to 9999999999 or a string"]],
  ["store: yes", ["4:8: store: must be true or false"]],
  ["stop: []", ["4:7: stop: must not be empty"]],
  ["stop: [a, b, c, d, e]", ["4:7: stop: must have at most 4 items"]],
  ["stop: ''", ["4:7: stop: must not be empty"]],
  ["stop: 3", ["4:7: stop: must be a string or an array"]],
  ["variables:\n  who: {}", ["5:3: variables.who: is declared, but system does not use it"]],
  ["variables:\n  who:\n", ["5:7: variables.who: must be an object"]],
  [
    "variables: { 1st: {} }",
    ["4:14: variables[\"1st\"]: must be named by up to 64 letters, digits and '_', not beginning with a digit"],
  ],
  ["variables: []", ["4:12: variables: must be an object"]],
  ["defaults: { temprature: 1 }", ["4:13: defaults.temprature: is not a known key; did you mean 'temperature'?"]],
  ["defaults:\n  temperature: 2.5", ["5:16: defaults.temperature: must be a number from 0 to 2"]],
  ["defaults: { top_p: -0.1 }", ["4:20: defaults.top_p: must be a number from 0 to 1"]],
  ["defaults: { max_tokens: 0 }", ["4:25: defaults.max_tokens: must be an integer of at least 1"]],
  ["defaults: { max_tokens: 1.5 }", ["4:25: defaults.max_tokens: must be an integer of at least 1"]],
  [
    "limits: { reasoning_effort: extreme }",
    ['4:29: limits.reasoning_effort: must be one of "none", "minimal", "low", "medium", "high", "xhigh", "max"'],
  ],
  ["defaults: { verbosity: 1 }", ['4:24: defaults.verbosity: must be one of "low", "medium", "high"']],
  ["defaults: { temperature: }", ["4:26: defaults.temperature: must be a number from 0 to 2"]],
  ["defaults: { temperature: .nan }", ["4:26: .nan is no number that can be used"]],
  [
    "defaults: { max_tokens: 1, max_completion_tokens: 1 }",
    ["4:51: defaults.max_completion_tokens: stands beside max_tokens, which means the same: give one"],
  ],
  [
    "limits: { seed: 1 }",
    [
      "4:11: limits.seed: is not a known key; known here: temperature, top_p, max_tokens, max_completion_tokens, presence_penalty, frequency_penalty, reasoning_effort, verbosity",
    ],
  ],
  [
    "limits: { max_tokens: 1, max_completion_tokens: 1 }",
    ["4:49: limits.max_completion_tokens: stands beside max_tokens, which means the same: give one"],
  ],
  [
    "limits: { temperature: 0.5 }\ndefaults: { temperature: 0.6 }",
    ["5:26: defaults.temperature: must not be above its limit, 0.5"],
  ],
  [
    "limits: { max_completion_tokens: 5 }\ndefaults:\n  max_tokens: 6",
    ["6:15: defaults.max_tokens: must not be above its limit, 5"],
  ],
  [
    "limits: { reasoning_effort: low }\ndefaults: { reasoning_effort: high }",
    ["5:31: defaults.reasoning_effort: must not be above its limit, low"],
  ],
  [
    "limits: { verbosity: low }\ndefaults: { verbosity: medium }",
    ["5:24: defaults.verbosity: must not be above its limit, low"],
  ],
  ["options: { thinking_budget: much }", ["4:29: options.thinking_budget: must be an integer of at least -1"]],
  ["options: { thinking_budget: -2 }", ["4:29: options.thinking_budget: must be an integer of at least -1"]],
  [
    "options: { reasoning_summary: long }",
    ['4:31: options.reasoning_summary: must be one of "auto", "concise", "detailed"'],
  ],
  ["options: { include_thoughts: 1 }", ["4:30: options.include_thoughts: must be true or false"]],
  ["options: { use_responses_api: no }", ["4:31: options.use_responses_api: must be true or false"]],
  ["options: { system_cache_control: ephemeral }", ["4:34: options.system_cache_control: must be an object"]],
  [
    "options: { system_cache_control: { type: forever } }",
    ['4:42: options.system_cache_control.type: must be "ephemeral"'],
  ],
  [
    "options: { system_cache_control: { type: ephemeral, tll: 5m } }",
    ["4:53: options.system_cache_control.tll: is not a known key; did you mean 'ttl'?"],
  ],
  ["options: { temperature: 1 }", ["4:12: options.temperature: belongs in defaults"]],
  ["options: { stop: x }", ["4:12: options.stop: belongs at the top level of the file"]],
  ["options:\n  store: true", ["5:3: options.store: belongs at the top level of the file"]],
  ["options: { messages: [] }", ["4:12: options.messages: is the caller's to say"]],
  ["options: { stream: true }", ["4:12: options.stream: is the caller's to say"]],
  [
    "options: { tool_choice: maybe }",
    ['4:25: options.tool_choice: must be "none" or "auto" or "required" or an object'],
  ],
  ["options: { logit_bias: { '1': 101 } }", ['4:31: options.logit_bias["1"]: must be a number from -100 to 100']],
  ["options: []", ["4:10: options: must be an object"]],
  ["options: { extra_body: {} }", ["4:12: options.extra_body: is the caller's to say"]],
  [
    "tools: [{ type: function, function: { name: a b } }]",
    ["4:45: tools[0].function.name: must be 1 to 64 letters, digits, _ or -"],
  ],
  [
    "tools: [{ type: custom, custom: { name: a } }]",
    [
      "4:9: tools[0].function: is required",
      '4:17: tools[0].type: must be "function"',
      "4:25: tools[0].custom: is not a known key; known here: type, function",
    ],
  ],
  [
    "tools:\n  - type: function\n    function: { name: a, paramters: {} }",
    ["6:26: tools[0].function.paramters: is not a known key; did you mean 'parameters'?"],
  ],
  [
    "tools: [{ type: function, function: { name: a } }, { type: function, function: { name: a } }]",
    ["4:88: tools[1].function.name: repeats a"],
  ],
  [
    "tools: [{ type: function, function: { name: a, parameters: [] } }]",
    ["4:60: tools[0].function.parameters: must be an object"],
  ],
  ["tools: [{ function: { name: a } }]", ["4:9: tools[0].type: is required"]],
  [
    "response_format: { type: json_object }",
    ["4:18: response_format: needs the word JSON in system: upstreams refuse json_object without it"],
  ],
  [
    "response_format: { type: yaml }",
    ['4:26: response_format.type: must be one of "text", "json_object", "json_schema"'],
  ],
  ["response_format: { type: json_schema }", ["4:1: response_format.json_schema: is required"]],
  [
    "response_format: { type: json_schema, json_schema: { name: x, shema: {} } }",
    ["4:63: response_format.json_schema.shema: is not a known key; did you mean 'schema'?"],
  ],
  ["response_format: json_object", ["4:18: response_format: must be an object"]],
  ["metadata: { a: 1 }", ["4:16: metadata.a: must be a string"]],
  [
    "metadata: { kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk: v }",
    [
      "4:13: metadata.kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk: must be named by 1 to 64 characters",
    ],
  ],
  [
    "metadata: { a: vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv }",
    ["4:16: metadata.a: must have at most 512 characters"],
  ],
  [
    "metadata: { k0: v, k1: v, k2: v, k3: v, k4: v, k5: v, k6: v, k7: v, k8: v, k9: v, k10: v, k11: v, k12: v, k13: v, k14: v, k15: v, k16: v }",
    ["4:11: metadata: must have at most 16 entries"],
  ],
  ["examples: [{ role: system, content: x }]", ['4:20: examples[0].role: must be one of "user", "assistant", "tool"']],
  ["examples: [{ role: user }]", ["4:12: examples[0].content: is required"]],
  [
    "examples: [{ role: user, content: x, contnt: y }]",
    ["4:38: examples[0].contnt: is not a known key; did you mean 'content'?"],
  ],
  ["examples: [{ role: user, content: '' }]", ["4:35: examples[0].content: must not be empty"]],
  ["examples:\n  - { role: assistant, content: x }", ["5:13: examples[0].role: must be user here"]],
  ["examples: [{ role: user, content: x }]", ["4:12: examples[0]: must be followed by a turn of assistant"]],
  [
    "examples:\n  - { role: user, content: x }\n  - { role: user, content: y }",
    ["6:13: examples[1].role: must be assistant here"],
  ],
  [
    "examples:\n  - { role: user, content: x }\n  - { role: assistant }",
    ["6:5: examples[1]: must have content or tool_calls"],
  ],
  [
    "examples: [{ role: user, content: x, tool_calls: [] }]",
    ["4:38: examples[0].tool_calls: is not a known key; known here: role, content"],
  ],
  [
    "tools: [{ type: function, function: { name: f } }]\nexamples:\n  - { role: user, content: x }\n  - { role: assistant, tool_calls: [{ id: c, function: { name: g, arguments: '{' } }] }\n  - { role: tool, tool_call_id: d, content: y }",
    [
      "7:64: examples[1].tool_calls[0].function.name: must be one of this persona's tools",
      "7:78: examples[1].tool_calls[0].function.arguments: must be a mapping, or the JSON text of one",
      "8:33: examples[2].tool_call_id: must be c",
    ],
  ],
  [
    "tools: [{ type: function, function: { name: f } }]\nexamples:\n  - { role: user, content: x }\n  - { role: assistant, tool_calls: [{ id: c, function: { name: f, arguments: '[]' } }, { id: c, function: { name: f, arguments: {} } }] }\n  - { role: user, content: y }",
    [
      "7:78: examples[1].tool_calls[0].function.arguments: must be a mapping, or the JSON text of one",
      "7:94: examples[1].tool_calls[1].id: repeats c",
      "8:13: examples[2].role: must be tool here, to answer c",
    ],
  ],
  [
    "tools: [{ type: function, function: { name: f } }]\nexamples:\n  - { role: user, content: x }\n  - { role: assistant, tool_calls: [{ id: c, function: { name: f, arguments: {} } }] }\n  - { role: tool, tool_call_id: c, content: y }",
    ["8:5: examples[2]: must be followed by a turn of assistant"],
  ],
  [
    "tools: [{ type: function, function: { name: f } }]\nexamples:\n  - { role: user, content: x }\n  - { role: assistant, tool_calls: [{ id: c, function: { name: f, arguments: 5 } }] }",
    ["7:78: examples[1].tool_calls[0].function.arguments: must be a string or an object"],
  ],
  ["description: again", ["4:1: This key stands here for the second time"]],
  ["a: [", ["4:4: This [ is not closed"]],
  ["---\nb: 1", ["4:1: A second document begins here; there may be only one"]],
  ["x: *nothing", ["4:4: Nothing before this is named &nothing"]],
];

const whole: readonly [string, string[]][] = [
  ["", ["1:1: description: is required", "1:1: model: is required", "1:1: system: is required"]],
  ["[]", ["1:1: must be an object"]],
  ["description: x", ["1:1: model: is required", "1:1: system: is required"]],
  [
    "description: ''\nmodel: gpt-5\nsystem: ''",
    [
      "1:14: description: must not be empty",
      "2:8: model: must be <provider>/<model>, e.g. openai/gpt-5.4-mini",
      "3:9: system: must not be empty",
    ],
  ],
  ["description: A\nmodel: []\nsystem: x", ["2:8: model: must not be empty"]],
  [
    "description: A\nmodel: [a/b, OpenAI/x, a/b]\nsystem: x",
    ["2:14: model[1]: must be <provider>/<model>, e.g. openai/gpt-5.4-mini"],
  ],
  ["description: A\nmodel: 5\nsystem: x", ["2:8: model: must be a string or an array"]],
  ["description: A\nmodel: [a/b, c/d, a/b]\nsystem: x", ["2:19: model[2]: repeats a/b"]],
  [
    "description: A\nmodel: a/b\nsystem: |\n  Hello {{name}}, you\n  are {{ nmae }} {{two words}}.\nvariables:\n  name: {}\n  other:\n    default: x",
    [
      "5:7: system: uses {{nmae}}, which variables does not declare",
      "5:18: system: has '{{' without a variable's name; literal braces are written '\\{{'",
      "8:3: variables.other: is declared, but system does not use it",
    ],
  ],
  [
    'description: A\nmodel: a/b\nsystem: "a {{x}}\\n\\n {{y}}"',
    [
      "3:12: system: uses {{x}}, which variables does not declare",
      "3:22: system: uses {{y}}, which variables does not declare",
    ],
  ],
  [
    "description: A\nmodel: a/b\nsystem: >-\n\n  fold {{x}}\n  more {{y}}\nvariables: { x: {} }",
    ["6:8: system: uses {{y}}, which variables does not declare"],
  ],
  [
    "description: A\nmodel: a/b\nsystem: '{{x}}'\nvariables: { x: {} }",
    ["3:9: system: must say something beside its variables"],
  ],
  [
    "description: A\nmodel: a/b\nsystem: 'a {{x}}'\nvariables:\n  x: { required: true, default: a }",
    ["5:33: variables.x.default: can't be used: the variable is required"],
  ],
  [
    "description: A\nmodel: a/b\nsystem: 'a {{x}}'\nvariables:\n  x: { enum: [b], default: a }",
    ['5:28: variables.x.default: must be one of "b"'],
  ],
  [
    "description: A\nmodel: a/b\nsystem: 'a {{x}}'\nvariables:\n  x: { max_length: 1, default: ab }",
    ["5:32: variables.x.default: must have at most 1 characters"],
  ],
  [
    "description: A\nmodel: a/b\nsystem: 'a {{x}}'\nvariables:\n  x: { enum: [] }",
    ["5:14: variables.x.enum: must not be empty"],
  ],
  [
    "description: A\nmodel: a/b\nsystem: 'a {{x}}'\nvariables:\n  x: { defualt: a }",
    ["5:8: variables.x.defualt: is not a known key; did you mean 'default'?"],
  ],
  [
    "description: A\r\nmodel: a/b\r\nsystem: |\r\n  one\r\n  {{x}}\r\n",
    ["5:3: system: uses {{x}}, which variables does not declare"],
  ],
  [
    "description: &t 'Hi {{z}}'\nmodel: a/b\nsystem: *t\n",
    ["3:9: system: uses {{z}}, which variables does not declare"],
  ],
  [
    "description: A\nmodel: a/b\nsystem: a {{__proto__}}\n",
    ["3:11: system: uses {{__proto__}}, which variables does not declare"],
  ],
];

describe("errors", () => {
  test.each(afterLeast)("%s", (text, expected) => {
    expect(errorsOf(`${least}${text}\n`)).toEqual(expected);
  });

  test.each(whole)("%s", (text, expected) => {
    expect(errorsOf(text)).toEqual(expected);
  });
});

test("docs/persona.schema.json is the schema", () => {
  const kept = readFileSync(join(import.meta.dir, "../../docs/persona.schema.json"), "utf8");
  expect(JSON.parse(kept)).toEqual(personaJsonSchema(options));
  expect(Object.keys(personaJsonSchema(options)["properties"] as object)).toEqual(Object.keys(PersonaFile.properties));
});
