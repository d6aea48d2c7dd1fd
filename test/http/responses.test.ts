/** The `openai` package's `responses`, unmodified, against upstreams of other formats. */
import { describe, expect, test } from "bun:test";
import type { Response as ResponseObject, ResponseStreamEvent } from "openai/resources/responses/responses";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let answer: () => Response | Promise<Response>;

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({ providers: { groq: { baseUrl: url } } }),
);
troupe.setTargets(persona, ["groq/x"]);

const usage = {
  prompt_tokens: 7,
  completion_tokens: 5,
  total_tokens: 12,
  prompt_tokens_details: { cached_tokens: 3 },
  completion_tokens_details: { reasoning_tokens: 2 },
};
const completion = (message: object, finish_reason = "stop") =>
  jsonResponse({ id: "up", choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }], usage });
const event = (choice: object) =>
  `data: ${JSON.stringify({ id: "up", choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`;
const delta = (value: object) => event({ delta: value });
const end = (finish_reason = "stop") =>
  `${event({ delta: {}, finish_reason })}data: ${JSON.stringify({ id: "up", choices: [], usage })}\n\ndata: [DONE]\n\n`;
const streamed = (...pieces: string[]) => sseResponse(pieces);

const countsOf = {
  input_tokens: 7,
  input_tokens_details: { cached_tokens: 3 },
  output_tokens: 5,
  output_tokens_details: { reasoning_tokens: 2 },
  total_tokens: 12,
};

describe.each([["orchestrator", persona] as const, ["gateway", "groq/x"] as const])("%s", (surface, model) => {
  const client = () => troupe.client(surface);

  test("create gives a whole response object, with all members that the format requires", async () => {
    answer = () => completion({ content: "Hello." });
    const response = await client().responses.create({
      model,
      input: "hi",
      instructions: "Be brief.",
      metadata: { a: "b" },
    });
    const { id } = response;
    expect(id).toMatch(/^resp_/);
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      error: null,
      incomplete_details: null,
      instructions: "Be brief.",
      metadata: { a: "b" },
      model,
      parallel_tool_calls: true,
      temperature: 1,
      top_p: 1,
      tool_choice: "auto",
      tools: [],
      text: { format: { type: "text" } },
      output: [
        {
          id: `msg_${id.slice(5)}_0`,
          type: "message",
          status: "completed",
          role: "assistant",
          content: [{ type: "output_text", text: "Hello.", annotations: [], logprobs: [] }],
        },
      ],
      usage: countsOf,
      output_text: "Hello.",
    });
    expect(upstream.last.path).toBe("/chat/completions");
    const { messages } = upstream.last.json as { messages: object[] };
    expect(messages.slice(-2)).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "hi" },
    ]);
  });

  test("a stream has every event in its order, and its numbers from 0", async () => {
    answer = () =>
      streamed(delta({ reasoning_content: "Hm." }), delta({ content: "Hel" }), delta({ content: "lo." }), end());
    const stream = await client().responses.create({ model, input: [{ role: "user", content: "hi" }], stream: true });
    const events: ResponseStreamEvent[] = [];
    for await (const one of stream) events.push(one);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
    expect(events.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.reasoning_summary_part.added",
      "response.reasoning_summary_text.delta",
      "response.reasoning_summary_text.done",
      "response.reasoning_summary_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const last = events.at(-1) as { response: ResponseObject };
    expect(last.response).toMatchObject({ status: "completed", usage: countsOf });
    expect(last.response.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
  });

  test("stream() accumulates a call of a function", async () => {
    const call = (value: object) => delta({ tool_calls: [{ index: 0, ...value }] });
    answer = () =>
      streamed(
        call({ id: "call_1", type: "function", function: { name: "add", arguments: "" } }),
        call({ function: { arguments: '{"a":' } }),
        call({ function: { arguments: "1}" } }),
        end("tool_calls"),
      );
    const parameters = { type: "object", properties: { a: { type: "number" } } };
    const tools = [{ type: "function" as const, name: "add", parameters, strict: false }];
    const stream = client().responses.stream({ model, input: "1?", tools });
    let written = "";
    stream.on("response.function_call_arguments.delta", ({ delta: text }) => {
      written += text;
    });
    const response = await stream.finalResponse();
    expect(written).toBe('{"a":1}');
    expect(response.output).toMatchObject([
      { type: "function_call", call_id: "call_1", name: "add", arguments: '{"a":1}', status: "completed" },
    ]);
    expect(response.tools).toEqual([{ description: null, ...tools[0]! }]);
    expect(upstream.last.json).toMatchObject({
      tools: [{ type: "function", function: { name: "add", parameters, strict: false } }],
    });
  });
});

describe("promises that hold on every route", () => {
  const post = (body: object, headers: Record<string, string> = {}) =>
    troupe.post("/gateway/v1/responses", { model: "groq/x", input: "hi", ...body }, { headers });

  test("a stream is replayed byte for byte, and resumed behind any of its events", async () => {
    answer = () => streamed(delta({ content: "Hel" }), delta({ content: "lo." }), end());
    const id = { "service-request-id": "of-responses" };
    const text = await (await post({ stream: true }, id)).text();
    expect(text).toMatch(/^id: \S+\nevent: response.created\ndata: /);
    const calls = upstream.requests.length;
    expect(await (await post({ stream: true }, id)).text()).toBe(text);
    const events = text.split(/(?<=\n\n)/);
    const lastId = /^id: (\S+)/.exec(events[4]!)![1]!;
    const rest = await post({ stream: true }, { ...id, "last-event-id": lastId });
    expect(await rest.text()).toBe(events.slice(5).join(""));
    expect(upstream.requests.length).toBe(calls);
  });

  test("a stream that breaks ends with an error and response.failed", async () => {
    answer = () => streamed(delta({ content: "Hel" }));
    const text = await (await post({ stream: true })).text();
    expect(
      text
        .split("\n")
        .filter((line) => line.startsWith("event: "))
        .slice(-2),
    ).toEqual(["event: error", "event: response.failed"]);
    const stream = await troupe.client("gateway").responses.create({ model: "groq/x", input: "hi", stream: true });
    const read = async () => {
      for await (const _one of stream) {
      }
    };
    await expect(read()).rejects.toThrow("groq ended its stream before the answer was finished.");
  });

  test("a cut answer is incomplete, and so is its last item", async () => {
    answer = () => completion({ content: "Hel" }, "length");
    const response = await troupe.client("gateway").responses.create({ model: "groq/x", input: "hi" });
    expect(response).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
    expect(response.output).toMatchObject([{ type: "message", status: "incomplete" }]);
  });

  test("an upstream's error is as it came where it has this form", async () => {
    const error = '{"error": {"message":"slow down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}';
    answer = () => new Response(error, { status: 429, headers: { "retry-after": "7" } });
    const got = await post({});
    expect([got.status, got.headers.get("retry-after"), await got.text()]).toEqual([429, "7", error]);
  });

  test("a custom tool and one of a namespace come back as they were declared", async () => {
    const made = (id: string, name: string, written: object) => ({
      id,
      type: "function",
      function: { name, arguments: JSON.stringify(written) },
    });
    answer = () =>
      completion(
        { content: null, tool_calls: [made("c1", "patch", { input: "*** a" }), made("c2", "fs__read", { p: 1 })] },
        "tool_calls",
      );
    const tools = [
      { type: "custom" as const, name: "patch" },
      { type: "namespace" as const, name: "fs", description: "", tools: [{ type: "function" as const, name: "read" }] },
    ];
    const response = await troupe.client("gateway").responses.create({ model: "groq/x", input: "hi", tools });
    expect(response.output).toMatchObject([
      { type: "custom_tool_call", call_id: "c1", name: "patch", input: "*** a" },
      { type: "function_call", call_id: "c2", name: "read", namespace: "fs", arguments: '{"p":1}' },
    ]);
    expect(response.output.map(({ id }) => id!.split("_")[0])).toEqual(["ctc", "fc"]);
  });

  test("responses.parse reads structured output", async () => {
    answer = () => completion({ content: '{"a":1}' });
    const format = { type: "json_schema" as const, name: "n", schema: { type: "object" }, strict: true };
    const response = await troupe.client("gateway").responses.parse({ model: "groq/x", input: "hi", text: { format } });
    expect(response.output_text).toBe('{"a":1}');
    expect(response.text!.format).toMatchObject(format);
  });
});
