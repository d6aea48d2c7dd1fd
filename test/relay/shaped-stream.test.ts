import { expect, test } from "bun:test";
import fc from "fast-check";
import type { ByteReceiver } from "../../src/lib/http-inflate.ts";
import { FragmentTemplate } from "../../src/providers/fragment-template.ts";
import { ChatStream } from "../../src/providers/openai-stream.ts";
import { StreamBodies } from "../../src/relay/bodies.ts";
import type { RelayOptions } from "../../src/relay/relay.ts";
import { shapingFor } from "../../src/relay/shape.ts";
import { ShapedStream } from "../../src/relay/shaped-stream.ts";
import type { Target } from "../../src/relay/target.ts";
import type { UpstreamAnswer } from "../../src/relay/upstream.ts";

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

let copiedPieces = 0;

/** What goes to the client, read by read. @param parts the upstream's bytes */
async function shaped(parts: readonly Uint8Array[], wantsBodies: boolean): Promise<string[]> {
  const waiting = [...parts];
  let reader: ByteReceiver | undefined;
  let isPaused = false;
  const give = () => {
    while (reader !== undefined && !isPaused) {
      const part = waiting.shift();
      if (part === undefined) return reader.end();
      reader.data(Buffer.from(part));
    }
  };
  const answer = {
    flow(own: ByteReceiver) {
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
    settle() {
      reader = undefined;
    },
  };
  const bodies = new StreamBodies(answer as unknown as UpstreamAnswer, new ChatStream({}));
  const observer = { wantsBodies, body() {}, completed() {}, faulted() {} };
  const options = {
    shaping: shapingFor({ model: "m", messages: [] }, {}, { id: "id", created: 2, model: "ours" }),
    observer,
    renderFault: (fault: Error) => ({ message: fault.message }),
  } as unknown as RelayOptions;
  const stream = new ShapedStream(bodies, { account: { name: "up" }, legacyFunctions: false } as Target, options);
  const texts: string[] = [];
  try {
    await stream.open();
  } catch (error) {
    return [String(error)];
  }
  stream.flow({
    batch: (data) => texts.push(...data),
    events(bytes: Uint8Array) {
      copiedPieces += 1;
      texts.push(...Buffer.from(bytes).toString().slice("data: ".length, -2).split("\n\ndata: "));
    },
    end: (how) => texts.push(how),
  });
  return texts;
}

test("a fragment that is copied comes out as one that is read and written anew", async () => {
  let copied = 0;
  const { textOf } = FragmentTemplate.prototype;
  FragmentTemplate.prototype.textOf = function (data) {
    const found = textOf.call(this, data);
    if (found !== undefined) copied += 1;
    return found;
  };
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.array(chunk, { maxLength: 30 }),
        fc.constantFrom(0, 0, 0, 1, 2, 3),
        fc.array(fc.integer({ min: 1, max: 90 }), { maxLength: 40 }),
        fc.boolean(),
        async (chunks, style, cuts, inEvents) => {
          const events = chunks.map((one) => `data: ${written(one, style)}\n\n`);
          const whole = new TextEncoder().encode(`${events.join("")}data: [DONE]\n\n`);
          const parts: Uint8Array[] = [];
          let at = 0;
          const lengths = inEvents ? events.map((event) => Buffer.byteLength(event)) : cuts;
          for (const cut of lengths) {
            parts.push(whole.subarray(at, at + cut));
            at += cut;
          }
          parts.push(whole.subarray(at));
          expect(await shaped(parts, false)).toEqual(await shaped(parts, true));
        },
      ),
      { numRuns: 4000 },
    );
  } finally {
    FragmentTemplate.prototype.textOf = textOf;
  }
  expect(copied).toBeGreaterThan(1000);
  expect(copiedPieces).toBeGreaterThan(250);
});
