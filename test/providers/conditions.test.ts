/** Options that hold only beside another: where that one does not go up, they do not either. */
import { describe, expect, test } from "bun:test";
import { checkChatRequest } from "../../src/protocols/chat/request.ts";
import type { ChatRequest } from "../../src/protocols/chat/schema.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import type { Call } from "../../src/providers/provider.ts";
import { fixtureFamilies } from "../helpers/fixtures.ts";
import { textOfBody } from "../helpers/upstream-body.ts";

type Json = Record<string, unknown>;

/** By the option: what it needs, wherever it may stand in a body; a value of a list stands for one of them. */
const conditions: readonly (readonly [option: string, ...needs: readonly string[]])[] = [
  ["tool_choice", "tools"],
  ["parallel_tool_calls", "tools"],
  ["max_tool_calls", "tools"],
  ["toolConfig.functionCallingConfig", "tools"],
  ["toolConfig.toolChoice", "toolConfig.tools"],
  ["top_logprobs", "logprobs", "include"],
  ["stream_options", "stream"],
  ["audio", "modalities"],
  ["background_options", "background"],
  ["generationConfig.logprobs", "generationConfig.responseLogprobs"],
  ["generationConfig.responseSchema", "generationConfig.responseMimeType"],
  ["generationConfig.responseJsonSchema", "generationConfig.responseMimeType"],
];

const at = (body: Json, path: string): unknown =>
  path.split(".").reduce<unknown>((found, name) => (found as Json | undefined)?.[name], body);
const says = (value: unknown) => value !== undefined && !(Array.isArray(value) && value.length === 0);

const tool = (name: string) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: {} } },
});
const requests: Readonly<Record<string, Json>> = {
  tools: { tools: [tool("a")], tool_choice: "auto", parallel_tool_calls: false },
  "tools of which none is allowed": {
    tools: [tool("a")],
    tool_choice: {
      type: "allowed_tools",
      allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "b" } }] },
    },
    parallel_tool_calls: false,
  },
  logprobs: { logprobs: true, top_logprobs: 2 },
  "logprobs of a model that thinks": { logprobs: true, top_logprobs: 2, reasoning_effort: "high" },
  stream: { stream: true, stream_options: { include_usage: true } },
  schema: {
    response_format: { type: "json_schema", json_schema: { name: "x", schema: { type: "object", properties: {} } } },
  },
  "schema beside tools": {
    tools: [tool("a")],
    tool_choice: "required",
    response_format: { type: "json_schema", json_schema: { name: "x", schema: { type: "object", properties: {} } } },
  },
  texts: { modalities: ["text"], audio: { voice: "x", format: "pcm16" } },
};

describe.each(fixtureFamilies().map(({ folder, ...family }) => [folder, family] as const))("%s", (_, family) => {
  const { provider, extras } = family;
  test.each(Object.entries(requests))("%s", (_, given) => {
    for (const model of [...provider.models.slice(0, 3), "gpt-4o", "claude-sonnet-4-5"]) {
      const request = checkChatRequest({ model: `x/${model}`, messages: [{ role: "user", content: "Hi" }], ...given });
      const account = {
        ...{ name: provider.name, baseUrl: provider.baseUrl || "https://upstream.test", models: [], modelRules: [] },
        options: { project: "p" },
      };
      const call: Call = { model, request: request as ChatRequest, extras, account, media: new Map() };
      let body: Json;
      try {
        body = JSON.parse(textOfBody(provider.encode(call).body));
      } catch (error) {
        expect(error).toBeInstanceOf(ApiError);
        continue;
      }
      const orphans = conditions.filter(
        ([option, ...needs]) => says(at(body, option)) && !needs.some((one) => says(at(body, one))),
      );
      expect([model, orphans]).toEqual([model, []]);
    }
  });
});
