import { describe, expect, test } from "bun:test";
import { chatCompletion } from "../../../src/protocols/chat/response.ts";
import type { ChunkBody, Delta, FinishReason } from "../../../src/protocols/chat/schema.ts";
import { normaliseCompletion } from "../../../src/upstream/stream/normaliser.ts";
import { ChatStreamWriter, type Written } from "../../helpers/chat-stream.ts";

const envelope = { id: "chatcmpl-1", created: 7, model: "openai/gpt" };
const written = (changes: Partial<Written> = {}): Written => ({
  envelope,
  includeUsage: false,
  thinkingRequested: false,
  choices: 1,
  ...changes,
});
const body = (delta: Delta, finish_reason: FinishReason | null = null, index = 0): ChunkBody => ({
  choices: [{ index, delta, finish_reason }],
});
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 7, model: "openai/gpt" };

function run(bodies: readonly ChunkBody[], changes: Partial<Written> = {}): unknown[] {
  const writer = new ChatStreamWriter(written(changes));
  const texts = bodies.flatMap((one) => writer.push([one]));
  texts.push(...writer.end());
  expect(texts.pop()).toBe("[DONE]");
  return texts.map((text) => JSON.parse(text));
}

describe("a stream, normalised and written", () => {
  test("the first chunk carries the role and the first fragment together, an empty one before it is dropped", () => {
    const chunks = run([
      body({ role: "assistant", content: "" }),
      body({ content: "Hel" }),
      body({ content: "lo" }),
      body({}, "stop"),
    ]);
    expect(chunks).toEqual([
      { ...head, choices: [{ index: 0, delta: { role: "assistant", content: "Hel" }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: { content: "lo" }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    ]);
  });

  test("a finish reason beside content leaves it in a chunk of its own", () => {
    expect(run([body({ content: "all" }, "length")])).toEqual([
      { ...head, choices: [{ index: 0, delta: { role: "assistant", content: "all" }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: "length" }] },
    ]);
  });

  test("an answer without content still opens with the role", () => {
    expect(run([body({}, "stop")])).toEqual([
      { ...head, choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    ]);
  });

  test("a stream that opens with a tool call has null content beside the role", () => {
    const call = { index: 0, id: "c", type: "function" as const, function: { name: "f", arguments: "{}" } };
    expect(run([body({ tool_calls: [call] }), body({}, "tool_calls")])[0]).toEqual({
      ...head,
      choices: [{ index: 0, delta: { role: "assistant", content: null, tool_calls: [call] }, finish_reason: null }],
    });
  });

  test("usage is null on every chunk and whole in a chunk of its own, when asked for; the last report counts", () => {
    const early = { ...body({ content: "a" }), usage: { ...usage, total_tokens: 1 } };
    const chunks = run([early, body({ content: "b" }), { ...body({}, "stop"), usage }], { includeUsage: true });
    expect(chunks.map((chunk) => (chunk as { usage: unknown }).usage)).toEqual([null, null, null, usage]);
    expect(chunks.at(-1)).toEqual({ ...head, choices: [], usage });
  });

  test("no usage key at all when it was not asked for", () => {
    const chunks = run([{ ...body({ content: "a" }), usage }, body({}, "stop"), { choices: [], usage }]);
    expect(chunks).toHaveLength(2);
    for (const chunk of chunks) expect(chunk).not.toHaveProperty("usage");
  });

  test("a second finish reason of the same choice is dropped", () => {
    const reasons = run([body({ content: "a" }, "stop"), body({}, "stop")]).map(
      (chunk) => (chunk as { choices: { finish_reason: unknown }[] }).choices[0]!.finish_reason,
    );
    expect(reasons).toEqual([null, "stop"]);
  });

  test("every choice has its own role and its own finish", () => {
    const chunks = run(
      [body({ content: "a" }, null, 1), body({ content: "b" }, null, 0), body({}, "stop", 1), body({}, "length", 0)],
      { choices: 2 },
    );
    expect(chunks).toEqual([
      { ...head, choices: [{ index: 1, delta: { role: "assistant", content: "a" }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: { role: "assistant", content: "b" }, finish_reason: null }] },
      { ...head, choices: [{ index: 1, delta: {}, finish_reason: "stop" }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: "length" }] },
    ]);
  });

  test("requested thinking is in metadata on the last choice's finish chunk, as strings", () => {
    const chunks = run(
      [
        body({ reasoning_content: "Let " }),
        body({ reasoning_content: "me see" }),
        body({ content: "4" }),
        { ...body({}, "stop"), metadata: { thinking: "old", finish: "x" } },
      ],
      { thinkingRequested: true },
    );
    expect(chunks[0]).toEqual({
      ...head,
      choices: [{ index: 0, delta: { role: "assistant", reasoning_content: "Let " }, finish_reason: null }],
    });
    expect(chunks.at(-1)).toEqual({
      ...head,
      choices: [{ index: 0, delta: {}, finish_reason: "stop" }],
      metadata: { thinking: "Let me see", finish: "x" },
    });
    expect(chunks.slice(0, -1).some((chunk) => "metadata" in (chunk as object))).toBe(false);
  });

  test("fields beyond the known ones travel along, on chunks and on choices", () => {
    const chunks = run([
      { ...body({ content: "a" }), system_fingerprint: "fp" },
      { ...body({ content: "b" }), system_fingerprint: "fp" },
      { choices: [], moderation: { flagged: false } },
      { choices: [{ index: 0, delta: {}, finish_reason: "stop", native_finish_reason: "end" }] },
    ]);
    expect(chunks).toEqual([
      {
        ...head,
        choices: [{ index: 0, delta: { role: "assistant", content: "a" }, finish_reason: null }],
        system_fingerprint: "fp",
      },
      { ...head, choices: [{ index: 0, delta: { content: "b" }, finish_reason: null }], system_fingerprint: "fp" },
      { ...head, choices: [], moderation: { flagged: false } },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop", native_finish_reason: "end" }] },
    ]);
  });

  test("calls that come together go out one to a chunk, with what stood beside the first", () => {
    const call = (index: number) => ({
      index,
      id: `c${index}`,
      type: "function",
      function: { name: "f", arguments: "{}" },
    });
    const chunks = run([body({ content: "Both.", tool_calls: [call(0), call(1)] } as Delta), body({}, "tool_calls")]);
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta, finish_reason }],
    });
    expect(chunks).toEqual([
      chunk({ role: "assistant", content: "Both.", tool_calls: [call(0)] }),
      chunk({ tool_calls: [call(1)] }),
      chunk({}, "tool_calls"),
    ]);
  });

  test("it knows when it is complete", () => {
    const writer = new ChatStreamWriter(written());
    writer.push([body({ role: "assistant", content: "" })]);
    expect(writer.normaliser.complete).toBe(false);
    writer.push([body({ content: "a" }), body({ content: "b" }, null, 1), body({}, "stop")]);
    expect(writer.normaliser.complete).toBe(false);
    writer.push([body({}, "stop", 1)]);
    expect(writer.normaliser.complete).toBe(true);
  });

  test("a fault is the error object and the envelope behind it, without choices", () => {
    const error = { message: "gone", type: "server_error", param: "", code: "x" };
    const events: string[] = [];
    new ChatStreamWriter(written()).encoder.fault(error, events);
    const data = `data: ${JSON.stringify({ error, ...head })}`;
    expect(events).toEqual([`${data}\n\n`, `${data}\nevent: error\n\n`, "data: [DONE]\n\n"]);
  });

  test("members that say nothing are left out beside those that are passed on", () => {
    const [, chunk] = run([
      body({ content: "a" }),
      { choices: [{ index: 0, delta: { content: "b" }, finish_reason: null, logprobs: null, native: 1 }] },
    ]);
    expect(chunk).toEqual({
      ...head,
      choices: [{ index: 0, delta: { content: "b" }, finish_reason: null, native: 1 }],
    });
  });

  test("odd text stays what it is", () => {
    const odd = 'a"b\\c\n\u2028\u{1F600}\ud800</script>';
    const writer = new ChatStreamWriter(written());
    const texts = writer.push([body({ content: "x" }), body({ content: odd })]);
    expect(JSON.parse(texts[1]!).choices[0].delta.content).toBe(odd);
    expect(texts[1]).not.toContain("\n");
  });
});

describe("a plain answer, normalised and written", () => {
  test("gives the envelope and the details that strict clients want", () => {
    const normal = normaliseCompletion(
      { choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }], usage },
      written(),
    );
    const completion = chatCompletion(normal, envelope);
    expect(completion).toEqual({
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 7,
      model: "openai/gpt",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hi", refusal: null },
          finish_reason: "stop",
          logprobs: null,
        },
      ],
      usage,
      system_fingerprint: null,
    });
  });

  test("requested thinking is mirrored into metadata, for each choice", () => {
    const message = (text: string) => ({ role: "assistant" as const, content: "4", reasoning_content: text });
    const choices = [
      { index: 0, message: message("one"), finish_reason: "stop" as const },
      { index: 1, message: message("two"), finish_reason: "stop" as const },
    ];
    expect(normaliseCompletion({ choices }, written({ thinkingRequested: true })).metadata).toEqual({
      thinking: "one",
      "thinking.1": "two",
    });
    expect(normaliseCompletion({ choices }, written()).metadata).toBeUndefined();
  });
});
