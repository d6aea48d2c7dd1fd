import { describe, expect, test } from "bun:test";
import { changedSettings } from "../../src/config/difference.ts";
import { configOf } from "./loading.ts";

const base = "limits: {json_depth: 20}\nproviders: {openai: {api_key: one}}\n";

describe("what changed", () => {
  test.each([
    [base, base, []],
    [base, "limits: {json_depth: 21}\nproviders: {openai: {api_key: one}}\n", ["limits.json_depth"]],
    [base, "limits: {json_depth: 20}\nproviders: {openai: {api_key: two}}\n", ["providers.openai.api_key"]],
    [base, "limits: {json_depth: 20}\n", ["providers.openai"]],
    ["", "trusted_proxies: [10.0.0.0/8]\nlog: {level: debug}\n", ["trusted_proxies", "log.level"]],
    ["", "limits: {gateway_per_minute: 5}\n", ["limits.gateway_per_minute"]],
    ["", 'listen: "127.0.0.1:9"\n', ["listen"]],
  ])("%j → %j: %j", (before, after, expected) => {
    expect(changedSettings(configOf({ yaml: before }), configOf({ yaml: after }))).toEqual(expected);
  });

  test("never shows a value", () => {
    const changed = changedSettings(configOf({ yaml: base }), configOf({ yaml: base.replace("one", "top-secret") }));
    expect(JSON.stringify(changed)).not.toContain("secret");
  });
});
