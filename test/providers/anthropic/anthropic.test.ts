import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic, { APIError } from "@anthropic-ai/sdk";
import type { ContentBlock, Message } from "@anthropic-ai/sdk/resources/messages";
import fc from "fast-check";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type {
  AnswerMessage,
  ChatRequest,
  ChunkBody,
  CompletionBody,
  CustomToolCall,
  ToolCall,
} from "../../../src/protocols/chat/schema.ts";
import { ApiError, InvalidAnswer, UpstreamFault } from "../../../src/protocols/errors.ts";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { anthropicRules } from "../../../src/providers/anthropic/rules.ts";
import type { AnsweredCall } from "../../../src/providers/provider.ts";
import { type AnsweredCase, answeredCases, exampleResponse } from "../../helpers/fixtures.ts";
import { runs } from "../../helpers/long-form.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";
import { checkBody, type MessagesBody, strictModels } from "../../helpers/upstreams/anthropic.ts";

type Json = Record<string, unknown>;

function callFor(request: Partial<ChatRequest>, model = "claude-sonnet-4-5", extras: Json = {}): AnsweredCall {
  return {
    model,
    request: { model: `anthropic/${model}`, messages: [{ role: "user", content: "Hi" }], ...request },
    extras,
    account: {
      name: "anthropic",
      baseUrl: "https://api.anthropic.com",
      models: [],
      options: {},
      modelRules: [],
    },
    media: new Map(),
    answerId: "chatcmpl-1",
  };
}

function encode(call: AnsweredCall): { body: MessagesBody; headers: Headers } {
  const { body, headers } = anthropic.encode(call);
  return { body: JSON.parse(body as string), headers: new Headers(headers) };
}

function decodeEvents(events: readonly Json[], call = callFor({})): ChunkBody[] {
  const decoder = anthropic.streamDecoder(call);
  const bodies = events.flatMap((event) =>
    decoder.push({ event: String(event["type"]), data: `${JSON.stringify(event)}   `, id: "" }),
  );
  return [...bodies, ...decoder.end()];
}

function foldBodies(bodies: readonly ChunkBody[]): CompletionBody {
  const fold = new StreamFold();
  fold.push(bodies);
  return fold.result();
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

// ---- answers made at random, in both forms

type Block = Json & { type: string };

const text = fc.string({ unit: "binary", minLength: 1, maxLength: 12 });
const block: fc.Arbitrary<Block> = fc.oneof(
  fc.record({ type: fc.constant("text"), text }),
  fc.record({ type: fc.constant("thinking"), thinking: fc.option(text, { nil: "" }), signature: text }),
  fc.record({ type: fc.constant("redacted_thinking"), data: text }),
  fc.record({
    type: fc.constant("tool_use"),
    id: fc.uuid(),
    name: fc.constant("now"),
    input: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }),
  }),
  fc.record({
    type: fc.constant("tool_use"),
    id: fc.uuid(),
    name: fc.constant("sql"),
    input: fc.record({ input: text }),
  }),
  fc.record({
    type: fc.constant("server_tool_use"),
    id: fc.uuid(),
    name: fc.constant("web_search"),
    input: fc.object(),
  }),
);

const tools: ChatRequest["tools"] = [
  { type: "function", function: { name: "now" } },
  { type: "custom", custom: { name: "sql" } },
];

/** A text in pieces of the given lengths, repeated. */
function pieces(whole: string, lengths: readonly number[]): string[] {
  const units = [...whole];
  const found: string[] = [];
  for (let at = 0, turn = 0; at < units.length; turn += 1) {
    const length = lengths[turn % lengths.length]!;
    found.push(units.slice(at, at + length).join(""));
    at += length;
  }
  return found;
}

function fragmentsOf({ type, ...block }: Block, lengths: readonly number[]): Json[] {
  switch (type) {
    case "text":
      return pieces(String(block["text"]), lengths).map((part) => ({ type: "text_delta", text: part }));
    case "thinking":
      return [
        ...pieces(String(block["thinking"]), lengths).map((part) => ({ type: "thinking_delta", thinking: part })),
        { type: "thinking_delta", thinking: "" },
        { type: "signature_delta", signature: block["signature"] },
      ];
    case "tool_use":
    case "server_tool_use": {
      const json = JSON.stringify(block["input"]);
      const parts = json === "{}" ? [] : pieces(json, lengths);
      return ["", ...parts].map((part) => ({ type: "input_json_delta", partial_json: part }));
    }
    default:
      return [];
  }
}

function opening(block: Block): Json {
  if (block.type === "text") return { ...block, text: "" };
  if (block.type === "thinking") return { ...block, thinking: "", signature: "" };
  return "input" in block ? { ...block, input: {} } : block;
}

type Envelope = { stop_reason: string; usage: Json };

function eventsOf(content: readonly Block[], { stop_reason, usage }: Envelope, lengths: readonly number[]): Json[] {
  const start = { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage };
  return [
    { type: "message_start", message: start },
    ...content.flatMap((block, index) => [
      { type: "content_block_start", index, content_block: opening(block) },
      { type: "ping" },
      ...fragmentsOf(block, lengths).map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
    { type: "message_stop" },
  ];
}

const envelope: fc.Arbitrary<Envelope> = fc.record({
  stop_reason: fc.constantFrom("end_turn", "tool_use", "max_tokens", "refusal", "stop_sequence", "novel"),
  usage: fc.record({
    input_tokens: fc.nat(1000),
    output_tokens: fc.nat(1000),
    cache_read_input_tokens: fc.option(fc.nat(1000)),
    cache_creation_input_tokens: fc.option(fc.nat(1000)),
  }),
});
const lengths = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 });

/** JSON that is spelled differently is the same call. */
function withParsedArguments({ choices, ...body }: CompletionBody) {
  const parse = (call: ToolCall) => ({
    ...call,
    function: { ...call.function, arguments: JSON.parse(call.function.arguments) },
  });
  return {
    ...body,
    choices: choices.map((choice) => ({
      ...choice,
      message: {
        ...choice.message,
        tool_calls: choice.message.tool_calls?.map((call) => (call.type === "function" ? parse(call) : call)),
      },
    })),
  };
}

describe("streams", () => {
  test("a streamed answer is the plain one, however it is cut", () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 6 }), envelope, lengths, (content, given, cuts) => {
        const call = callFor({ tools });
        const message = { type: "message", role: "assistant", content, ...given };
        const whole = anthropic.decode(message, JSON.stringify(message), call);
        const streamed = foldBodies(decodeEvents(eventsOf(content, given, cuts), call));
        expect(plain(withParsedArguments(streamed))).toEqual(plain(withParsedArguments(whole)));
      }),
      { numRuns: runs(300) },
    );
  });

  test("what a message leaves for the next turn gives the same blocks again", () => {
    const signed = block.filter(({ type, text }) => type !== "server_tool_use" && (text as string)?.trim() !== "");
    fc.assert(
      fc.property(
        fc.uniqueArray(signed, { maxLength: 6, selector: ({ id }) => id ?? {} }),
        envelope,
        (content, given) => {
          const call = callFor({ tools }, "claude-opus-5-5");
          const message = { content, ...given };
          const answered = anthropic.decode(message, "", call).choices[0]!.message;
          const results = (answered.tool_calls ?? []).map(({ id }) => ({
            role: "tool" as const,
            tool_call_id: id,
            content: "x",
          }));
          const messages: ChatRequest["messages"] = [
            { role: "user", content: "Hi" },
            { ...answered, role: "assistant" } as ChatRequest["messages"][number],
            ...results,
            { role: "user", content: "Go on." },
          ];
          const sent = encode(callFor({ messages, tools }, "claude-opus-5-5")).body.messages;
          const cut = content.findLastIndex(({ type }) => !type.endsWith("thinking"));
          const expected = mergeTexts(content.slice(0, cut + 1));
          const turn = sent.find(({ role }) => role === "assistant")?.content ?? [];
          const hasThoughts = content.some(({ type }) => type.endsWith("thinking"));
          // Without thoughts among them the order of texts and calls is of no matter to the next turn.
          if (hasThoughts) expect(mergeTexts(turn)).toEqual(expected);
          else expect(turn).toHaveLength(usualBlocks(content));
        },
      ),
      { numRuns: runs(300) },
    );
  });

  test("calls whose fragments are mixed stay whole", () => {
    const calls = fc.array(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 }), { minKeys: 1 }), {
      minLength: 2,
      maxLength: 5,
    });
    fc.assert(
      fc.property(calls, lengths, fc.infiniteStream(fc.nat(100)), (inputs, cuts, choices) => {
        const waiting = inputs.map((input, index) =>
          fragmentsOf({ type: "tool_use", input }, cuts).map((delta) => ({
            type: "content_block_delta",
            index,
            delta,
          })),
        );
        const events: Json[] = [{ type: "message_start", message: { content: [] } }];
        for (const index of inputs.keys()) {
          const content_block = { type: "tool_use", id: `toolu_${index}`, name: `f${index}`, input: {} };
          events.push({ type: "content_block_start", index, content_block });
        }
        while (waiting.some((rest) => rest.length > 0)) {
          const rest = waiting[choices.next().value % waiting.length]!;
          const next = rest.shift();
          if (next !== undefined) events.push(next);
        }
        events.push({ type: "message_delta", delta: { stop_reason: "tool_use" }, usage: {} }, { type: "message_stop" });
        const made = foldBodies(decodeEvents(events)).choices[0]!.message.tool_calls as ToolCall[];
        expect(made.map(({ id, function: { name, arguments: json } }) => [id, name, JSON.parse(json)])).toEqual(
          inputs.map((input, index) => [`toolu_${index}`, `f${index}`, plain(input)]),
        );
      }),
      { numRuns: runs(100) },
    );
  });

  test("whatever comes, it ends as bodies or as a fault", () => {
    const types = fc.constantFrom(
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
      "error",
      "ping",
    );
    const inner = fc.oneof(
      block,
      fc.jsonValue(),
      fc.record({ type: fc.string(), text: fc.jsonValue(), error: fc.jsonValue() }),
    );
    const event = fc.record(
      {
        type: types,
        index: fc.oneof(fc.nat(3), fc.jsonValue()),
        content_block: inner,
        delta: inner,
        message: inner,
        usage: inner,
        error: fc.jsonValue(),
      },
      { requiredKeys: ["type"] },
    );
    const data = fc.oneof(
      event.map((value) => JSON.stringify(value)),
      fc.json(),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(data), fc.jsonValue(), (events, body) => {
        const decoder = anthropic.streamDecoder(callFor({ tools }));
        expectFaultsOnly(() => {
          for (const text of events)
            for (const made of decoder.push({ event: "", data: text, id: "" }))
              expect(made.choices.length).toBeLessThan(2);
          decoder.end();
        });
        expectFaultsOnly(() => anthropic.decode(body, JSON.stringify(body), callFor({ tools })));
        expectFaultsOnly(() =>
          anthropic.decode({ content: body, usage: body, stop_reason: body }, "", callFor({ tools })),
        );
      }),
      { numRuns: runs(500) },
    );
  });

  test("nothing is pushed once the stream has finished", () => {
    const decoder = anthropic.streamDecoder(callFor({}));
    for (const event of eventsOf([], { stop_reason: "end_turn", usage: {} }, [1])) {
      expect(decoder.finished).toBe(false);
      decoder.push({ event: "", data: JSON.stringify(event), id: "" });
    }
    expect(decoder.finished).toBe(true);
    expect(decoder.end()).toEqual([]);
  });
});

function expectFaultsOnly(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (error instanceof InvalidAnswer) return;
    if (!(error instanceof UpstreamFault)) throw error;
    expect(error.status).toBeGreaterThanOrEqual(400);
  }
}

/** Texts side by side are one text to the public format. */
function mergeTexts(content: readonly Block[]): Block[] {
  const merged: Block[] = [];
  for (const block of content) {
    const last = merged.at(-1);
    if (block.type === "text" && last?.type === "text")
      merged[merged.length - 1] = { ...last, text: `${last["text"]}${block["text"]}` };
    else merged.push(block);
  }
  return plain(merged);
}

function usualBlocks(content: readonly Block[]): number {
  const calls = content.filter(({ type }) => type === "tool_use").length;
  return calls + (content.some(({ type }) => type === "text") ? 1 : 0);
}

// ---- requests made at random, held against the upstream's own rules

const words = fc.constantFrom("", " ", "Hi", "Well, \n", "A\tB");
const marker = fc.constantFrom({}, {}, { cache_control: { type: "ephemeral" } });
const part = fc.oneof(
  fc.tuple(words, marker).map(([text, mark]) => ({ type: "text", text, ...mark })),
  marker.map((mark) => ({ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" }, ...mark })),
  fc.constant({ type: "file", file: { filename: "a.txt", file_data: "SGk=" } }),
  fc.constant({ type: "file", file: { file_id: "file_1" } }),
);
const content = fc.oneof(words, fc.array(part, { minLength: 1, maxLength: 3 }));
const instruction = fc
  .record({ role: fc.constantFrom("system", "developer"), content: words })
  .map((message) => [message]);
const thoughts = fc.constantFrom(
  {},
  { thinking_blocks: [{ type: "thinking", thinking: "Hm.", signature: "sig" }] },
  { thinking_blocks: [{ type: "thinking", thinking: "Hm.", signature: "" }] },
  {
    thinking_blocks: [{ type: "redacted_thinking", data: "x" }],
    extra_content: { anthropic: { layout: ["tool_use", "thinking", 2, "tool_use"] } },
  },
);
/** A turn of the assistant with calls and all their results, in any order, with foreign and repeated ids. */
const toolTurn = fc
  .tuple(
    words,
    thoughts,
    fc.array(fc.constantFrom("call_1", "a|b", "a:b", "é"), { minLength: 1, maxLength: 3 }),
    content,
    fc.constantFrom("", "{}", '{"a":1}', "[1]", "{"),
  )
  .chain(([text, state, ids, result, json]) => {
    const calls = ids.map((id) => ({ id, type: "function", function: { name: "now", arguments: json } }));
    const results = ids.map((id) => ({ role: "tool", tool_call_id: id, content: result }));
    return fc
      .shuffledSubarray(results, { minLength: results.length })
      .map((shuffled) => [
        { role: "assistant", content: text === "" ? null : text, tool_calls: calls, ...state },
        ...shuffled,
      ]);
  });
const answer = fc
  .record({ content: words, state: thoughts })
  .map(({ content, state }) => [{ role: "assistant", content, ...state }]);
const question = content.map((content) => [{ role: "user", content }]);
const messages = fc
  .array(fc.oneof(question, instruction, answer, toolTurn), { maxLength: 6 })
  .map((turns) => turns.flat());

const schema = {
  type: "object",
  properties: {
    n: { type: "integer", minimum: 1 },
    o: { type: "object", properties: {} },
    x: { oneOf: [{ type: "string", maxLength: 2 }, { type: "null" }] },
  },
};
const requestFields = fc.record(
  {
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    top_p: fc.constantFrom(0.5, 0.99),
    top_k: fc.constant(5),
    max_tokens: fc.constantFrom(1, 500, 4096),
    max_completion_tokens: fc.constantFrom(20, 8000),
    reasoning_effort: fc.constantFrom("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    stop: fc.oneof(words, fc.array(words, { minLength: 1, maxLength: 3 })),
    tools: fc.subarray(
      [
        { type: "function", function: { name: "now" }, cache_control: { type: "ephemeral" } },
        { type: "function", function: { name: "get", parameters: schema, strict: true } },
        { type: "custom", custom: { name: "sql" } },
      ],
      { minLength: 1 },
    ),
    tool_choice: fc.constantFrom("none", "auto", "required"),
    parallel_tool_calls: fc.boolean(),
    response_format: fc.constantFrom(
      { type: "json_object" },
      { type: "json_schema", json_schema: { name: "now", schema } },
    ),
    user: fc.constantFrom("u1", "a@b.c"),
    service_tier: fc.constantFrom("auto", "default", "flex"),
    seed: fc.nat(),
    stream: fc.boolean(),
  },
  { requiredKeys: [] },
);
const extras = fc.record(
  {
    system_cache_control: fc.constant({ type: "ephemeral" }),
    thinking_budget: fc.constantFrom(-1, 0, 1, 5000, 200_000),
    include_thoughts: fc.boolean(),
    thinking: fc.constantFrom({ type: "enabled", budget_tokens: 3000 }, { type: "adaptive" }, { type: "disabled" }),
  },
  { requiredKeys: [] },
);

describe("requests", () => {
  test("whatever is asked, the upstream finds nothing to refuse", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...strictModels),
        messages,
        requestFields,
        extras,
        (model, messages, fields, options) => {
          const call = callFor({ messages, ...fields } as unknown as ChatRequest, model, options);
          try {
            const { body, headers } = encode(call);
            checkBody(body, headers);
          } catch (error) {
            // Nothing but blanks: then there is nothing to send.
            if (!(error instanceof ApiError)) throw error;
            expect([error.status, error.param]).toEqual([400, "messages"]);
          }
        },
      ),
      { numRuns: runs(2000) },
    );
  });

  test("the same request is the same bytes", () => {
    fc.assert(
      fc.property(requestFields, (fields) => {
        const call = callFor(fields as unknown as ChatRequest);
        expect(anthropic.encode(call)).toEqual(anthropic.encode(call));
      }),
      { numRuns: runs(50) },
    );
  });

  test("every model has a rule for everything", () => {
    const names = [
      ...anthropic.models,
      ...strictModels,
      "claude-2.1",
      "claude-opus-4-20250514",
      "claude-mythos-preview",
      "x",
    ];
    for (const model of names) {
      const rules = anthropicRules(callFor({}, model));
      expect([model, Object.keys(rules).sort()]).toEqual([model, Object.keys(anthropic.modelRules!.properties).sort()]);
    }
  });

  test("dated names follow the rules of their family", () => {
    const rulesOf = (model: string) => anthropicRules(callFor({}, model));
    expect(rulesOf("claude-opus-4-20250514").max_output).toBe(32_000);
    expect(rulesOf("claude-sonnet-4-20250514").max_output).toBe(64_000);
    expect(rulesOf("claude-opus-4-5-20251101")).toMatchObject({ thinking: "budget", structured_output: true });
    expect(rulesOf("claude-3-7-sonnet-20250219")).toMatchObject({ thinking: "budget", sampling: "both" });
    expect(rulesOf("claude-3-haiku-20240307")).toMatchObject({ thinking: "none", max_output: 4096 });
    expect(rulesOf("claude-fable-5-2")).toMatchObject({ thinking: "adaptive", thinking_off: "never" });
    expect(rulesOf("claude-opus-5")).toMatchObject({ thinking_off: "disabled", forced_tools: true });
    expect(rulesOf("claude-opus-5-5")).toMatchObject({ thinking_off: "never", forced_tools: false });
    expect(rulesOf("claude-sonnet-4-6")).toMatchObject({ thinking: "both", prefill: false, sampling: "one" });
  });
});

// ---- the vendor's own client reads our fixtures as we do

/** What the client's message says, in our words. */
function heard({ content, usage }: Message) {
  const ofType = <T extends ContentBlock["type"]>(type: T) =>
    content.filter((block): block is Extract<ContentBlock, { type: T }> => block.type === type);
  return {
    texts: ofType("text")
      .map(({ text }) => text)
      .join(""),
    thoughts: ofType("thinking")
      .map(({ thinking }) => thinking)
      .filter(Boolean)
      .join("\n\n"),
    signatures: content.flatMap((block) =>
      block.type === "thinking" ? [block.signature] : block.type === "redacted_thinking" ? [block.data] : [],
    ),
    calls: ofType("tool_use").map(({ id, name, input }) => [id, name, input]),
    tokens: [
      (usage.input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0),
      usage.output_tokens,
    ],
  };
}

function said({ choices, usage }: CompletionBody) {
  const message: AnswerMessage = choices[0]!.message;
  return {
    texts: message.content ?? "",
    thoughts: message.reasoning_content ?? "",
    signatures: (message.thinking_blocks ?? []).map((block) => ("data" in block ? block.data : block.signature!)),
    calls: (message.tool_calls ?? []).map((call) =>
      call.type === "function"
        ? [call.id, call.function.name, JSON.parse(call.function.arguments)]
        : [call.id, (call as CustomToolCall).custom.name, { input: (call as CustomToolCall).custom.input }],
    ),
    tokens: [usage!.prompt_tokens, usage!.completion_tokens],
  };
}

describe("the official client", () => {
  let upstream: UpstreamServer;
  let client: Anthropic;
  beforeAll(() => {
    upstream = new UpstreamServer((request) => exampleResponse(request.headers.get("x-case")!));
    client = new Anthropic({ apiKey: "k", baseURL: upstream.url, maxRetries: 0 });
  });
  afterAll(() => upstream[Symbol.dispose]());

  const ask = { model: "claude-opus-4-8", max_tokens: 9, messages: [{ role: "user" as const, content: "Hi" }] };
  /** Cases in which we show something else on purpose: an answer that comes through a tool, thoughts that are not wanted. */
  const alike = ({ name, expected }: AnsweredCase) =>
    !/by-tool(-stream)?$|^thinking-hidden/.test(name) && expected.error === undefined;

  for (const { path, expected } of answeredCases("anthropic", "json").filter(alike)) {
    test(`hears the same in ${path}`, async () => {
      const message = await client.messages.create(ask, { headers: { "x-case": path } });
      expect(heard(message)).toEqual(said(expected.completion!));
    });
  }
  // That client takes a call's input from its fragments alone, and no beginning twice.
  const streams = answeredCases("anthropic", "sse").filter(
    ({ name }) => name !== "tool-stream-whole-input" && name !== "begun-twice-stream",
  );
  for (const { path, expected } of streams.filter(alike)) {
    test(`hears the same in ${path}`, async () => {
      const message = await client.messages.stream(ask, { headers: { "x-case": path } }).finalMessage();
      expect(heard(message)).toEqual(said(expected.completion!));
    });
  }
  for (const { path, expected } of streams.filter(
    ({ name }) => /^error-.*-stream$/.test(name) && name !== "error-text-stream",
  )) {
    test(`raises ${path}, with the type that we read`, async () => {
      const failed = client.messages.stream(ask, { headers: { "x-case": path } }).finalMessage();
      const error = await failed.then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(error).toBeInstanceOf(APIError);
      const sent = JSON.parse(expected.error!.payload!) as { error: { type: string } };
      expect((error as APIError).type).toBe(sent.error.type as never);
    });
  }
});
