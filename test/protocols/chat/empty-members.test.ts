import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { withoutEmptyMembers } from "../../../src/protocols/chat/empty-members.ts";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import { checkChatRequest } from "../../../src/protocols/chat/request.ts";
import type { AnswerMessage, ChunkBody, Delta } from "../../../src/protocols/chat/schema.ts";
import { calledIn } from "../../../src/protocols/chat/tools.ts";
import { normaliseCompletion } from "../../../src/upstream/stream/normaliser.ts";
import { ChatStreamWriter, type Written } from "../../helpers/chat-stream.ts";

const written: Written = {
  envelope: { id: "chatcmpl-1", created: 1, model: "a/b" },
  includeUsage: false,
  thinkingRequested: false,
  choices: 1,
};

/** What says nothing, as servers and clients in many languages write it. */
const empty = fc.constantFrom<unknown>(null, "", [], {}, [[]], [""], { name: "", arguments: "" }, { a: { b: [] } });
const full = fc.constantFrom<unknown>("x", 0, false, ["x"], { name: "f" }, { at: 0 }, [{ text: "" }, { text: "x" }]);
const name = fc.constantFrom("function_call", "annotations", "citations", "tool_results", "made_up");
const emptyCalls = fc.constantFrom<object>(
  {},
  { function: {} },
  { custom: {} },
  { custom: { name: "", input: "" } },
  { custom: null },
);

describe("an answer's message", () => {
  const members = fc.dictionary(name, fc.oneof(empty, full), { noNullPrototype: true });
  const values = (found: Record<string, unknown>) => ({ ...found, role: "", content: "", refusal: "" });

  test("has its full members and none of the empty ones, plain and streamed", () => {
    fc.assert(
      fc.property(members, members, (mixed, others) => {
        const given = { ...mixed, ...others };
        const keeps = (value: unknown) => /[x0]|false|"name":"f"/.test(JSON.stringify(value));
        const kept = Object.fromEntries(Object.entries(given).filter(([, value]) => keeps(value)));
        const message = { role: "assistant", content: "said", ...given } as AnswerMessage;
        const { choices } = normaliseCompletion({ choices: [{ index: 0, message, finish_reason: "stop" }] }, written);
        expect(choices[0]!.message).toEqual({
          role: "assistant",
          content: "said",
          refusal: null,
          ...kept,
        } as AnswerMessage);
        const writer = new ChatStreamWriter(written);
        const body: ChunkBody = {
          choices: [{ index: 0, delta: { content: "said", ...given } as Delta, finish_reason: null }],
        };
        const [chunk] = writer.push([body]);
        expect(values(JSON.parse(chunk!).choices[0].delta)).toEqual(values(kept));
      }),
    );
  });

  test("keeps what a spoken answer ends with, and drops one that holds nothing", () => {
    const audioOf = (audio: unknown) => {
      const message = { role: "assistant", content: null, audio } as AnswerMessage;
      return normaliseCompletion({ choices: [{ index: 0, message, finish_reason: "stop" }] }, written).choices[0]!
        .message["audio"];
    };
    expect(audioOf({ id: "", data: "", expires_at: 0, transcript: "" })).toBeUndefined();
    expect(audioOf({ expires_at: 17 })).toEqual({ expires_at: 17 });
    expect(audioOf({ id: "a", data: "", expires_at: 0 })).toEqual({ id: "a", data: "", expires_at: 0 });
  });
});

describe("log probabilities", () => {
  const entry = { token: "a", logprob: -1, bytes: null, top_logprobs: [] };

  test.each([
    [{ content: [entry] }, { content: [entry], refusal: null }],
    [
      { content: null, refusal: [entry] },
      { content: null, refusal: [entry] },
    ],
    [
      { refusal: [entry], more: 1 },
      { content: null, refusal: [entry], more: 1 },
    ],
  ])("%j are told with both their lists", (given, expected) => {
    const logprobs = given as { content: (typeof entry)[] | null };
    const message: AnswerMessage = { role: "assistant", content: "a" };
    const plain = normaliseCompletion({ choices: [{ index: 0, message, finish_reason: "stop", logprobs }] }, written);
    expect(plain.choices[0]!.logprobs as unknown).toEqual(expected);
    const chunk = { choices: [{ index: 0, delta: { content: "a" }, finish_reason: null, logprobs }] };
    expect(JSON.parse(new ChatStreamWriter(written).push([chunk])[0]!).choices[0].logprobs).toEqual(expected);
  });

  test("of a refusal add up when a stream is folded", () => {
    const chunk = (refusal: object[] | null): ChunkBody =>
      ({ choices: [{ index: 0, delta: {}, finish_reason: null, logprobs: { content: null, refusal } }] }) as ChunkBody;
    const fold = new StreamFold();
    fold.push([chunk([entry]), chunk(null), chunk([entry])]);
    expect(fold.result().choices[0]!.logprobs!.refusal).toEqual([entry, entry]);
  });
});

describe("a request's messages", () => {
  const checked = (message: object) =>
    checkChatRequest({ model: "a/b", messages: [{ role: "user", content: "Hi" }, message] }).messages[1]!;

  test("a call is found whatever stands empty beside it, and whether or not it has its type", () => {
    const call = fc.constantFrom<[string, object]>(
      ["function", { function: { name: "f", arguments: "" } }],
      ["function", { function: { name: "f", arguments: "{}" } }],
      ["custom", { custom: { name: "f", input: "x" } }],
    );
    const type = fc.constantFrom<object>({}, { type: null }, { type: "" }, { type: "function" }, { type: "custom" });
    fc.assert(
      fc.property(call, emptyCalls, type, ([kind, said], beside, typed) => {
        const message = checked({ role: "assistant", tool_calls: [{ id: "c", ...beside, ...said, ...typed }] });
        const [made] = (message as { tool_calls: Record<string, unknown>[] }).tool_calls;
        expect(made).toMatchObject({ id: "c", type: kind, ...said });
        expect(made![kind === "custom" ? "function" : "custom"] ?? null).toBeNull();
      }),
    );
  });

  test("a type decides between two members that both say something", () => {
    const both = { function: { name: "f", arguments: "{}" }, custom: { name: "c", input: "x" } };
    expect(calledIn({ type: "custom", ...both })).toEqual({ kind: "custom", said: both.custom });
    expect(calledIn({ type: "function", ...both })).toEqual({ kind: "function", said: both.function });
    expect(calledIn({ type: "", ...both })?.kind).toBe("function");
    expect(calledIn({ type: "function", function: {}, custom: null })).toBeUndefined();
  });

  test("empty members are as absent, and a message that is not touched is the very same", () => {
    const message = {
      role: "assistant",
      content: "a",
      function_call: { name: "", arguments: "" },
      audio: { id: "" },
      refusal: "",
    };
    expect(checked(message)).toEqual({ role: "assistant", content: "a" });
    expect(checked({ role: "assistant", content: null, refusal: "" })).toEqual({ role: "assistant", content: "" });
    const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
    const body = {
      model: "a/b",
      messages: [{ role: "assistant", content: "", audio: null, tool_calls: [call] }, null, 3],
    };
    expect(withoutEmptyMembers(body)).toBe(body);
    expect(withoutEmptyMembers({ messages: 3 })).toEqual({ messages: 3 });
  });

  test("a file is named by the member that is not empty", () => {
    const file = { file_id: "", file_data: "data:application/pdf;base64,AA==", filename: "" };
    const message = checked({
      role: "user",
      content: [
        { type: "file", file },
        { type: "text", text: "" },
      ],
    });
    expect(message.content as unknown).toEqual([
      { type: "file", file: { file_data: file.file_data } },
      { type: "text", text: "" },
    ]);
  });

  test("what is no call stays for the check to name", () => {
    const faulty = (tool_calls: unknown) => () => checked({ role: "assistant", content: null, tool_calls });
    expect(faulty([{ id: "c", type: "function", function: {}, custom: {} }])).toThrow(
      "messages[1].tool_calls[0].function.name",
    );
    expect(faulty([{ id: "c", function: {} }])).toThrow("messages[1].tool_calls[0].type");
    expect(faulty([7])).toThrow("messages[1].tool_calls[0]");
  });
});
