/**
 * Official clients of JavaScript, Python, Go and Java, as they are published, on answers that upstreams really give and that clients can't
 * bear as they come: torn ends, half calls, silence, breaks, a vendor's words, and what they send back in the next turn. The suite's short
 * form asks those of JavaScript that are dependencies of this project.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { HeldStream } from "../../helpers/held-stream.ts";
import { longTest } from "../../helpers/long-form.ts";
import { untilEnd } from "../../helpers/served.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../../helpers/upstream-server.ts";
import { allFormats, type Client, clients as clientsIn, endOf, type Format } from "./clients.ts";
import { type Answer, type Language, programs, Reader } from "./reader.ts";

type Json = Record<string, unknown>;
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
const upstream = untilEnd(
  new UpstreamServer((request) => {
    const isStream = request.path.includes("alt=sse") || (request.json as Json)["stream"] === true;
    const answered = answer(request);
    if (answered instanceof Response) return answered;
    const { plain, events: streamed } = answered;
    if (isStream) return sseResponse(streamed);
    return typeof plain === "string"
      ? new Response(plain, { headers: { "content-type": "application/json" } })
      : jsonResponse(plain);
  }),
);
const names = ["together", "openrouter", "groq", "deepseek"];
const troupe = untilEnd(
  await Troupe.start({
    config: { streams: { keepAliveSeconds: 0.05 } },
    providers: {
      google: { baseUrl: upstream.url, apiKey: "AIza-test" },
      ...Object.fromEntries(names.map((name) => [name, { baseUrl: upstream.url }])),
    },
  }),
);

const model = "google/gemini-3-flash-preview";
const city = (name: string) => `{"city":"${name}"}`;
const big = '{"id":1234567890123456789}';

for (const language of Object.keys(programs) as Language[]) {
  const program = programs[language];
  const isThere = typeof program !== "string";
  (isThere ? describe : describe.skip)(`SDKs of ${language}${isThere ? "" : `: ${program}`}`, () => {
    let reader: Reader;
    beforeAll(() => {
      if (isThere) reader = new Reader(program, troupe);
    });
    afterAll(() => reader?.[Symbol.dispose]());
    const clients = clientsIn[language];
    const caseTest = language === "javascript" ? test : longTest;

    /** Asks by every client, or by some, and compares what each made of it. */
    async function each(
      asked: { model: string; stream: boolean; again?: boolean; formats?: readonly Format[] },
      given: Given | ((request: RecordedRequest) => Given),
      expected: (client: Client) => Partial<Answer>,
      isFit: (client: Client) => boolean = () => true,
    ): Promise<void> {
      answer = typeof given === "function" ? given : () => given;
      const { formats = allFormats, ...question } = asked;
      for (const client of readersOf(formats).filter(isFit)) {
        const got = await reader.ask({ ...question, client: client.name });
        expect({ client: client.name, ...asked, ...got }).toMatchObject({ client: client.name, ...expected(client) });
      }
    }
    const seconds = 120_000;
    const readersOf = (formats: readonly Format[]) => clients.filter(({ format }) => formats.includes(format));

    caseTest(
      "a Gemini stream with an end in every event is whole",
      async () => {
        const given = { events: events(gemini([{ text: "Hel" }], "STOP"), gemini([{ text: "lo" }], "STOP")) };
        await each({ model, stream: true }, given, (client) => ({ text: "Hello", end: endOf("stopped", client) }));
      },
      seconds,
    );

    caseTest(
      "parallel calls that each bring an end (Together's) are both made",
      async () => {
        const ended = ["Oslo", "Rome"].map((one, at) => chunk({ tool_calls: [call(at, city(one))] }, "tool_calls"));
        const calls = ["Oslo", "Rome"].map((one) => ["weather", city(one)] as const);
        const given = { events: events(...ended, "[DONE]") };
        await each({ model: "together/m", stream: true }, given, (client) => ({ calls, end: endOf("called", client) }));
      },
      seconds,
    );

    caseTest(
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

    caseTest(
      "signs of life in a silence disturb no reader of lines",
      async () => {
        for (const client of clients.filter(({ format }) => format === "gemini")) {
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

    caseTest(
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
            for (const client of clients) {
              const asked = { client: client.name, model: models[name], stream: true };
              const got = await reader.ask(asked);
              const words = isTold && !client.hidesWords ? message : "";
              expect({ ...asked, ...got }).toMatchObject({ ...asked, error: expect.stringContaining(words) });
            }
          }
      },
      seconds,
    );

    caseTest.each([false, true])(
      "a vendor's tier is one of OpenAI's (streamed: %p)",
      async (stream) => {
        const given = chat({ content: "Hello" }, "stop", { service_tier: "on_demand" });
        const asked = { model: "groq/m", stream, formats: ["chat", "responses"] as const };
        await each(asked, given, (client) => ({
          text: "Hello",
          ...(!client.hidesTier && { tier: "default" }),
        }));
      },
      seconds,
    );

    caseTest.each([false, true])(
      "an answer without a word can be sent back (streamed: %p)",
      async (stream) => {
        const silent = chat({ content: null, reasoning_content: "Hm" }, "length");
        const spoken = chat({ content: "Hello" }, "stop");
        const given = ({ json }: RecordedRequest) =>
          ((json as Json)["messages"] as Json[]).length > 1 ? spoken : silent;
        const isFit = ({ dropsEmptyText }: Client) => !dropsEmptyText;
        await each({ model: "deepseek/m", stream, again: true }, given, () => ({ text: "Hello" }), isFit);
      },
      seconds,
    );

    caseTest.each([false, true])(
      "integers beyond 2^53 come and go as they are (streamed: %p)",
      async (stream) => {
        const called = JSON.stringify(
          gemini([{ functionCall: { id: "c1", name: "weather", args: { id: 0 } } }], "STOP"),
        );
        const first = called.replace('"id":0', big.slice(1, -1));
        const spoken = gemini([{ text: "Hello" }], "STOP");
        const isFit = ({ roundsIntegers }: Client) => !roundsIntegers;
        const given = ({ text }: RecordedRequest) =>
          text.includes("sunny") ? { plain: spoken, events: events(spoken) } : { plain: first, events: events(first) };
        await each({ model, stream }, given, () => ({ calls: [["weather", big]] }), isFit);
        for (const client of clients.filter(isFit)) {
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

    caseTest.each([false, true])(
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
        await each({ model, stream, formats: ["messages"] }, given, ({ ends }) => ({
          text: "Hello",
          ...(!ends && { last: "text" }),
        }));
      },
      seconds,
    );

    caseTest.each([false, true])(
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

    caseTest.each(["null", "[]"])(
      "a call without arguments, written as %s, has none",
      async (args) => {
        const given = chat({ content: null, tool_calls: [call(0, args)] }, "tool_calls");
        const isFit = ({ wantsNameInEachFragment }: Client) => !wantsNameInEachFragment;
        for (const stream of [false, true])
          await each({ model: "groq/m", stream }, given, () => ({ calls: [["weather", "{}"]] }), isFit);
      },
      seconds,
    );
  });
}
