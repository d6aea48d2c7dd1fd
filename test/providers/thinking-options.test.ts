import { describe, expect, test } from "bun:test";
import type { ChatRequest } from "../../src/protocols/chat/schema.ts";
import { providers } from "../../src/providers/registry.ts";

const remote = providers.flatMap((provider) => (provider.kind === "remote" ? provider : []));
const account = { name: "a", baseUrl: "", headers: {}, models: [], options: {}, modelRules: [] };
const callOf = (changes: Partial<ChatRequest>, extras: Record<string, unknown>) => ({
  model: "m",
  request: { model: "a/m", messages: [], ...changes },
  extras,
  account,
  media: new Map(),
});

describe.each(remote)("$name", (provider) => {
  test.each([
    [{}, {}, false],
    [{}, { include_thoughts: true }, true],
    [{}, { include_thoughts: false }, false],
    [{}, { thinking_budget: 0 }, false],
    [{}, { thinking_budget: -1 }, true],
    [{}, { thinking: { type: "enabled" } }, true],
    [{}, { thinking: { type: "disabled" } }, false],
    [{ reasoning_effort: "low" }, {}, true],
    [{ reasoning_effort: "none" }, {}, false],
    [{}, { thinking_config: { include_thoughts: true } }, "thinking_config" in provider.extras.properties],
  ])("%j with %j asks for thoughts: %p", (changes, extras, asked) => {
    expect(provider.wantsThoughts(callOf(changes, extras))).toBe(asked);
  });
});
