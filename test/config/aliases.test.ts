import { expect, test } from "bun:test";
import { Aliases, aliasError } from "../../src/config/aliases.ts";

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
  expect(aliasError(name, target)).toBe(error);
});
