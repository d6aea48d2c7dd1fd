import { expect, test } from "bun:test";
import { FragmentTemplate } from "../../../src/providers/openai-compatible/fragment-template.ts";
import { FragmentCopy } from "../../../src/upstream/stream/passthrough.ts";

const chunk = (json: string, pad?: string) =>
  `{"id":"up","choices":[{"delta":{"content":${json}}}]${pad === undefined ? "" : `,"obfuscation":"${pad}"`}}`;
const ours = { head: 'data: {"id":"ours","text":', tail: "}\n\n" };
const out = (...texts: string[]) => texts.map((text) => `data: {"id":"ours","text":${text}}\n\n`).join("");
const plain = new FragmentCopy(FragmentTemplate.learn(chunk('"x"'), "obfuscation")!, ours);
const padded = new FragmentCopy(FragmentTemplate.learn(chunk('"x"', "ab"), "obfuscation")!, ours);
const event = (json: string, pad?: string) => `data: ${chunk(json, pad)}\n\n`;
/** What goes out, if all of it does. */
const copied = (copy: FragmentCopy, piece: string | Buffer) => {
  const bytes = Buffer.from(piece as string);
  const found = copy.copy(bytes);
  return found?.taken === bytes.length ? found.events.toString() : undefined;
};

test("whole events of the template come out with their texts as they stood", () => {
  const texts = ['"a"', '"\\"\\\\\\b\\f\\n\\r\\t"', '"/ é ☃ 😀"', '"{}[],:"'];
  for (const text of texts) expect(copied(plain, event(text))).toBe(out(text));
  expect(copied(plain, texts.map((text) => event(text)).join(""))).toBe(out(...texts));
  expect(copied(padded, event('"a"', "") + event('"b"', "a longer one"))).toBe(out('"a"', '"b"'));
});

test.each([
  ["half an event", event('"a"') + event('"b"').slice(0, -1)],
  ["a beginning alone", event('"a"').slice(0, 12)],
  ["an empty text, which is not sent", event('"a"') + event('""')],
  ["escapes that JSON.stringify writes in another way", event('"\\u0041"')],
  ["an escaped slash", event('"\\/"')],
  ["an escape at the very end", event('"a\\')],
  ["a control character", event('"a\tb"')],
  ["no string", event("null")],
  ["a field more", event('"a","b":1')],
  ["carriage returns", event('"a"').replaceAll("\n", "\r\n")],
  ["a comment between", `: x\n\n${event('"a"')}`],
  ["the end", `${event('"a"')}data: [DONE]\n\n`],
  ["padding that has none", event('"a"', "x")],
])("what is %s is left to the parser", (_, piece) => {
  expect(copied(plain, piece)).toBeUndefined();
});

test("what comes before that is copied all the same", () => {
  const whole = event('"a"') + event('"b"');
  for (const rest of [event('"c"').slice(0, 40), event('""'), "data: [DONE]\n\n", ": x\n\n"]) {
    const { events, taken } = plain.copy(Buffer.from(whole + rest))!;
    expect([events.toString(), taken]).toEqual([out('"a"', '"b"'), whole.length]);
  }
  expect(plain.copy(Buffer.from(event('""')))).toBeUndefined();
});

test("padding is read to its end, and no further", () => {
  for (const pad of ['a\\"b', "a\nb"]) expect(copied(padded, event('"a"', pad))).toBeUndefined();
  expect(copied(padded, event('"a"'))).toBeUndefined();
  expect(copied(padded, event('"a"', "x").slice(0, -5))).toBeUndefined();
});

test("bytes that are no UTF-8 are left to the parser", () => {
  const [before, after] = event('"#"').split("#");
  for (const bytes of [[0xff], [0xe2, 0x98], [0xc0, 0x80], [0xed, 0xa0, 0x80]]) {
    expect(
      copied(plain, Buffer.concat([Buffer.from(before!), Buffer.from(bytes), Buffer.from(after!)])),
    ).toBeUndefined();
  }
  expect(copied(plain, Buffer.concat([Buffer.from(before!), Buffer.from("☃"), Buffer.from(after!)]))).toBe(out('"☃"'));
});
