/** A stream of this format says what the plain answer says, whatever the order of its fragments: read by the official client. */
import { expect, test } from "bun:test";
import { MessageStream } from "@anthropic-ai/sdk/lib/MessageStream";
import fc from "fast-check";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChunkBody, CompletionBody, Delta } from "../../../src/protocols/chat/schema.ts";
import { checkMessages, innerRequest } from "../../../src/protocols/messages/request.ts";
import { messageBody } from "../../../src/protocols/messages/response.ts";
import { MessagesEncoder } from "../../../src/protocols/messages/stream.ts";
import { sealOfNothing } from "../../../src/protocols/messages/thinking.ts";
import { runs } from "../../helpers/long-form.ts";

const envelope = { id: "msg_1", created: 0, model: "m" };
const options = { thinking: "text" as const, stops: ["END"] };
const chunkOf = (delta: Delta, finish_reason: "stop" | "tool_calls" | null = null): ChunkBody => ({
  choices: [{ index: 0, delta, finish_reason }],
});

async function accumulated(chunks: readonly ChunkBody[]) {
  const encoder = new MessagesEncoder(envelope, options);
  const events: string[] = [];
  for (const chunk of chunks) encoder.push(chunk, events);
  encoder.end(events);
  // What a stream's reader gives: one JSON a line.
  const lines = events.map((event) => `${/^data: (.*)$/m.exec(event)![1]}\n`);
  const stream = MessageStream.fromReadableStream(new Blob([lines.join("")]).stream());
  return (await stream.finalMessage()) as unknown as {
    content: Record<string, unknown>[];
    stop_reason: string;
    usage: object;
  };
}

function plain(chunks: readonly ChunkBody[]) {
  const fold = new StreamFold();
  fold.push(chunks);
  return messageBody(fold.result() as CompletionBody, envelope, options) as Awaited<ReturnType<typeof accumulated>>;
}

test("no token counts twice, whatever an upstream counts as read from a cache and written to one", () => {
  const count = fc.nat(20);
  fc.assert(
    fc.property(count, count, count, (prompt_tokens, cached_tokens, cache_write_tokens) => {
      const { usage } = plain([
        {
          ...chunkOf({ content: "x" }, "stop"),
          usage: {
            prompt_tokens,
            completion_tokens: 1,
            total_tokens: prompt_tokens + 1,
            prompt_tokens_details: { cached_tokens, cache_write_tokens },
          },
        },
      ]) as { usage: Record<string, number> };
      const told = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"].map(
        (name) => usage[name]!,
      );
      expect(told.every((one) => one >= 0)).toBe(true);
      expect(told.reduce((sum, one) => sum + one)).toBe(prompt_tokens);
    }),
  );
});

/** Texts and thoughts joined, calls in order: their places among one another are known to the stream alone. */
function said({ content, stop_reason, usage }: Awaited<ReturnType<typeof accumulated>>) {
  const of = (type: string, field: string) =>
    content.filter((block) => block["type"] === type).map((block) => block[field]);
  return {
    text: of("text", "text").join(""),
    thinking: of("thinking", "thinking").join(""),
    // A thought that nobody signed has an envelope that holds nothing, one for each block.
    seals: [...of("thinking", "signature"), ...of("redacted_thinking", "data")]
      .filter((one) => one !== sealOfNothing(envelope.id))
      .sort(),
    calls: content.filter((block) => block["type"] === "tool_use").map(({ id, name, input }) => ({ id, name, input })),
    stop_reason,
    usage,
  };
}

const word = fc.string({ minLength: 1, maxLength: 5 });
const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13, prompt_tokens_details: { cached_tokens: 2 } };
/** Calls whose arguments come in turns, among texts and thoughts. */
const chunks = fc
  .record({
    calls: fc.array(fc.record({ city: word, note: word }), { maxLength: 3 }),
    signed: fc.boolean(),
    cuts: fc.array(fc.nat(40), { maxLength: 3 }),
    texts: fc.array(fc.tuple(fc.constantFrom("content", "reasoning_content"), word), { maxLength: 5 }),
    order: fc.array(fc.nat(1000), { minLength: 30, maxLength: 30 }),
  })
  .map(({ calls, signed, cuts, texts, order }) => {
    const queues: Delta[][] = calls.map((input, index) => {
      const json = JSON.stringify(input);
      const places = [0, ...[...new Set(cuts.map((cut) => cut % json.length))].sort((a, b) => a - b), json.length];
      const extra = signed ? { extra_content: { google: { thought_signature: `s${index}` } } } : {};
      const opening = {
        index,
        id: `c${index}`,
        type: "function" as const,
        function: { name: "f", arguments: "" },
        ...extra,
      };
      const pieces = places
        .slice(1)
        .map((end, at) => ({ index, function: { arguments: json.slice(places[at], end) } }));
      return [opening, ...pieces].map((call) => ({ tool_calls: [call] }) as Delta);
    });
    queues.push(texts.map(([name, text]) => ({ [name]: text }) as Delta));
    const deltas: Delta[] = [];
    let opened = 0;
    for (let at = 0; queues.some((queue) => queue.length > 0); at += 1) {
      // Calls begin in their order.
      const ready = queues.filter(
        (queue, which) => queue.length > 0 && (which <= opened || which === queues.length - 1),
      );
      const queue = ready[order[at % order.length]! % ready.length]!;
      if (queue === queues[opened] && opened < calls.length) opened += 1;
      deltas.push(queue.shift()!);
    }
    const last = chunkOf({}, calls.length > 0 ? "tool_calls" : "stop");
    return [...deltas.map((delta) => chunkOf(delta)), last, { choices: [], usage }];
  });

test("the official client puts together what the plain answer says", async () => {
  await fc.assert(
    fc.asyncProperty(chunks, async (given) => {
      expect(said(await accumulated(given))).toEqual(said(plain(given)));
    }),
    { numRuns: runs(300) },
  );
});

/** What a client sends back, in the inner form. */
function returned(content: unknown) {
  const body = checkMessages({ model: "m", max_tokens: 1, messages: [{ role: "assistant", content }] });
  return innerRequest(body).request.messages[0];
}

const call = { id: "c0", type: "function" as const, function: { name: "f", arguments: "{}" } };
test.each<[string, Delta]>([
  [
    "Gemini's signature of a call",
    { tool_calls: [{ index: 0, ...call, extra_content: { google: { thought_signature: "s" } } }] },
  ],
  ["Gemini's signature of a text", { content: "hi", extra_content: { google: { thought_signature: "s" } } }],
  [
    "OpenAI's reasoning",
    {
      content: "hi",
      extra_content: { openai: { response_id: "r", reasoning: [{ id: "rs", encrypted_content: "e", summary: [] }] } },
    },
  ],
  [
    "OpenRouter's details",
    { content: "hi", reasoning_details: [{ type: "reasoning.encrypted", data: "e", index: 0 }] },
  ],
  ["a thought that nobody signed", { content: "hi", reasoning_content: "hm" }],
  ["Anthropic's blocks", { content: "hi", thinking_blocks: [{ type: "thinking", thinking: "hm", signature: "n" }] }],
])("%s survives the next turn, plain and streamed", async (_name, delta) => {
  const { tool_calls, ...fields } = delta;
  const calls = tool_calls?.map(({ index: _, ...one }) => one);
  const expected = { role: "assistant", content: null, ...fields, ...(calls && { tool_calls: calls }) };
  const given = [chunkOf(delta), chunkOf({}, calls ? "tool_calls" : "stop"), { choices: [], usage }];
  expect(returned((await accumulated(given)).content)).toEqual(expected as never);
  expect(returned(plain(given).content)).toEqual(expected as never);
});

test.each([
  ["length wins over calls", "length", { tool_calls: [{ index: 0, ...call }] }, "max_tokens", null],
  ["calls win over stop", "stop", { tool_calls: [{ index: 0, ...call }] }, "tool_use", null],
  ["no call is no tool_use", "tool_calls", { content: "hi" }, "end_turn", null],
  ["a filter", "content_filter", { content: "hi" }, "refusal", null],
  ["a refusal", "stop", { refusal: "I won't." }, "refusal", null],
])("the reason of the end: %s", async (_name, finish, delta, reason) => {
  const given = [chunkOf(delta as Delta), chunkOf({}, finish as "stop")];
  expect((await accumulated(given)).stop_reason).toBe(reason);
  expect(plain(given).stop_reason).toBe(reason);
});

test("a stop sequence that the server names is told", () => {
  const choice = {
    index: 0,
    message: { role: "assistant" as const, content: "a" },
    finish_reason: "stop" as const,
    stop_reason: "END",
  };
  expect(messageBody({ choices: [choice] }, envelope, options)).toMatchObject({
    stop_reason: "stop_sequence",
    stop_sequence: "END",
  });
});
