/** The `openai` package as its users use it, unmodified, in every shape of call, on both surfaces. */
import { beforeEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { makeParseableResponseFormat } from "openai/lib/parser";
import { HeldStream } from "../helpers/held-stream.ts";
import { untilEnd } from "../helpers/served.ts";
import { Silence } from "../helpers/silence.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
const messages = [{ role: "user" as const, content: "hi" }];
const silence = new Silence();
let answer: () => Response | Promise<Response>;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const { clock, timeouts } = silence;
const troupe = untilEnd(await Troupe.start({ clock, providers: { openai: { baseUrl: upstream.url, timeouts } } }));
troupe.setTargets(persona, ["openai/x"]);
beforeEach(() => {
  answer = () => jsonResponse(completion(["Hello."]));
});

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const completion = (contents: string[]) => ({
  id: "theirs",
  model: "theirs",
  choices: contents.map((content, index) => ({
    index,
    message: { role: "assistant", content },
    finish_reason: "stop",
  })),
  usage,
});
const event = (choice: object) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`;
const fragment = (content: string, index = 0) => event({ index, delta: { content } });
const finish = (reason = "stop", index = 0) => event({ index, delta: {}, finish_reason: reason });
const counts = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;
const done = "data: [DONE]\n\n";
const streamed =
  (...pieces: string[]) =>
  () =>
    sseResponse([...pieces, done]);

describe.each([["orchestrator", persona] as const, ["gateway", "openai/x"] as const])("%s", (surface, model) => {
  const client = () => troupe.client(surface);
  const ask = { model, messages };

  test("models.list, page by page, and models.retrieve", async () => {
    const listed: OpenAI.Model[] = [];
    for await (const one of client().models.list()) listed.push(one);
    expect(listed.length).toBeGreaterThan(1);
    const known = listed.find(({ id }) => id === (surface === "gateway" ? "builtin/echo" : persona))!;
    expect(known).toMatchObject({ object: "model", owned_by: known.id.split("/")[0] });
    expect(Number.isInteger(known.created)).toBe(true);
    expect(await client().models.retrieve(known.id)).toEqual(known);
  });

  test("create: the completion with every field of the format", async () => {
    const before = Math.floor(Date.now() / 1000);
    const made = await client().chat.completions.create(ask);
    expect(made).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: "chat.completion",
      created: expect.any(Number),
      model,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hello.", refusal: null },
          finish_reason: "stop",
          logprobs: null,
        },
      ],
      usage,
      system_fingerprint: null as never,
    });
    expect(made.created).toBeWithin(before, before + 10);
    expect(made).toHaveProperty("_request_id", expect.stringMatching(/^req_[0-9a-f]{32}$/));
  });

  test("create with n choices", async () => {
    answer = () => jsonResponse(completion(["a", "b", "c"]));
    const made = await client().chat.completions.create({ ...ask, n: 3 });
    expect(made.choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, "a"],
      [1, "b"],
      [2, "c"],
    ]);
    expect((upstream.last.json as { n: number }).n).toBe(3);
  });

  test("withResponse and asResponse show the headers", async () => {
    const { data, response, request_id } = await client().chat.completions.create(ask).withResponse();
    expect(response.headers.get("x-request-id")).toBe(request_id!);
    expect(data).toHaveProperty("_request_id", request_id);
    expect(response.headers.get("x-ratelimit-limit")).toBe("1000000");
    expect((await client().models.list().asResponse()).headers.get("content-type")).toContain("application/json");
  });

  test("stream: one envelope, role with the first words, [DONE] unseen, usage at the end", async () => {
    answer = streamed(
      event({ delta: { role: "assistant", content: "" } }),
      fragment("Hel"),
      fragment("lo"),
      finish(),
      counts,
    );
    const stream = await client().chat.completions.create({
      ...ask,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.map(({ choices }) => choices[0]?.delta)).toEqual([
      { role: "assistant", content: "Hel" },
      { content: "lo" },
      {},
      undefined,
    ]);
    expect(chunks.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, null, "stop", undefined]);
    expect(chunks.map((chunk) => chunk.usage)).toEqual([null, null, null, usage]);
    expect(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size).toBe(1);
    for (const chunk of chunks) expect(chunk).toMatchObject({ object: "chat.completion.chunk", model });
  });

  test("stream with n choices: each has its own role and end", async () => {
    answer = streamed(fragment("a", 0), fragment("b", 1), fragment("c", 0), finish("stop", 0), finish("length", 1));
    const runner = client().chat.completions.stream({ ...ask, n: 2 });
    const { choices } = await runner.finalChatCompletion();
    expect(choices.map(({ message, finish_reason }) => [message.role, message.content, finish_reason])).toEqual([
      ["assistant", "ac", "stop"],
      ["assistant", "b", "length"],
    ]);
  });

  test("stream().on: deltas, snapshots, the final message", async () => {
    answer = streamed(fragment("Hel"), fragment("lo"), finish(), counts);
    const seen: string[] = [];
    const runner = client()
      .chat.completions.stream({ ...ask, stream_options: { include_usage: true } })
      .on("content", (delta, snapshot) => void seen.push(`${delta}|${snapshot}`));
    expect((await runner.finalMessage()).content).toBe("Hello");
    expect(seen).toEqual(["Hel|Hel", "lo|Hello"]);
    expect(await runner.totalUsage()).toMatchObject(usage);
  });

  test("tee and toReadableStream", async () => {
    answer = streamed(fragment("Hel"), fragment("lo"), finish());
    const [left, right] = (await client().chat.completions.create({ ...ask, stream: true })).tee();
    const read = async (stream: AsyncIterable<OpenAI.ChatCompletionChunk>) => {
      let text = "";
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
      return text;
    };
    const lines = (await new Response(right.toReadableStream()).text()).trim().split("\n");
    expect([await read(left), lines.length]).toEqual(["Hello", 3]);
  });

  test("abort ends the upstream's call", async () => {
    const held = new HeldStream();
    answer = () => held.response();
    const before = upstream.requests.length;
    const starting = client().chat.completions.create({ ...ask, stream: true });
    await upstream.received(before + 1);
    held.fragment("one");
    for await (const chunk of await starting) {
      expect(chunk.choices[0]!.delta.content).toBe("one");
      break;
    }
    await held.cancelled;
  });

  const weather = {
    type: "function" as const,
    function: {
      name: "weather",
      description: "Tells the weather.",
      parameters: { type: "object", properties: { city: { type: "string" } } },
      parse: JSON.parse,
      function: async ({ city }: { city: string }) => `Rain in ${city}.`,
    },
  };
  const call = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } };

  test("runTools calls the function and sends its result", async () => {
    let turn = 0;
    answer = () => {
      const message = { role: "assistant", content: null, tool_calls: [call] };
      return turn++ === 0
        ? jsonResponse({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] })
        : jsonResponse(completion(["It rains."]));
    };
    const runner = client().chat.completions.runTools({ ...ask, tools: [weather] });
    expect(await runner.finalContent()).toBe("It rains.");
    const sent = (upstream.last.json as { messages: { role: string; content: string; tool_call_id?: string }[] })
      .messages;
    expect(sent.at(-1)).toMatchObject({ role: "tool", content: "Rain in Oslo.", tool_call_id: "call_1" });
    // The persona speaks on every turn.
    expect(sent[0]!.role).toBe(surface === "gateway" ? "user" : "system");
  });

  test("runTools with stream: arguments in pieces come together", async () => {
    let turn = 0;
    const piece = (args: string, first: object = {}) =>
      event({ delta: { tool_calls: [{ index: 0, ...first, function: { arguments: args } }] } });
    answer = () =>
      turn++ === 0
        ? sseResponse([
            event({ delta: { tool_calls: [{ index: 0, ...call, function: { name: "weather", arguments: "" } }] } }),
            piece('{"city"'),
            piece(':"Oslo"}'),
            finish("tool_calls"),
            done,
          ])
        : sseResponse([fragment("It "), fragment("rains."), finish(), done]);
    const runner = client().chat.completions.runTools({ ...ask, stream: true, tools: [weather] });
    expect(await runner.finalContent()).toBe("It rains.");
    const sent = (upstream.last.json as { messages: { content: string }[] }).messages;
    expect(sent.at(-1)!.content).toBe("Rain in Oslo.");
  });

  test("parse reads structured output", async () => {
    answer = () => jsonResponse(completion(['{"city":"Oslo","degrees":4}']));
    const schema = { type: "object", properties: { city: { type: "string" }, degrees: { type: "number" } } };
    const format = makeParseableResponseFormat(
      { type: "json_schema", json_schema: { name: "weather", strict: true, schema } },
      (text): unknown => JSON.parse(text),
    );
    const parsed = await client().chat.completions.parse({ ...ask, response_format: format });
    expect(parsed.choices[0]!.message.parsed).toEqual({ city: "Oslo", degrees: 4 });
    expect((upstream.last.json as { response_format: unknown }).response_format).toMatchObject({ type: "json_schema" });
  });

  const failure = (options: { apiKey?: string } = {}, changes: object = {}) =>
    troupe
      .client(surface, options)
      .chat.completions.create({ ...ask, ...changes })
      .catch((error: unknown) => error);

  test.each<[string, new (...args: never[]) => Error, object, () => Promise<unknown>]>([
    [
      "a wrong key",
      OpenAI.AuthenticationError,
      { status: 401, code: "invalid_api_key" },
      () => failure({ apiKey: "x" }),
    ],
    [
      "a wrong value",
      OpenAI.BadRequestError,
      { status: 400, param: "n", code: "invalid_value" },
      () => failure({}, { n: 0 }),
    ],
    ["no messages", OpenAI.BadRequestError, { status: 400, param: "messages" }, () => failure({}, { messages: [] })],
    [
      "an unknown model",
      OpenAI.NotFoundError,
      { status: 404, param: "model", code: "model_not_found" },
      () =>
        client()
          .models.retrieve("no/such")
          .catch((error: unknown) => error),
    ],
    [
      "a key for the other surface",
      OpenAI.PermissionDeniedError,
      { status: 403, code: "surface_not_allowed" },
      async () =>
        failure({
          apiKey: await troupe.createKey({
            name: "o",
            tier: "pro",
            surfaces: [surface === "gateway" ? "orchestrator" : "gateway"],
          }),
        }),
    ],
    [
      "too many requests",
      OpenAI.RateLimitError,
      { status: 429, code: "rate_limit_exceeded", type: "rate_limit_error" },
      async () => {
        const apiKey = await troupe.createKey({ name: "one", tier: "enterprise", perMinute: 1 });
        await failure({ apiKey });
        return failure({ apiKey });
      },
    ],
    [
      "an upstream that is silent",
      OpenAI.InternalServerError,
      { status: 504, code: "upstream_timeout", type: "timeout_error" },
      () => {
        answer = silence.answer;
        return failure();
      },
    ],
    [
      "another route of the public format",
      OpenAI.NotFoundError,
      { status: 404, code: "not_found" },
      () =>
        client()
          .files.retrieve("file-1")
          .catch((error: unknown) => error),
    ],
  ])("%s is the right class", async (_name, type, fields, ask) => {
    const error = (await ask()) as { requestID: string };
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject(fields);
    expect(error.requestID).toMatch(/^req_/);
  });

  test("a reused idempotency key is UnprocessableEntityError, and not retried", async () => {
    const key = { idempotencyKey: `official-${surface}`, headers: { "idempotency-key": `official-${surface}` } };
    const retrying = troupe.client(surface, { maxRetries: 2 });
    const first = await retrying.chat.completions.create(ask, key);
    const before = upstream.requests.length;
    expect((await retrying.chat.completions.create(ask, key)).id).toBe(first.id);
    const error = await retrying.chat.completions
      .create({ ...ask, temperature: 0 }, key)
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.UnprocessableEntityError);
    expect(upstream.requests.length).toBe(before);
  });

  test("its automatic retry waits as told and then succeeds", async () => {
    let tries = 0;
    answer = () =>
      tries++ === 0
        ? jsonResponse({ error: { message: "later" } }, 503, { "retry-after-ms": "5", "retry-after": "1" })
        : jsonResponse(completion(["at last"]));
    const made = await troupe.client(surface, { maxRetries: 1 }).chat.completions.create(ask);
    expect([made.choices[0]!.message.content, tries]).toEqual(["at last", 2]);
  });

  test("an error inside a stream is raised", async () => {
    answer = streamed(fragment("one"), 'data: {"error":{"message":"boom","type":"server_error"}}\n\n');
    const stream = await client().chat.completions.create({ ...ask, stream: true });
    const reading = (async () => {
      for await (const _ of stream);
    })();
    const error = await reading.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(OpenAI.APIError);
  });
});
