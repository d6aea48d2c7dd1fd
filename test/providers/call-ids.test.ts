/** Whatever ids a conversation's calls have, upstreams can tell its calls apart and every result finds its call. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Message } from "../../src/protocols/chat/schema.ts";
import { uniqueCallIds } from "../../src/providers/call-ids.ts";
import type { Call, RemoteProvider } from "../../src/providers/provider.ts";
import { providers } from "../../src/providers/registry.ts";
import { textOfBody } from "../helpers/upstream-body.ts";

const remote = (name: string) => providers.find((one) => one.name === name) as RemoteProvider;
const account = { name: "up", baseUrl: "https://up.test", headers: {}, models: [], options: {}, modelRules: [] };

function bodyOf(name: string, messages: Message[], model = "m", extras: Record<string, unknown> = {}) {
  const call: Call = { model, request: { model, messages }, extras, account, media: new Map() };
  return JSON.parse(textOfBody(remote(name).encode(call).body));
}

/** Few ids, so that they repeat, and some that look like those made for repeated ones. */
const id = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom("call_0", "call_1", "call_0_2", "call_1_2_2", "a.b", "a_b") },
  { weight: 1, arbitrary: fc.string({ minLength: 1, maxLength: 70 }) },
  { weight: 1, arbitrary: fc.constantFrom("x".repeat(64), "x".repeat(65), `${"x".repeat(64)}_2`) },
);
type Round = { ids: string[]; between: number; custom: boolean; spoken: boolean };
const rounds = fc.array(
  fc.record({
    ids: fc.array(id, { minLength: 1, maxLength: 4 }),
    between: fc.nat(2),
    custom: fc.boolean(),
    spoken: fc.boolean(),
  }),
  { maxLength: 6 },
);

/** Each call is named after its place, and its result says the same. */
function conversationOf(made: readonly Round[], withCustom: boolean): Message[] {
  return made.flatMap(({ ids, between, custom, spoken }, round): Message[] => {
    const name = (at: number) => `f_${round}_${at}`;
    const isCustom = (at: number) => withCustom && custom && at === 0;
    return [
      ...Array.from({ length: between }, (): Message => ({ role: "user", content: "go on" })),
      {
        role: "assistant",
        content: spoken ? "I look" : null,
        tool_calls: ids.map((one, at) =>
          isCustom(at)
            ? { id: one, type: "custom" as const, custom: { name: name(at), input: "" } }
            : { id: one, type: "function" as const, function: { name: name(at), arguments: "{}" } },
        ),
      },
      ...ids.map((one, at): Message => ({ role: "tool", tool_call_id: one, content: name(at) })),
    ];
  });
}

type Pair = { id: string; name: string; kind: string };

function expectPairs(calls: Pair[], results: Pair[], said: readonly string[], fits: (id: string) => boolean): void {
  expect(new Set(calls.map((one) => one.id)).size).toBe(calls.length);
  expect(results).toEqual(expect.arrayContaining(calls));
  expect(results.length).toBe(calls.length);
  for (const [at, own] of said.entries()) {
    const isUnique = said.indexOf(own) === said.lastIndexOf(own);
    if (fits(own) && (isUnique || said.indexOf(own) === at)) expect(calls[at]!.id).toBe(own);
    expect(fits(calls[at]!.id)).toBe(true);
  }
}

describe("every call has an id of its own, and its result the same", () => {
  test.each([
    { name: "openai", hasCustomTools: true, maxLength: 64 },
    { name: "xai", hasCustomTools: false, maxLength: Number.POSITIVE_INFINITY },
  ])("$name by responses", ({ name, hasCustomTools, maxLength }) => {
    fc.assert(
      fc.property(rounds, (made) => {
        const messages = conversationOf(made, hasCustomTools);
        const { input } = bodyOf(name, [{ role: "user", content: "Hi" }, ...messages], "m", {
          use_responses_api: true,
        });
        const items = input as { type?: string; call_id: string; name: string; output: string }[];
        const calls = items.flatMap(({ type = "", call_id, name }) =>
          type.endsWith("_call") ? [{ id: call_id, name, kind: type }] : [],
        );
        const results = items.flatMap(({ type = "", call_id, output }) =>
          type.endsWith("_output") ? [{ id: call_id, name: output, kind: type.replace("_output", "") }] : [],
        );
        const said = made.flatMap(({ ids }) => ids);
        expectPairs(calls, results, said, (one) => one.length <= maxLength);
      }),
    );
  });

  test("anthropic", () => {
    fc.assert(
      fc.property(rounds, (made) => {
        const { messages } = bodyOf("anthropic", [{ role: "user", content: "Hi" }, ...conversationOf(made, true)]);
        type Block = { type: string; id: string; name: string; tool_use_id: string; content: string };
        const blocks = (messages as { content: Block[] }[]).flatMap(({ content }) => content);
        const calls = blocks.flatMap(({ type, id, name }) => (type === "tool_use" ? [{ id, name, kind: "" }] : []));
        const results = blocks.flatMap(({ type, tool_use_id, content }) =>
          type === "tool_result" ? [{ id: tool_use_id, name: content, kind: "" }] : [],
        );
        const said = made.flatMap(({ ids }) => ids);
        expectPairs(calls, results, said, (one) => /^[a-zA-Z0-9_-]+$/.test(one));
      }),
    );
  });

  test.each([
    ["gemini-3.5-flash", true],
    ["gemini-2.5-flash", false],
  ])("%s", (model, hasIds) => {
    fc.assert(
      fc.property(rounds, (made) => {
        const { contents } = bodyOf("google", [{ role: "user", content: "Hi" }, ...conversationOf(made, false)], model);
        type Part = { functionCall?: Named; functionResponse?: Named & { response: { output: string } } };
        type Named = { id?: string; name: string };
        const parts = (contents as { parts: Part[] }[]).flatMap(({ parts }) => parts);
        const calls = parts.flatMap(({ functionCall }) => functionCall ?? []);
        const results = parts.flatMap(({ functionResponse }) => functionResponse ?? []);
        // Results follow in the order of the calls, which is what matches them where there are no ids.
        expect(results.map(({ name, id, response }) => ({ name, id, output: response.output }))).toEqual(
          calls.map(({ name, id }) => ({ name, id, output: name })),
        );
        const ids = calls.map(({ id }) => id);
        if (hasIds) expect(new Set(ids).size).toBe(ids.length);
        else expect(new Set(ids).size).toBeLessThanOrEqual(1);
      }),
    );
  });
});

test("results that come late, out of order, or without a call keep their ids or find the last turn's call", () => {
  const call = (...ids: string[]): Message => ({
    role: "assistant",
    tool_calls: ids.map((one) => ({ id: one, type: "function", function: { name: "f", arguments: "{}" } })),
  });
  const result = (one: string): Message => ({ role: "tool", tool_call_id: one, content: "" });
  const ids = (...messages: Message[]) => uniqueCallIds(messages, (one) => one).flat();
  expect(ids(result("a"), call("a"), result("a"))).toEqual(["a", "a_2", "a_2"]);
  expect(ids(call("a", "b"), result("b"), result("a"))).toEqual(["a", "b", "b", "a"]);
  expect(ids(call("a"), { role: "user", content: "never mind" }, call("a"), result("a"))).toEqual(["a", "a_2", "a_2"]);
  expect(ids(call("a"), call("a"), result("a"), result("a"))).toEqual(["a", "a_2", "a", "a_2"]);
  expect(ids(call("a", "b"), result("a"), call("a"), result("a"), result("b"))).toEqual([
    "a",
    "b",
    "a",
    "a_2",
    "a_2",
    "b",
  ]);
  expect(ids(call("a"), result("a"), result("a"))).toEqual(["a", "a", "a"]);
});

test("a hundred thousand calls by one id take no longer than their number", () => {
  const one = { id: "a", type: "function" as const, function: { name: "f", arguments: "{}" } };
  const calls: Message = { role: "assistant", tool_calls: Array.from({ length: 100_000 }, () => one) };
  let formed = 0;
  const ids = uniqueCallIds([calls], (id) => {
    formed += 1;
    return id;
  });
  expect(new Set(ids[0]).size).toBe(100_000);
  expect(formed).toBeLessThan(300_000);
});

describe("Gemini's turns", () => {
  const text = fc.constantFrom("", "said");
  const calls = fc.constantFrom<string[]>([], ["a"], ["a", "b"]);
  const message: fc.Arbitrary<Message[]> = fc.oneof(
    fc
      .record({ role: fc.constantFrom("system" as const, "developer" as const, "user" as const), content: text })
      .map((one) => [one]),
    fc.tuple(text, calls).map(([content, ids]): Message[] => [
      {
        role: "assistant",
        content,
        tool_calls: ids.map((one) => ({ id: one, type: "function", function: { name: `f_${one}`, arguments: "{}" } })),
      },
      ...ids.map((one): Message => ({ role: "tool", tool_call_id: one, content: "done" })),
    ]),
  );
  const models = fc.constantFrom("gemini-3.8-flash", "gemini-3.5-flash", "gemini-2.5-flash", "gemma-3-27b-it");

  test("begin with the user's and alternate, and nothing that was said is lost, whatever the conversation", () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 8 }), models, (parts, model) => {
        const messages = parts.flat();
        const { contents, systemInstruction } = bodyOf("google", messages, model);
        type Turn = { role: string; parts: Record<string, unknown>[] };
        const turns = contents as Turn[];
        expect(turns.map(({ role }) => role)).toEqual(turns.map((_, at) => (at % 2 === 0 ? "user" : "model")));
        for (const turn of turns) {
          expect(turn.parts.length).toBeGreaterThan(0);
          for (const part of turn.parts) expect(part["text"]).not.toBe("");
          if (turn.parts.some(({ functionResponse }) => functionResponse !== undefined)) expect(turn.role).toBe("user");
        }
        const count = (value: unknown, word: string) => JSON.stringify(value ?? null).split(`"${word}"`).length;
        expect(count([contents, systemInstruction], "said")).toBe(
          count(
            messages.map(({ content }) => content),
            "said",
          ),
        );
        expect(count(contents, "functionCall")).toBe(count(messages, "arguments"));
      }),
    );
  });
});
