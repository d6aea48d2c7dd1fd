import { expect, test } from "bun:test";
import { Aliases, type AliasGroup, aliasError } from "../../src/config/aliases.ts";

const aliases = new Aliases({
  "claude-*": "anthropic/claude-*",
  "claude-sonnet-4-5": "openrouter/anthropic/claude-sonnet-4.5",
  "gpt-*-mini": "openai/*-small",
  "claude-haiku-*": "groq/never",
  tutor: "troupe/tutor",
  "*": "openrouter/other/*",
});

test.each([
  ["claude-sonnet-4-5", "openrouter/anthropic/claude-sonnet-4.5"],
  ["claude-haiku-4-5", "anthropic/claude-haiku-4-5"],
  ["claude-", "anthropic/claude-"],
  ["gpt-5-mini", "openai/5-small"],
  ["gpt--mini", "openai/-small"],
  ["gpt-mini", "openrouter/other/gpt-mini"],
  ["$&", "openrouter/other/$&"],
  ["tutor", "troupe/tutor"],
])("%s stands for %s", (name, target) => {
  expect(aliases.find(name)).toBe(target);
});

test("a name with a slash is nobody's alias", () => {
  expect(aliases.find("openai/gpt-5")).toBeUndefined();
});

test("aliases of a name alone are listed", () => {
  expect(aliases.list().map(([name]) => name)).toEqual(["claude-sonnet-4-5", "tutor"]);
});

test.each([
  ["a", "openai/x", undefined],
  ["a*", "openai/x", undefined],
  ["a", "openai", "must be <provider>/<model> or a persona's <namespace>/<name>"],
  ["a", "/x", "must be <provider>/<model> or a persona's <namespace>/<name>"],
  ["a", "openai/x*", "has a '*', for which the alias 'a' needs one '*' too"],
  ["a*b*", "openai/x*", "has a '*', for which the alias 'a*b*' needs one '*' too"],
  ["a*", "openai/*x*", "may have one '*' at most"],
])("%s: %s is judged", (name, target, error) => {
  expect(aliasError(name, target)?.message).toBe(error!);
});

test.each<[string, AliasGroup, string, string]>([
  ["a", { models: ["openai/x", "openai"] }, "models.1", "must be <provider>/<model> or a persona's <namespace>/<name>"],
  ["a", { models: ["openai/x", "openai/x"] }, "models.1", "repeats openai/x"],
  ["a*", { models: ["openai/x"] }, "", "names several models, and so may have no '*'"],
  ["a", { models: ["openai/x", "b/y"], weights: [1] }, "weights", "must have one for each model: 2, not 1"],
])("%s: several models %j are judged", (name, group, at, message) => {
  const error = aliasError(name, group)!;
  expect([error.at.join("."), error.message]).toEqual([at, message]);
});

test("an alias of several models stands for the first where one is wanted", () => {
  const group = { models: ["openai/x", "azure/y"], strategy: "weighted" as const, weights: [3, 1] };
  const both = new Aliases({ fast: group, slow: "openai/z" });
  expect([both.find("fast"), both.group("fast"), both.group("slow")]).toEqual(["openai/x", group, undefined]);
});
