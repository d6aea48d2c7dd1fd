import { expect, test } from "bun:test";
import fc from "fast-check";
import { separateEvents } from "../../../src/idempotency/recorded-events.ts";
import type { Sink } from "../../../src/lib/streams/flow.ts";
import { ChatEncoder } from "../../../src/protocols/chat/stream.ts";
import { InvalidAnswer } from "../../../src/protocols/errors.ts";
import type { EventEncoder } from "../../../src/protocols/protocol.ts";
import { ChatStream } from "../../../src/providers/openai-compatible/stream.ts";
import type { StreamDecoder } from "../../../src/providers/provider.ts";
import type { CallOptions } from "../../../src/upstream/call.ts";
import type { UpstreamAnswer } from "../../../src/upstream/client.ts";
import { DecodedStream } from "../../../src/upstream/stream/decode.ts";
import { EncodedStream } from "../../../src/upstream/stream/encoded-stream.ts";
import type { Target } from "../../../src/upstream/target.ts";
import { dataOf } from "../../helpers/chat-stream.ts";
import { googleDecoder, googleStream } from "../../helpers/google-events.ts";
import { runs } from "../../helpers/long-form.ts";
import { cutIn } from "../../helpers/passed-stream.ts";

const frame = (rest: object) => ({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...rest });
const choice = (delta: object, finish_reason: string | null = null, index = 0) => ({ index, delta, finish_reason });

/** Writes non-ASCII characters, slashes and line feeds in the other forms that JSON has for them. */
const written = (value: unknown, style: number) => {
  const json = JSON.stringify(value);
  if (style === 1)
    return json.replace(/[\u0080-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  if (style === 2) return json.replaceAll("/", "\\/").replaceAll("\\n", "\\u000a");
  return style === 3 ? JSON.stringify(value, undefined, 1).replaceAll("\n", "") : json;
};

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 6 }).map((odd) => odd.toWellFormed()),
  fc.constantFrom("", "m", "c", "content", '"', "\\", '"}', "\n", "assistant", "a/b", "é", "\u2028", '","content":"x'),
);
const chunk = fc.oneof(
  { weight: 8, arbitrary: text.map((content) => frame({ choices: [choice({ content })] })) },
  text.map((content) => frame({ choices: [choice({ role: "assistant", content })] })),
  text.map((content) => frame({ choices: [choice({ content })], usage: null, obfuscation: content.length })),
  fc
    .tuple(text, fc.stringMatching(/^[\w"\\]{0,6}$/))
    .map(([content, obfuscation]) => frame({ choices: [choice({ content })], obfuscation })),
  text.map((content) => frame({ system_fingerprint: "fp", choices: [choice({ content })] })),
  text.map((content) => frame({ choices: [choice({ content }, null, 1)] })),
  text.map((content) => frame({ choices: [choice({ content }), choice({ content }, null, 1)] })),
  text.map((content) => frame({ model: content, choices: [choice({ content })] })),
  text.map((content) => frame({ citations: [content], choices: [choice({ content })] })),
  text.map((reasoning_content) => frame({ choices: [choice({ reasoning_content })] })),
  fc.constant(frame({ choices: [choice({}, "stop")] })),
  fc.constant(frame({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } })),
  fc.constant({ error: { message: "broken" } }),
);

const chatDecoder = () => new ChatStream({}, (kind, choice, count) => `${kind}_${choice}_${count}`);

/** What goes to the client. @param parts the upstream's bytes, read by read */
async function sent(
  parts: readonly Uint8Array[],
  decoder: StreamDecoder,
  encoder: EventEncoder = new ChatEncoder({ id: "id", created: 2, model: "ours" }, false),
): Promise<string[]> {
  const waiting = [...parts];
  let reader: Sink<Buffer> | undefined;
  let isPaused = false;
  const give = () => {
    while (reader !== undefined && !isPaused) {
      const part = waiting.shift();
      if (part === undefined) return reader.end();
      reader.push(Buffer.from(part));
    }
  };
  const answer = {
    name: "up",
    endSoon() {},
    flow(own: Sink<Buffer>) {
      reader = own;
      give();
    },
    pause() {
      isPaused = true;
    },
    resume() {
      isPaused = false;
      give();
    },
    cancel() {
      reader = undefined;
    },
    drain() {
      reader = undefined;
    },
  };
  const chunks = new DecodedStream(answer as unknown as UpstreamAnswer, decoder);
  const observer = { body() {}, async completed() {}, faulted() {}, abandoned() {} };
  const options = {
    form: { thinkingRequested: false, choices: 1 },
    writer: { encoder: () => encoder },
    observer,
    renderFault: (fault: Error) => ({ message: fault.message }),
  } as unknown as CallOptions;
  const stream = new EncodedStream(chunks, { account: { name: "up" }, legacyFunctions: false } as Target, options);
  const texts: string[] = [];
  try {
    await stream.open();
  } catch (error) {
    return [String(error)];
  }
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  stream.flow({
    push: (events) => void texts.push(...dataOf(separateEvents(events))),
    end({ how, events }) {
      texts.push(...dataOf(events), how);
      resolve(texts);
    },
    fail: reject,
  });
  return await promise;
}

test("an end that the client's format has no place for is a fault in the stream", async () => {
  const encoder = new ChatEncoder({ id: "id", created: 2, model: "ours" }, false);
  encoder.end = () => {
    throw new InvalidAnswer("an end that can't be said");
  };
  const events = [choice({ content: "Hi" }), choice({}, "stop")].map((one) => frame({ choices: [one] }));
  const body = events.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
  const given = await sent([Buffer.from(`${body}data: [DONE]\n\n`)], chatDecoder(), encoder);
  expect(given.at(-1)).toBe("faulted");
  expect(given.join()).toContain("an end that can't be said");
});

const framings: ((data: string, at: number) => string)[] = [
  (data) => `data: ${data}\n\n`,
  (data) => `data: ${data}\n\n`,
  (data) => `data:${data}\r\n\r\n`,
  (data) => `event: chunk\ndata: ${data}\n\n`,
  (data) => `data: ${data}\nevent: chunk\n\n`,
  (data, at) => `id: ${at >> 2}\ndata: ${data}\n\n`,
  (data, at) => (at % 3 === 0 ? `: comment\n\ndata: ${data}\n\n` : `data: ${data}\r\n\n`),
];

test("in any spelling, framing and pieces the events are what they are in one piece", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(chunk, { maxLength: 30 }),
      fc.constantFrom(0, 0, 0, 1, 2, 3),
      fc.constantFrom(...framings),
      fc.array(fc.integer({ min: 1, max: 90 }), { maxLength: 40 }),
      fc.boolean(),
      async (chunks, style, framing, cuts, inEvents) => {
        const events = chunks.map((one, at) => framing(written(one, style), at));
        const whole = Buffer.from(`${events.join("")}data: [DONE]\n\n`);
        const plain = chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
        const expected = await sent([Buffer.from(`${plain}data: [DONE]\n\n`)], chatDecoder());
        const parts = cutIn(whole, inEvents ? events.map((event) => Buffer.byteLength(event)) : cuts);
        expect(await sent(parts, chatDecoder())).toEqual(expected);
        expect(expected.join()).not.toContain("internal_error");
      },
    ),
    { numRuns: runs(1500) },
  );
});

test("Google's events, with their totals and line ends, are in any pieces what they are in one", async () => {
  await fc.assert(
    fc.asyncProperty(
      googleStream,
      fc.option(fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 30 }), { nil: undefined }),
      async ({ events }, cuts) => {
        const bytes = Buffer.from(events.join(""));
        const parts = cutIn(bytes, cuts ?? events.map((event) => Buffer.byteLength(event)));
        expect(await sent(parts, googleDecoder())).toEqual(await sent([bytes], googleDecoder()));
      },
    ),
    { numRuns: runs(500) },
  );
});
