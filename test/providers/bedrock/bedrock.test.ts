import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChatRequest, ChunkBody, CompletionBody } from "../../../src/protocols/chat/schema.ts";
import { InvalidAnswer, UpstreamFault } from "../../../src/protocols/errors.ts";
import { bedrock } from "../../../src/providers/bedrock/bedrock.ts";
import type { Account, AnsweredCall } from "../../../src/providers/provider.ts";
import { eventMessage, exceptionMessage } from "../../helpers/aws-event-stream.ts";
import { runs } from "../../helpers/long-form.ts";

type Json = Record<string, unknown>;

const account: Account = { name: "bedrock", baseUrl: bedrock.baseUrl, models: [], options: {}, modelRules: [] };
const nova = "us.amazon.nova-2-lite-v1:0";

function callOf(request: Json = {}, more: Partial<AnsweredCall> = {}): AnsweredCall {
  const messages = [{ role: "user", content: "Hi" }];
  return {
    model: nova,
    request: { model: `bedrock/${nova}`, messages, stream: true, ...request } as ChatRequest,
    extras: {},
    account,
    media: new Map(),
    answerId: "chatcmpl-1",
    ...more,
  };
}

type Event = readonly [type: string, body: Json];
const bytesOf = (events: readonly Event[]) =>
  Buffer.concat(events.map(([type, body]) => eventMessage(type, JSON.stringify(body))));

function decode(pieces: readonly Uint8Array[], call = callOf()): ChunkBody[] {
  const decoder = bedrock.streamDecoder(call);
  const parser = decoder.framing.parser();
  const bodies = pieces.flatMap((piece) => parser.push(piece)).flatMap((event) => decoder.push(event));
  if (!decoder.finished) for (const event of parser.end()) bodies.push(...decoder.push(event));
  return [...bodies, ...decoder.end()];
}

function folded(bodies: readonly ChunkBody[]): CompletionBody {
  const fold = new StreamFold();
  fold.push(bodies);
  if (!fold.complete) throw new InvalidAnswer("no end");
  return JSON.parse(JSON.stringify(fold.result()));
}

const delta = (contentBlockIndex: number, body: Json): Event => [
  "contentBlockDelta",
  { contentBlockIndex, delta: body },
];
const stop = (contentBlockIndex: number): Event => ["contentBlockStop", { contentBlockIndex }];
const ending = (stopReason: string): Event[] => [
  ["messageStop", { stopReason }],
  [
    "metadata",
    {
      metrics: { latencyMs: 1 },
      usage: { inputTokens: 10, outputTokens: 5, totalTokens: 18, cacheReadInputTokens: 2, cacheWriteInputTokens: 1 },
      serviceTier: { type: "default" },
    },
  ],
];

/** https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-examples.html, with a thought before */
const example: Event[] = [
  ["messageStart", { role: "assistant" }],
  delta(0, { reasoningContent: { text: "Look " } }),
  delta(0, { reasoningContent: { text: "it up." } }),
  delta(0, { reasoningContent: { signature: "EqoBCkg" } }),
  stop(0),
  delta(1, { reasoningContent: { redactedContent: "c2Vj" } }),
  stop(1),
  delta(2, { text: "Let me " }),
  delta(2, { text: "see. Grüße" }),
  stop(2),
  ["contentBlockStart", { contentBlockIndex: 3, start: { toolUse: { toolUseId: "tooluse_1", name: "weather" } } }],
  delta(3, { toolUse: { input: "" } }),
  delta(3, { toolUse: { input: '{"city":' } }),
  delta(3, { toolUse: { input: '"Paris"}' } }),
  stop(3),
  ["contentBlockStart", { contentBlockIndex: 4, start: { toolUse: { toolUseId: "tooluse_2", name: "now" } } }],
  delta(4, { toolUse: { input: "" } }),
  stop(4),
  ...ending("tool_use"),
];
const whole = bytesOf(example);

describe("ConverseStream", () => {
  test("thoughts, texts and calls come in order, the counts last", () => {
    const bodies = decode([whole]);
    expect(folded(bodies)).toEqual({
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: "Let me see. Grüße",
            reasoning_content: "Look it up.",
            thinking_blocks: [
              { type: "thinking", thinking: "Look it up.", signature: "EqoBCkg" },
              { type: "redacted_thinking", data: "c2Vj" },
            ],
            tool_calls: [
              { id: "tooluse_1", type: "function", function: { name: "weather", arguments: '{"city":"Paris"}' } },
              { id: "tooluse_2", type: "function", function: { name: "now", arguments: "{}" } },
            ],
          },
          finish_reason: "tool_calls",
        },
      ],
      usage: {
        prompt_tokens: 13,
        completion_tokens: 5,
        total_tokens: 18,
        prompt_tokens_details: { cached_tokens: 2, cache_write_tokens: 1 },
      },
      service_tier: "default",
    } as unknown as CompletionBody);
  });

  test("the same wherever the bytes are split", () => {
    const all = decode([whole]);
    for (let at = 0; at <= whole.length; at += 1) {
      expect(decode([whole.subarray(0, at), whole.subarray(at)])).toEqual(all);
    }
  });

  test("cut short anywhere it is never taken for a whole answer", () => {
    const last = bytesOf(example.slice(-1)).length;
    for (let at = 0; at < whole.length - last; at += 1) {
      expect(() => folded(decode([whole.subarray(0, at)]))).toThrow();
    }
    // All but the counts.
    expect(folded(decode([whole.subarray(0, whole.length - last)])).choices[0]!.finish_reason).toBe("tool_calls");
  });

  test("an event that is missing or comes twice breaks it, or changes nothing but counts, notes and whole fragments", () => {
    const text = folded(decode([whole])).choices[0]!.message.content ?? "";
    fc.assert(
      fc.property(fc.nat(example.length - 1), fc.nat(example.length - 1), (from, to) => {
        const moved = example.toSpliced(from, 1).toSpliced(to, 0, example[from]!);
        try {
          const message = folded(decode([bytesOf(moved)])).choices[0]!.message;
          expect([...(message.content ?? "")].sort().join("")).toBe([...text].sort().join(""));
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidAnswer);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  test.each<[string, Event[]]>([
    ["text before the beginning", [delta(0, { text: "x" })]],
    ["a block again", [example[0]!, delta(0, { text: "x" }), stop(0), delta(0, { text: "y" })]],
    ["text in a call", [example[0]!, example[10]!, delta(3, { text: "x" })]],
    ["a call's input in a text", [example[0]!, delta(0, { text: "x" }), delta(0, { toolUse: { input: "{}" } })]],
    ["a thought in a text", [example[0]!, delta(0, { text: "x" }), delta(0, { reasoningContent: { text: "y" } })]],
    ["text in an encrypted thought", [example[0]!, example[5]!, delta(1, { text: "x" })]],
    ["a block within another", [example[0]!, delta(0, { text: "x" }), delta(1, { text: "y" })]],
    ["a text after the end", [example[0]!, ["messageStop", { stopReason: "end_turn" }], delta(0, { text: "x" })]],
    ["counts without an end", [example[0]!, delta(0, { text: "x" }), stop(0), ending("end_turn")[1]!]],
    ["an end without a reason", [example[0]!, ["messageStop", {}]]],
    ["two beginnings", [example[0]!, example[0]!]],
    ["half a call", [example[0]!, example[10]!, ["messageStop", { stopReason: "tool_use" }]]],
    ["a number for a text", [example[0]!, delta(0, { text: 7 })]],
    ["no number of a block", [example[0]!, ["contentBlockDelta", { delta: { text: "x" } }]]],
  ])("%s is a fault", (_, events) => {
    expect(() => decode([bytesOf(events)])).toThrow(InvalidAnswer);
  });

  test("JSON that can't be read is a fault, an event of a new type none", () => {
    expect(() => decode([eventMessage("messageStart", '{"role"')])).toThrow(InvalidAnswer);
    expect(decode([eventMessage("somethingNew", "{}")])).toEqual([]);
  });

  test("a block without fragments is empty", () => {
    const events: Event[] = [example[0]!, stop(0), delta(1, { text: "x" }), stop(1), ...ending("end_turn")];
    expect(folded(decode([bytesOf(events)])).choices[0]!.message.content).toBe("x");
  });

  test.each<[string, string, string | undefined]>([
    ["end_turn", "stop", undefined],
    ["stop_sequence", "stop", undefined],
    ["max_tokens", "length", undefined],
    ["model_context_window_exceeded", "length", undefined],
    ["guardrail_intervened", "content_filter", "guardrail_intervened"],
    ["content_filtered", "content_filter", "content_filtered"],
    ["malformed_tool_use", "length", "malformed_tool_use"],
    ["malformed_model_output", "length", "malformed_model_output"],
    ["shiny_new_reason", "stop", undefined],
  ])("the reason %s is %s", (stopReason, finish, note) => {
    const events: Event[] = [example[0]!, delta(0, { text: "x" }), stop(0), ...ending(stopReason)];
    const streamed = folded(decode([bytesOf(events)]));
    const answer = { output: { message: { role: "assistant", content: [{ text: "x" }] } }, stopReason };
    const plain = bedrock.decode(answer, JSON.stringify(answer), callOf());
    for (const one of [streamed, plain]) {
      expect(one.choices[0]!.finish_reason).toBe(finish as "stop");
      expect(one.metadata?.["finish_reason"]).toBe(note as string);
    }
  });

  test.each([
    ["throttlingException", 429],
    ["validationException", 400],
    ["internalServerException", 500],
    ["serviceUnavailableException", 503],
    ["modelStreamErrorException", 424],
    ["somethingElseException", 500],
  ])("%s is an error of the upstream, byte for byte", (type, status) => {
    const payload = '{"message":"Too many tokens, please wait before trying again."}';
    try {
      decode([Buffer.concat([bytesOf(example.slice(0, 3)), exceptionMessage(type, payload)])]);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(UpstreamFault);
      expect((error as UpstreamFault).payload).toBe(payload);
      expect((error as UpstreamFault).status).toBe(status);
    }
  });

  test("a model that broke off names a status of its own", () => {
    const payload = '{"message":"broken","originalStatusCode":503,"originalMessage":"x"}';
    expect(() => decode([exceptionMessage("modelStreamErrorException", payload)])).toThrow(
      expect.objectContaining({ status: 503 }),
    );
  });

  test("the answer to a schema by a tool is the text", () => {
    const schema = { type: "object", properties: { a: { type: "number" } } };
    const call = callOf({ response_format: { type: "json_schema", json_schema: { name: "answer", schema } } });
    const events: Event[] = [
      example[0]!,
      ["contentBlockStart", { contentBlockIndex: 0, start: { toolUse: { toolUseId: "t", name: "answer" } } }],
      delta(0, { toolUse: { input: '{"a":1}' } }),
      stop(0),
      ...ending("tool_use"),
    ];
    const { message, finish_reason } = folded(decode([bytesOf(events)], call)).choices[0]!;
    expect([message.content, message.tool_calls, finish_reason]).toEqual(['{"a":1}', undefined, "stop"]);
  });
});

describe("addresses", () => {
  const urlOf = (model: string, options: Json = {}, more: Partial<Account> = {}) =>
    bedrock.encode(callOf({}, { model, account: { ...account, ...more, options } })).url;

  test("follow the region, unless the base URL was moved", () => {
    const path = `/model/${encodeURIComponent(nova)}/converse-stream`;
    expect(urlOf(nova)).toBe(`https://bedrock-runtime.us-east-1.amazonaws.com${path}`);
    expect(urlOf(nova, { region: "eu-west-1" })).toBe(`https://bedrock-runtime.eu-west-1.amazonaws.com${path}`);
    expect(urlOf(nova, { region: "cn-north-1" })).toBe(`https://bedrock-runtime.cn-north-1.amazonaws.com.cn${path}`);
    const baseUrl = "https://vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com";
    expect(urlOf(nova, { region: "eu-west-1" }, { baseUrl })).toBe(baseUrl + path);
  });

  test.each([
    ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "/anthropic/v1/messages"],
    ["anthropic.claude-haiku-4-5-20251001-v1:0", "/anthropic/v1/messages"],
    ["arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1", "/anthropic/v1/messages"],
    ["openai.gpt-5.4", "/openai/v1/chat/completions"],
    ["openai.gpt-oss-120b-1:0", "/model/openai.gpt-oss-120b-1%3A0/converse-stream"],
    ["us.meta.llama4-maverick-17b-instruct-v1:0", "/model/us.meta.llama4-maverick-17b-instruct-v1%3A0/converse-stream"],
  ])("%s is called at %s", (model, path) => {
    expect(urlOf(model)).toBe(`${bedrock.baseUrl}${path}`);
  });

  test("a client's own format passes where the model's endpoint speaks it", () => {
    const route = (format: string, model: string) => bedrock.native?.(format, callOf({}, { model }));
    const claude = "global.anthropic.claude-sonnet-4-6";
    expect(route("messages", claude)?.encode("{}", callOf({}, { model: claude }), {}).url).toBe(
      `${bedrock.baseUrl}/anthropic/v1/messages`,
    );
    const inOregon = callOf({}, { model: "openai.gpt-5.4", account: { ...account, options: { region: "us-west-2" } } });
    expect(route("responses", "openai.gpt-5.4")?.encode("{}", inOregon, {}).url).toBe(
      "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/responses",
    );
    expect(route("responses", claude)).toBeUndefined();
    expect(route("responses", "openai.gpt-oss-20b-1:0")).toBeUndefined();
    expect(route("messages", nova)).toBeUndefined();
    expect(bedrock.formatOf?.(callOf())).toBe("converse");
    expect(bedrock.formatOf?.(callOf({}, { model: claude }))).toBe("messages");
  });

  test("bedrock-mantle has chat completions where there is no Converse, and OpenAI's models below a path of their own", () => {
    const mantle = { baseUrl: "https://bedrock-mantle.us-west-2.api.aws" };
    expect(urlOf("openai.gpt-oss-120b", {}, mantle)).toBe(`${mantle.baseUrl}/v1/chat/completions`);
    expect(urlOf("openai.gpt-5.4", {}, mantle)).toBe(`${mantle.baseUrl}/openai/v1/chat/completions`);
    expect(urlOf("anthropic.claude-haiku-4-5", {}, mantle)).toBe(`${mantle.baseUrl}/anthropic/v1/messages`);
    const call = callOf({}, { model: "openai.gpt-oss-120b", account: { ...account, ...mantle } });
    expect(bedrock.native?.("responses", call)?.encode("{}", call, {}).url).toBe(`${mantle.baseUrl}/v1/responses`);
    expect(bedrock.formatOf?.(call)).toBe("chat");
  });
});
