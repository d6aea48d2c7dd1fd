import { expect, test } from "bun:test";
import fc from "fast-check";
import { separateEvents } from "../../../src/idempotency/recorded-events.ts";
import type { Sink } from "../../../src/lib/flow.ts";
import { ChatEncoder } from "../../../src/protocols/chat/stream.ts";
import { ChatStream } from "../../../src/providers/openai-compatible/stream.ts";
import type { StreamDecoder } from "../../../src/providers/provider.ts";
import type { CallOptions } from "../../../src/upstream/call.ts";
import type { UpstreamAnswer } from "../../../src/upstream/client.ts";
import { DecodedStream } from "../../../src/upstream/stream/decode.ts";
import { EncodedStream } from "../../../src/upstream/stream/encoded-stream.ts";
import { TextTemplate } from "../../../src/upstream/stream/text-template.ts";
import type { Target } from "../../../src/upstream/target.ts";
import { dataOf } from "../../helpers/chat-stream.ts";
import { googleDecoder, googleStream } from "../../helpers/google-events.ts";
import { runs } from "../../helpers/long-form.ts";
import { ParsedStream } from "../../helpers/passed-stream.ts";

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

/** @param lengths of the pieces; the last one is the rest */
function piecesOf(bytes: Uint8Array, lengths: readonly number[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  let at = 0;
  for (const length of lengths) {
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return [...pieces, bytes.subarray(at)];
}

let copiedPieces = 0;

const chatDecoder = () => new ChatStream({}, (kind, choice, count) => `${kind}_${choice}_${count}`);

/** What goes to the client, read by read. @param parts the upstream's bytes */
async function sent(
  parts: readonly Uint8Array[],
  wantsBodies: boolean,
  decoder: StreamDecoder = chatDecoder(),
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
  const observer = { wantsBodies, body() {}, repeated() {}, completed() {}, faulted() {}, abandoned() {} };
  const options = {
    form: { thinkingRequested: false, choices: 1 },
    encoder: () => new ChatEncoder({ id: "id", created: 2, model: "ours" }, false),
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
  stream.flow({
    push(events) {
      if (events instanceof Uint8Array) copiedPieces += 1;
      texts.push(...dataOf(separateEvents(events)));
    },
    end: ({ how, events }) => texts.push(...dataOf(events), how),
    fail(error) {
      throw error;
    },
  });
  return texts;
}

/** Bytes of events as they are written, with the shortcut for one who takes bytes and for one who reads each chunk. */
async function expectSame(parts: readonly Uint8Array[]): Promise<string[]> {
  const expected = await sent(parts, true, new ParsedStream(chatDecoder()));
  expect(await sent(parts, false)).toEqual(expected);
  expect(await sent(parts, true)).toEqual(expected);
  return expected;
}

const framings: ((data: string, at: number) => string)[] = [
  (data) => `data: ${data}\n\n`,
  (data) => `data: ${data}\n\n`,
  (data) => `data:${data}\r\n\r\n`,
  (data) => `event: chunk\ndata: ${data}\n\n`,
  (data) => `data: ${data}\nevent: chunk\n\n`,
  (data, at) => `id: ${at >> 2}\ndata: ${data}\n\n`,
  (data, at) => (at % 3 === 0 ? `: comment\n\ndata: ${data}\n\n` : `data: ${data}\r\n\n`),
];

test("a fragment that is copied comes out as one that is read and written anew", async () => {
  copiedPieces = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(chunk, { maxLength: 30 }),
      fc.constantFrom(0, 0, 0, 1, 2, 3),
      fc.constantFrom(...framings),
      fc.array(fc.integer({ min: 1, max: 90 }), { maxLength: 40 }),
      fc.boolean(),
      async (chunks, style, framing, cuts, inEvents) => {
        const events = chunks.map((one, at) => framing(written(one, style), at));
        const whole = new TextEncoder().encode(`${events.join("")}data: [DONE]\n\n`);
        await expectSame(piecesOf(whole, inEvents ? events.map((event) => Buffer.byteLength(event)) : cuts));
      },
    ),
    { numRuns: runs(1500) },
  );
  expect(copiedPieces).toBeGreaterThan(20);
}, 60_000);

/** Texts that also stand elsewhere in a chunk, or that look like parts of one. */
const treacherous = [
  ...[",", ":", '"', "{", "}", "[", "]", "\\", "/", "", " ", "null", "0", "true"],
  ...["content", "delta", "choices", "role", "assistant", "index", "finish_reason", "obfuscation", "model", "id", "ab"],
  ...[
    '","',
    '":"',
    '":',
    ',"',
    '"}',
    "}]",
    '"content":","',
    '{"content":"x"}',
    '","role":"assistant',
    "data: ",
    "[DONE]",
  ],
  ...[
    "\u0000probe",
    "\ud800",
    "\udc00x",
    "\ud83d\ude00",
    "é",
    "☃",
    "\u2028",
    "\ufeff",
    "\ufffd",
    "\u007f",
    "\n",
    "\t",
    "\b",
    "\u0001",
  ],
];
const anyText = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...treacherous) },
  { weight: 1, arbitrary: fc.array(fc.constantFrom(...treacherous), { maxLength: 3 }).map((some) => some.join("")) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 8 }) },
);
/** A string in one of its spellings: `dice` says which characters are escaped. */
const spelled = (text: string, dice: () => number) =>
  `"${text
    .split("")
    .map((unit) => {
      if (unit === "/" && dice() === 1) return "\\/";
      return dice() === 0
        ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`
        : JSON.stringify(unit).slice(1, -1);
    })
    .join("")}"`;
/** Members by name, each with the JSON of its value in the nth chunk; what is random ticks. */
type Ticking = (at: number, texts: readonly string[]) => string;
const constant = (json: string) => (): Ticking => () => json;
const eachAnother: () => Ticking = () => (at, texts) => JSON.stringify(texts[(7 * at + 3) % texts.length]!);
const inChunk: Record<string, (() => Ticking)[]> = {
  id: [constant('"up"'), constant('","'), eachAnother],
  object: [constant('"chat.completion.chunk"')],
  created: [
    constant("1767225600"),
    () => (at) => String(1_767_225_600 + at),
    () => (at) => String(at >> 3),
    constant("1.0"),
  ],
  model: [constant('"m"'), constant('":"'), constant('{"content":","}'), eachAnother],
  system_fingerprint: [constant('"fp"'), constant("null"), constant('","'), eachAnother],
  service_tier: [constant('"default"'), constant("null")],
  usage: [constant("null"), () => (at) => `{"prompt_tokens":1,"completion_tokens":${at},"total_tokens":${at + 1}}`],
  obfuscation: [eachAnother, constant('","'), constant("1"), constant("null"), constant('"a\\"b"')],
  prompt_filter_results: [constant("[]"), constant('[{"content":",","choices":[]}]')],
  provider: [constant('"x"'), eachAnother],
  "con\\u0074ent": [constant('","')],
};
const inChoice: Record<string, (() => Ticking)[]> = {
  index: [constant("0"), constant("0"), constant("1"), constant("0.0")],
  finish_reason: [constant("null"), constant('""')],
  logprobs: [constant("null"), constant('{"content":[]}')],
  content_filter_results: [constant("null"), constant('{"content":","}')],
  text: [constant("null"), constant('","')],
};
const inDelta: Record<string, (() => Ticking)[]> = {
  role: [constant('"assistant"'), constant("null"), constant('","')],
  reasoning_content: [constant("null"), constant('""'), constant('"hm"')],
  tool_calls: [constant("null"), constant("[]")],
  refusal: [constant("null")],
  content: [constant("null"), constant('"twice"')],
};
/** Some of them, in any order, `own` somewhere among them. */
const layoutOf = (known: Record<string, (() => Ticking)[]>, own: string) =>
  fc
    .tuple(
      fc.shuffledSubarray(Object.keys(known), { maxLength: 4 }),
      fc.nat(),
      fc.infiniteStream(fc.nat()),
      fc.constantFrom("", " "),
    )
    .map(([names, place, dice, space]) => {
      const members = names.map((name): [string, Ticking] => {
        const ways = known[name]!;
        const roll = dice.next().value as number;
        // The first way is the usual one.
        return [name, ways[roll % 2 === 0 ? 0 : (roll >> 1) % ways.length]!()];
      });
      const at = place % (members.length + 1);
      return (inner: string, nth: number, texts: readonly string[]) => {
        const written = members.map(([name, value]) => `"${name}":${space}${value(nth, texts)}`);
        return `{${written.toSpliced(at, 0, `"${own}":${space}${inner}`).join(`,${space}`)}}`;
      };
    });
const layout = fc.tuple(layoutOf(inChunk, "choices"), layoutOf(inChoice, "delta"), layoutOf(inDelta, "content")).map(
  ([chunkOf, choiceOf, deltaOf]) =>
    (json: string, nth: number, texts: readonly string[]) =>
      chunkOf(`[${choiceOf(deltaOf(json, nth, texts), nth, texts)}]`, nth, texts),
);
const simple = (json: string) => `{"id":"up","choices":[{"index":0,"delta":{"content":${json}},"finish_reason":null}]}`;

test("any text in any chunk, in any pieces: with the shortcut the bytes are what they are without it", async () => {
  let learnt = 0;
  const { learn } = TextTemplate;
  TextTemplate.learn = (...given) => {
    const found = learn.apply(TextTemplate, given);
    if (found !== undefined) learnt += 1;
    return found;
  };
  copiedPieces = 0;
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(layout, fc.oneof(layout, fc.constant(simple))),
        // Few texts, which come again: as fragments, and where other fields change.
        fc
          .array(anyText, { minLength: 1, maxLength: 3 })
          .chain((few) => fc.array(fc.constantFrom(...few), { minLength: 1, maxLength: 24 })),
        fc.infiniteStream(fc.nat(60)),
        fc.constantFrom("never", "rarely", "often"),
        fc.option(fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 30 }), { nil: undefined }),
        fc.constantFrom("stop", undefined),
        fc.constantFrom(...framings),
        async ([usual, other], texts, dice, escaping, cuts, finish, framing) => {
          const roll = () => {
            const value = dice.next().value as number;
            return escaping === "never" ? 60 : escaping === "often" ? value % 4 : value;
          };
          const chunks = texts.map((text, at) =>
            ((dice.next().value as number) < 4 ? other : usual)(spelled(text, roll), at, texts),
          );
          const last = JSON.stringify(frame({ choices: [choice({}, finish)] }));
          const stream = [simple('"begin"'), ...chunks, ...(finish === undefined ? [] : [last]), "[DONE]"];
          const events = stream.map(framing);
          const bytes = new TextEncoder().encode(events.join(""));
          const parts = piecesOf(bytes, cuts ?? events.map((event) => Buffer.byteLength(event)));
          const expected = await expectSame(parts);
          expect(expected.join()).not.toContain("internal_error");
        },
      ),
      { numRuns: runs(1500) },
    );
  } finally {
    TextTemplate.learn = learn;
  }
  expect(learnt).toBeGreaterThan(200);
  expect(copiedPieces).toBeGreaterThan(20);
}, 60_000);

test("Google's events, with their totals and line ends, in any pieces: with the shortcut the bytes are what they are without it", async () => {
  copiedPieces = 0;
  await fc.assert(
    fc.asyncProperty(
      googleStream,
      fc.option(fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 30 }), { nil: undefined }),
      async ({ events }, cuts) => {
        const bytes = Buffer.from(events.join(""));
        const parts = piecesOf(bytes, cuts ?? events.map((event) => Buffer.byteLength(event)));
        const expected = await sent(parts, true, new ParsedStream(googleDecoder()));
        for (const wantsBodies of [false, true])
          expect(await sent(parts, wantsBodies, googleDecoder())).toEqual(expected);
      },
    ),
    { numRuns: runs(500) },
  );
  expect(copiedPieces).toBeGreaterThan(50);
}, 60_000);
