/**
 * Names of models that nobody knows yet: in every client format, and for a persona, each is asked as the newest known model of its line
 * is, whatever stands before or behind its name.
 */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { type Asked, bodyFor, type FormatName, formatNames, pathOf } from "../helpers/client-formats.ts";
import { some } from "../helpers/long-form.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

/** By provider: the newest known model of a line, and names that come after it. */
const lines: readonly (readonly [provider: string, newest: string, ...next: string[]])[] = [
  [
    "openai",
    "gpt-6.1-terra",
    "gpt-6.2",
    "gpt-6.3",
    "gpt-7-terra",
    "gpt-7",
    "gpt-latest",
    "openai/gpt-7",
    "ft:gpt-7:acme::id",
  ],
  ["openai", "gpt-6.1-sol", "gpt-6.2-sol", "gpt-7-sol-2027-01-12", "gpt-10-sol", "GPT-7-Sol"],
  ["openai", "gpt-6-astra", "gpt-7-astra", "gpt-6.3-astra"],
  ["openai", "gpt-5.5-pro", "gpt-7-pro"],
  ["openai", "chat-latest", "gpt-6-chat-latest", "gpt-7-chat"],
  ["openai", "o4-mini", "o5-mini", "o5", "o6"],
  ["azure", "gpt-6.1-sol", "gpt-7-sol"],
  [
    "anthropic",
    "claude-opus-5-5",
    "claude-opus-6",
    "claude-opus-6-1",
    "claude-opus-6-1-20270301",
    "claude-opus-latest",
  ],
  [
    "anthropic",
    "claude-opus-5-5",
    "anthropic/claude-opus-6",
    "claude-opus-6@20270301",
    "us.anthropic.claude-opus-6-v1:0",
  ],
  ["anthropic", "claude-sonnet-5-5", "claude-sonnet-6", "claude-sonnet-5-10"],
  ["anthropic", "claude-haiku-5-5", "claude-haiku-6"],
  ["anthropic", "claude-fable-5-2", "claude-fable-6"],
  ["google", "gemini-4-hydrogen", "gemini-4.1-hydrogen", "gemini-4.5-pro", "gemini-5-pro", "models/gemini-5-flash"],
  ["google", "gemini-3.8-flash", "gemini-3.9-flash", "gemini-flash-latest"],
  ["google", "gemma-4-27b-it", "gemma-5-27b-it"],
  ["xai", "grok-4.7", "grok-4.8", "grok-5", "grok-5-fast", "grok-latest", "x-ai/grok-5"],
  ["xai", "grok-4.20-non-reasoning", "grok-5-non-reasoning"],
  ["moonshot", "kimi-k3.1-pro", "kimi-k3.2", "kimi-k4", "moonshotai/kimi-k4-pro"],
  ["zai", "glm-5.3", "glm-5.4", "glm-6", "glm-7", "glm-6-flash", "glm-latest", "zai-org/glm-6"],
  ["mistral", "mistral-large-4", "mistral-large-4-1", "mistral-large-5"],
  ["groq", "qwen/qwen3.8-27b", "qwen/qwen4-32b", "qwen/qwen5"],
  ["deepseek", "deepseek-v4-pro", "deepseek-v5", "deepseek-v5-pro"],
  ["alibaba", "qwen3.8-max", "qwen4-max", "qwen5"],
  ["foundry", "claude-opus-5-5", "claude-opus-6"],
  ["vertex", "claude-sonnet-5-5", "claude-sonnet-6@20270301"],
  ["vertex", "gemini-3.8-flash", "gemini-3.9-flash", "gemini-5-pro"],
  ["bedrock", "us.amazon.nova-2-lite-v1:0", "us.amazon.nova-3-lite-v1:0", "eu.amazon.nova-2-pro-v1:0"],
  ["bedrock", "us.anthropic.claude-opus-5-5", "eu.anthropic.claude-opus-6-v1:0", "global.anthropic.claude-opus-7"],
  ["bedrock", "openai.gpt-6-luna", "us.openai.gpt-7-luna"],
];
const options: Readonly<Record<string, Json>> = { vertex: { project: "p" } };
const providers = [...new Set(lines.map(([provider]) => provider))];

/** The newest of each of these takes no temperature. */
const refusesSampling = /^(?:gpt|chat|o4|claude|kimi|us\.anthropic|openai\.)/;

const text: Asked = {
  ...{ system: "Help.", turns: [{ kind: "user", parts: [{ kind: "text", text: "Hi" }] }], tools: [], choice: "auto" },
  ...{ oneAtATime: false, schema: undefined, temperature: undefined, maxTokens: 4000, stop: [] },
};
const tools = [{ name: "look_up", description: "Looks up.", parameters: { type: "object", properties: {} } }];

/** Members by which a client of the format sets how much the model thinks. */
const thinking: Readonly<Record<FormatName, (effort: string) => Json>> = {
  chat: (effort) => ({ reasoning_effort: effort }),
  responses: (effort) => ({ reasoning: { effort } }),
  messages: (effort) =>
    effort === "none"
      ? { thinking: { type: "disabled" } }
      : { thinking: { type: "adaptive" }, output_config: { effort: effort === "minimal" ? "low" : effort } },
  "generate-content": (effort) => ({
    generationConfig: {
      maxOutputTokens: 4000,
      thinkingConfig: effort === "none" ? { thinkingBudget: 0 } : { thinkingLevel: effort.toUpperCase() },
    },
  }),
};
const wishes: readonly (readonly [name: string, asked: Asked, effort?: string])[] = [
  ["nothing", text],
  ["tools", { ...text, tools }],
  ["a forced tool", { ...text, tools, choice: "required" }],
  ["a tool beside an effort", { ...text, tools }, "high"],
  ["sampling", { ...text, temperature: 0.5 }],
  ["a form", { ...text, schema: { type: "object", properties: { a: { type: "string" } } } }],
  ...["none", "minimal", "low", "medium", "high", "xhigh", "max"].map((effort) => [effort, text, effort] as const),
];

const personaOf = (provider: string, model: string) =>
  `acme/${Buffer.from(`${provider}/${model}`).toString("hex").slice(-60)}`;

const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("acme"));
for (const [provider, ...models] of lines) {
  for (const model of models)
    writeFileSync(
      folder.file(`${personaOf(provider, model)}.yaml`),
      `description: x\nmodel: ${JSON.stringify(`${provider}/${model}`)}\nsystem: Help.\ndefaults: {temperature: 0.4}\n`,
    );
}
const { troupe, upstream } = await served(
  () => jsonResponse({ error: { message: "enough", type: "invalid_request_error" } }, 400),
  (url) => ({
    nativeEndpoints: true,
    personas: folder.path,
    providers: Object.fromEntries(providers.map((name) => [name, { baseUrl: url, options: options[name] ?? {} }])),
  }),
);
await troupe.server.services.loading;

/** What reaches the upstream, without the model's name. */
async function sentOf(path: string, body: Json, model: string): Promise<string> {
  upstream.requests.length = 0;
  const response = await troupe.post(path, body);
  const answer = await response.text();
  // What can't be said in the upstream's format is refused here, for both names alike.
  if (upstream.requests.length === 0) return `${response.status} ${answer}`.replaceAll(model, "MODEL");
  const { path: asked, json } = upstream.last;
  const bare = model.replace(/^models\//, "");
  return `${decodeURIComponent(asked)} ${JSON.stringify(json)}`.replaceAll(bare, "MODEL");
}

test.each(lines)("%s: as %s", async (provider, newest, ...next) => {
  const line = lines.findIndex(([, one]) => one === newest);
  for (const [at, [wish, asked, effort]] of wishes.entries())
    for (const format of some(formatNames, 2, line + at)) {
      const said = effort === undefined ? {} : thinking[format](effort);
      const [sent, ...others] = await sentOfEach(
        format,
        asked,
        said,
        [newest, ...next].map((name) => `${provider}/${name}`),
      );
      next.forEach((name, at) => {
        expect([wish, format, name, others[at]]).toEqual([wish, format, name, sent]);
      });
    }
});

async function sentOfEach(format: FormatName, asked: Asked, said: Json, models: readonly string[]): Promise<string[]> {
  const sent: string[] = [];
  for (const model of models) {
    const name = model.slice(model.indexOf("/") + 1);
    sent.push(await sentOf(pathOf("gateway", format, model), { ...bodyFor(format, asked, model), ...said }, name));
  }
  return sent;
}

test.each(lines)("%s: by legacy completions, as %s", async (provider, ...models) => {
  const sent: string[] = [];
  for (const model of models)
    for (const stream of [false, true]) {
      const body = { model: `${provider}/${model}`, prompt: "Hi", max_tokens: 4000, temperature: 0.5, stream };
      sent.push(await sentOf("/gateway/v1/completions", body, model));
    }
  expect(sent).toEqual(models.flatMap(() => sent.slice(0, 2)));
  expect(sent[0]).toContain("MODEL");
});

test.each(lines)("%s: a persona with a temperature of its own, as %s", async (provider, ...models) => {
  const sent: string[] = [];
  for (const model of models) {
    const body = { model: personaOf(provider, model), messages: [{ role: "user", content: "Hi" }] };
    sent.push(await sentOf("/v1/chat/completions", body, model));
  }
  expect(sent).toEqual(models.map(() => sent[0]!));
  expect(sent[0]).not.toStartWith("4");
  expect(sent[0]!.includes('"temperature"')).toBe(!refusesSampling.test(models[0]!));
});
