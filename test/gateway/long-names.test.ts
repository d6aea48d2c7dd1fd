/** Names of tools that are longer than 64 characters, as MCP's clients make them: shortened for whoever takes no more, and restored. */
import { expect, test } from "bun:test";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

const long = `mcp__a_server_with_a_rather_long_name__and_a_tool_${"x".repeat(60)}`;
const other = `${long.slice(0, -1)}y`;
const nameForm = /^[a-zA-Z0-9_-]{1,64}$/;

const { troupe, upstream } = await served(
  ({ json }) => {
    const { tools, stream } = json as { tools: { function: { name: string } }[]; stream?: boolean };
    const names = tools.map((tool) => tool.function.name);
    if (names.some((name) => !nameForm.test(name)))
      return jsonResponse(
        {
          error: {
            message: "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64",
          },
        },
        400,
      );
    const tool_calls = names.map((name, index) => ({
      index,
      id: `c${index}`,
      type: "function",
      function: { name, arguments: "{}" },
    }));
    const answer = { id: "c", created: 1, model: "m" };
    if (stream !== true) {
      const message = { role: "assistant", content: null, tool_calls };
      return jsonResponse({
        ...answer,
        object: "chat.completion",
        choices: [{ index: 0, message, finish_reason: "tool_calls" }],
      });
    }
    const chunk = (delta: object, finish_reason: string | null) =>
      `data: ${JSON.stringify({ ...answer, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    return sseResponse([chunk({ role: "assistant", tool_calls }, null), chunk({}, "tool_calls"), "data: [DONE]\n\n"]);
  },
  (url) => ({ providers: { groq: { baseUrl: url } } }),
);

const schema = { type: "object", properties: {} };
const names = [long, other, "short"];
const sent = () =>
  upstream.last.json as { tools: { function: { name: string } }[]; tool_choice: Json; messages: Json[] };

/** By format: a turn that answers a call, which is forced again. */
const bodies = {
  messages: {
    max_tokens: 9,
    tools: names.map((name) => ({ name, input_schema: schema })),
    tool_choice: { type: "tool", name: other },
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: long, input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "ok" }] },
    ],
  },
  responses: {
    store: false,
    tools: names.map((name) => ({ type: "function", name, parameters: schema })),
    tool_choice: { type: "function", name: other },
    input: [
      { role: "user", content: "Hi" },
      { type: "function_call", call_id: "t1", name: long, arguments: "{}" },
      { type: "function_call_output", call_id: "t1", output: "ok" },
    ],
  },
} as const;

test.each(
  Object.entries(bodies).flatMap(([format, body]) => [false, true].map((stream) => [format, stream, body] as const)),
)("%s, streamed: %j", async (format, stream, body) => {
  const answered = await troupe.post(`/gateway/v1/${format}`, { model: "groq/m", ...body, stream });
  const text = await answered.text();
  expect([answered.status, text]).toEqual([200, expect.any(String)]);
  const { tools, tool_choice, messages } = sent();
  const [first, second, third] = tools.map((tool) => tool.function.name);
  expect(new Set([first, second, third]).size).toBe(3);
  expect(third).toBe("short");
  expect(tool_choice).toEqual({ type: "function", function: { name: second } });
  expect(messages[1]!["tool_calls"]).toMatchObject([{ function: { name: first } }]);
  for (const name of names) expect(text).toContain(`"name":"${name}"`);
  expect(text).not.toContain(first!);
});
