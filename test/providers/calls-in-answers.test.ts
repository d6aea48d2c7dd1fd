/** Tool calls in answers: whatever an upstream leaves out or leaves empty, every call is found, and has an id of its own. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StreamFold } from "../../src/protocols/chat/fold.ts";
import type { CompletionBody } from "../../src/protocols/chat/schema.ts";
import type { AnsweredCall, RemoteProvider } from "../../src/providers/provider.ts";
import { providers } from "../../src/providers/registry.ts";

const account = { name: "up", baseUrl: "https://up.test", headers: {}, models: [], options: {}, modelRules: [] };
const remote = (name: string) => providers.find((one) => one.name === name) as RemoteProvider;

function callOf(answerId: string, extras: Record<string, unknown> = {}): AnsweredCall {
  const request = { model: "up/m", messages: [{ role: "user" as const, content: "Hi" }] };
  return { model: "m", request, extras, account, media: new Map(), answerId };
}

function plain(name: string, body: unknown, call = callOf("a")): CompletionBody {
  return remote(name).decode(body, JSON.stringify(body), call);
}

function streamed(name: string, events: readonly unknown[], call = callOf("a")): CompletionBody {
  const [fold, decoder] = [new StreamFold(), remote(name).streamDecoder(call)];
  for (const event of events) {
    const { type = "" } = event as { type?: string };
    fold.push(decoder.push({ event: type, data: typeof event === "string" ? event : JSON.stringify(event), id: "" }));
  }
  fold.push(decoder.end());
  return fold.result();
}

const callsIn = (body: CompletionBody) => body.choices.flatMap(({ message }) => message.tool_calls ?? []);

/** Two calls without ids, as each format has them. */
const answers: [string, string, Record<string, unknown>, unknown][] = [
  [
    "chat completions",
    "openai",
    {},
    {
      choices: [
        { message: { tool_calls: [{ function: { name: "f" } }, { function: { name: "f" } }] }, finish_reason: "stop" },
      ],
    },
  ],
  [
    "ollama",
    "ollama",
    {},
    { choices: [{ message: { tool_calls: [{ id: "", function: { name: "f" } }, { function: { name: "f" } }] } }] },
  ],
  [
    "responses",
    "openai",
    { use_responses_api: true },
    {
      object: "response",
      status: "completed",
      output: [1, 2].map(() => ({ type: "function_call", name: "f", arguments: "{}" })),
    },
  ],
  [
    "anthropic",
    "anthropic",
    {},
    { content: [1, 2].map(() => ({ type: "tool_use", name: "f", input: {} })), stop_reason: "tool_use" },
  ],
  [
    "google",
    "google",
    {},
    { candidates: [{ content: { parts: [1, 2].map(() => ({ functionCall: { name: "f" } })) }, finishReason: "STOP" }] },
  ],
];

describe("calls without ids get ones that no other answer has", () => {
  test.each(answers)("%s", (_, name, extras, body) => {
    const ids = (answerId: string) => callsIn(plain(name, body, callOf(answerId, extras))).map(({ id }) => id);
    const found = [...ids("a"), ...ids("b")];
    expect(found.length).toBe(4);
    expect(new Set(found).size).toBe(4);
    expect(ids("a")).toEqual(found.slice(0, 2));
    for (const id of found) expect(id).toMatch(/^call_[0-9a-f]{24}$/);
  });
});

describe("calls of an upstream that speaks chat completions", () => {
  const said = fc.constantFrom(
    { kind: "function", member: { name: "f", arguments: '{"a":1}' } },
    { kind: "function", member: { name: "f", arguments: "" } },
    { kind: "custom", member: { name: "c", input: "draw" } },
  );
  const beside = fc.constantFrom<unknown>(
    null,
    {},
    { name: "" },
    { name: "", arguments: "", input: "" },
    { name: null },
  );
  const type = fc.constantFrom<unknown>(undefined, null, "", "right", "wrong", "tool");
  const entry = fc.record({ said, beside, type, withId: fc.boolean() });
  type Entry = typeof entry extends fc.Arbitrary<infer T> ? T : never;

  const other = (kind: string) => (kind === "custom" ? "function" : "custom");
  const typeOf = ({ said: { kind }, type: given }: Entry) =>
    given === "right" ? kind : given === "wrong" ? other(kind) : given;
  const written = (one: Entry, at: number) => ({
    index: at,
    ...(one.withId && { id: `id_${at}` }),
    type: typeOf(one),
    [other(one.said.kind)]: one.beside,
    [one.said.kind]: one.said.member,
  });
  const expected = (entries: readonly Entry[]) =>
    entries.map(({ said: { kind, member }, withId }, at) => ({
      id: withId ? `id_${at}` : expect.stringMatching(/^call_[0-9a-f]{24}$/),
      type: kind,
      [kind]: kind === "function" ? { name: member.name, arguments: member.arguments || "{}" } : member,
    }));

  test("are all found, whatever stands empty beside them and whatever their type says", () => {
    fc.assert(
      fc.property(fc.array(entry, { minLength: 1, maxLength: 4 }), (entries) => {
        const message = { role: "assistant", content: "", refusal: "", tool_calls: entries.map(written) };
        const body = { choices: [{ index: 0, message, finish_reason: "stop" }] };
        expect(callsIn(plain("openai", body)) as unknown).toEqual(expected(entries));
        const chunk = (delta: object, finish_reason: string | null = null) => ({
          choices: [{ index: 0, delta, finish_reason }],
        });
        const events = [
          ...entries.map((one, at) => chunk({ tool_calls: [written(one, at)] })),
          chunk({}, "stop"),
          "[DONE]",
        ];
        const whole = streamed("openai", events);
        expect(callsIn(whole) as unknown).toEqual(expected(entries));
        expect(whole.choices[0]!.finish_reason).toBe("tool_calls");
        expect(callsIn(whole).map(({ id }) => id)).toEqual(callsIn(plain("openai", body)).map(({ id }) => id));
      }),
    );
  });

  test("keep their arguments however they are cut, with an empty member in each piece", () => {
    const pieces = fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(said, pieces, beside, fc.boolean(), ({ kind, member }, parts, empty, typed) => {
        const field = kind === "custom" ? "input" : "arguments";
        const entryOf = (more: object) => ({ index: 0, [other(kind)]: empty, [kind]: more });
        const first = { ...entryOf({ name: member.name, [field]: "" }), id: "c", ...(typed && { type: kind }) };
        const events = [first, ...parts.map((text) => entryOf({ name: "", [field]: text }))].map((one) => ({
          choices: [{ index: 0, delta: { tool_calls: [one] }, finish_reason: null }],
        }));
        const end = { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] };
        const [made] = callsIn(streamed("openai", [...events, end, "[DONE]"]));
        expect(made as unknown).toEqual({
          id: "c",
          type: kind,
          [kind]: { name: member.name, [field]: parts.join("") },
        });
      }),
    );
  });

  test("thoughts are found behind an empty field of another name, and a whole message behind an empty fragment", () => {
    const message = { role: "assistant", content: "a", reasoning_content: "", reasoning: "hm" };
    expect(
      plain("openai", { choices: [{ message, finish_reason: "stop" }] }).choices[0]!.message.reasoning_content,
    ).toBe("hm");
    const chunk = {
      choices: [{ index: 0, delta: { role: "assistant", content: "" }, message, finish_reason: "stop" }],
    };
    expect(streamed("openai", [chunk, "[DONE]"]).choices[0]!.message).toMatchObject({
      content: "a",
      reasoning_content: "hm",
    });
    const growing = [
      { choices: [{ index: 0, delta: {}, message: { content: "a" }, finish_reason: null }] },
      { choices: [{ index: 0, delta: { content: "ab" }, message: { content: "ab" }, finish_reason: null }] },
      { choices: [{ index: 0, delta: {}, message: { content: "ab" }, finish_reason: "stop" }] },
    ];
    expect(streamed("openai", [...growing, "[DONE]"]).choices[0]!.message.content).toBe("ab");
  });

  test("an end in a word that objects have by nature is an end like any unknown one", () => {
    for (const finish_reason of ["constructor", "__proto__", "toString"]) {
      const body = { choices: [{ message: { content: "a" }, finish_reason }] };
      expect(plain("openai", body).choices[0]!.finish_reason).toBe("stop");
      const content = [{ type: "text", text: "a" }];
      expect(plain("anthropic", { content, stop_reason: finish_reason }).choices[0]!.finish_reason).toBe("stop");
    }
  });
});

describe("Gemini", () => {
  const known =
    /^(MAX_TOKENS|CONTINUATION|MALFORMED_RESPONSE|UNEXPECTED_TOOL_CALL|TOO_MANY_TOOL_CALLS|MISSING_THOUGHT_SIGNATURE|SAFETY|RECITATION|BLOCKLIST|PROHIBITED_CONTENT|SPII|LANGUAGE|IMAGE_.*|MODEL_ARMOR)$/;
  const reason = fc
    .oneof(
      fc.string({ minLength: 1 }),
      fc.constantFrom("STOP", "OTHER", "MALFORMED_FUNCTION_CALL", "NEW_REASON", "constructor"),
    )
    .filter((one) => !known.test(one) && one !== "FINISH_REASON_UNSPECIFIED");

  test("calls are tool_calls under every reason that says nothing else", () => {
    fc.assert(
      fc.property(reason, fc.boolean(), (finishReason, calls) => {
        const parts = [{ text: "a" }, ...(calls ? [{ functionCall: { name: "f", args: { a: 1 } } }] : [])];
        const body = { candidates: [{ content: { parts }, finishReason }] };
        const expected = calls ? "tool_calls" : "stop";
        expect(plain("google", body).choices[0]!.finish_reason).toBe(expected);
        const events = [
          { candidates: [{ content: { parts } }] },
          { candidates: [{ content: { parts: [] }, finishReason }] },
        ];
        expect(streamed("google", events).choices[0]!.finish_reason).toBe(expected);
      }),
    );
  });

  test("a part's empty members hide nothing", () => {
    const empty = fc.constantFrom<object>(
      {},
      { functionCall: {} },
      { inlineData: {} },
      { functionCall: null },
      { functionCall: { name: "", args: {} } },
      { inlineData: { mimeType: "", data: "" }, functionCall: {} },
    );
    const full = fc.constantFrom<object>(
      { text: "a" },
      { functionCall: { name: "f" } },
      { inlineData: { mimeType: "image/png", data: "AA==" } },
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(full, empty), { minLength: 1, maxLength: 4 }), (pairs) => {
        const parts = pairs.map(([said, beside]) => ({ text: "", ...beside, ...said }));
        const { message } = plain("google", { candidates: [{ content: { parts }, finishReason: "STOP" }] }).choices[0]!;
        const count = (name: string) => pairs.filter(([said]) => name in said).length;
        expect(message.content ?? "").toBe("a".repeat(count("text")));
        expect(message.tool_calls?.length ?? 0).toBe(count("functionCall"));
        expect((message["images"] as unknown[] | undefined)?.length ?? 0).toBe(count("inlineData"));
      }),
    );
  });
});

describe("a call of a type that this build doesn't know is passed on as it came", () => {
  const call = { id: "c1", type: "brand_new", brand_new: { name: "f", steps: [1.5, { at: "x" }] }, note: "n" };
  const known = { id: "c2", type: "function", function: { name: "g", arguments: "{}" } };
  const chunk = (calls: unknown, finish_reason: unknown = null) => ({
    choices: [{ index: 0, delta: { tool_calls: calls }, finish_reason }],
  });

  test("in a plain answer", () => {
    const body = plain("openai", {
      choices: [{ message: { content: null, tool_calls: [call, known] }, finish_reason: "tool_calls" }],
    });
    expect(callsIn(body) as unknown[]).toEqual([call, known]);
  });

  test("in a stream, whole or in pieces, and with an id where it has none", () => {
    const whole = streamed("openai", [
      chunk([{ index: 0, ...call }]),
      chunk([{ index: 1, ...known }]),
      chunk([], "stop"),
    ]);
    expect(callsIn(whole) as unknown[]).toEqual([call, known]);
    expect(whole.choices[0]!.finish_reason).toBe("tool_calls");
    const pieces = streamed("openai", [
      chunk([{ index: 3, type: "brand_new", brand_new: { name: "f", input: "a" } }]),
      chunk([{ index: 3, brand_new: { input: "b", last: true } }]),
      chunk([], "tool_calls"),
    ]);
    const [first, ...others] = callsIn(pieces) as unknown as Record<string, unknown>[];
    expect(others).toEqual([]);
    expect(first).toEqual({
      id: expect.stringMatching(/^call_/),
      type: "brand_new",
      brand_new: { name: "f", input: "ab", last: true },
    });
  });
});

test("thoughts that a stream gives in pieces are one entry of the plain answer", () => {
  const piece = (text: string, signature: string) => ({
    choices: [{ index: 0, delta: { reasoning_details: [{ type: "reasoning.text", index: 0, text, signature }] } }],
  });
  const end = { choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: "stop" }] };
  const { message } = streamed("openrouter", [piece("Let ", ""), piece("me", ""), piece("", "c2ln"), end]).choices[0]!;
  expect(message["reasoning_details"]).toEqual([
    { type: "reasoning.text", index: 0, text: "Let me", signature: "c2ln" },
  ]);
});

test.each([[""], [{}], [[]], [null], [false]])("an 'error' that is %j is none, and no field of the answer", (error) => {
  const body = { error, choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }] };
  expect(plain("openai", body)).not.toHaveProperty("error");
  const chunk = { error, choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: "stop" }] };
  expect(streamed("openai", [chunk, "[DONE]"])).not.toHaveProperty("error");
});

test("fields beside an answer that never came are no answer", () => {
  const decoder = remote("openai").streamDecoder(callOf("a"));
  expect(decoder.push({ event: "", data: JSON.stringify({ choices: [], note: "x" }), id: "" })).toEqual([]);
  expect(decoder.end()).toEqual([]);
});
