/** Formats that an upstream speaks beside chat completions: their addresses, key places, and what leaves them for a translation. */
import { describe, expect, test } from "bun:test";
import { loadConfig } from "../../src/config/load.ts";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { openAiCompatible } from "../../src/providers/openai-compatible/openai-compatible.ts";
import type { Account, Call } from "../../src/providers/provider.ts";
import { providers } from "../../src/providers/registry.ts";

const keyPlace = { header: "x-api-key" };
const row = openAiCompatible({
  name: "made-up",
  baseUrl: "https://api.example.com/api/v4",
  environment: { keys: ["MADE_UP_API_KEY"], baseUrl: [] },
  nativeEndpoints: {
    messages: {
      path: "/anthropic",
      besides: ["/api/coding/v4"],
      keyPlace,
      models: [{ match: "m*" }],
      tools: ["web_search"],
      drops: {
        fields: ["top_k", "output_config.format", "tool_choice.type=any"],
        parts: ["image source.type=url", "document"],
      },
    },
    responses: {
      tools: ["custom name=apply_patch"],
      drops: { fields: ["truncation=auto", "include=logprobs"], parts: ["input_file"] },
      leavesOut: ["include", "truncation"],
    },
  },
});

function callAt(baseUrl: string, options: Account["options"] = {}): Call {
  const account = { name: "made-up", baseUrl, models: [], options, modelRules: [] };
  return { model: "m", request: { model: "m", messages: [] }, extras: {}, account, media: new Map() };
}
const routeAt = (format: string, ...at: Parameters<typeof callAt>) => {
  const call = callAt(...at);
  return row.native!(format, call)?.encode("{}", call, { "anthropic-version": "2024-01-01" });
};

describe("addresses", () => {
  test.each<[string, string, Account["options"], string | undefined]>([
    ["messages", "https://api.example.com/api/v4", {}, "https://api.example.com/anthropic/v1/messages"],
    ["messages", "http://proxy/made-up/api/v4", {}, "http://proxy/made-up/anthropic/v1/messages"],
    ["messages", "http://proxy/api/coding/v4", {}, "http://proxy/anthropic/v1/messages"],
    ["messages", "http://proxy/elsewhere", {}, undefined],
    ["messages", "http://proxy/elsewhere", { messages_base_url: "http://m/" }, "http://m/v1/messages"],
    ["messages", "https://api.example.com/api/v4", { messages_base_url: false }, undefined],
    ["messages", "https://api.example.com/api/v4", { messages_base_url: "http://m/v1" }, "http://m/v1/messages"],
    ["responses", "https://api.example.com/api/v4", {}, "https://api.example.com/api/v4/responses"],
    ["responses", "http://proxy/elsewhere", {}, "http://proxy/elsewhere/responses"],
    ["responses", "http://proxy/elsewhere", { responses_base_url: false }, undefined],
    ["constructor", "https://api.example.com/api/v4", {}, undefined],
  ])("of %s at %s with %o", (format, baseUrl, options, url) => {
    expect(routeAt(format, baseUrl, options)?.url).toBe(url);
  });

  test("have the key where the native endpoint wants it, and the format's own headers", () => {
    const messages = routeAt("messages", "https://api.example.com/api/v4")!;
    expect(messages).toEqual({
      url: "https://api.example.com/anthropic/v1/messages",
      headers: { "anthropic-version": "2024-01-01" },
      body: "{}",
      keyPlace,
    });
    expect(routeAt("responses", "http://x")).not.toHaveProperty("keyPlace");
  });
});

describe("what a native endpoint drops", () => {
  const call = callAt("https://api.example.com/api/v4");
  test.each<[string, object, boolean]>([
    ["messages", { messages: [{ role: "user", content: "hi" }] }, true],
    ["messages", { top_k: 3 }, false],
    ["messages", { top_k: null, output_config: { effort: "high", format: null } }, true],
    ["messages", { output_config: { format: { type: "json_schema", schema: {} } } }, false],
    ["messages", { tool_choice: { type: "auto" } }, true],
    ["messages", { tool_choice: { type: "any" } }, false],
    ["messages", { messages: [{ role: "user", content: [{ type: "image", source: { type: "base64" } }] }] }, true],
    ["messages", { messages: [{ role: "user", content: [{ type: "image", source: { type: "url" } }] }] }, false],
    ["messages", { messages: [{ content: [{ type: "tool_result", content: [{ type: "document" }] }] }] }, false],
    ["messages", { tools: [{ name: "document", input_schema: {} }] }, true],
    ["messages", { tools: [{ type: "web_search_20250305", name: "web_search" }] }, true],
    ["messages", { tools: [{ type: "web_fetch_20250910", name: "web_fetch" }] }, false],
    ["messages", { tools: [{ type: "custom", name: "web_fetch", input_schema: {} }] }, true],
    ["responses", { truncation: "auto" }, false],
    ["responses", { truncation: "disabled", include: ["reasoning.encrypted_content"] }, true],
    ["responses", { include: ["logprobs"] }, false],
    ["responses", { tools: [{ type: "function", name: "f" }] }, true],
    ["responses", { tools: [{ type: "custom", name: "apply_patch" }] }, true],
    ["responses", { tools: [{ type: "custom", name: "other" }] }, false],
    ["responses", { tools: [{ type: "mcp" }] }, false],
    ["responses", { input: [{ content: [{ type: "input_file" }] }] }, false],
    ["responses", { input: [{ type: "function_call_output", output: [{ type: "input_file" }] }] }, false],
    ["responses", { input: "input_file" }, true],
    ["responses", { input: [{ type: "item_reference", id: "msg_x_0" }] }, false],
  ])("leaves a call of %s with %j: %p", (format, body, taken) => {
    expect(row.native!(format, call)!.takes!(body as Record<string, unknown>)).toBe(taken);
  });
});

test("a native endpoint leaves out what neither it nor a translated call knows, and says system turns as texts", () => {
  const call = callAt("https://api.example.com/api/v4");
  const body = { model: "m", input: "hi", include: ["x"], truncation: "disabled" };
  expect(row.native!("responses", call)!.fit!(body, call, {})).toEqual({ model: "m", input: "hi" });
  const plain = { model: "m", input: "hi" };
  expect(row.native!("responses", call)!.fit!(plain, call, {})).toBe(plain);
  const messages = [
    { role: "user", content: "a" },
    { role: "system", content: "b" },
    { role: "user", content: "c" },
  ];
  expect(row.native!("messages", call)!.fit!({ messages }, call, {})).toEqual({
    messages: [
      { role: "user", content: [text("a"), text("b")] },
      { role: "user", content: "c" },
    ],
  });
});
const text = (words: string) => ({ type: "text", text: words });

test("a model that is not to be had there has no such native endpoint", () => {
  const call = { ...callAt("https://api.example.com/api/v4"), model: "other" };
  expect([row.native!("messages", call), row.native!("responses", call) === undefined]).toEqual([undefined, false]);
});

test("a native endpoint that counts no tokens has no counter, and what is stored is stored here alone", () => {
  const route = row.native!("messages", callAt("https://api.example.com/api/v4"))!;
  expect(route.counter).toBeUndefined();
  expect([route.keepsNothing, route.takesAnyThinking]).toEqual([true, true]);
});

test("the address of a format is an option of providers that speak it; false turns the format off", () => {
  const load = (options: string) => {
    const yaml = `providers:\n  deepseek: { options: ${options} }\n`;
    const readFile = (path: string) => (path === "troupe.yaml" ? yaml : undefined);
    const input = { flags: { config: "troupe.yaml" }, env: { DEEPSEEK_API_KEY: "k" }, cwd: "/srv", readFile };
    const result = loadConfig(input, providers);
    return "errors" in result ? result.errors.map(formatDiagnostic) : result.config.providers[0]?.options;
  };
  expect(load("{ messages_base_url: https://proxy/anthropic }")).toEqual({
    messages_base_url: "https://proxy/anthropic",
  });
  expect(load("{ messages_base_url: false }")).toEqual({ messages_base_url: false });
  expect(load("{ messages_base_url: here }")).toEqual([
    "troupe.yaml:2:45: providers.deepseek.options.messages_base_url: must match ^https?://",
  ]);
  expect(load("{ responses_base_url: false }")).toEqual([
    "troupe.yaml:2:26: providers.deepseek.options.responses_base_url: is not a known key; did you mean 'messages_base_url'?",
  ]);
});
