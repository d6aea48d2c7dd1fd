/** Rules by version: a row is of the version that it names and of later ones, so that names of next month have their line's newest rules. */
import { describe, expect, test } from "bun:test";
import { rowsOf } from "../../src/facts/facts.ts";
import { type ModelRule, rulesFor } from "../../src/facts/rules.ts";
import { anthropicRules } from "../../src/providers/anthropic/rules.ts";

const rows: readonly (ModelRule & { readonly is: string })[] = [
  { match: "gpt-*", since: "5.6", is: "5.6" },
  { match: "gpt-*", since: "5", is: "5" },
  { match: "claude-opus-*", since: "4-7", is: "4-7" },
  { match: "*", is: "other" },
];

test.each([
  ["gpt-5.6-sol", "5.6"],
  ["gpt-5.60", "5.6"],
  ["gpt-5.10", "5.6"],
  ["gpt-6", "5.6"],
  ["gpt-10-sol", "5.6"],
  ["gpt-5.5", "5"],
  ["gpt-5", "5"],
  ["gpt-5-mini-2025-08-07", "5"],
  ["gpt-5-2025-08-07", "5"],
  ["gpt-4.1", "other"],
  ["gpt-4o", "other"],
  ["gpt-4-0613", "other"],
  ["gpt-35-turbo-16k", "other"],
  ["gpt-oss-120b", "other"],
  ["gpt-image-2", "other"],
  ["my-gpt-6", "other"],
  ["claude-opus-4-7", "4-7"],
  ["claude-opus-4-10-20261201", "4-7"],
  ["claude-opus-5@20260901", "4-7"],
  ["claude-opus-4-20250514", "other"],
  ["claude-opus-latest", "4-7"],
  ["claude-opus-", "4-7"],
  ["claude-opus-4-32b", "other"],
  ["openai/gpt-6", "5.6"],
  ["accounts/us/models/gpt-6-luna", "5.6"],
  ["ft:gpt-6:acme:gpt-4:1", "5.6"],
  ["ft:gpt-4.1:acme:gpt-6:1", "other"],
  ["GPT-6", "5.6"],
  ["gpt-6:free", "5.6"],
  ["us.anthropic.claude-opus-5-20270101-v1:0", "4-7"],
  ["arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-5-v2:0", "4-7"],
  ["__proto__", "other"],
  ["", "other"],
])("%s has the rules of %s", (model, is) => {
  expect(rulesFor<{ is: string }>(model, [], rows)).toEqual({ is });
});

test("what the configuration says goes before", () => {
  expect(rulesFor<{ is: string }>("gpt-5.6", [{ match: "gpt-5.6*", is: "own" }], rows)).toEqual({ is: "own" });
});

describe("a name that came after the table", () => {
  const claude = (model: string) => anthropicRules({ model, account: { modelRules: [] } });
  test.each([
    ["claude-opus-6", "claude-opus-5-5"],
    ["claude-opus-5-7-20270101", "claude-opus-5-5"],
    ["claude-opus-4-9", "claude-opus-4-8"],
    ["claude-sonnet-6-1", "claude-sonnet-5-5"],
    ["claude-sonnet-4-7", "claude-sonnet-4-6"],
    ["claude-haiku-6", "claude-haiku-5-5"],
    ["claude-fable-7", "claude-fable-5-2"],
  ])("%s is taken for %s", (model, known) => {
    expect(claude(model)).toEqual(claude(known));
  });

  test("of OpenAI's is taken for the newest", () => {
    const openAiModels = rowsOf("chat", "openai");
    const openai = (model: string) => rulesFor(model, [], openAiModels);
    for (const model of ["gpt-6.2", "gpt-7-luna", "gpt-11"]) expect(openai(model)).toEqual(openai("gpt-6.1-terra"));
    for (const model of ["gpt-6.2-sol", "gpt-7-astra"]) expect(openai(model)).toEqual(openai("gpt-6.1-sol"));
    expect(openai("o7-mini")).toMatchObject({ max_tokens_field: "max_completion_tokens", reasoning_items: true });
  });
});
