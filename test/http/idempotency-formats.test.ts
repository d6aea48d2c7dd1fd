/** `service-request-id` keeps its promises in every client format, translated and passed on as it comes, on both surfaces. */
import { describe, expect, spyOn, test } from "bun:test";
import type { SurfaceName } from "../../src/config/config.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

/** What an upstream of a format answers: whole, or its stream's first event and the rest. */
type Answered = { readonly whole: object; readonly first: string; readonly rest: string };

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const named = (value: { type: string } & Record<string, unknown>) => `event: ${value.type}\n${data(value)}`;

const chatPart = (delta: object, finish_reason: string | null = null) =>
  data({ id: "up", object: "chat.completion.chunk", created: 1, choices: [{ index: 0, delta, finish_reason }] });
const chatAnswer: Answered = {
  whole: {
    id: "up",
    object: "chat.completion",
    created: 1,
    choices: [{ index: 0, message: { role: "assistant", content: "early late" }, finish_reason: "stop" }],
  },
  first: chatPart({ role: "assistant", content: "early" }),
  rest: `${chatPart({ content: " late" })}${chatPart({}, "stop")}data: [DONE]\n\n`,
};

const textPart = (text: string, finish_reason: string | null = null) =>
  data({ id: "up", object: "text_completion", created: 1, choices: [{ text, index: 0, finish_reason }] });
const textAnswer: Answered = {
  whole: {
    id: "up",
    object: "text_completion",
    created: 1,
    choices: [{ text: "early late", index: 0, finish_reason: "stop" }],
  },
  first: textPart("early"),
  rest: `${textPart(" late")}${textPart("", "stop")}data: [DONE]\n\n`,
};

const message = { id: "msg_up", type: "message", role: "assistant", model: "m", stop_sequence: null };
const usage = { input_tokens: 3, output_tokens: 2 };
const blockDelta = (text: string) =>
  named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
const messagesAnswer: Answered = {
  whole: { ...message, content: [{ type: "text", text: "early late" }], stop_reason: "end_turn", usage },
  first:
    named({ type: "message_start", message: { ...message, content: [], stop_reason: null, usage } }) +
    named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }) +
    blockDelta("early"),
  rest:
    blockDelta(" late") +
    named({ type: "content_block_stop", index: 0 }) +
    named({ type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage }) +
    named({ type: "message_stop" }),
};

const item = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "early late", annotations: [] }],
};
const response = { id: "resp_up", object: "response", created_at: 1, status: "completed", model: "m", output: [item] };
const textDelta = (delta: string, sequence_number: number) =>
  named({
    type: "response.output_text.delta",
    sequence_number,
    output_index: 0,
    item_id: "msg_1",
    content_index: 0,
    delta,
  });
const responsesAnswer: Answered = {
  whole: response,
  first:
    named({
      type: "response.created",
      sequence_number: 0,
      response: { ...response, status: "in_progress", output: [] },
    }) + textDelta("early", 1),
  rest: textDelta(" late", 2) + named({ type: "response.completed", sequence_number: 3, response }),
};

const candidate = (text: string, more: object = {}) => ({
  candidates: [{ content: { parts: [{ text }], role: "model" }, index: 0, ...more }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
  responseId: "up",
});
const googleAnswer: Answered = {
  whole: candidate("early late", { finishReason: "STOP" }),
  first: data(candidate("early")),
  rest: data(candidate(" late", { finishReason: "STOP" })),
};

const answersOf: Readonly<Record<string, Answered>> = {
  "openai/gpt-5": chatAnswer,
  "groq/m": chatAnswer,
  "anthropic/claude-sonnet-4-5": messagesAnswer,
  "google/gemini-2.5-flash": googleAnswer,
};

const user = { role: "user", content: "hi" };
const reused = "This service-request-id was already used with a different request.";
const chatError = {
  error: {
    message: reused,
    type: "invalid_request_error",
    param: "service-request-id",
    code: "idempotency_key_reused",
  },
};

/** How a client format asks, and how it is told that an id was used with another request. */
type Format = {
  readonly path: (model: string) => string;
  readonly body: (model: string, isStream: boolean) => object;
  /** The same request with one change. */
  readonly change: object;
  readonly conflict: object;
  readonly hasIds?: false;
  /** Headers that ask for ids, in a format that has none by itself. */
  readonly asking?: Record<string, string>;
};

const gemini = (method: string, rest: Partial<Format> = {}): Format => ({
  path: (model) => `/v1beta/models/${model}:${method}`,
  body: () => ({ contents: [{ role: "user", parts: [{ text: "hi" }] }] }),
  change: { generationConfig: { temperature: 1 } },
  conflict: {
    error: {
      code: 422,
      message: reused,
      status: "INVALID_ARGUMENT",
      details: [
        {
          "@type": "type.googleapis.com/google.rpc.BadRequest",
          fieldViolations: [{ field: "service-request-id", description: reused }],
        },
      ],
    },
  },
  ...rest,
});

const formats = {
  chat: {
    path: () => "/v1/chat/completions",
    body: (model, stream) => ({ model, messages: [user], stream }),
    change: { temperature: 1 },
    conflict: chatError,
  },
  responses: {
    path: () => "/v1/responses",
    body: (model, stream) => ({ model, input: [user], store: false, stream }),
    change: { temperature: 1 },
    conflict: chatError,
  },
  messages: {
    path: () => "/v1/messages",
    body: (model, stream) => ({ model, max_tokens: 9, messages: [user], stream }),
    change: { temperature: 1 },
    conflict: {
      type: "error",
      error: { type: "invalid_request_error", message: reused },
      request_id: expect.any(String),
    },
  },
  completions: {
    path: () => "/v1/completions",
    body: (model, stream) => ({ model, prompt: "hi", stream }),
    change: { temperature: 1 },
    conflict: chatError,
  },
  gemini: gemini("generateContent"),
  "gemini events": gemini("streamGenerateContent?alt=sse", { asking: { "x-troupe-event-ids": "true" } }),
  "gemini list": gemini("streamGenerateContent", { hasIds: false }),
} satisfies Record<string, Format>;

type Row = readonly [format: keyof typeof formats, model: string, isStream: boolean, answered: Answered];
const both = (format: keyof typeof formats, model: string, answered = answersOf[model]!): Row[] => [
  [format, model, false, answered],
  [format, model, true, answered],
];
/** Each format passed on as it comes, and translated. */
const rows: readonly Row[] = [
  ...both("chat", "groq/m"),
  ...both("chat", "anthropic/claude-sonnet-4-5"),
  ...both("responses", "openai/gpt-5", responsesAnswer),
  ...both("responses", "groq/m"),
  ...both("messages", "anthropic/claude-sonnet-4-5"),
  ...both("messages", "groq/m"),
  ...both("completions", "vllm/m", textAnswer),
  ...both("completions", "openai/gpt-5"),
  ["gemini", "google/gemini-2.5-flash", false, googleAnswer],
  ["gemini", "groq/m", false, chatAnswer],
  ["gemini events", "google/gemini-2.5-flash", true, googleAnswer],
  ["gemini events", "groq/m", true, chatAnswer],
  ["gemini list", "google/gemini-2.5-flash", true, googleAnswer],
  ["gemini list", "groq/m", true, chatAnswer],
];

const persona = "troupe/tutor";
let answer: () => Response | Promise<Response>;
let ids = 0;
/** Those who have come to the door where an id is looked for; each aborts when that client has left. */
const callers: AbortSignal[] = [];
let callerCame = () => {};

const upstream = untilEnd(new UpstreamServer(() => answer()));
const baseUrl = upstream.url;
const names = ["openai", "groq", "vllm", "anthropic", "google"];
const troupe = untilEnd(
  await Troupe.start({ providers: Object.fromEntries(names.map((name) => [name, { baseUrl }])) }),
);
const { idempotency } = troupe.server.services;
const run = idempotency.run.bind(idempotency);
idempotency.run = (claim, signal, ...rest) => {
  const answering = run(claim, signal, ...rest);
  callers.push(signal);
  callerCame();
  return answering;
};

async function callersCame(count: number): Promise<void> {
  while (callers.length < count) await new Promise<void>((wake) => (callerCame = wake));
}

/** An upstream call that a test moves on. */
function hold(isStream: boolean, { whole, first, rest }: Answered): { begin: () => void; finish: () => void } {
  const held = new HeldStream();
  const plain = Promise.withResolvers<Response>();
  answer = () => (isStream ? held.response() : plain.promise);
  const finishStream = () => {
    held.send(rest);
    held.close();
  };
  return {
    begin: () => (isStream ? held.send(first) : undefined),
    finish: () => (isStream ? finishStream() : plain.resolve(jsonResponse(whole))),
  };
}

describe.each(["gateway", "orchestrator"] as const)("%s", (surface: SurfaceName) => {
  // A persona's text has a place in a chat alone, so legacy completions are translated for it.
  const ownRows = rows.filter(([, target]) => surface === "gateway" || target !== "vllm/m");
  describe.each(ownRows)("%s of %s, streamed: %p", (name, target, isStream, answered) => {
    const format: Format = formats[name];
    const model = surface === "gateway" ? target : persona;
    const begin = () => {
      troupe.setTargets(persona, [target]);
      const path = (surface === "gateway" ? "/gateway" : "") + format.path(model);
      const key = `format-${ids++}`;
      const ask = (changes: object = {}, headers: Record<string, string> = {}, signal?: AbortSignal) =>
        troupe.fetch(path, {
          method: "POST",
          headers: { "content-type": "application/json", "service-request-id": key, ...format.asking, ...headers },
          body: JSON.stringify({ ...format.body(model, isStream), ...changes }),
          ...(signal && { signal }),
        });
      return { ask, call: hold(isStream, answered), before: upstream.requests.length, came: callers.length };
    };

    test("a second caller joins the call, later ones get the same bytes, and another body is refused", async () => {
      const { ask, call, before, came } = begin();
      using record = spyOn(troupe.server.services.usage, "record");
      const one = ask();
      await upstream.received(before + 1);
      call.begin();
      // A stream has begun before the others come.
      if (isStream) await one;
      const two = ask();
      await callersCame(came + 2);
      const refuse = async () => {
        const other = await ask(format.change);
        expect([other.status, other.headers.get("x-should-retry")]).toEqual([422, "false"]);
        expect(await other.json()).toEqual(format.conflict);
      };
      await refuse();
      call.finish();
      const [first, second] = await Promise.all([one, two]);
      const text = await first.text();
      expect([first.status, first.headers.get("idempotent-replayed")]).toEqual([200, null]);
      for (const word of ["early", " late"]) expect(text).toContain(word);
      expect([second.status, second.headers.get("idempotent-replayed")]).toEqual([200, null]);
      expect(await second.text()).toBe(text);
      await troupe.server.services.idempotency.settled();
      await refuse();
      const third = await ask();
      expect([third.status, third.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
      expect(third.headers.get("content-type")).toBe(first.headers.get("content-type"));
      expect(await third.text()).toBe(text);
      expect(upstream.requests.length).toBe(before + 1);
      const unbilled = record.mock.calls.filter(([, { ended }]) => ended === "joined" || ended === "replayed");
      expect(unbilled.map(([attempt, { ended }]) => [attempt.model, ended])).toEqual([
        [model, "joined"],
        [model, "replayed"],
      ]);
      if (!isStream || format.hasIds === false) return expect(text).not.toMatch(/^id: /m);
      const events = [...text.matchAll(/^id: (\S+)$/gm)];
      expect(events.length).toBeGreaterThan(1);
      for (const { 1: id, index } of events) {
        const rest = await ask({}, { "last-event-id": id! });
        expect(await rest.text()).toBe(text.slice(text.indexOf("\n\n", index) + 2));
      }
      expect(upstream.requests.length).toBe(before + 1);
    });

    test("the client leaves, the call runs on, and the retry gets the whole answer", async () => {
      const { ask, call, before, came } = begin();
      const leaving = new AbortController();
      const first = ask({}, {}, leaving.signal);
      await upstream.received(before + 1);
      call.begin();
      if (isStream) await (await first).body!.getReader().read();
      const { promise: left, resolve } = Promise.withResolvers<unknown>();
      callers[came]!.addEventListener("abort", resolve);
      leaving.abort();
      if (!isStream) await first.catch(() => {});
      await left;
      call.finish();
      await troupe.server.services.idempotency.settled();
      const retry = await ask();
      expect([retry.status, retry.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
      const text = await retry.text();
      for (const word of ["early", " late"]) expect(text).toContain(word);
      expect(upstream.requests.length).toBe(before + 1);
    });
  });
});
