/** The folder of a demonstration: its configurations and its personas, in the versions that they had and have. */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { endingExample, exampleModels as models, exampleNames as names } from "../../facts/examples.ts";

const modelsOf = {
  openai: [models.openai, models.openaiSmall, endingExample],
  anthropic: [models.anthropic, models.anthropicSmall],
  mistral: ["mistral-medium-latest"],
};

/** What stands for all of its providers: a server of its own, where a compiled-in model answers to the names of theirs. */
const providersConfiguration = `listen:
  - { address: "127.0.0.1:0", surfaces: [gateway] }
aliases: { ${Object.values(modelsOf)
  .flat()
  .map((model) => `${model}: builtin/eliza`)
  .join(", ")} }
`;

/** Where its providers are, and the keys that they know: one has room for a single call a minute. */
export type DemoProviders = { readonly url: string; readonly key: string; readonly scarceKey: string };

const configuration = ({
  url,
  key,
  scarceKey,
}: DemoProviders) => `# The configuration of a demonstration. Its providers are part of this process.
providers:
  openai:
    base_url: ${url}/v1
    api_keys:
      - { key: ${key}, name: main }
      - { key: ${scarceKey}, name: trial, weight: 0.2 }
    models: [${modelsOf.openai.join(", ")}]
  anthropic:
    base_url: ${url}
    api_key: ${key}
    models: [${modelsOf.anthropic.join(", ")}]
  mistral:
    base_url: ${url}/v1
    api_key: ${key}
    models: [${modelsOf.mistral.join(", ")}]
tiers: { free: 30, pro: 600 }
budgets:
  all: { month: 2500 }
console: { write: true }
`;

const supportBefore = `description: Answers customers of Acme about orders, plans and bills.
tier: free
created: 2026-03-02
model:
  - ${names.anthropic}
  - ${names.openai}
system: |
  You are the helpful voice of Acme's customer service. Answer in the customer's language, briefly, and say what happens next.
defaults: { temperature: 0.4, max_tokens: 800 }
`;

const supportNow = `description: Answers customers of Acme about orders, plans and bills.
tier: free
created: 2026-03-02
model:
  - ${names.anthropic}
  - ${names.openai}
system: |
  You are the helpful voice of Acme's customer service. Answer in the customer's language, in at most four sentences,
  and say what happens next. Never promise a date that you were not given.
defaults: { temperature: 0.3, max_tokens: 600 }
variants:
  - name: now
    weight: 80
  - name: canary
    weight: 20
    model: [mistral/mistral-medium-latest]
    until: { calls: 50, error_rate: 0.05 }
`;

const files: Readonly<Record<string, string>> = {
  "acme/support.test.yaml": `prompts: ["{{question}}"]
tests:
  - description: says what happens next
    vars: { question: Where is my order? }
    assert:
      - { type: icontains, value: order }
  - description: promises no date
    vars: { question: When will I get my money back? }
    assert:
      - { type: not-contains, value: guarantee }
`,
  "acme/triage.yaml": `description: Sorts messages of customers by what they are about and how much they hurry.
tier: pro
created: 2026-05-18
model: [${names.openaiSmall}, mistral/mistral-medium-latest]
system: |
  Read the customer's message and answer with its category, its urgency and one sentence that sums it up.
response_format:
  type: json_schema
  json_schema:
    name: triage
    strict: true
    schema:
      type: object
      additionalProperties: false
      required: [category, urgency, summary]
      properties:
        category: { type: string, enum: [delivery, billing, fault, other] }
        urgency: { type: string, enum: [low, normal, high] }
        summary: { type: string }
`,
  "acme/triage.test.yaml": `prompts: ["{{message}}"]
tests:
  - description: knows a question of delivery
    vars: { message: "I ordered a week ago and nothing came." }
    assert:
      - { type: is-json }
      - { type: contains, value: delivery }
`,
  "acme/release-notes.yaml": `description: Turns merged changes into notes that customers understand.
tier: pro
created: 2026-08-30
model: openai/${endingExample}
system: |
  Sum up the changes for customers: what they gain, in plain words, the most useful first. Leave internal work out.
`,
  "studio/editor.yaml": `description: Mends spelling, grammar and style, and keeps the writer's voice.
tier: pro
created: 2026-01-12
model: [${names.anthropic}, ${names.openai}]
system: |
  You are a line editor. Return the text, corrected, and nothing else. The writer's voice wins over your taste.
`,
  "studio/editor.test.yaml": `prompts: ["{{text}}"]
tests:
  - description: returns a text
    vars: { text: Their going to the libary tomorow. }
    assert:
      - { type: regex, value: "\\\\w+" }
`,
  "studio/translator.yaml": `description: Translates between English, German, French and Spanish.
tier: free
created: 2026-02-20
model: [mistral/mistral-medium-latest, ${names.openaiSmall}]
system: |
  Translate the user's text into {{language}}. Keep names, numbers and markup as they are.
variables:
  language: { description: The language to translate into., default: English }
`,
};

export const personaIds = [
  "acme/support",
  "acme/triage",
  "acme/release-notes",
  "studio/editor",
  "studio/translator",
] as const;
export type PersonaId = (typeof personaIds)[number];

/** @returns the path of its providers' configuration */
export const writeProviders = (folder: string): string => write(folder, "providers.yaml", providersConfiguration);

/** @param count of personas in all; beyond the first few they are short @returns the path of its configuration */
export function writeFolder(folder: string, providers: DemoProviders, count: number): string {
  const all = { ...files, "acme/support.yaml": supportBefore };
  for (const [name, text] of Object.entries(all)) write(folder, `personas/${name}`, text);
  for (let at = personaIds.length + 1; at <= count; at += 1) {
    const text = `description: Desk ${at}, as one of many.\nmodel: ${names.openaiSmall}\nsystem: You work at desk ${at}. Answer briefly.\n`;
    write(folder, `personas/desks/desk-${String(at).padStart(4, "0")}.yaml`, text);
  }
  return write(folder, "troupe.yaml", configuration(providers));
}

/** Changes a persona, so that it has two versions and a canary. */
export const editSupport = (folder: string): string => write(folder, "personas/acme/support.yaml", supportNow);

function write(folder: string, name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}
