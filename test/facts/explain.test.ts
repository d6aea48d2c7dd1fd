/** What people are told of a model: each fact that the code goes by, whoever's row says it. */
import { expect, test } from "bun:test";
import { explained } from "../../src/facts/explain.ts";
import { explainedAt } from "../../src/operate/checks/explained-at.ts";
import { anthropicRules } from "../../src/providers/anthropic/rules.ts";
import { bedrockRules } from "../../src/providers/bedrock/rules.ts";
import { azure } from "../../src/providers/openai-compatible/azure.ts";
import type { Account, Call } from "../../src/providers/provider.ts";

const accountOf = (name: string, changes: Partial<Account> = {}): Account => ({
  ...{ name, baseUrl: "", models: [], options: {}, modelRules: [], ...changes },
});
const saying = (found: ReturnType<typeof explained>) =>
  Object.fromEntries(found.map(({ fact, value, by, source }) => [fact, { value, by, source: source.length > 0 }]));

test.each([
  ["azure", "gpt-6.1-sol", "tools_road", "responses", "gpt-* from 5.6 on (openai, chat)"],
  ["foundry", "claude-opus-5-5", "forced_tools", false, "claude-opus-* from 5-5 on (anthropic, messages)"],
  ["vertex", "claude-sonnet-6@20270101", "sampling", "none", "claude-sonnet-* from 5 on (anthropic, messages)"],
  ["vertex", "anthropic/claude-opus-5-5", "thinking_off", "never", "claude-opus-* from 5-5 on (anthropic, messages)"],
  ["vertex", "gemini-3.8-flash", "call_ids", false, "* (vertex, generate-content)"],
  ["vertex", "gemini-3.8-flash", "thinks", true, "* (google, generate-content)"],
  ["bedrock", "us.anthropic.claude-opus-5-5", "door", "messages", "*anthropic.claude-* (bedrock, converse)"],
  ["bedrock", "us.anthropic.claude-opus-5-5", "forced_tools", false, "claude-opus-* from 5-5 on (anthropic, messages)"],
  ["bedrock", "openai.gpt-5.4", "max_tokens_field", "max_completion_tokens", "gpt-* from 5 on (openai, chat)"],
  ["bedrock", "mistral.mistral-large-3", "prefill", false, "* (bedrock, converse)"],
  ["bedrock", "us.anthropic.claude-opus-5-5", "context", 1_000_000, "us.anthropic.claude-opus-5-5"],
])("%s/%s: %s is %p by %s", (provider, model, fact, value, by) => {
  expect(saying(explainedAt(provider, model))[fact]).toEqual({ value, by, source: true });
});

test("what the operator wrote goes before", () => {
  const account = accountOf("mine", { modelRules: [{ match: "gpt-6*", tools_road: "chat" }] });
  expect(saying(explainedAt({ provider: azure, account }, "gpt-6.1-sol"))["tools_road"]).toEqual({
    ...{ value: "chat", by: "gpt-6* (model_rules)", source: true },
  });
});

test("the facts of Claude at Bedrock are those that its calls are made by", () => {
  for (const model of [
    "us.anthropic.claude-opus-5-5",
    "anthropic.claude-haiku-4-5-20251001-v1:0",
    "amazon.nova-2-lite",
  ]) {
    const call = { model, account: accountOf("bedrock") } as Call;
    const told = explainedAt("bedrock", model).filter(({ by }) => by.includes(", "));
    const applied: Record<string, unknown> = { ...bedrockRules(call) };
    delete applied["match"];
    expect(Object.fromEntries(told.map(({ fact, value }) => [fact, value]))).toEqual(applied);
  }
});

test("the facts of Claude in Foundry are those that its calls are made by", () => {
  const told = explainedAt("foundry", "claude-opus-6").filter(({ by }) => by.includes(", messages"));
  const applied = anthropicRules({ model: "claude-opus-6", account: { modelRules: [] } });
  expect(Object.fromEntries(told.map(({ fact, value }) => [fact, value]))).toEqual({ ...applied });
});

test("a provider that nobody knows has none", () => {
  expect([explainedAt("nobody", "gpt-6"), explained({ provider: "__proto__", model: "gpt-6" })]).toEqual([[], []]);
});
