/**
 * Official clients of Python and Go, as they are published, on answers that upstreams really give and that clients can't bear as they
 * come: torn ends, half calls, silence, breaks, a vendor's words, and what they send back in the next turn.
 */
import { afterAll, beforeAll, describe, expect } from "bun:test";
import { HeldStream } from "../../helpers/held-stream.ts";
import { isLongForm, longTest } from "../../helpers/long-form.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../../helpers/upstream-server.ts";
import { type Answer, commands, type Language, Reader } from "./reader.ts";

type Json = Record<string, unknown>;
const allFormats = ["chat", "responses", "messages", "gemini"] as const;
type Format = (typeof allFormats)[number];
/** By the form in which each tells the ends. */
type Client = {
  readonly name: string;
  readonly format: Format;
  readonly hasOwnEnds?: true;
};

const clients: Readonly<Record<Language, readonly Client[]>> = {
  python: [
    { name: "openai, chat", format: "chat" },
    { name: "openai, Responses", format: "responses" },
    { name: "anthropic", format: "messages" },
    { name: "google-genai", format: "gemini" },
    { name: "together", format: "chat" },
    { name: "groq", format: "chat" },
    { name: "openrouter", format: "chat" },
    { name: "mistralai", format: "chat" },
    { name: "pydantic-ai, chat", format: "chat", hasOwnEnds: true },
    { name: "pydantic-ai, responses", format: "responses", hasOwnEnds: true },
    // Not by Messages: with this version of Anthropic's client it can't read any answer ("Cannot instantiate typing.Union").
    { name: "pydantic-ai, gemini", format: "gemini", hasOwnEnds: true },
  ],
  go: [
    { name: "openai-go, chat", format: "chat" },
    { name: "openai-go, Responses", format: "responses" },
    { name: "anthropic-sdk-go", format: "messages" },
    { name: "genai", format: "gemini" },
  ],
};

const ends = {
  stopped: { chat: "stop", responses: "completed", messages: "end_turn", gemini: "STOP", own: "stop" },
  called: { chat: "tool_calls", responses: "completed", messages: "tool_use", gemini: "STOP", own: "tool_call" },
  cut: { chat: "length", responses: "incomplete", messages: "max_tokens", gemini: "MAX_TOKENS", own: "length" },
};
const endOf = (end: keyof typeof ends, { format, hasOwnEnds }: Client) => {
  // It takes the ends of Responses and Gemini as they are, also behind a call, and names none for `incomplete`.
  const ownCalled = end === "called" && (format === "responses" || format === "gemini") ? "stop" : ends[end].own;
  if (hasOwnEnds && end === "cut" && format === "responses") return null;
  return hasOwnEnds ? ownCalled : ends[end][format];
};

/** Whose errors within a stream tell of its form, and shorten the words. */
const cutSilently = new Set(["openrouter", "mistralai"]);
const tellsTier = ({ name }: Client) => !/pydantic|mistral|together/.test(name);

const events = (...given: readonly (object | string)[]) =>
  given.map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
const gemini = (parts: readonly object[], finishReason?: string) => ({
  candidates: [{ index: 0, content: { role: "model", parts }, finishReason }],
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 },
});
const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
const head = { id: "c", created: 1, model: "m" };
const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  ...{ ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason, ...more }] },
});
const call = (index: number, args: string) => ({
  ...{ index, id: `call_${index}`, type: "function", function: { name: "weather", arguments: args } },
});
const whole = (message: object, finish_reason: string, more: object = {}) => ({
  ...{ ...head, object: "chat.completion", usage, ...more },
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
});
/** A whole answer of chat completions and the same streamed. */
const chat = (message: { tool_calls?: readonly object[] } & Json, end: string, more: object = {}) => ({
  plain: whole(message, end, more),
  events: events(
    { ...chunk(message), ...more },
    { ...chunk({}, end), ...more },
    { ...head, choices: [], usage, ...more },
    "[DONE]",
  ),
});

type Given = { readonly plain?: object | string; readonly events: readonly string[] };
let answer: (request: RecordedRequest) => Given | Response;
let upstream: UpstreamServer;
let troupe: Troupe;
beforeAll(async () => {
  if (!isLongForm) return;
  upstream = new UpstreamServer((request) => {
    const isStream = request.path.includes("alt=sse") || (request.json as Json)["stream"] === true;
    const answered = answer(request);
    if (answered instanceof Response) return answered;
    const { plain, events: streamed } = answered;
    if (isStream) return sseResponse(streamed);
    return typeof plain === "string"
      ? new Response(plain, { headers: { "content-type": "application/json" } })
      : jsonResponse(plain);
  });
  const names = ["together", "openrouter", "groq", "deepseek"];
  troupe = await Troupe.start({
    config: { streams: { keepAliveSeconds: 0.05 } },
    providers: {
      google: { baseUrl: upstream.url, apiKey: "AIza-test" },
      ...Object.fromEntries(names.map((name) => [name, { baseUrl: upstream.url }])),
    },
  });
});
afterAll(async () => {
  await troupe?.[Symbol.asyncDispose]();
  upstream?.[Symbol.dispose]();
});

const model = "google/gemini-3-flash-preview";
const city = (name: string) => `{"city":"${name}"}`;
const big = '{"id":1234567890123456789}';

for (const language of Object.keys(commands) as Language[]) {
  const has = commands[language] !== undefined;
  const name = has || !isLongForm ? `${language}'s SDKs` : `${language}'s SDKs could not be installed`;
  (has ? describe : describe.skip)(name, () => {
    let reader: Reader;
    beforeAll(() => {
      if (isLongForm) reader = new Reader(language, troupe);
    });
    afterAll(() => reader?.[Symbol.dispose]());

    /** Asks by every client, or by those of some formats, and compares what each made of it. */
    async function each(
      asked: { model: string; stream: boolean; again?: boolean; formats?: readonly Format[]; without?: string },
      given: Given | ((request: RecordedRequest) => Given),
      expected: (client: Client) => Partial<Answer>,
    ): Promise<void> {
      answer = typeof given === "function" ? given : () => given;
      const { formats, without, ...question } = asked;
      for (const client of readersOf(formats ?? allFormats)) {
        if (without === client.name) continue;
        const got = await reader.ask({ ...question, client: client.name });
        expect({ client: client.name, ...asked, ...got }).toMatchObject({ client: client.name, ...expected(client) });
      }
    }
    const seconds = 120_000;
    /** Those of some formats that read answers of this kind. */
    const readersOf = (formats: readonly Format[]) =>
      clients[language].filter(({ format }) => formats.includes(format));

    longTest(
      "a Gemini stream with an end in every event is whole",
      async () => {
        const given = { events: events(gemini([{ text: "Hel" }], "STOP"), gemini([{ text: "lo" }], "STOP")) };
        await each({ model, stream: true }, given, (client) => ({ text: "Hello", end: endOf("stopped", client) }));
      },
      seconds,
    );

    longTest(
      "parallel calls that each bring an end (Together's) are both made",
      async () => {
        const ended = ["Oslo", "Rome"].map((one, at) => chunk({ tool_calls: [call(at, city(one))] }, "tool_calls"));
        const calls = ["Oslo", "Rome"].map((one) => ["weather", city(one)] as const);
        const given = { events: events(...ended, "[DONE]") };
        await each({ model: "together/m", stream: true }, given, (client) => ({ calls, end: endOf("called", client) }));
      },
      seconds,
    );

    longTest(
      "half a call is no whole one",
      async () => {
        const half = chunk({ tool_calls: [call(0, '{"summary":"The cache warmer raced')] });
        const told = events(half, chunk({}, "tool_calls", { native_finish_reason: "max_output_tokens" }), "[DONE]");
        await each(
          { model: "openrouter/m", stream: true, formats: ["chat", "responses"] },
          { events: told },
          (client) => ({
            end: endOf("cut", client),
          }),
        );
      },
      seconds,
    );

    longTest(
      "signs of life in a silence disturb no reader of lines",
      async () => {
        for (const client of clients[language].filter(({ format }) => format === "gemini")) {
          const held = new HeldStream();
          held.event(gemini([{ text: "Hel" }]));
          let blanks = 0;
          // Between the client and Troupe: the upstream goes on once three signs have come by.
          using between = new UpstreamServer(async ({ path, text, headers }) => {
            const passed = await fetch(troupe.url + path, { method: "POST", headers, body: text });
            const watched = new TransformStream<Uint8Array, Uint8Array>({
              transform(piece, controller) {
                controller.enqueue(piece);
                if (new TextDecoder().decode(piece).trim() !== "") return;
                blanks += 1;
                if (blanks !== 3) return;
                held.event(gemini([{ text: "lo" }], "STOP"));
                held.close();
              },
            });
            return new Response(passed.body!.pipeThrough(watched), {
              headers: { "content-type": "text/event-stream" },
            });
          });
          answer = () => held.response();
          const got = await reader.ask({ client: client.name, model, stream: true, url: between.url });
          expect([client.name, got.text, got.error]).toEqual([client.name, "Hello", undefined]);
          expect(blanks).toBeGreaterThanOrEqual(3);
        }
      },
      seconds,
    );

    longTest(
      "a stream that breaks, or tells an error, raises",
      async () => {
        const begun = { groq: chunk({ content: "Hel" }), google: gemini([{ text: "Hel" }]) };
        const message = "the model is gone";
        const errors = {
          groq: { error: { message, type: "server_error", param: null, code: null } },
          google: { error: { code: 503, message, status: "UNAVAILABLE" } },
        };
        const models = { google: model, groq: "groq/m" };
        for (const name of ["groq", "google"] as const)
          for (const isTold of [true, false]) {
            answer = () => ({ events: events(begun[name], ...(isTold ? [errors[name]] : [])) });
            for (const client of clients[language]) {
              const asked = { client: client.name, model: models[name], stream: true };
              const got = await reader.ask(asked);
              const words = isTold && !cutSilently.has(client.name) ? message : "";
              expect({ ...asked, ...got }).toMatchObject({ ...asked, error: expect.stringContaining(words) });
            }
          }
      },
      seconds,
    );

    longTest.each([false, true])(
      "a vendor's tier is one of OpenAI's (streamed: %p)",
      async (stream) => {
        const given = chat({ content: "Hello" }, "stop", { service_tier: "on_demand" });
        const asked = { model: "groq/m", stream, formats: ["chat", "responses"] as const };
        await each(asked, given, (client) => ({
          text: "Hello",
          ...(tellsTier(client) && { tier: "default" }),
        }));
      },
      seconds,
    );

    longTest.each([false, true])(
      "an answer without a word can be sent back (streamed: %p)",
      async (stream) => {
        const silent = chat({ content: null, reasoning_content: "Hm" }, "length");
        const spoken = chat({ content: "Hello" }, "stop");
        const given = ({ json }: RecordedRequest) =>
          ((json as Json)["messages"] as Json[]).length > 1 ? spoken : silent;
        // Go's leave an empty text out of what they send back: a message without content, a part without a member.
        const formats = language === "go" ? allFormats.slice(1, 3) : allFormats;
        await each({ model: "deepseek/m", stream, again: true, formats }, given, () => ({ text: "Hello" }));
      },
      seconds,
    );

    longTest.each([false, true])(
      "integers beyond 2^53 come and go as they are (streamed: %p)",
      async (stream) => {
        const called = JSON.stringify(
          gemini([{ functionCall: { id: "c1", name: "weather", args: { id: 0 } } }], "STOP"),
        );
        const first = called.replace('"id":0', big.slice(1, -1));
        const spoken = gemini([{ text: "Hello" }], "STOP");
        // Go's own client of Gemini's format reads numbers as floats.
        const formats = language === "go" ? allFormats.slice(0, 3) : allFormats;
        const given = ({ text }: RecordedRequest) =>
          text.includes("sunny") ? { plain: spoken, events: events(spoken) } : { plain: first, events: events(first) };
        await each({ model, stream, formats }, given, () => ({ calls: [["weather", big]] }));
        for (const client of readersOf(formats)) {
          const got = await reader.ask({ client: client.name, model, stream, again: true });
          expect([client.name, got]).toEqual([client.name, expect.objectContaining({ text: "Hello" })]);
          expect([client.name, upstream.last.text]).toEqual([
            client.name,
            expect.stringContaining("1234567890123456789"),
          ]);
        }
      },
      seconds,
    );

    longTest.each([false, true])(
      "the last block is the answer (streamed: %p)",
      async (stream) => {
        const signed = gemini(
          [
            { text: "Hm", thought: true },
            { text: "Hello", thoughtSignature: "Z29vZ2xl" },
          ],
          "STOP",
        );
        const given = { plain: signed, events: events(signed) };
        await each({ model, stream, formats: ["messages"] }, given, ({ hasOwnEnds }) => ({
          text: "Hello",
          ...(!hasOwnEnds && { last: "text" }),
        }));
      },
      seconds,
    );

    longTest.each([false, true])(
      "unsigned thoughts come back as thoughts (streamed: %p)",
      async (stream) => {
        const first = chat({ reasoning_content: "Let me look.", tool_calls: [call(0, city("Oslo"))] }, "tool_calls");
        const given = ({ text }: RecordedRequest) =>
          text.includes("sunny") ? chat({ content: "Hello" }, "stop") : first;
        for (const client of readersOf(["messages"])) {
          answer = given;
          const got = await reader.ask({ client: client.name, model: "deepseek/deepseek-chat", stream, again: true });
          expect([client.name, got]).toEqual([client.name, expect.objectContaining({ text: "Hello" })]);
          const { messages } = upstream.last.json as { messages: Json[] };
          const thinking = messages.filter((message) => JSON.stringify(message).includes("Let me look."));
          expect([client.name, thinking]).toMatchObject([
            client.name,
            [{ role: "assistant", reasoning_content: "Let me look." }],
          ]);
        }
      },
      seconds,
    );

    longTest.each(["null", "[]"])(
      "a call without arguments, written as %s, has none",
      async (args) => {
        const given = chat({ content: null, tool_calls: [call(0, args)] }, "tool_calls");
        // Mistral's wants the name in each fragment of a call.
        for (const stream of [false, true])
          await each({ model: "groq/m", stream, without: "mistralai" }, given, () => ({ calls: [["weather", "{}"]] }));
      },
      seconds,
    );
  });
}
