/** Values that can't be made a text, `{"toString": 1}`, at every place of a request and of an answer: an error or an answer, and no fault here. */
import { expect, test } from "bun:test";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;
let answer: unknown;

const upstream = untilEnd(
  new UpstreamServer(() => (answer === undefined ? jsonResponse({ error: {} }, 400) : jsonResponse(answer))),
);
const account = { baseUrl: upstream.url };
const bedrock = { ...account, region: "us-east-1" };
const troupe = untilEnd(
  await Troupe.start({
    providers: { openai: account, anthropic: account, google: account, groq: account, bedrock },
  }),
);

type Path = readonly (string | number)[];
const odd = { toString: 1, valueOf: 1 };

function* placesIn(value: unknown, path: Path = []): Generator<Path> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, one] of Object.entries(value)) {
    const place = [...path, Array.isArray(value) ? Number(name) : name];
    yield place;
    yield* placesIn(one, place);
  }
}

function planted(body: Json, path: Path): Json {
  const changed = structuredClone(body);
  const holder = path.slice(0, -1).reduce<unknown>((one, name) => (one as Json)[name], changed);
  (holder as Json)[path.at(-1)!] = odd;
  return changed;
}

const properties = { q: { type: "string", format: "date" }, l: { type: "array", items: { type: "integer" } } };
const schema = { type: "object", properties, required: ["q"] };
const details = [{ type: "reasoning.text", text: "a", signature: "b", index: 0 }];
const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
const bodies: Readonly<Record<string, Json>> = {
  "chat/completions": {
    messages: [
      { role: "user", content: [{ type: "text", text: "hi" }] },
      { role: "assistant", content: null, reasoning_details: details, tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: "x" },
    ],
    tools: [{ type: "function", function: { name: "f", parameters: schema } }],
    response_format: { type: "json_schema", json_schema: { name: "n", schema } },
  },
  messages: {
    max_tokens: 100,
    thinking: { type: "adaptive" },
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    messages: [
      { role: "user", content: [{ type: "text", text: "hi" }] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "a", signature: "s" },
          { type: "tool_use", id: "t", name: "f", input: {} },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "x" }] }] },
    ],
    tools: [{ name: "f", input_schema: schema }],
  },
  responses: {
    store: false,
    input: [
      { type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] },
      { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "x" },
    ],
    tools: [{ type: "function", name: "f", parameters: schema }],
    text: { format: { type: "json_schema", name: "n", schema } },
  },
};
const models = [
  "openai/gpt-5.6-sol",
  "anthropic/claude-sonnet-4-5",
  "google/gemini-3-pro",
  "groq/m",
  "bedrock/amazon.nova-pro-v1:0",
  "builtin/eliza",
];

test.each(Object.keys(bodies))("in a request of %s", async (path) => {
  answer = undefined;
  for (const model of models) {
    for (const place of placesIn(bodies[path]!)) {
      const answered = await troupe.post(`/gateway/v1/${path}`, { model, ...planted(bodies[path]!, place) });
      await answered.body?.cancel();
      expect([model, place, answered.status < 500]).toEqual([model, place, true]);
    }
  }
});

test("in reasoning that an answer has beside its text, which it does not cost", async () => {
  const message = { role: "assistant", content: "Hello", reasoning_details: details };
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
  const whole = {
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    usage,
    choices: [{ index: 0, message, finish_reason: "stop" }],
  };
  for (const member of ["type", "text", "signature", "index"]) {
    answer = planted(whole, ["choices", 0, "message", "reasoning_details", 0, member]);
    for (const path of ["chat/completions", "messages"]) {
      const answered = await troupe.post(`/gateway/v1/${path}`, {
        model: "groq/m",
        max_tokens: 9,
        messages: [{ role: "user", content: "hi" }],
      });
      expect([member, path, answered.status, (await answered.text()).includes("Hello")]).toEqual([
        member,
        path,
        200,
        true,
      ]);
    }
  }
});
