import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChatRequest } from "../../../src/protocols/chat/schema.ts";
import { ApiError } from "../../../src/protocols/errors.ts";
import { builtin } from "../../../src/providers/builtin/builtin.ts";
import { arrivedOf } from "../../../src/providers/builtin/probe.ts";
import type { Call } from "../../../src/providers/provider.ts";

function callTo(model: string, messages: ChatRequest["messages"], fields: Partial<ChatRequest> = {}): Call {
  return {
    model,
    request: { model: `builtin/${model}`, messages, ...fields } as ChatRequest,
    extras: {},
    account: { name: "builtin", baseUrl: "", models: [], options: {}, modelRules: [] },
    media: new Map(),
  };
}

const said = (...texts: string[]): ChatRequest["messages"] => texts.map((content) => ({ role: "user", content }));
const textsOf = (call: Call) => builtin.answer(call).choices.map(({ message }) => message.content);

describe("builtin/echo", () => {
  test("says the last user text again, its text parts joined", () => {
    expect(textsOf(callTo("echo", said("one", "two  three\n")))).toEqual(["two  three\n"]);
    const parts: ChatRequest["messages"] = [
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AA" } },
          { type: "text", text: "b" },
        ],
      },
      { role: "assistant", content: "later" },
    ];
    expect(textsOf(callTo("echo", parts))).toEqual(["a\nb"]);
  });

  test("counts words and other signs, in the prompt and in every choice", () => {
    const { usage } = builtin.answer(
      callTo("echo", [{ role: "system", content: "Be brief." }, ...said("Don't stop, now!")], { n: 2 }),
    );
    expect(usage).toEqual({ prompt_tokens: 8, completion_tokens: 10, total_tokens: 18 });
  });

  test("max_tokens cuts at a token and says so, max_completion_tokens wins over it", () => {
    const cut = builtin.answer(callTo("echo", said("one two, three"), { max_tokens: 3 })).choices[0];
    expect(cut).toMatchObject({ message: { content: "one two," }, finish_reason: "length" });
    const exact = builtin.answer(callTo("echo", said("one two, three"), { max_tokens: 1, max_completion_tokens: 4 }));
    expect(exact.choices[0]).toMatchObject({ message: { content: "one two, three" }, finish_reason: "stop" });
  });

  test("the earliest stop sequence ends the text and is left out", () => {
    expect(textsOf(callTo("echo", said("abc def ghi"), { stop: ["ghi", " def"] }))).toEqual(["abc"]);
    expect(textsOf(callTo("echo", said("abc def"), { stop: "zzz" }))).toEqual(["abc def"]);
  });

  test("streams one fragment a token", () => {
    const bodies = [...builtin.stream(callTo("echo", said("Hi there.")))];
    expect(bodies.map(({ choices }) => choices[0]?.delta.content)).toEqual(["Hi", " there", ".", undefined, undefined]);
    expect(bodies.at(-1)?.usage).toEqual({ prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 });
  });
});

test("a long text is repeated in pieces of a fixed length, whole characters each", () => {
  const text = "a😀".repeat(40_000);
  const bodies = [...builtin.stream(callTo("echo", said(text)))];
  const fragments = bodies.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? ""));
  expect(fragments.join("")).toBe(text);
  expect(fragments.every((fragment) => fragment.isWellFormed() && fragment.length <= 8192)).toBe(true);
  expect(bodies.at(-1)?.usage).toEqual({ prompt_tokens: 20, completion_tokens: 20, total_tokens: 40 });
});

describe("builtin/eliza", () => {
  test("answers the weightiest pattern and turns the speaker's words around", () => {
    expect(textsOf(callTo("eliza", said("I think you're mocking me.")))).toEqual([
      "What makes you think that I am mocking you?",
    ]);
    expect(textsOf(callTo("eliza", said("I believe a machine could do it")))).toEqual(["Do machines worry you?"]);
  });

  test("replies take turns within a conversation", () => {
    const first = textsOf(callTo("eliza", said("I need rest")));
    const second = textsOf(callTo("eliza", said("I need rest", "I need rest")));
    expect(first).toEqual(["What would it mean to you to have rest?"]);
    expect(second).toEqual(["Why do you want rest?"]);
  });

  test("goes on when no pattern fits, and when nothing is said", () => {
    expect(textsOf(callTo("eliza", said("Hm")))).toEqual(["Please go on."]);
    expect(textsOf(callTo("eliza", said("Hm", "Hm")))).toEqual(["What does that bring to mind?"]);
    expect(textsOf(callTo("eliza", said(" ")))).toEqual(["I am listening."]);
  });

  test("choices differ", () => {
    expect(textsOf(callTo("eliza", said("Hello"), { n: 2 }))).toEqual([
      "Hello. What would you like to talk about?",
      "Hello again. What is on your mind?",
    ]);
  });

  test("never fails, and says the same twice", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme", maxLength: 80 }), { maxLength: 6 }), (texts) => {
        const call = callTo("eliza", said("x", ...texts));
        const [text] = textsOf(call);
        expect(text).not.toBe("");
        expect(text).not.toContain("$1");
        expect(textsOf(call)).toEqual([text!]);
      }),
    );
  });
});

test("streamed and plain answers are the same, with any limits", () => {
  const model = fc.constantFrom("echo", "eliza");
  const text = fc.string({ unit: "binary", maxLength: 60 });
  const fields = fc.record({
    n: fc.integer({ min: 1, max: 3 }),
    max_tokens: fc.integer({ min: 1, max: 6 }),
    stop: text,
  });
  fc.assert(
    fc.property(model, text, fields, (name, user, limits) => {
      const call = callTo(name, said(user), limits);
      const fold = new StreamFold();
      for (const body of builtin.stream(call)) fold.push([body]);
      const plain = builtin.answer(call);
      for (const { message } of plain.choices) message.content ||= null;
      expect(fold.result()).toEqual(plain);
    }),
  );
});

test("another name is no model", () => {
  for (const name of ["parrot", "toString", ""]) {
    expect(() => builtin.answer(callTo(name, said("x")))).toThrow(ApiError);
    expect(() => [...builtin.stream(callTo(name, said("x")))]).toThrow(`'builtin/${name}' does not exist`);
  }
});

describe("builtin/probe", () => {
  const probe = (text: string, headers: Record<string, string> = {}) => ({
    ...callTo("probe", said(text)),
    arrived: arrivedOf(new Headers(headers)),
  });

  test("says which headers arrived, of keys only that they did, and of no other header anything", () => {
    const [answer] = textsOf(
      probe("Hello", {
        ...{
          authorization: "Bearer sk-secret",
          "x-api-key": "sk-secret",
          cookie: "sk-secret",
          "x-internal": "sk-secret",
        },
        ...{ "Anthropic-Beta": "a,b", "user-agent": "me/1" },
      }),
    );
    expect(JSON.parse(answer!)).toEqual({
      arrived: {
        ...{ "user-agent": "me/1", "anthropic-beta": "a,b" },
        ...{ authorization: "(not told)", "x-api-key": "(not told)" },
      },
    });
  });

  test("has pauses that are bounded, and a piece more than those", () => {
    const list = (pauses: unknown) => builtin.pauses(probe(JSON.stringify({ pauses })));
    expect(list([300, 0.5, 7])).toEqual([300, 0.5, 7]);
    expect(list([50_000, 50_000, 50_000])).toEqual([50_000, 10_000, 0]);
    expect(list(Array.from({ length: 1000 }, () => 1))).toHaveLength(64);
    expect(list([-1, "1", null, Number.NaN])).toEqual([0, 0, 0, 0]);
    for (const text of ["Hello", "{", '{"pauses": 7}', "[300]", ""]) expect(builtin.pauses(probe(text))).toEqual([]);
    const bodies = [...builtin.stream(probe('{"pauses":[1,2,3]}', { "user-agent": "x".repeat(50) }))];
    expect(bodies.filter(({ choices }) => typeof choices[0]?.delta.content === "string")).toHaveLength(4);
  });
});
