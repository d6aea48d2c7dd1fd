/** Formats that are text: what of each becomes which field, and what is refused or listed. Texts are our own, facts are the specifications'. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { importers, importFile } from "../../../../src/personas/exchange/importers/all.ts";
import type { Imported } from "../../../../src/personas/exchange/importers/draft.ts";
import { ImportError, ImportedFile } from "../../../../src/personas/exchange/importers/source.ts";
import { personaYaml } from "../../../../src/personas/file/persona-yaml.ts";
import type { PersonaContent } from "../../../../src/personas/file/schema.ts";
import { parsePersona } from "../../../../src/personas/persona.ts";
import { parseTestFile } from "../../../../src/personas/suites/test-file.ts";
import { runs } from "../../../helpers/long-form.ts";

const read = (text: string | object, name: string, format?: string) => {
  const bytes = Buffer.from(typeof text === "string" ? text : JSON.stringify(text));
  return importFile(new ImportedFile(name, bytes), format);
};

/** @returns the one persona, which passes the checker */
function one(text: string | object, name: string) {
  const { format, personas } = read(text, name);
  expect(personas).toHaveLength(1);
  const [{ draft, omitted, ...rest }] = personas as [(typeof personas)[0]];
  const content = { description: "x", model: "builtin/eliza", ...draft } as PersonaContent;
  const parsed = parsePersona(personaYaml(content), "acme/x.yaml", "acme/x");
  if ("errors" in parsed) throw new Error(JSON.stringify(parsed.errors));
  return {
    format,
    draft: draft as Record<string, unknown>,
    ...rest,
    omitted: omitted.map(({ place, message }) => `${place}: ${message}`),
  };
}

const refusal = (text: string | object, name: string, format?: string): string => {
  try {
    read(text, name, format);
  } catch (error) {
    if (error instanceof ImportError) return `${error.place}: ${error.message}`;
    throw error;
  }
  return "none";
};

describe("Modelfile", () => {
  const text = `# A sommelier
FROM llama3.2:3b
PARAMETER temperature 0.4
parameter num_predict 256
PARAMETER num_ctx 8192
PARAMETER stop "###"
PARAMETER stop <end>
TEMPLATE """{{ .System }}
{{ .Prompt }}"""
SYSTEM """
You are a sommelier.
Literal: {{ .Name }}
"""
MESSAGE user Red or white?
MESSAGE assistant "With fish:
white."
LICENSE MIT
`;

  test("is a persona of the model it is made from", () => {
    expect(one(text, "Modelfile")).toEqual({
      format: "modelfile",
      name: "llama3.2:3b",
      draft: {
        description: "llama3.2:3b, with a system text of its own.",
        model: ["ollama/llama3.2:3b"],
        system: "You are a sommelier.\nLiteral: \\{{ .Name }}",
        examples: [
          { role: "user", content: "Red or white?" },
          { role: "assistant", content: "With fish:\nwhite." },
        ],
        defaults: { temperature: 0.4, max_tokens: 256 },
        stop: ["###", "<end>"],
      },
      omitted: [
        "line 5: PARAMETER num_ctx is one of Ollama's own API: set it where the model is served",
        "line 8: TEMPLATE is the model's own form of prompts: whoever serves the model applies it",
        "line 17: LICENSE is the model's",
      ],
    });
  });

  test.each([
    ["FROM x\nSYSTEM a\nSPEED 9", "line 3: 'SPEED' is no command of a Modelfile"],
    ['FROM x\nSYSTEM """a\nb', 'line 2: has """ without its end'],
    ["FROM x\nPARAMETER temperature 1", ": has no SYSTEM: a persona is its system text"],
    ["FROM x\nSYSTEM a\nPARAMETER temperature hot", "line 3: PARAMETER temperature must be a number"],
    ["FROM x\nSYSTEM a\nMESSAGE robot hi", "line 3: MESSAGE must have a role: system, user or assistant"],
    ["FROM x\nSYSTEM a\nMESSAGE user hi", "line 3: MESSAGEs must be questions and answers in turn"],
  ])("%s is refused", (file, message) => {
    expect(refusal(file, "Modelfile")).toBe(message);
  });

  test("keeps blanks within texts, and numbers and texts in quotes", () => {
    const file =
      'FROM x\nSYSTEM """\n  - one  \n\ttwo \n\n"""  \nPARAMETER temperature "0.5"\nPARAMETER stop " #"\nPARAMETER stop ""\nMESSAGE user """ a "b"  \nc"""\nMESSAGE assistant d  \n';
    const { draft } = one(file, "Modelfile");
    expect(draft).toMatchObject({
      system: "  - one  \n\ttwo",
      defaults: { temperature: 0.5 },
      stop: [" #"],
      examples: [
        { role: "user", content: ' a "b"  \nc' },
        { role: "assistant", content: "d" },
      ],
    });
  });

  test("says where Ollama leaves characters out", () => {
    expect(one("FROM x\nSYSTEM a\u00a0b \u{1f468}\u200d\u{1f469}", "Modelfile").omitted).toEqual([
      "line 2: SYSTEM has characters that Ollama leaves out, such as U+00A0: they are kept here",
    ]);
    expect(refusal("SYSTEM a", "my.Modelfile")).toBe(": has no FROM: it is no Modelfile");
  });

  test("may be UTF-16, as Windows' editors write it", () => {
    for (const isLittle of [true, false]) {
      const bytes = Buffer.from("\ufeffFROM llama3.2\r\nSYSTEM Grüß dich\r\n", "utf16le");
      const { personas, format } = importFile(new ImportedFile("Modelfile", isLittle ? bytes : bytes.swap16()));
      expect([format, personas[0]!.draft.system]).toEqual(["modelfile", "Grüß dich"]);
    }
  });

  test("of weights in files names no model, and says so", () => {
    const { draft, omitted } = one("FROM ./weights.gguf\nADAPTER ./lora.bin\nSYSTEM hi there", "Modelfile");
    expect(draft).toEqual({ system: "hi there" });
    expect(omitted).toHaveLength(2);
  });
});

describe("Dotprompt", () => {
  const text = `---
name: menu
description: Suggests a dish.
model: googleai/gemini-2.5-flash
version: "3"
config:
  temperature: 0.9
  maxOutputTokens: 200
  topK: 4
  stopSequences: [END]
input:
  schema:
    theme: string, the restaurant's theme
    mood?(enum, how it feels): [calm, loud]
    guests?: integer
  default:
    theme: harbour
output:
  schema:
    dish: string
    price?: number, in euros
    tags(array): string
toolDefs:
  - name: stock
    description: What is left.
    inputSchema:
      item: string
---
{{! A comment. }}
{{role "system"}}
You write menus for a {{theme}} place. Mood: {{~mood}}. Literal \\{{braces}}.
{{role "user"}}
Something warm?
{{role "model"}}
Soup.
{{history}}
{{role "user"}}
{{request}}
`;

  test("is a persona with variables, examples and an answer's schema", () => {
    expect(one(text, "menu.prompt")).toEqual({
      format: "dotprompt",
      name: "menu",
      draft: {
        description: "Suggests a dish.",
        model: ["google/gemini-2.5-flash"],
        system: "You write menus for a {{theme}} place. Mood:{{mood}}. Literal \\{{braces}}.",
        variables: {
          theme: { description: "the restaurant's theme", default: "harbour" },
          mood: { description: "how it feels", enum: ["calm", "loud"], required: true },
        },
        examples: [
          { role: "user", content: "Something warm?" },
          { role: "assistant", content: "Soup." },
        ],
        defaults: { temperature: 0.9, max_tokens: 200 },
        stop: ["END"],
        tools: [
          {
            type: "function",
            function: {
              name: "stock",
              description: "What is left.",
              parameters: {
                type: "object",
                properties: { item: { type: "string" } },
                required: ["item"],
                additionalProperties: false,
              },
            },
          },
        ],
        response_format: {
          type: "json_schema",
          json_schema: {
            name: "menu",
            schema: {
              type: "object",
              properties: {
                dish: { type: "string" },
                price: { type: ["number", "null"], description: "in euros" },
                tags: { type: "array", items: { type: "string" } },
              },
              required: ["dish", "tags"],
              additionalProperties: false,
            },
          },
        },
      },
      omitted: [
        "version: has no place in a persona",
        "line 37: {{request}} is the message that callers send, and no variable",
        "config.topK: is no default of personas",
        "input.guests: is not used by the system text",
      ],
    });
  });

  // The cases of the specification's spec/variables.yaml: one template, with and without a default.
  test.each([
    ["Hello, {{name}}!\n", { name: {} }],
    ["---\ninput: {default: {name: User}}\n---\nHello, {{name}}!\n", { name: { default: "User" } }],
  ])("a prompt without roles is the system text: %s", (file, variables) => {
    const { draft, omitted } = one(file, "hello.prompt");
    expect(draft).toEqual({ system: "Hello, {{name}}!", variables });
    expect(omitted).toEqual([
      expect.stringMatching(/^line \d+: is the system text here: callers may send a message of their own$/),
    ]);
  });

  test.each([
    ["Hi\n{{#if x}}a{{/if}}", "line 2: {{#if x}}"],
    ["{{#each xs}}{{this}}{{/each}}", "line 1: {{#each xs}}"],
    ["---\nname: x\n---\na\n{{> header x=1}}", "line 5: {{> header x=1}}"],
    ["{{media url=photo}}", "line 1: {{media url=photo}}"],
    ["{{person.name}}", "line 1: {{person.name}}"],
    ["{{json data}}", "line 1: {{json data}}"],
    ["{{@state.x}}", "line 1: {{@state.x}}"],
    ["{{role 'system'}}a{{role 'user'}}b {{c}}{{role 'model'}}d", "line 1: an example can't hold the variable {{c}}"],
    ["{{role 'tool'}}a", "line 1: has the role 'tool'"],
    ["{{role 'system'}}a\n{{role 'model'}}b", "line 2: begins the answer"],
    ["a {% if x %}b{% endif %}", "line 1: '{%' is a statement of Jinja: this is no Dotprompt"],
    ["temperature: 0.5\n---\n<system>Be brief.</system>", "line 2: '---' ends settings that no '---' begins"],
    ["{{json}}", "line 1: {{json}} can't be said"],
    ["---\nmodel: [\n---\na", "line 2"],
    ["{{x}}", "line 1: has no text beside the caller's"],
  ])("%s is refused with its line", (file, message) => {
    expect(refusal(file, "x.prompt")).toStartWith(message);
  });
});

describe("Dotprompt's files", () => {
  const licence = "# Copyright 2026\n#\n\n# SPDX: MIT\n\n";

  test("may have lines of # and empty ones above their fields", () => {
    const { draft, omitted } = one(`${licence}---\nmodel: googleai/gemini-3.5-flash\n---\nHello {{name}}`, "a.prompt");
    expect(draft).toEqual({ model: ["google/gemini-3.5-flash"], system: "Hello {{name}}", variables: { name: {} } });
    expect(omitted).toEqual(["line 9: is the system text here: callers may send a message of their own"]);
    expect(refusal(`${licence}---\nmodel: [\n---\na`, "a.prompt")).toStartWith("line 7");
  });

  test("name schemas that stand in a program: these are listed", () => {
    const { draft, omitted } = one(
      "---\ninput: {schema: Order}\noutput:\n  schema:\n    items(array): Dish\n---\n{{role 'system'}}Serve {{guest}}.",
      "a.prompt",
    );
    expect(draft).toMatchObject({
      variables: { guest: {} },
      response_format: { json_schema: { schema: { properties: { items: { type: "array", items: {} } } } } },
    });
    expect(omitted).toEqual([
      "input.schema: 'Order' is a schema that this file does not hold",
      "output.schema.items: 'Dish' is a schema that this file does not hold: anything fits it here",
    ]);
    const named = one("---\noutput: {schema: Recipe}\n---\na b", "a.prompt");
    expect(named.draft["response_format"]).toBeUndefined();
    expect(named.omitted).toContain("output.schema: 'Recipe' is a schema that this file does not hold");
  });

  test("take partials from beside them, and say which are not there", () => {
    const beside = (path: string) => (path === "parts/_style.prompt" ? Buffer.from("Be {{tone}}.\r\n") : undefined);
    const text = Buffer.from("{{role 'system'}}\nYou cook.\n{{> parts/style}}\n{{>end}}\nBye.");
    const [{ draft, omitted }] = importFile(new ImportedFile("a.prompt", text, beside)).personas as [Imported];
    expect(draft).toMatchObject({ system: "You cook.\nBe {{tone}}.\nBye.", variables: { tone: {} } });
    expect(omitted).toEqual([
      { place: "line 4", message: "{{>end}} is left out: there is no _end.prompt beside this file" },
    ]);
  });
});

describe("the ending decides before the text", () => {
  const subagent = (fields: string, body: string) => `---\nname: a\ndescription: b\n${fields}---\n${body}`;
  test.each([
    ["a.prompty", "---\nname: x\ninputs: {history: {kind: thread}}\n---\nsystem:\nBe kind.\n{{history}}\n", "prompty"],
    ["a.md", subagent("", "Write YAML:\n```\nuser:\n  name: x\n```\n"), "claude-subagent"],
    ["a.md", subagent("output: text\ninput: {}\n", "{{role 'user'}} {{#if x}}"), "claude-subagent"],
    ["a.markdown", subagent("template: x\n", "system:\nx"), "claude-subagent"],
    ["a.prompt", subagent("", "Hello."), "dotprompt"],
    ["a.prompty", subagent("input: {}\n", "Hello {{name}}."), "prompty"],
    ["a", subagent("", "Hello."), "claude-subagent"],
    ["a.txt", "---\nname: a\n---\nuser:\nHello.", "prompty"],
  ])("%s: %j is %s", (name, text, format) => {
    expect(one(text, name).format).toBe(format);
  });

  test("a subagent's text stays as it is", () => {
    const { draft } = one(subagent("", "Write:\nuser:\n{{name}} {% if %} {{> x}}"), "a.md");
    expect(draft["system"]).toBe("Write:\nuser:\n\\{{name}} {% if %} \\{{> x}}");
  });
});

describe("Prompty", () => {
  test("of the first version", () => {
    const text = `---
name: Support
description: Answers customers.
authors: [ana]
model:
  api: chat
  configuration:
    type: azure_openai
    azure_endpoint: \${env:ENDPOINT}
    azure_deployment: gpt-4o
  parameters:
    max_tokens: 300
    temperature: 0.2
    n: 2
inputs:
  firstName: {type: string, description: The customer's first name.}
  shop: Acme
  question: {type: string}
sample:
  firstName: Jo
---
system:
# Who you are
You serve {{firstName}} at {{ shop }}.

user:
Hello?

assistant:
How can I help?

user:
{{question}}
`;
    expect(one(text, "support.prompty")).toEqual({
      format: "prompty",
      name: "Support",
      draft: {
        description: "Answers customers.",
        model: ["azure/gpt-4o"],
        system: "# Who you are\nYou serve {{firstName}} at {{shop}}.",
        variables: { firstName: { description: "The customer's first name." }, shop: { default: "Acme" } },
        examples: [
          { role: "user", content: "Hello?" },
          { role: "assistant", content: "How can I help?" },
        ],
        defaults: { max_tokens: 300, temperature: 0.2 },
      },
      omitted: [
        "authors: has no place in a persona",
        "sample: has no place in a persona",
        "line 33: {{question}} is the message that callers send, and no variable",
        "model.configuration: says where and by which key: that is in the configuration here, under providers",
        "model.parameters.n: is no default of personas",
        "inputs.question: is not used by the system text",
      ],
    });
  });

  test("of the second version", () => {
    const text = `---
name: greeting
model:
  id: gpt-4o-mini
  provider: openai
  apiType: chat
  connection: {kind: key, apiKey: "\${env:OPENAI_API_KEY}"}
  options: {temperature: 0.5, maxOutputTokens: 90}
inputs:
  - {name: name, kind: string, default: World}
  - {name: talk, kind: thread}
outputs:
  - {name: mood, kind: string, enum: [good, bad]}
  - {name: score, kind: float, required: false}
tools:
  - name: find
    kind: function
    description: Finds.
    parameters:
      - {name: what, kind: string}
  - {name: search, kind: bing}
template: {format: {kind: jinja2}, parser: {kind: prompty}}
---
system:
Greet {{name}}. {# nobody sees this #}
{{talk}}
`;
    const { format, draft, omitted } = one(text, "greeting.md");
    expect(format).toBe("prompty");
    expect(draft).toMatchObject({
      model: ["openai/gpt-4o-mini"],
      system: "Greet {{name}}.",
      variables: { name: { default: "World" } },
      defaults: { temperature: 0.5, max_tokens: 90 },
      tools: [
        { function: { name: "find", parameters: { properties: { what: { type: "string" } }, required: ["what"] } } },
      ],
      response_format: {
        json_schema: {
          name: "greeting",
          schema: {
            properties: { mood: { type: "string", enum: ["good", "bad"] }, score: { type: "number" } },
            required: ["mood"],
          },
        },
      },
    });
    expect(omitted).toContain("inputs.talk: is the conversation, which stands behind the system text and the examples");
    expect(omitted).toContain("tools[1]: is no function with parameters of its own");
    expect(omitted.join()).not.toContain("OPENAI_API_KEY");
  });

  test.each([
    ["---\nname: a\n---\nsystem:\nx\n{% for a in b %}", "line 6: {% for a in b %}"],
    ["---\nname: a\n---\nsystem:\n{{ name | upper }}", "line 5: {{ name | upper }}"],
    ["---\nname: a\n---\nsystem:\n{{#items}}x{{/items}}", "line 5: {{#items}}"],
    [
      "---\nname: a\nmodel: {apiType: embedding}\n---\nsystem:\nx",
      "model.apiType: is embedding: a persona answers in text",
    ],
    ["---\nname: a\nmodel: {api: chat}\n---\nsystem:\nx\ntool:\ny", "line 8: is a tool's result"],
    ["---\nname: a", "line 1: begins fields that no line '---' ends"],
    ["---\nname: a\ntemplate: {format: handlebars}\n---\nx", "template: is of handlebars, which is not read here"],
  ])("%s is refused", (file, message) => {
    expect(refusal(file, "x.prompty", "prompty")).toStartWith(message);
  });
});

describe("Prompty's files", () => {
  const of = (fields: string, body: string) => one(`---\nname: a\n${fields}---\n${body}`, "a.prompty");

  test("have headings as roles; tool: is text in the second version", () => {
    const { draft } = of("", "# system:\nBe brief.\ntool:\nfunction:\n  # user :\nHi\nassistant:\nHo\n");
    expect(draft).toMatchObject({
      system: "Be brief.\ntool:\nfunction:",
      examples: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Ho" },
      ],
    });
    expect(of("", 'system[name="x"]:\nBe brief.').omitted).toEqual(['line 4: [name="x"] is left out']);
  });

  test("keep their braces", () => {
    const { draft } = of("", 'system:\nAnswer as {"answer": {{answer}}} only.');
    expect(draft["system"]).toBe('Answer as {"answer": {{answer}}} only.');
  });

  test("of Mustache say that values are escaped there", () => {
    const { draft, omitted } = of(
      "template: {format: {kind: mustache}}\n",
      "system:\n{{! no }}\nHi {{a}} {{{b}}} \\{{c}}.",
    );
    expect(draft["system"]).toBe('Hi {{a}} {{b}} {{"\\\\"}}{{c}}.');
    expect(omitted).toEqual(["line 6: {{a}}, {{c}}: values are escaped for HTML there, and stand as they are here"]);
  });

  test("may be text alone", () => {
    expect(one("You are {{name}}.\nBe brief.", "a.prompty").draft["system"]).toBe("You are {{name}}.\nBe brief.");
  });

  test("list what they name and do not hold", () => {
    const beside = (path: string) => (path === "shop.txt" ? Buffer.from("Acme") : undefined);
    const text = `---
name: a
model: my-deployment
inputs:
  shop: {kind: string, default: "\${file:shop.txt}"}
  city: {kind: string, default: "\${file:city.txt}"}
  tone: {kind: string, default: "\${env:TONE:calm}"}
  user: {kind: string, default: "\${env:USER_NAME}"}
---
system:
{{shop}} {{city}} {{tone}} {{user}} sells kettles.`;
    const [{ draft, omitted }] = importFile(new ImportedFile("a.prompty", Buffer.from(text), beside)).personas as [
      Imported,
    ];
    expect(draft.variables).toEqual({ shop: { default: "Acme" }, city: {}, tone: { default: "calm" }, user: {} });
    expect(draft.model).toBeUndefined();
    expect(omitted).toEqual([
      { place: "inputs.city.default", message: "names city.txt, which is not beside it" },
      { place: "inputs.user.default", message: "is a variable of the environment" },
      { place: "model", message: "is of no provider that is known here: --model names one" },
    ]);
  });

  test("carry response_format of their parameters", () => {
    const { draft, omitted } = of(
      "model: {api: chat, parameters: {response_format: {type: json_object}}}\n",
      "system:\nx as JSON",
    );
    expect(draft["response_format"]).toEqual({ type: "json_object" });
    expect(omitted).toEqual([]);
  });
});

describe("Claude Code's subagents", () => {
  test("may have a colon in a description", () => {
    const text =
      '---\nname: a\ndescription: Use it so: after changes. Say "done": always.\ntools: Read\n---\nBe brief.';
    expect(one(text, "a.md").draft["description"]).toBe('Use it so: after changes. Say "done": always.');
    expect(refusal("---\nname: a\ndescription: [\n---\nx", "a.md")).toStartWith("line 3");
  });

  test("carry their name, description, model and text", () => {
    const text =
      "---\nname: reviewer\ndescription: Reviews code. Use it after changes.\ntools: Read, Grep\nmodel: sonnet\ncolor: blue\n---\n\nYou review {{code}}.\n";
    expect(one(text, "reviewer.md")).toEqual({
      format: "claude-subagent",
      name: "reviewer",
      draft: {
        description: "Reviews code. Use it after changes.",
        model: ["anthropic/claude-sonnet-5"],
        system: "You review \\{{code}}.",
      },
      omitted: [
        "tools: is for Claude Code: a persona has no place for it",
        "color: is for Claude Code: a persona has no place for it",
      ],
    });
  });

  test("say that a description of several paragraphs is cut", () => {
    const { draft, omitted } = one(
      "---\nname: a\ndescription: |\n  Reviews\n  code.\n\n  <example>x</example>\n---\nBe brief.",
      "a.md",
    );
    expect(draft["description"]).toBe("Reviews code.");
    expect(omitted).toEqual(["description: is cut to its first paragraph, of at most 1000 characters"]);
  });

  test("without a text are refused", () => {
    expect(refusal("---\nname: a\ndescription: b\n---\n", "a.md")).toBe(
      "line 5: has no text: a persona is its system text",
    );
  });
});

describe("Open WebUI's models", () => {
  const row = {
    id: "sous-chef",
    base_model_id: "llama3.2:3b",
    name: "Sous Chef",
    params: { system: "You cook with {{USER_NAME}}. {% raw %}", temperature: 0.3, num_ctx: 4096, stop: ["END"] },
    meta: {
      description: "Helps in the kitchen.",
      profile_image_url: "data:image/png;base64,iVBORw0KGgo=",
      tags: [{ name: "food" }],
      toolIds: ["timer"],
      capabilities: { vision: false },
    },
    access_control: null,
    created_at: 1,
  };

  test("are personas where they have a base model", () => {
    const { personas, format } = read(
      [
        { ...row, id: "plain", base_model_id: null },
        { ...row, params: { ...row.params, system: "You cook with {{USER_NAME}}." } },
      ],
      "models.json",
    );
    expect(format).toBe("open-webui");
    expect(personas).toEqual([
      {
        name: "Sous Chef",
        avatar: { extension: "png", bytes: Uint8Array.fromBase64("iVBORw0KGgo=") },
        draft: {
          description: "Helps in the kitchen.",
          tags: ["food"],
          model: ["ollama/llama3.2:3b"],
          system: "You cook with {{USER_NAME}}.",
          variables: { USER_NAME: {} },
          defaults: { temperature: 0.3 },
          stop: ["END"],
        },
        omitted: [
          { place: "[0].base_model_id", message: "is null: a model itself, and no persona" },
          { place: "[1].params.num_ctx", message: "is no default of personas" },
          { place: "[1].meta.toolIds", message: "has no place in a persona" },
          { place: "[1].meta.capabilities", message: "has no place in a persona" },
          {
            place: "[1].params.system",
            message: "{{USER_NAME}} is filled in by Open WebUI there, and by callers here",
          },
        ],
      },
    ]);
  });

  test("without a prompt, or without any persona, are refused", () => {
    expect(refusal([{ ...row, params: {} }], "m.json")).toBe(
      "[0].params.system: is empty: a persona is its system text",
    );
    expect(refusal([{ ...row, base_model_id: null }], "m.json")).toStartWith(": has no model with a base_model_id");
  });
});

describe("LibreChat's presets", () => {
  test("have variables where LibreChat fills something in, and nowhere else", () => {
    const { draft, omitted } = one(
      { presetId: "1", endpoint: "openAI", model: "gpt-5.4", promptPrefix: "Today is {{current_date}}, {{name}}." },
      "p.json",
    );
    expect(draft).toMatchObject({
      system: "Today is {{current_date}}, \\{{name}}.",
      variables: { current_date: {} },
    });
    expect(omitted).toEqual(["promptPrefix: {{current_date}} is filled in by LibreChat there, and by callers here"]);
  });

  test("carry their prompt, settings and examples", () => {
    const preset = {
      presetId: "1",
      title: "Tax Helper",
      endpoint: "anthropic",
      model: "claude-sonnet-5",
      promptPrefix: "You explain taxes.",
      temperature: 0.2,
      maxOutputTokens: 800,
      thinkingBudget: 2000,
      promptCache: true,
      greeting: "Which form?",
      iconURL: "https://example.com/a.png",
      examples: [
        { input: { content: "VAT?" }, output: { content: "A tax on sales." } },
        { input: { content: "" }, output: { content: "" } },
      ],
      tools: ["calculator"],
      web_search: true,
    };
    expect(one(preset, "preset.json")).toEqual({
      format: "librechat",
      name: "Tax Helper",
      draft: {
        description: "Tax Helper",
        model: ["anthropic/claude-sonnet-5"],
        avatar: "https://example.com/a.png",
        greeting: "Which form?",
        system: "You explain taxes.",
        examples: [
          { role: "user", content: "VAT?" },
          { role: "assistant", content: "A tax on sales." },
        ],
        defaults: { temperature: 0.2, max_tokens: 800 },
        options: { thinking_budget: 2000, system_cache_control: { type: "ephemeral" } },
      },
      omitted: ["tools: has no place in a persona", "web_search: has no place in a persona"],
    });
    expect(refusal({ ...preset, promptPrefix: null }, "p.json")).toBe(
      "promptPrefix: is empty: a persona is its system text",
    );
  });
});

describe("OpenAI's prompt objects", () => {
  const prompt = {
    id: "pmpt_123abc",
    object: "prompt",
    name: "Support reply",
    version: "3",
    model: "gpt-5.1",
    instructions: "You are a support assistant of {{company}}.",
    messages: [
      { role: "user", content: [{ type: "input_text", text: "Customer: {{customer_name}}\nIssue: {{issue}}" }] },
    ],
    variables: { company: "Acme", issue: null },
    reasoning: { effort: "low", summary: "auto" },
    text: {
      format: { type: "json_schema", name: "reply", strict: true, schema: { type: "object", properties: {} } },
      verbosity: "low",
    },
    max_output_tokens: 500,
    tools: [{ type: "function", name: "lookup", parameters: { type: "object" }, strict: true }, { type: "web_search" }],
  };

  test("answer their ids, with all their text", () => {
    const { personas, format } = read(prompt, "prompt.json");
    expect(format).toBe("openai-prompt");
    expect(personas as unknown[]).toEqual([
      {
        name: "Support reply",
        draft: {
          description: "Support reply",
          model: ["openai/gpt-5.1"],
          system: "You are a support assistant of {{company}}.\n\nCustomer: {{customer_name}}\nIssue: {{issue}}",
          variables: { company: { default: "Acme" }, customer_name: {}, issue: {} },
          defaults: { max_completion_tokens: 500, reasoning_effort: "low", verbosity: "low" },
          tools: [{ type: "function", function: { name: "lookup", parameters: { type: "object" }, strict: true } }],
          response_format: {
            type: "json_schema",
            json_schema: { name: "reply", strict: true, schema: { type: "object", properties: {} } },
          },
          prompt_ids: { pmpt_123abc: { default: "current", "3": "current" } },
        },
        omitted: [
          { place: "messages[0]", message: "stands at the end of system: callers may send a message of their own" },
          { place: "reasoning.summary", message: "has no place in a persona" },
          { place: "tools[1]", message: "is a tool that OpenAI runs (web_search): options.server_tools can name it" },
        ],
      },
    ]);
  });

  test("have variables, and nothing else that means anything", () => {
    const instructions = 'As {"a": {{answer}}} {# kept #} C:\\{{dir}} {{#if a}} {{{b}}}';
    const { draft, omitted } = one({ id: "pmpt_1", instructions, model: "gpt-5.4" }, "p.json");
    expect(draft["system"]).toBe('As {"a": {{answer}}} {# kept #} C:{{"\\\\"}}{{dir}} \\{{#if a}} {{"{"}}{{b}}}');
    expect(draft["variables"]).toEqual({ answer: {}, dir: {}, b: {} });
    expect(omitted).toEqual(["instructions: {{#if a}} stays text: a variable's name is of letters, digits and '_'"]);
  });

  test("carry stops, and list what is none", () => {
    const { draft, omitted } = one({ id: "pmpt_1", instructions: "Be brief.", stop: ["END", 7] }, "p.json");
    expect(draft["stop"]).toEqual(["END"]);
    expect(omitted).toEqual(["stop: has some that are no texts, which are left out"]);
  });

  test("with versions: the newest answers, older ones stand beside it", () => {
    const { personas } = read(
      {
        data: [
          {
            ...prompt,
            version: undefined,
            versions: [
              { version: "9", instructions: "Old." },
              { version: 10, instructions: "New." },
            ],
          },
        ],
      },
      "prompts.json",
    );
    expect(personas.map(({ name, draft }) => [name, draft.system.split("\n")[0], draft.prompt_ids as unknown])).toEqual(
      [
        ["Support reply", "New.", { pmpt_123abc: { default: "current", "10": "current" } }],
        ["Support reply-v9", "Old.", undefined],
      ],
    );
    expect(personas[1]!.omitted[0]!.place).toBe("version 9");
  });

  test.each([
    [
      { ...prompt, messages: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] },
      "messages[0].content[0]: is no text",
    ],
    [{ ...prompt, messages: [{ role: "tool", content: "x" }] }, 'messages[0]: has the role "tool"'],
    [{ id: "pmpt_1" }, ": has no text"],
  ])("%j is refused", (value, message) => {
    expect(refusal(value, "p.json")).toStartWith(message);
  });
});

describe("promptfoo's configurations", () => {
  const text = `description: Translations
prompts:
  - |-
    [{"role": "system", "content": "Translate into {{language}}."}, {"role": "user", "content": "Text: {{text}}"}]
providers:
  - id: openai:chat:gpt-5.4-mini
    config: {temperature: 0, max_tokens: 100, logprobs: true}
  - anthropic:messages:claude-sonnet-5
defaultTest:
  assert:
    - {type: latency, threshold: 9000}
tests:
  - description: says hello
    vars: {language: French, text: Hello, unused: x}
    assert:
      - {type: icontains, value: bonjour, weight: 2}
      - {type: javascript, value: output.length > 1}
      - {type: llm-rubric, value: "Is in {{language}}", provider: openai:gpt-5.4, transform: output.trim()}
    options: {transform: output.trim()}
  - file://more.csv
sharing: false
`;

  test("are a persona and its tests", () => {
    const { format, personas } = read(text, "promptfooconfig.yaml");
    expect(format).toBe("promptfoo");
    const [{ name, draft, tests, omitted }] = personas as [(typeof personas)[0]];
    expect(name).toBe("Translations");
    expect(draft as object).toEqual({
      description: "Translations",
      model: ["openai/gpt-5.4-mini"],
      system: "Translate into {{language}}.\n\nText: {{text}}",
      variables: { language: {}, text: {} },
      defaults: { temperature: 0, max_tokens: 100 },
    });
    expect(tests!).toEqual({
      description: "Translations",
      prompts: ["Begin."],
      defaultTest: { assert: [{ type: "latency", threshold: 9000 }] },
      tests: [
        {
          description: "says hello",
          vars: { language: "French", text: "Hello" },
          assert: [
            { type: "icontains", value: "bonjour", weight: 2 },
            { type: "llm-rubric", value: "Is in {{language}}", provider: "openai:gpt-5.4" },
          ],
        },
      ],
    });
    expect(omitted.map(({ place }) => place)).toEqual([
      "prompts[0][1]",
      "providers[1]",
      "providers[0].config.logprobs",
      "tests[0].assert[1]",
      "tests[0].assert[2].transform",
      "tests[0].vars.unused",
      "tests[0].options.transform",
      "tests[1]",
      "prompts",
    ]);
  });

  const imported = (tests: object[], rest: object = {}) => {
    const config = { prompts: ["Say {{word}}."], providers: ["anthropic:messages:claude-sonnet-5"], tests, ...rest };
    const [{ tests: made, omitted }] = read(config, "p.json").personas as [ReturnType<typeof read>["personas"][0]];
    const file = parseTestFile(JSON.stringify(made), "a.test.yaml", { persona: "acme/x", declared: new Set(["word"]) });
    expect("errors" in file ? file.errors : []).toEqual([]);
    return {
      made: made as { tests: { assert?: unknown; vars: object }[]; defaultTest?: object },
      omitted: omitted.map(({ place, message }) => `${place}: ${message}`).filter((one) => !one.startsWith("prompts")),
    };
  };

  test("make test files that the checker takes, and list what it would refuse", () => {
    const { made, omitted } = imported([
      {
        vars: { word: null, when: "{{word}}!" },
        assert: [
          { type: "contains-all", value: 'a, "b, c"' },
          { type: "is-json", value: "type: object\nrequired: [a]" },
          { type: "tool-call-f1", value: "find, send" },
          { type: "regex", value: 5 },
          { type: "regex", value: "(" },
          { type: "contains", value: "{{when}} {{absent}}" },
          { type: "is-json", value: null },
          { type: "trace-span-count", value: { max: 1 } },
          {
            type: "assert-set",
            assert: [
              { type: "regex", value: 5 },
              { type: "contains", value: "x" },
            ],
          },
        ],
      },
    ]);
    expect(made.tests[0]!.vars).toEqual({ word: "", when: "{{word}}!", absent: "" });
    expect((made.tests[0]!.assert as { type: string }[]).map(({ type }) => type)).toEqual([
      ...["contains-all", "is-json", "tool-call-f1", "contains", "is-json", "assert-set"],
    ]);
    expect(omitted).toEqual([
      "tests[0].assert[3]: value must be a string: it is left out",
      expect.stringMatching(/^tests\[0\]\.assert\[4\]: value is no regular expression: .*: it is left out$/),
      "tests[0].assert[7]: trace-span-count is no assertion that is known here",
      "tests[0].assert[8].assert[0]: value must be a string: it is left out",
    ]);
  });

  test("list a defaultTest in a file, and carry response_format", () => {
    const config = { id: "openai:chat:gpt-5.4", config: { response_format: { type: "json_object" } } };
    const rest = { providers: [config], defaultTest: "file://d.yaml" };
    const { omitted } = imported([{ vars: { word: "x" } }], rest);
    expect(omitted).toEqual(["defaultTest: names a file: put its test in its place"]);
    const { draft } = read({ prompts: ["JSON"], tests: [], ...rest }, "p.json").personas[0]!;
    expect(draft.response_format).toEqual({ type: "json_object" });
  });

  test("name a grader where theirs name none", () => {
    const rubric = [{ vars: { word: "x" }, assert: [{ type: "llm-rubric", value: "Is kind" }] }];
    const { made, omitted } = imported(rubric);
    expect(made.defaultTest).toEqual({ options: { provider: "anthropic:messages:claude-sonnet-5" } });
    expect(omitted).toEqual([
      "defaultTest.options.provider: is named by nothing, and anthropic:messages:claude-sonnet-5 grades",
    ]);
    expect(imported(rubric, { providers: ["python:a.py"] }).made.defaultTest).toEqual({
      options: { provider: "openai:chat:gpt-5.4-mini" },
    });
    expect(imported(rubric, { defaultTest: { options: { provider: "openai:gpt-5.4" } } }).omitted).toEqual([]);
  });

  test("keep their braces, comments and marks without an end as promptfoo does", () => {
    const systemOf = (text: string) => read({ prompts: [text], tests: [] }, "p.json").personas[0]!.draft.system;
    expect(systemOf('As {"a": {{b}}} {# no #}C:\\{{d}}')).toBe('As {"a": {{b}}} C:{{"\\\\"}}{{d}}');
    expect(systemOf("{{a}} {#1 first\n{{b}}")).toBe("\\{{a}} {#1 first\n\\{{b}}");
    expect(systemOf("{% raw %}{{a}}{% endraw %} {{b}}")).toBe("\\{{a}} {{b}}");
  });

  test("whose user's turn is a variable send it", () => {
    const config = {
      prompts: [
        [
          { role: "system", content: "Be brief." },
          { role: "user", content: "{{question}}" },
        ],
      ],
      tests: [{ vars: { question: ["a", "b"] } }],
    };
    const [{ draft, tests }] = read(config, "p.json").personas as [ReturnType<typeof read>["personas"][0]];
    expect(draft.system).toBe("Be brief.");
    expect(tests!).toEqual({ prompts: ["{{question}}"], tests: [{ vars: { question: ["a", "b"] } }] });
  });

  test.each([
    [{ prompts: ["file://a.txt"], tests: [] }, "prompts[0]: names file://a.txt"],
    [{ prompts: [], tests: [] }, "prompts: is empty"],
    [{ prompts: ["a {{b | upper}}"], tests: [] }, "prompts[0]: {{b | upper}}"],
    [{ prompts: [7], tests: [] }, "prompts[0]: must be text"],
  ])("%j is refused", (config, message) => {
    expect(refusal(config, "p.json")).toStartWith(message);
  });
});

describe("any file", () => {
  test("--format goes before the content", () => {
    expect(refusal("FROM x\nSYSTEM y", "Modelfile", "card")).toStartWith(": is not JSON");
    expect(refusal('{"a":1}', "a.json")).toStartWith(": is of no format that is known here");
    expect(refusal("---\na: &x [*x]\n---\nsystem:\nb", "a.prompty")).toStartWith("line ");
  });

  test("is read or refused, and nothing else, whatever it holds", () => {
    const words = fc.constantFrom(
      ...[
        "---\n",
        "name: a\n",
        "description: b\n",
        "model: gpt-4o\n",
        "system:\n",
        "user:\n",
        "FROM x\n",
        "SYSTEM ",
        '"""',
        "prompts:\n",
        "tests:\n  - a\n",
      ],
      ...[
        "{{role 'system'}}",
        "{{x}}",
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "[",
        "{",
        '"id":"pmpt_1"',
        ":",
        "\n",
        "  ",
        "- ",
        "é",
        "\u0000",
        "input:\n  schema: x\n",
      ],
    );
    const text = fc.array(fc.oneof(words, fc.string({ maxLength: 8 })), { maxLength: 30 }).map((all) => all.join(""));
    const formats = fc.constantFrom(undefined, ...importers.map(({ format }) => format));
    fc.assert(
      fc.property(
        text,
        fc.constantFrom("a.prompt", "a.prompty", "Modelfile", "a.md", "a.json"),
        formats,
        (file, name, format) => {
          expect(refusal(file, name, format)).toBeString();
        },
      ),
      { numRuns: runs(2000) },
    );
    const json = fc.jsonValue({ maxDepth: 4 });
    const fields = fc.constantFrom(
      "id",
      "prompts",
      "tests",
      "providers",
      "base_model_id",
      "params",
      "meta",
      "endpoint",
      "promptPrefix",
      "instructions",
      "messages",
      "variables",
      "tools",
      "versions",
      "spec",
      "data",
      "name",
      "description",
      "vars",
      "assert",
    );
    fc.assert(
      fc.property(
        fc.dictionary(
          fields,
          fc.oneof(json, fc.dictionary(fields, json), fc.array(fc.dictionary(fields, json)), fc.constant("pmpt_1")),
        ),
        formats,
        (value, format) => {
          expect(refusal(value, "a.json", format)).toBeString();
        },
      ),
      { numRuns: runs(2000) },
    );
  });
});
