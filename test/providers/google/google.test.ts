import { describe, expect, test } from "bun:test";
import { FinishReason, type GenerateContentResponse, GoogleGenAI } from "@google/genai";
import fc from "fast-check";
import type { ModelRule } from "../../../src/facts/rules.ts";
import type { SseEvent } from "../../../src/lib/streams/sse.ts";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChatRequest, ChunkBody, CompletionBody } from "../../../src/protocols/chat/schema.ts";
import { ApiError, InvalidAnswer, UpstreamFault } from "../../../src/protocols/errors.ts";
import { google } from "../../../src/providers/google/google.ts";
import { googleRules } from "../../../src/providers/google/rules.ts";
import { toOpenApiSchema } from "../../../src/providers/google/schema.ts";
import type { Account, AnsweredCall } from "../../../src/providers/provider.ts";
import { Normaliser } from "../../../src/upstream/stream/normaliser.ts";
import { answeredCases } from "../../helpers/fixtures.ts";
import { runs } from "../../helpers/long-form.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";
import { geminiExample } from "../../helpers/upstreams/google.ts";

type Json = Record<string, unknown>;

const account: Account = {
  name: "google",
  baseUrl: google.baseUrl,
  models: [],
  options: {},
  modelRules: [],
};

function callOf(request: Json = {}, more: Partial<AnsweredCall> = {}): AnsweredCall {
  const messages = [{ role: "user", content: "Hi" }];
  return {
    model: "gemini-3.8-flash",
    request: { model: "google/gemini-3.8-flash", messages, ...request } as ChatRequest,
    extras: {},
    account,
    media: new Map(),
    answerId: "chatcmpl-1",
    ...more,
  };
}

const sent = (call: AnsweredCall): Json => JSON.parse(google.encode(call).body as string);
const asEvent = (body: unknown): SseEvent => ({ event: "", id: "", data: JSON.stringify(body) });
const decode = (body: unknown, call = callOf()) => google.decode(body, JSON.stringify(body), call);

function decodeStream(events: readonly unknown[], call = callOf()): ChunkBody[] {
  const decoder = google.streamDecoder(call);
  return [...events.flatMap((body) => decoder.push(asEvent(body))), ...decoder.end()];
}

function folded(bodies: readonly ChunkBody[]): CompletionBody {
  const fold = new StreamFold();
  fold.push(bodies);
  return fold.result();
}

const candidate = (parts: unknown[], more: Json = {}) => ({ content: { role: "model", parts }, index: 0, ...more });

describe("why an answer ended", () => {
  const filtered = [
    ...["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY"],
    ...["IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"],
  ];
  const broken = ["UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"];
  const unexplained = ["MALFORMED_FUNCTION_CALL", "OTHER", "NO_IMAGE", "IMAGE_OTHER", "SOMETHING_NEW"];
  const reasons: readonly (readonly [string, string, Json | undefined])[] = [
    ["STOP", "stop", undefined],
    ["MAX_TOKENS", "length", undefined],
    ["CONTINUATION", "length", { finish_reason: "CONTINUATION", finish_message: "why" }],
    ...filtered.map((reason) => [reason, "content_filter", { finish_reason: reason, finish_message: "why" }] as const),
    ...broken.map((reason) => [reason, "length", { finish_reason: reason, finish_message: "why" }] as const),
    ...unexplained.map((reason) => [reason, "stop", { finish_reason: reason, finish_message: "why" }] as const),
  ];
  for (const [reason, expected, metadata] of reasons) {
    test(`${reason} is ${expected}`, () => {
      const body = { candidates: [candidate([{ text: "a" }], { finishReason: reason, finishMessage: "why" })] };
      for (const answer of [decode(body), folded(decodeStream([body]))]) {
        expect(answer.choices[0]!.finish_reason as string).toBe(expected);
        expect(answer.metadata as Json | undefined).toEqual(metadata);
      }
    });
  }

  test("every reason that the official types know is among them", () => {
    const said = new Set(["FINISH_REASON_UNSPECIFIED", ...reasons.map(([reason]) => reason)]);
    expect(Object.values(FinishReason).filter((reason) => !said.has(reason))).toEqual([]);
  });

  test("an unspecified reason is none: the whole answer has ended, a stream has not", () => {
    const body = { candidates: [candidate([{ text: "a" }], { finishReason: "FINISH_REASON_UNSPECIFIED" })] };
    expect(decode(body).choices[0]!.finish_reason).toBe("stop");
    expect(decodeStream([body])).toEqual([{ choices: [{ index: 0, delta: { content: "a" }, finish_reason: null }] }]);
  });

  test("STOP beside calls is tool_calls, whichever event the calls came in; other reasons stay", () => {
    const call = { candidates: [candidate([{ functionCall: { name: "f" } }])] };
    const end = (finishReason: string) => ({ candidates: [candidate([{ text: "" }], { finishReason })] });
    expect(folded(decodeStream([call, end("STOP")])).choices[0]!.finish_reason).toBe("tool_calls");
    expect(folded(decodeStream([call, end("MAX_TOKENS")])).choices[0]!.finish_reason).toBe("length");
    expect(folded(decodeStream([call, end("TOO_MANY_TOOL_CALLS")])).choices[0]!.finish_reason).toBe("length");
    const whole = { candidates: [candidate([{ functionCall: { name: "f" } }], { finishReason: "STOP" })] };
    expect(decode(whole).choices[0]!.finish_reason).toBe("tool_calls");
  });

  test("a stream that closes without a reason is left unfinished", () => {
    const bodies = decodeStream([
      { candidates: [candidate([{ text: "Hel" }])], usageMetadata: { promptTokenCount: 1 } },
    ]);
    const normaliser = new Normaliser({ thinkingRequested: false, choices: 1 });
    for (const body of bodies) normaliser.push(body);
    expect(normaliser.complete).toBe(false);
    expect(bodies.at(-1)?.usage?.prompt_tokens).toBe(1);
  });
});

describe("how much a model thinks", () => {
  const efforts = ["none", "minimal", "low", "medium", "high", "max"];
  const levels = (...names: string[]) => names.map((thinkingLevel) => ({ thinkingLevel }));
  const budgets = (...tokens: number[]) => tokens.map((thinkingBudget) => ({ thinkingBudget }));
  const fromMinimal = levels("MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH");
  const fromLow = levels("LOW", "LOW", "LOW", "MEDIUM", "HIGH", "HIGH");
  const nothing = efforts.map(() => undefined);
  const table: readonly (readonly [string, readonly (Json | undefined)[]])[] = [
    ["gemini-3.8-flash", fromLow],
    ["gemini-3.7-flash", fromLow],
    ["gemini-4-pro", fromLow],
    ["gemini-flash-latest", fromLow],
    ["gemini-3.1-pro-preview", fromLow],
    ["gemini-3-pro-preview", levels("LOW", "LOW", "LOW", "HIGH", "HIGH", "HIGH")],
    ["gemini-3.6-flash", fromMinimal],
    ["gemini-3.5-flash", fromMinimal],
    ["gemini-3.5-flash-lite", fromMinimal],
    ["gemini-3.1-flash-lite", fromMinimal],
    ["gemini-3-flash-preview", fromMinimal],
    ["gemini-3.1-flash-lite-image", levels("MINIMAL", "MINIMAL", "MINIMAL", "HIGH", "HIGH", "HIGH")],
    ["gemini-3-pro-image", nothing],
    ["gemma-4-31b-it", levels("MINIMAL", "MINIMAL", "MINIMAL", "HIGH", "HIGH", "HIGH")],
    ["gemini-2.5-pro", budgets(128, 1024, 1024, 8192, 24_576, 32_768)],
    ["models/gemini-2.5-flash", budgets(0, 1024, 1024, 8192, 24_576, 24_576)],
    ["gemini-2.5-flash-lite", budgets(0, 1024, 1024, 8192, 24_576, 24_576)],
    ["gemini-2.5-flash-image", nothing],
    ["gemini-2.0-flash", nothing],
    ["gemma-3-27b-it", nothing],
  ];
  for (const [model, expected] of table) {
    test(model, () => {
      const configs = efforts.map((reasoning_effort) => {
        const config = sent(callOf({ reasoning_effort }, { model }))["generationConfig"] as Json | undefined;
        return config?.["thinkingConfig"] as Json | undefined;
      });
      expect(configs).toEqual([...expected]);
    });
  }

  const combinations: readonly (readonly [string, Json, Json, Json | undefined])[] = [
    ["a budget goes before an effort", { thinking_budget: 0 }, { reasoning_effort: "high" }, { thinkingBudget: 0 }],
    [
      "a level goes before an effort",
      { thinking_level: "HIGH" },
      { reasoning_effort: "low" },
      { thinkingLevel: "HIGH" },
    ],
    [
      "a level that the model is not documented to take is the highest that it is",
      { thinking_level: "XHIGH" },
      {},
      { thinkingLevel: "HIGH" },
    ],
    ["a budget goes before a level", { thinking_budget: 9, thinking_level: "low" }, {}, { thinkingBudget: 9 }],
    ["thoughts alone", { include_thoughts: true }, {}, { includeThoughts: true }],
    ["no thoughts", { include_thoughts: false }, {}, { includeThoughts: false }],
    ["disabled", { thinking: { type: "disabled" } }, { reasoning_effort: "high" }, { thinkingLevel: "LOW" }],
    ["adaptive", { thinking: { type: "adaptive" } }, {}, { includeThoughts: true }],
    ["enabled without tokens", { thinking: { type: "enabled", budget_tokens: 0 } }, {}, { thinkingBudget: 0 }],
    [
      "what is said at the top goes before Google's own form",
      { include_thoughts: false, thinking_config: { include_thoughts: true, thinking_budget: 5 } },
      {},
      { includeThoughts: false, thinkingBudget: 5 },
    ],
    ["nothing", {}, {}, undefined],
  ];
  for (const [title, extras, request, expected] of combinations) {
    test(title, () => {
      const config = sent(callOf(request, { extras }))["generationConfig"] as Json | undefined;
      expect(config?.["thinkingConfig"] as Json | undefined).toEqual(expected);
    });
  }

  test("XHIGH is said to the models that came with it", () => {
    for (const extras of [{ thinking_level: "XHIGH" }, { thinking_config: { thinking_level: "xhigh" } }]) {
      const config = sent(callOf({}, { extras, model: "gemini-4-pro" }))["generationConfig"] as Json;
      expect(config["thinkingConfig"]).toEqual({ thinkingLevel: "XHIGH" });
    }
  });

  test("an operator's rules go before ours, key by key", () => {
    const rule = (rules: Json): ModelRule => ({ match: "gemini-3.8*", ...rules });
    const modelRules = [rule({ efforts: { low: "TINY" }, penalties: true })];
    const call = callOf({ reasoning_effort: "low", presence_penalty: 1 }, { account: { ...account, modelRules } });
    expect(sent(call)["generationConfig"]).toEqual({ presencePenalty: 1, thinkingConfig: { thinkingLevel: "TINY" } });
    expect(googleRules(call).signatures).toBe("calls");
  });
});

describe("where a request goes", () => {
  const url = (model: string, baseUrl = "https://g.test/v1beta") =>
    google.encode(callOf({}, { model, account: { ...account, baseUrl } })).url;
  test("a model is one resource, whatever its name", () => {
    expect(url("gemini-3.8-flash")).toBe("https://g.test/v1beta/models/gemini-3.8-flash:generateContent");
    expect(url("models/gemini-3.8-flash")).toBe("https://g.test/v1beta/models/gemini-3.8-flash:generateContent");
    expect(url("tunedModels/mine-1")).toBe("https://g.test/v1beta/tunedModels/mine-1:generateContent");
    expect(new URL(url("..")).pathname).toBe("/v1beta/models/..:generateContent");
    // Servers in between decode them.
    for (const name of ["../../v1/files?x#y", "tunedModels/../x", "a:countTokens", "a%2Fb"])
      expect(() => url(name)).toThrow("is no name of a model there");
  });
  test("a base URL without a path gets the version", () => {
    expect(url("m", "https://g.test")).toBe("https://g.test/v1beta/models/m:generateContent");
    expect(url("m", "http://127.0.0.1:8080")).toBe("http://127.0.0.1:8080/v1beta/models/m:generateContent");
    expect(url("m", "https://g.test/v1")).toBe("https://g.test/v1/models/m:generateContent");
  });
});

test("media by URL are listed with their places, those that Google reads itself are not", () => {
  const image = (url: string) => ({ type: "image_url", image_url: { url } });
  const messages = [
    {
      role: "user",
      content: [{ type: "text", text: "x" }, image("https://a.example/1"), image("https://youtu.be/abc")],
    },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "" } }],
    },
    { role: "tool", tool_call_id: "c", content: [image("http://a.example/2"), image("data:image/png;base64,AA==")] },
    { role: "user", content: [{ type: "file", file: { file_data: "https://a.example/3.pdf" } }] },
    { role: "user", content: [{ type: "file", file: { file_id: "https://a.example/4" } }] },
  ];
  expect(google.remoteMedia!(callOf({ messages }))).toEqual([
    { url: "https://a.example/1", param: "messages[0].content[1].image_url.url" },
    { url: "http://a.example/2", param: "messages[2].content[0].image_url.url" },
    { url: "https://a.example/3.pdf", param: "messages[3].content[0].file.file_data" },
    { url: "https://a.example/4", param: "messages[4].content[0].file.file_id" },
  ]);
});

describe("ids of calls that have none", () => {
  const body = (responseId?: string) => ({
    candidates: [candidate([{ functionCall: { name: "f" } }, { functionCall: { name: "f" } }])],
    ...(responseId !== undefined && { responseId }),
  });
  const ids = (answer: CompletionBody) => answer.choices[0]!.message.tool_calls!.map(({ id }) => id);
  test("differ within an answer and between answers, and are the same for the same answer", () => {
    const another = callOf({}, { answerId: "chatcmpl-2" });
    const found = [decode(body("r1")), decode(body("r1"), another)].flatMap(ids);
    expect(new Set(found).size).toBe(4);
    for (const id of found) expect(id).toMatch(/^call_[0-9a-f]{24}$/);
    expect(ids(decode(body()))).toEqual(found.slice(0, 2));
    expect(ids(folded(decodeStream([body("r1"), { candidates: [candidate([], { finishReason: "STOP" })] }])))).toEqual(
      found.slice(0, 2),
    );
  });
});

describe("whatever the pieces", () => {
  const part = fc.oneof(
    fc.record({ text: fc.string({ unit: "grapheme" }) }),
    fc.record({ text: fc.string(), thought: fc.constant(true) }),
    fc.record({ text: fc.string(), thoughtSignature: fc.base64String({ minLength: 4 }) }),
    fc.record({
      functionCall: fc.record(
        { name: fc.constantFrom("f", "g"), args: fc.dictionary(fc.string(), fc.jsonValue()), id: fc.uuid() },
        { requiredKeys: ["name"] },
      ),
      thoughtSignature: fc.base64String({ minLength: 4 }),
    }),
  );
  const finishReason = fc.constantFrom("STOP", "MAX_TOKENS", "SAFETY", "OTHER");

  test("a stream gives what the whole answer gives", () => {
    fc.assert(
      fc.property(fc.array(fc.array(part)), finishReason, fc.boolean(), (events, reason, include_thoughts) => {
        const call = callOf({}, { extras: { include_thoughts } });
        const last = candidate([], { finishReason: reason });
        const stream = [...events.map((parts) => ({ candidates: [candidate(parts)] })), { candidates: [last] }];
        const whole = decode({ candidates: [candidate(events.flat(), { finishReason: reason })] }, call);
        expect(folded(decodeStream(stream, call))).toEqual(whole);
      }),
    );
  });

  test("candidates in any order stay apart", () => {
    fc.assert(
      fc.property(fc.array(fc.record({ index: fc.nat(2), part }), { minLength: 1 }), (pieces) => {
        const indexes = [...new Set(pieces.map(({ index }) => index))].sort();
        const stream = [
          ...pieces.map(({ index, part: one }) => ({ candidates: [candidate([one], { index })] })),
          ...indexes.map((index) => ({ candidates: [candidate([], { index, finishReason: "STOP" })] })),
        ];
        const wholes = indexes.map((index) =>
          candidate(
            pieces.filter((piece) => piece.index === index).map((piece) => piece.part),
            { index, finishReason: "STOP" },
          ),
        );
        expect(folded(decodeStream(stream)).choices).toEqual(decode({ candidates: wholes }).choices);
      }),
    );
  });

  test("calls in a stream have dense indexes, one id and name each, and arguments that are JSON", () => {
    fc.assert(
      fc.property(fc.array(fc.array(part)), (events) => {
        const stream = [
          ...events.map((parts) => ({ candidates: [candidate(parts)] })),
          { candidates: [candidate([], { finishReason: "STOP" })] },
        ];
        const deltas = decodeStream(stream).flatMap(({ choices }) =>
          choices.flatMap(({ delta }) => delta.tool_calls ?? []),
        );
        const calls = events.flat().filter((one) => "functionCall" in one);
        expect(deltas.map(({ index }) => index)).toEqual(calls.map((_, at) => at));
        const args = deltas.map((delta) => JSON.parse(delta.function!.arguments!));
        expect(args).toEqual(calls.map(({ functionCall }) => JSON.parse(JSON.stringify(functionCall.args ?? {}))));
      }),
    );
  });
});

describe("garbage", () => {
  /** JSON that is nearly an answer: its known names, with anything in them. */
  const names = fc.constantFrom(
    ...["candidates", "content", "parts", "text", "thought", "functionCall", "partialArgs", "jsonPath", "stringValue"],
    ...[
      "inlineData",
      "mimeType",
      "data",
      "finishReason",
      "index",
      "usageMetadata",
      "promptTokenCount",
      "error",
      "code",
    ],
    ...["promptFeedback", "blockReason", "logprobsResult", "chosenCandidates", "topCandidates", "groundingMetadata"],
    ...["groundingSupports", "segment", "thoughtSignature", "willContinue", "name", "args", "responseId"],
  );
  const leaf = fc.oneof(
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.string(),
    fc.constantFrom("STOP", "$.a[0]", "audio/wav"),
  );
  const { node: garbage } = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 6 },
      leaf,
      fc.array(tie("node"), { maxLength: 3 }),
      fc.dictionary(names, tie("node"), { maxKeys: 6 }),
    ),
  }));
  const call = callOf({ web_search_options: {} }, { extras: { include_thoughts: true } });
  const onlyFaults = (act: () => unknown) => {
    try {
      act();
    } catch (error) {
      if (error instanceof InvalidAnswer) return;
      if (!(error instanceof UpstreamFault)) throw error;
      expect(error.status).toBeGreaterThanOrEqual(400);
    }
  };

  test("never breaks anything but the answer", () => {
    fc.assert(
      fc.property(fc.array(garbage, { maxLength: 4 }), (bodies) => {
        for (const body of bodies) onlyFaults(() => decode(body, call));
        onlyFaults(() => folded(decodeStream(bodies, call)));
      }),
      { numRuns: runs(500) },
    );
  });

  test("of any kind of candidates", () => {
    fc.assert(
      fc.property(fc.array(garbage), garbage, (parts, rest) => {
        const body = { candidates: [{ ...(rest as Json), content: { parts } }] };
        onlyFaults(() => decode(body, call));
        onlyFaults(() => decodeStream([body, body], call));
      }),
      { numRuns: runs(500) },
    );
  });

  test("events that can't be read are faults, but for the word of other formats that some proxies add", () => {
    const decoder = google.streamDecoder(callOf());
    for (const data of ["", "{", "null", "[]", "<html>", "1", '"text"']) {
      expect(() => decoder.push({ event: "", id: "", data })).toThrow(InvalidAnswer);
    }
    expect(decoder.push({ event: "", id: "", data: "[DONE]" })).toEqual([]);
    expect(decoder.end()).toEqual([]);
  });

  test("an error in a list is one in an event too", () => {
    const data = '[{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}]';
    const decoder = google.streamDecoder(callOf());
    expect(() => decoder.push({ event: "", id: "", data })).toThrow(UpstreamFault);
  });

  const inPieces = (pieces: Json[], finishReason = "STOP") => {
    const parts = [
      { functionCall: { name: "f", willContinue: true } },
      { functionCall: { partialArgs: pieces, willContinue: true } },
    ];
    const answer = decode({ candidates: [candidate(parts, { finishReason })] });
    return (answer.choices[0]!.message.tool_calls![0] as { function: { arguments: string } }).function.arguments;
  };

  test("arguments in pieces stay within what they build", () => {
    const pieces = [
      { jsonPath: "$.__proto__.polluted", stringValue: "x" },
      { jsonPath: "$.list[0]", stringValue: "a" },
      { jsonPath: "$.list[0].deeper", stringValue: "replaced" },
      { jsonPath: "$.none" },
    ];
    expect(inPieces(pieces)).toBe('{"__proto__":{"polluted":"x"},"list":[{"deeper":"replaced"}]}');
    expect(({} as Json)["polluted"]).toBeUndefined();
  });

  test.each<[string, Json]>([
    ["far behind the end of a list", { jsonPath: "$.list[1000000000]", stringValue: "far" }],
    ["in a list, by a name", { jsonPath: "$.list.length", numberValue: 4_000_000_000 }],
    ["nowhere", { jsonPath: "nothing", stringValue: "x" }],
    ["deeper than JSON can be written", { jsonPath: `$${".a".repeat(200_000)}`, stringValue: "x" }],
  ])("a piece whose place is %s is a fault", (_, piece) => {
    expect(() => inPieces([{ jsonPath: "$.list[0]", stringValue: "a" }, piece])).toThrow(InvalidAnswer);
  });

  test("a text that was to go on and does not is a fault, unless the answer was cut short", () => {
    const pieces = [{ jsonPath: "$.a", stringValue: "begun", willContinue: true }];
    expect(() => inPieces([...pieces, { jsonPath: "$.b", stringValue: "x" }])).toThrow(InvalidAnswer);
    expect(() => inPieces(pieces)).toThrow(InvalidAnswer);
    expect(inPieces(pieces, "MAX_TOKENS")).toBe('{"a":"begun"}');
  });
});

describe("schemas for older models", () => {
  const allowed = new Set([
    ...["type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties"],
    ...[
      "minProperties",
      "maxProperties",
      "required",
      "minimum",
      "maximum",
      "minLength",
      "maxLength",
      "pattern",
      "anyOf",
    ],
    ...["default", "example", "propertyOrdering"],
  ]);
  const checkKeys = (schema: Json): void => {
    expect(Object.keys(schema).filter((key) => !allowed.has(key))).toEqual([]);
    expect(Array.isArray(schema["type"])).toBe(false);
    for (const value of (schema["enum"] as unknown[]) ?? []) expect(typeof value).toBe("string");
    for (const one of Object.values((schema["properties"] as Json) ?? {})) checkKeys(one as Json);
    for (const one of (schema["anyOf"] as Json[]) ?? []) checkKeys(one);
    if (schema["items"] !== undefined) checkKeys(schema["items"] as Json);
  };
  const { schema: anySchema } = fc.letrec((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4 },
      fc.constant({}),
      fc.record(
        {
          type: fc.constantFrom(
            "string",
            "integer",
            "object",
            "array",
            ["string", "null"],
            ["integer", "string"],
            "null",
          ),
          const: fc.jsonValue({ maxDepth: 0 }),
          enum: fc.array(fc.jsonValue({ maxDepth: 0 })),
          format: fc.constantFrom("uri", "date-time", "int64"),
          properties: fc.dictionary(fc.string(), tie("schema"), { maxKeys: 3 }),
          items: tie("schema"),
          anyOf: fc.array(tie("schema"), { maxLength: 2 }),
          oneOf: fc.array(tie("schema"), { maxLength: 2 }),
          allOf: fc.array(tie("schema"), { maxLength: 2 }),
          not: tie("schema"),
          $ref: fc.constantFrom("#", "#/$defs/a", "#/nowhere", "other.json"),
          $defs: fc.dictionary(fc.constantFrom("a", "b"), tie("schema"), { maxKeys: 2 }),
          additionalProperties: fc.boolean(),
          exclusiveMinimum: fc.integer(),
          patternProperties: fc.constant({}),
        },
        { requiredKeys: [] },
      ),
    ),
  }));

  test("hold no word that those refuse", () => {
    fc.assert(fc.property(anySchema, (schema) => checkKeys(toOpenApiSchema(schema as Json))));
  });

  test("end, however often they name each other", () => {
    const $defs: Json = { last: { type: "string" } };
    for (let at = 0; at < 30; at += 1) {
      const next = { $ref: at === 29 ? "#/$defs/last" : `#/$defs/d${at + 1}` };
      $defs[`d${at}`] = { type: "object", properties: { a: next, b: next } };
    }
    const text = JSON.stringify(toOpenApiSchema({ $ref: "#/$defs/d0", $defs }));
    expect(text.length).toBeLessThan(300_000);
    expect(text.slice(0, 100)).toStartWith('{"type":"object","properties":{"a":');
  });
});

describe("the official library reads the example answers to the same result", () => {
  const answered = answeredCases("google").filter(({ expected }) => expected.error === undefined);
  /** The library leaves it to its caller to put arguments together, and reads no lists. */
  const ours = new Set(["streamed-arguments", "stream-in-list"]);

  test("there are enough of them", () => expect(answered.length).toBeGreaterThan(25));

  for (const { name, form, expected } of answered.filter((one) => !ours.has(one.name))) {
    test(name, async () => {
      using server = new UpstreamServer(() => geminiExample(name));
      const client = new GoogleGenAI({ apiKey: "k", apiVersion: "v1beta", httpOptions: { baseUrl: server.url } });
      const params = { model: "m", contents: "x", config: { automaticContinuation: false } };
      const streamed = form === "sse";
      const responses: GenerateContentResponse[] = [];
      if (streamed) for await (const chunk of await client.models.generateContentStream(params)) responses.push(chunk);
      else responses.push(await client.models.generateContent(params));
      expect(server.last.path).toBe(
        `/v1beta/models/m:${streamed ? "streamGenerateContent?alt=sse" : "generateContent"}`,
      );

      const { choices, usage } = expected.completion!;
      const { message } = choices[0]!;
      const first = responses.flatMap(({ candidates }) => candidates?.filter(({ index }) => (index ?? 0) === 0) ?? []);
      const parts = first.flatMap(({ content }) => content?.parts ?? []);
      const text = parts.filter(({ thought }) => thought !== true).map((part) => part.text ?? "");
      expect(message.content ?? "").toBe(text.join(""));
      if (message.reasoning_content !== undefined) {
        const thoughts = parts.filter(({ thought }) => thought === true).map((part) => part.text ?? "");
        expect(message.reasoning_content).toBe(thoughts.join(""));
      }
      const calls = responses.flatMap((response) => response.functionCalls ?? []);
      const named = (message.tool_calls ?? []).map((one) => (one.type === "function" ? one.function : undefined));
      expect(named.map((one) => [one?.name, JSON.parse(one?.arguments ?? "")])).toEqual(
        calls.map(({ name: called, args }) => [called, args ?? {}]),
      );
      const counts = responses.at(-1)!.usageMetadata!;
      expect(usage!.total_tokens).toBe(counts.totalTokenCount!);
      expect(usage!.prompt_tokens).toBe((counts.promptTokenCount ?? 0) + (counts.toolUsePromptTokenCount ?? 0));
      expect(usage!.completion_tokens).toBe((counts.candidatesTokenCount ?? 0) + (counts.thoughtsTokenCount ?? 0));
      expect(usage!.prompt_tokens + usage!.completion_tokens).toBe(usage!.total_tokens);
      expect(message.refusal === undefined).toBe(responses.every(({ promptFeedback }) => promptFeedback === undefined));
    });
  }
});

test("what can't be done is refused with its place", () => {
  const refused = (request: Json) => {
    try {
      google.encode(callOf(request));
    } catch (error) {
      if (error instanceof ApiError) return error.fields();
    }
    return undefined;
  };
  expect(
    refused({
      tool_choice: { type: "custom", custom: { name: "x" } },
      tools: [{ type: "function", function: { name: "f" } }],
    }),
  ).toEqual({
    message: "tool_choice: custom tools are not supported by this provider.",
    type: "invalid_request_error",
    param: "tool_choice",
    code: "unsupported_parameter",
  });
  expect(refused({ tool_choice: "required" })).toBeUndefined();
  expect(sent(callOf({ tool_choice: "required" }))["toolConfig"]).toBeUndefined();
});
