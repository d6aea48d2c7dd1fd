/** The `@anthropic-ai/sdk` package as its users use it, unmodified, against models of other families, on both surfaces. */
import { beforeEach, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import type { SurfaceName } from "../../src/config/config.ts";
import { callPiece, chunk, completionOf, endingOf, streamed } from "../helpers/chat-upstream.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let answer: () => Response | Promise<Response>;

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({
    providers: { openai: { baseUrl: url }, google: { baseUrl: url, apiKey: "AIza-test" } },
  }),
);
troupe.setTargets(persona, ["openai/x"]);
beforeEach(() => {
  answer = () => jsonResponse(completion({ content: "Hello." }));
});

function clientOf(surface: SurfaceName, maxRetries = 0): Anthropic {
  const baseURL = `${troupe.url}${surface === "gateway" ? "/gateway" : ""}`;
  return new Anthropic({ baseURL, apiKey: troupe.key, authToken: null, maxRetries });
}

const usage = {
  prompt_tokens: 30,
  completion_tokens: 7,
  total_tokens: 37,
  prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 3 },
};
const counted = {
  input_tokens: 16,
  cache_creation_input_tokens: 4,
  cache_read_input_tokens: 10,
  output_tokens: 7,
  output_tokens_details: { thinking_tokens: 3 },
};
const completion = (message: object, finish_reason?: string) => completionOf(message, finish_reason, usage);
const ending = (reason?: string) => endingOf(reason, usage);
const sent = () => upstream.last.json as Record<string, unknown> & { messages: Record<string, unknown>[] };
const weather = {
  name: "weather",
  description: "Tells it.",
  input_schema: { type: "object" as const, properties: { city: { type: "string" } } },
};

describe.each([["gateway", "openai/x"] as const, ["orchestrator", persona] as const])("%s", (surface, model) => {
  const ask = { model, max_tokens: 100, messages: [{ role: "user" as const, content: "hi" }] };
  const client = (maxRetries = 0) => clientOf(surface, maxRetries);

  test("create: the whole message", async () => {
    const made = await client().messages.create(ask);
    expect(made).toEqual({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      type: "message",
      role: "assistant",
      model,
      content: [{ type: "text", text: "Hello." }],
      stop_reason: "end_turn",
      stop_sequence: null,
      stop_details: null,
      usage: counted,
    } as never);
    expect(made).toHaveProperty("_request_id", expect.stringMatching(/^req_[0-9a-f]{32}$/));
  });

  test("messages.stream: events in order, the final message with all counts", async () => {
    answer = streamed(
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "Hel" }),
      chunk({ content: "lo" }),
      ...ending(),
    );
    const stream = client().messages.stream(ask);
    const texts: string[] = [];
    stream.on("text", (delta, snapshot) => void texts.push(`${delta}|${snapshot}`));
    const types: string[] = [];
    for await (const { type } of stream) types.push(type);
    expect(types).toEqual([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(texts).toEqual(["Hel|Hel", "lo|Hello"]);
    expect(await stream.finalMessage()).toMatchObject({
      id: expect.stringMatching(/^msg_/),
      model,
      content: [{ type: "text", text: "Hello" }],
      stop_reason: "end_turn",
      usage: counted,
    });
  });

  test("parallel calls whose arguments come in turns stand one after another, text behind them in a block of its own", async () => {
    answer = streamed(
      chunk({ content: "Let me see." }),
      callPiece(0, "", "weather"),
      callPiece(0, '{"city":'),
      callPiece(1, '{"city":', "weather"),
      callPiece(1, '"Rome"}'),
      callPiece(0, '"Oslo"}'),
      chunk({ content: "Wait." }),
      ...ending("tool_calls"),
    );
    const message = await client()
      .messages.stream({ ...ask, tools: [weather] })
      .finalMessage();
    expect(message.content).toEqual([
      { type: "text", text: "Let me see." },
      { type: "tool_use", id: "call_0", name: "weather", input: { city: "Oslo" } },
      { type: "tool_use", id: "call_1", name: "weather", input: { city: "Rome" } },
      { type: "text", text: "Wait." },
    ] as never);
    expect(message.stop_reason).toBe("tool_use");
  });

  test("the pages that an answer cites stand on its text, plain and streamed", async () => {
    const annotations = [
      { type: "url_citation", url_citation: { start_index: 0, end_index: 4, url: "https://a.example/1", title: "A" } },
      { type: "file_citation", file_citation: { file_id: "f" } },
      { type: "url_citation", url_citation: { start_index: 0, end_index: 4, url: "https://a.example/2" } },
    ];
    const cited = (url: string, title: string) => ({
      type: "web_search_result_location",
      cited_text: "",
      url,
      title,
      encrypted_index: "trp1.none",
    });
    const citations = [cited("https://a.example/1", "A"), cited("https://a.example/2", "")];
    const call = { id: "call_0", type: "function", function: { name: "weather", arguments: "{}" } };
    answer = () => jsonResponse(completion({ content: "See.", annotations, tool_calls: [call] }, "tool_calls"));
    const whole = await client().messages.create({ ...ask, tools: [weather] });
    expect(whole.content).toEqual([
      { type: "text", text: "See.", citations },
      { type: "tool_use", id: "call_0", name: "weather", input: {} },
    ] as never);
    answer = streamed(chunk({ content: "Se" }), chunk({ content: "e.", annotations }), ...ending());
    const stream = client().messages.stream(ask);
    const told: unknown[] = [];
    stream.on("citation", (citation) => void told.push(citation));
    expect((await stream.finalMessage()).content).toEqual([{ type: "text", text: "See.", citations }] as never);
    expect(told).toEqual(citations);
  });

  test.each([false, true])("the tool runner calls the tool and sends its result (streamed: %p)", async (stream) => {
    let turn = 0;
    const call = { id: "call_0", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } };
    answer = () => {
      turn += 1;
      if (stream) {
        return turn === 1
          ? sseResponse([callPiece(0, "", "weather"), callPiece(0, '{"city":"Oslo"}'), ...ending("tool_calls")])
          : sseResponse([chunk({ content: "It rains." }), ...ending()]);
      }
      // Some upstreams say stop beside calls.
      return jsonResponse(
        turn === 1 ? completion({ content: null, tool_calls: [call] }) : completion({ content: "It rains." }),
      );
    };
    const tool = betaTool({
      ...weather,
      inputSchema: weather.input_schema,
      run: async ({ city }: { city: string }) => `Rain in ${city}.`,
    } as never);
    const runner = client().beta.messages.toolRunner({ ...ask, tools: [tool], stream } as never);
    const final = (await runner) as unknown as Anthropic.Message;
    expect(final.content).toEqual([{ type: "text", text: "It rains." }] as never);
    expect(sent().messages.at(-1)).toEqual({ role: "tool", tool_call_id: "call_0", content: "Rain in Oslo." });
    expect(sent().messages.at(-2)).toMatchObject({ role: "assistant", content: null, tool_calls: [call] });
    expect(sent().messages.at(-3)).toEqual({ role: "user", content: "hi" });
    expect(sent()["tools"]).toEqual([
      { type: "function", function: { name: "weather", description: "Tells it.", parameters: weather.input_schema } },
    ]);
  });

  test("errors have the client's classes, and the request's id", async () => {
    const wrong = await client()
      .messages.create({ ...ask, max_tokens: "many" as never })
      .catch((error) => error);
    expect(wrong).toBeInstanceOf(Anthropic.BadRequestError);
    expect(wrong.error).toEqual({
      type: "error",
      error: { type: "invalid_request_error", message: "max_tokens must be an integer of at least 0." },
      request_id: wrong.requestID,
    });
    expect(wrong.requestID).toStartWith("req_");
    const key = await new Anthropic({ baseURL: troupe.url, apiKey: "no", authToken: null }).messages
      .create(ask)
      .catch((error) => error);
    expect(key).toBeInstanceOf(Anthropic.AuthenticationError);
    const missing = await client()
      .messages.create({
        ...ask,
        model: surface === "gateway" ? "openai/x" : "troupe/nobody",
        max_tokens: undefined as never,
      })
      .catch((error) => error);
    expect(missing.message).toContain("Missing required field: max_tokens.");
  });

  test("a stream that breaks gives the error event", async () => {
    const held = new HeldStream();
    answer = () => held.response();
    const stream = client().messages.stream(ask);
    held.fragment("a");
    held.event({ error: { message: "worn out", type: "server_error" } });
    held.close();
    const error = await stream.finalMessage().catch((one) => one);
    expect(error).toBeInstanceOf(Anthropic.APIError);
    expect(error.error.error.type).toBe(surface === "gateway" ? "api_error" : "overloaded_error");
  });

  test("a retry under a service-request-id gives the same bytes, and a stream resumes", async () => {
    answer = streamed(chunk({ content: "Hel" }), chunk({ content: "lo" }), ...ending());
    const path = `${surface === "gateway" ? "/gateway" : ""}/v1/messages`;
    const headers = { "service-request-id": `messages-${surface}` };
    const post = (more = {}) => troupe.post(path, { ...ask, stream: true }, { headers: { ...headers, ...more } });
    const first = await (await post()).text();
    expect(first).toMatch(/^id: \S+-0\nevent: message_start\ndata: /);
    const again = await post();
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(await again.text()).toBe(first);
    const events = first.split(/(?<=\n\n)/);
    const id = /^id: (\S+)/.exec(events[2]!)![1]!;
    expect(await (await post({ "last-event-id": id })).text()).toBe(events.slice(3).join(""));
  });
});

const ask = { model: "openai/x", max_tokens: 100, messages: [{ role: "user" as const, content: "hi" }] };

test("an upstream's error keeps its status and words, in the client's form", async () => {
  answer = () =>
    jsonResponse({ error: { message: "No such model.", code: "x" } }, 404, {
      "retry-after": "7",
      "x-request-id": "up",
    });
  const error = await clientOf("gateway")
    .messages.create(ask)
    .catch((one) => one);
  expect(error).toBeInstanceOf(Anthropic.NotFoundError);
  expect(error.error).toEqual({
    type: "error",
    error: { type: "not_found_error", message: "No such model." },
    request_id: error.requestID,
  });
  expect(error.headers.get("retry-after")).toBe("7");
  expect(error.headers.get("x-upstream-request-id")).toBe("up");
});

test("the client's own retries obey retry-after", async () => {
  let calls = 0;
  answer = () =>
    calls++ === 0
      ? jsonResponse({ error: { message: "slow down" } }, 429, { "retry-after-ms": "1" })
      : jsonResponse(completion({ content: "Now." }));
  const made = await clientOf("gateway", 1).messages.create(ask);
  expect([calls, made.content]).toEqual([2, [{ type: "text", text: "Now." }]] as never);
});
