import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import OpenAI from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChatRequest, ChunkBody, CompletionBody } from "../../../src/protocols/chat/schema.ts";
import { InvalidAnswer, UpstreamFault } from "../../../src/protocols/errors.ts";
import { openai } from "../../../src/providers/openai-compatible/openai.ts";
import { xai } from "../../../src/providers/openai-compatible/xai.ts";
import type { Account, AnsweredCall, RemoteProvider, StreamDecoder } from "../../../src/providers/provider.ts";
import { answeredCases, exampleResponse } from "../../helpers/fixtures.ts";
import { runs } from "../../helpers/long-form.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";

const account: Account = {
  name: "xai",
  baseUrl: "https://api.x.ai/v1",
  models: [],
  options: {},
  modelRules: [],
};

function callOf(request: Partial<ChatRequest>, more: Partial<AnsweredCall> = {}): AnsweredCall {
  return {
    model: "grok-4.3",
    request: { model: "xai/grok-4.3", messages: [{ role: "user", content: "x" }], ...request },
    extras: { use_responses_api: true },
    account,
    media: new Map(),
    answerId: "chatcmpl-1",
    ...more,
  };
}

const sentBy = (dialect: RemoteProvider, call: AnsweredCall) => JSON.parse(dialect.encode(call).body as string);

function bodiesOf(decoder: StreamDecoder, events: readonly unknown[]): ChunkBody[] {
  return events.flatMap((event) => decoder.push({ event: "", id: "", data: JSON.stringify(event) }));
}

function folded(bodies: readonly ChunkBody[]): CompletionBody {
  const fold = new StreamFold();
  fold.push(bodies);
  return fold.result();
}

describe("a stored conversation", () => {
  test("is continued by the upstream's id, with the new messages alone", () => {
    const messages: ChatRequest["messages"] = [
      { role: "tool", tool_call_id: "call_1", content: "rain" },
      { role: "user", content: "And Rome?" },
    ];
    const call = callOf(
      { messages },
      { upstreamResponseId: "resp-1", extras: { use_responses_api: true, store: true } },
    );
    expect(sentBy(xai, call)).toEqual({
      model: "grok-4.3",
      previous_response_id: "resp-1",
      input: [
        { type: "function_call_output", call_id: "call_1", output: "rain" },
        { role: "user", content: "And Rome?" },
      ],
      store: true,
    });
  });

  test("may be continued without keeping the new turn", () => {
    const sent = sentBy(xai, callOf({}, { upstreamResponseId: "resp-1" }));
    expect([sent.store, sent.previous_response_id, sent.include]).toEqual([
      false,
      "resp-1",
      ["reasoning.encrypted_content"],
    ]);
  });

  test("is held by xAI when stored in the responses mode, and never by OpenAI", () => {
    const stored = { use_responses_api: true, store: true };
    expect(xai.holdsConversation!(callOf({}, { extras: stored }))).toBe(true);
    expect(xai.holdsConversation!(callOf({ store: true }))).toBe(true);
    expect(xai.holdsConversation!(callOf({ store: true }, { extras: stored }))).toBe(true);
    expect(xai.holdsConversation!(callOf({}))).toBe(false);
    expect(xai.holdsConversation!(callOf({ store: true }, { extras: { ...stored, store: false } }))).toBe(false);
    expect(xai.holdsConversation!(callOf({}, { extras: { store: true } }))).toBe(false);
    expect(openai.holdsConversation!(callOf({}, { extras: stored }))).toBe(false);
  });

  test("has its id in a response object only", () => {
    expect(xai.upstreamResponseId!({ object: "response", id: "a" })).toBe("a");
    expect(xai.upstreamResponseId!({ object: "chat.completion", id: "a" })).toBeUndefined();
    expect(xai.upstreamResponseId!({ object: "response", id: 7 })).toBeUndefined();
    expect(xai.upstreamResponseId!(null)).toBeUndefined();
  });
});

test("the account's address is used", () => {
  const { url } = xai.encode(callOf({}, { account: { ...account, baseUrl: "http://localhost:1/v1" } }));
  expect(url).toBe("http://localhost:1/v1/responses");
});

test("ids that are too long stay apart when they share a beginning", () => {
  const ids = ["a", "b"].map((end) => `call_${"x".repeat(90)}${end}`);
  const messages: ChatRequest["messages"] = ids.map((tool_call_id) => ({ role: "tool", tool_call_id, content: "" }));
  const sent = sentBy(openai, callOf({ messages })).input.map((item: { call_id: string }) => item.call_id);
  expect(new Set(sent).size).toBe(2);
  expect(sent.every((id: string) => id.length <= 64)).toBe(true);
  expect(sentBy(xai, callOf({ messages })).input.map((item: { call_id: string }) => item.call_id)).toEqual(ids);
});

test("an answer whose items are finished is one, whatever word says that it ended", () => {
  const item = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hi" }] };
  const answered = (status: unknown, output: unknown[]) => {
    const body = { id: "resp_1", object: "response", status, output };
    try {
      return openai.decode(body, "", callOf({})).choices[0]!.message.content;
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidAnswer);
      return undefined;
    }
  };
  for (const status of ["completed", "complete", "COMPLETED", "done", "success", "", null, undefined, 1, {}]) {
    expect([status, answered(status, [item])]).toEqual([status, "Hi"]);
    expect(answered(status, [{ ...item, status: "finished" }])).toBe("Hi");
    expect(answered(status, [])).toBe(status === "completed" ? "" : undefined);
    if (status !== "completed") expect(answered(status, [{ ...item, status: "in_progress" }])).toBeUndefined();
  }
  for (const status of ["queued", "in_progress"]) expect(answered(status, [item])).toBeUndefined();
});

test("the end of another answer is none, but of a server that gives everything a new id with each event", () => {
  const item = { id: "msg_1", type: "message", role: "assistant", content: [{ type: "output_text", text: "Hi" }] };
  const told = (ended: object, done: object = item, more: object[] = []) => [
    { type: "response.created", response: { id: "resp_1" } },
    ...more,
    { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
    { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "Hi" },
    { type: "response.output_item.done", output_index: 0, item: done },
    { type: "response.completed", ...ended },
  ];
  const whole = (events: object[]) => {
    const decoder = openai.streamDecoder(callOf({ stream: true }));
    return folded(bodiesOf(decoder, events)).choices[0]!.message.content;
  };
  const [own, other] = ["resp_1", "resp_2"].map((id) => ({ response: { id, status: "completed", output: [] } }));
  expect(whole(told(own!))).toBe("Hi");
  for (const ended of [other!, {}, { response: {} }, { response: null }, { response: 1 }]) {
    expect(() => whole(told(ended))).toThrow(InvalidAnswer);
  }
  expect(whole(told(other!, { ...item, id: "msg_2" }))).toBe("Hi");
  expect(whole(told(other!, item, [{ type: "response.in_progress", response: { id: "resp_3" } }]))).toBe("Hi");
  // An event of it in between is not the end either.
  expect(() => whole(told(own!).toSpliced(3, 0, { type: "response.completed", ...own }))).toThrow(InvalidAnswer);
  expect(() => whole(told(own!).toSpliced(0, 4))).toThrow(InvalidAnswer);
});

test("a stream cut short is known by its terminal event's name alone", () => {
  const events = [
    { type: "response.output_text.delta", output_index: 0, delta: "So" },
    { type: "response.incomplete", response: { usage: { input_tokens: 1, output_tokens: 2 } } },
  ];
  expect(folded(bodiesOf(xai.streamDecoder(callOf({})), events))).toEqual({
    choices: [{ index: 0, message: { role: "assistant", content: "So" }, finish_reason: "length" }],
    usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
  });
});

describe("streamed and plain", () => {
  const text = fc.string({ maxLength: 12, unit: "grapheme" });
  const pieces = fc.array(
    text.filter((piece) => piece !== ""),
    { minLength: 1, maxLength: 4 },
  );
  const citation = fc.record({
    type: fc.constant("url_citation"),
    url: fc.webUrl(),
    title: text,
    start_index: fc.nat(20),
    end_index: fc.nat(20),
  });
  const item = fc.oneof(
    fc.record({ kind: fc.constant("message" as const), pieces, annotations: fc.array(citation, { maxLength: 2 }) }),
    fc.record({ kind: fc.constant("refusal" as const), pieces }),
    fc.record({
      kind: fc.constant("reasoning" as const),
      parts: fc.array(pieces, { maxLength: 3 }),
      encrypted: fc.option(text),
    }),
    fc.record({ kind: fc.constant("function_call" as const), pieces, args: fc.dictionary(text, text) }),
    fc.record({ kind: fc.constant("custom_tool_call" as const), pieces }),
    fc.record({ kind: fc.constant("web_search_call" as const), pieces }),
  );
  type Item = typeof item extends fc.Arbitrary<infer T> ? T : never;

  /** The finished item, and the fragments it comes in. */
  function told(made: Item, at: number, whole: boolean): { item: Record<string, unknown>; deltas: unknown[] } {
    const where = { output_index: at, item_id: `item_${at}` };
    const cut = (type: string, parts: readonly string[], more = {}) =>
      whole ? [] : parts.map((delta) => ({ type, delta, ...where, ...more }));
    switch (made.kind) {
      case "message": {
        const part = { type: "output_text", text: made.pieces.join(""), annotations: made.annotations };
        return {
          item: { type: "message", role: "assistant", content: [part] },
          deltas: cut("response.output_text.delta", made.pieces),
        };
      }
      case "refusal":
        return {
          item: { type: "message", content: [{ type: "refusal", refusal: made.pieces.join("") }] },
          deltas: cut("response.refusal.delta", made.pieces),
        };
      case "reasoning":
        return {
          item: {
            type: "reasoning",
            id: `rs_${at}`,
            summary: made.parts.map((parts) => ({ type: "summary_text", text: parts.join("") })),
            encrypted_content: made.encrypted,
          },
          deltas: made.parts.flatMap((parts, summary_index) =>
            cut("response.reasoning_summary_text.delta", parts, { summary_index }),
          ),
        };
      case "function_call": {
        const written = JSON.stringify(made.args);
        return {
          item: { type: made.kind, call_id: `call_${at}`, name: "f", arguments: written },
          deltas: cut("response.function_call_arguments.delta", [written.slice(0, 3), written.slice(3)]),
        };
      }
      case "custom_tool_call":
        return {
          item: { type: made.kind, call_id: `call_${at}`, name: "f", input: made.pieces.join("") },
          deltas: cut("response.custom_tool_call_input.delta", made.pieces),
        };
      case "web_search_call":
        return { item: { type: made.kind, id: `ws_${at}` }, deltas: [] };
    }
  }

  test("give the same message, however an item is told", () => {
    const output = fc.array(fc.tuple(item, fc.boolean(), fc.boolean()), { maxLength: 6 });
    fc.assert(
      fc.property(output, fc.boolean(), fc.constantFrom(xai, openai), (made, inOneGo, dialect) => {
        const tellings = made.map(([one, whole], at) => told(one, at, whole));
        const response = {
          id: "resp_1",
          object: "response",
          status: "completed",
          output: tellings.map((telling) => telling.item),
          usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
        };
        const events = tellings.flatMap(({ item: full, deltas }, output_index) => [
          ...(deltas.length > 0 || made[output_index]![2]
            ? [
                {
                  type: "response.output_item.added",
                  output_index,
                  item: { ...full, arguments: "", input: "", content: [] },
                },
              ]
            : []),
          ...deltas,
          { type: "response.output_item.done", output_index, item: full },
        ]);
        const decoder = dialect.streamDecoder(callOf({}));
        const begin = { type: "response.created", response: { id: "resp_1" } };
        const bodies = bodiesOf(decoder, [begin, ...(inOneGo ? [] : events), { type: "response.completed", response }]);
        const plain = dialect.decode(response, JSON.stringify(response), callOf({}));
        expect(JSON.parse(JSON.stringify(folded(bodies)))).toEqual(JSON.parse(JSON.stringify(plain)));
        expect(decoder.finished).toBe(true);
      }),
      { numRuns: runs(400) },
    );
  });
});

test("fragments of calls stay whole in any interleaving", () => {
  const call = fc.record({
    name: fc.string({ minLength: 1 }),
    args: fc.dictionary(fc.string(), fc.jsonValue()),
    cuts: fc.nat(5),
  });
  fc.assert(
    fc.property(fc.array(call, { minLength: 1, maxLength: 6 }), fc.infiniteStream(fc.nat(1000)), (calls, picks) => {
      const queues = calls.map(({ name, args, cuts }, at) => {
        const output_index = at * 2 + 1;
        const written = JSON.stringify(args);
        const size = Math.ceil(written.length / (cuts + 1));
        const item = { type: "function_call", id: `fc_${at}`, call_id: `call_${at}`, name, arguments: "" };
        return [
          { type: "response.output_item.added", output_index, item },
          ...(written.match(new RegExp(`[^]{1,${size}}`, "g")) ?? []).map((delta) => ({
            type: "response.function_call_arguments.delta",
            output_index,
            delta,
          })),
          { type: "response.output_item.done", output_index, item: { ...item, arguments: written } },
        ];
      });
      const announced: number[] = [];
      const events: unknown[] = [];
      while (queues.some((queue) => queue.length > 0)) {
        const open = queues.map((queue, at) => ({ queue, at })).filter(({ queue }) => queue.length > 0);
        const { queue, at } = open[picks.next().value % open.length]!;
        if (!announced.includes(at)) announced.push(at);
        events.push(queue.shift());
      }
      events.push({ type: "response.completed", response: { status: "completed", output: [] } });
      const { choices } = folded(bodiesOf(xai.streamDecoder(callOf({})), events));
      expect(choices[0]!.finish_reason).toBe("tool_calls");
      expect(choices[0]!.message.tool_calls!.map((one) => [one.id, JSON.stringify(one)])).toEqual(
        announced.map((at) => {
          const { name, args } = calls[at]!;
          const made = { id: `call_${at}`, type: "function", function: { name, arguments: JSON.stringify(args) } };
          return [made.id, JSON.stringify(made)];
        }),
      );
    }),
    { numRuns: runs(200) },
  );
});

describe("garbage", () => {
  const keys = [
    ...["type", "response", "item", "output", "content", "part", "delta", "text", "arguments", "call_id", "id", "name"],
    ...[
      "output_index",
      "summary",
      "encrypted_content",
      "error",
      "usage",
      "input_tokens",
      "output_tokens",
      "annotation",
    ],
    ...[
      "annotations",
      "logprobs",
      "status",
      "incomplete_details",
      "metadata",
      "input_tokens_details",
      "reason",
      "input",
    ],
  ];
  const words = [
    ...["message", "reasoning", "function_call", "custom_tool_call", "output_text", "refusal", "failed", "incomplete"],
    ...["response.output_text.delta", "response.output_item.added", "response.output_item.done", "response.completed"],
    ...["response.function_call_arguments.delta", "response.function_call_arguments.done", "response.incomplete"],
    ...["response.reasoning_summary_text.delta", "response.output_text.annotation.added", "response.created", "error"],
  ];
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<unknown>(null, 0, 1, -1, 1.5, true, "", "x", ...words),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...keys), tie("value"), { maxKeys: 5 }),
    ),
  }));

  test("in a plain answer is read as far as it goes, or is a fault", () => {
    fc.assert(
      fc.property(value, fc.constantFrom(xai, openai), (body, dialect) => {
        try {
          const [choice] = dialect.decode(body, "the text", callOf({})).choices;
          expect(["stop", "length", "tool_calls", "content_filter"]).toContain(choice!.finish_reason);
        } catch (error) {
          if (error instanceof InvalidAnswer) return;
          if (!(error instanceof UpstreamFault)) throw error;
          // One that ended without a word is given some.
          if (error.payload !== "the text") expect(JSON.parse(error.payload).error.message).toMatch(/\w/);
        }
      }),
      { numRuns: runs(2000) },
    );
  });

  test("in a stream is passed over, or is a fault", () => {
    const typed = fc.tuple(fc.dictionary(fc.constantFrom(...keys), value), fc.constantFrom(...words));
    const event = fc.oneof(
      value,
      typed.map(([fields, type]) => ({ ...fields, type })),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), fc.constantFrom(xai, openai), (events, dialect) => {
        try {
          folded(bodiesOf(dialect.streamDecoder(callOf({})), events));
        } catch (error) {
          if (error instanceof InvalidAnswer) return;
          if (!(error instanceof UpstreamFault)) throw error;
        }
      }),
      { numRuns: runs(2000) },
    );
  });

  test("that is no JSON object is a fault, but for the word of the other format", () => {
    const decoder = xai.streamDecoder(callOf({}));
    for (const data of ["", "{", "null", "7", '"x"', "[]", "{}"]) {
      expect(() => decoder.push({ event: "", id: "", data })).toThrow(InvalidAnswer);
    }
    expect(decoder.push({ event: "", id: "", data: "[DONE]" })).toEqual([]);
    expect([decoder.finished, decoder.end()]).toEqual([false, []]);
  });
});

/** The official client reads the example answers to the same result. */
describe("the official client", () => {
  const answered = ["xai-responses", "openai-responses"].flatMap((family) =>
    answeredCases(family).flatMap((one) => (one.expected.error === undefined ? [{ family, ...one }] : [])),
  );

  test("finds cases", () => expect(answered.length).toBeGreaterThan(25));

  for (const { family, path, form, expected } of answered) {
    test(path, async () => {
      using upstream = new UpstreamServer(() => exampleResponse(path));
      const client = new OpenAI({ baseURL: upstream.url, apiKey: "k", maxRetries: 0 });
      const seen =
        form === "sse"
          ? await seenInStream(client)
          : seenInResponse(await client.responses.create({ model: "m", input: "x" }));
      const body = expected.completion!;
      const message = body.choices[0]!.message;
      expect(seen).toEqual({
        text: message.content ?? "",
        refusal: message.refusal ?? "",
        calls: (message.tool_calls ?? []).map((call) =>
          call.type === "function"
            ? { id: call.id, name: call.function.name, written: call.function.arguments }
            : call.type === "custom" && { id: call.id, name: call.custom.name, written: call.custom.input },
        ),
        total: body.usage!.total_tokens,
        cut: ["length", "content_filter"].includes(body.choices[0]!.finish_reason),
      });
    });

    const ownTools = family === "openai-responses";
    type Seen = { text: string; refusal: string; calls: unknown[]; total: number; cut: boolean };

    function seenInResponse(response: OpenAI.Responses.Response): Seen {
      const parts = response.output.flatMap((item) => (item.type === "message" ? item.content : []));
      const calls = response.output.flatMap((item) => {
        if (item.type === "function_call")
          return [{ id: item.call_id, name: item.name, written: item.arguments || "{}" }];
        if (item.type !== "custom_tool_call" || !ownTools) return [];
        return [{ id: item.call_id, name: item.name, written: item.input }];
      });
      const usage = response.usage!;
      return {
        text: response.output_text,
        refusal: parts.map((part) => (part.type === "refusal" ? part.refusal : "")).join(""),
        calls,
        total:
          usage.total_tokens ?? usage.input_tokens + usage.input_tokens_details.cached_tokens + usage.output_tokens,
        cut: response.status === "incomplete",
      };
    }

    async function seenInStream(stream: OpenAI): Promise<Seen> {
      const events: ResponseStreamEvent[] = [];
      for await (const event of await stream.responses.create({ model: "m", input: "x", stream: true })) {
        events.push(event);
        if (["response.completed", "response.incomplete", "response.done"].includes(event.type)) break;
      }
      const last = events.at(-1) as Extract<ResponseStreamEvent, { response: unknown }>;
      const done = events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
      const output = done.length > 0 ? done : last.response.output;
      const ofItems = seenInResponse({ ...last.response, output, output_text: textOf(output) });
      const deltas = (type: string) =>
        events.map((event) => (event.type === type && "delta" in event ? event.delta : "")).join("");
      return {
        ...ofItems,
        text: deltas("response.output_text.delta") || ofItems.text,
        refusal: deltas("response.refusal.delta") || ofItems.refusal,
      };
    }
  }

  function textOf(output: OpenAI.Responses.ResponseOutputItem[]): string {
    const parts = output.flatMap((item) => (item.type === "message" ? item.content : []));
    return parts.map((part) => (part.type === "output_text" ? part.text : "")).join("");
  }
});

/** @returns the answer of a whole stream, as a caller gets it */
function answerIn(data: readonly string[]): string | null | undefined {
  const decoder = openai.streamDecoder(callOf({ stream: true }));
  const fold = new StreamFold();
  for (const one of data) {
    fold.push(decoder.push({ event: "", id: "", data: one }));
    if (decoder.finished) break;
  }
  fold.push(decoder.end());
  return fold.complete ? fold.result().choices[0]!.message.content : undefined;
}

describe("a stream that begins with an end", () => {
  const message = (text: string) => ({
    type: "message",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text }],
  });
  const ended = (text: string, more: object = {}) =>
    JSON.stringify({
      type: "response.completed",
      response: { id: "resp_1", status: "completed", output: [message(text)] },
      ...more,
    });
  const created = JSON.stringify({ type: "response.created", sequence_number: 0, response: { id: "resp_2" } });

  test("is whole where nothing follows, or [DONE]", () => {
    for (const more of [{}, { sequence_number: 0 }]) {
      expect(answerIn([ended("Hi", more)])).toBe("Hi");
      expect(answerIn([ended("Hi", more), "[DONE]"])).toBe("Hi");
    }
  });

  test("is that of another answer where its number is not the first, or more follows", () => {
    expect(() => answerIn([ended("Hi", { sequence_number: 7 })])).toThrow("begins in the middle");
    expect(() => answerIn([ended("Hi"), created])).toThrow("more of the answer behind its end");
    expect(() => answerIn([ended("Hi", { sequence_number: 0 }), created])).toThrow(InvalidAnswer);
    expect(() => answerIn([ended("Hi"), ended("Hi")])).toThrow(InvalidAnswer);
  });

  test("may be announced with the number 1, as some servers count, and with no later one", () => {
    const begun = (sequence_number: number) =>
      JSON.stringify({ type: "response.created", sequence_number, response: { id: "resp_1" } });
    for (const number of [0, 1])
      expect(answerIn([begun(number), ended("Hi", { sequence_number: number + 1 })])).toBe("Hi");
    expect(() => answerIn([begun(2), ended("Hi", { sequence_number: 3 })])).toThrow("begins in the middle");
  });

  test("in the middle is none at all", () => {
    const delta = { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "Hi" };
    expect(() => answerIn([JSON.stringify({ ...delta, sequence_number: 4 })])).toThrow(InvalidAnswer);
  });

  test("lists every call that was begun, where its numbers show that a stream is no whole one", () => {
    const begun = JSON.stringify({ type: "response.created", sequence_number: 0, response: { id: "resp_1" } });
    const call = { type: "function_call", id: "fc_1", call_id: "call_1", name: "now", arguments: "" };
    const added = JSON.stringify({
      ...{ type: "response.output_item.added", sequence_number: 9, output_index: 3, item: call },
    });
    const done = JSON.stringify({
      ...{ type: "response.output_item.done", sequence_number: 1, output_index: 0, item: message("Hi") },
    });
    const end = ended("Hi", { sequence_number: 2 });
    expect(answerIn([begun, done, end])).toBe("Hi");
    expect(() => answerIn([begun, done, added, end])).toThrow("events are missing");
  });
});
