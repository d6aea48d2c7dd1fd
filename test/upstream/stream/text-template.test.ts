import { expect, test } from "bun:test";
import fc from "fast-check";
import { FrameBytes, RepeatedText } from "../../../src/upstream/stream/passthrough.ts";
import { lastEventIn, TextTemplate } from "../../../src/upstream/stream/text-template.ts";

const place = { path: ["choices", 0, "delta", "content"], padding: "obfuscation" };
const chunk = (json: string, pad?: string) =>
  `{"id":"up","choices":[{"delta":{"content":${json}}}]${pad === undefined ? "" : `,"obfuscation":"${pad}"`}}`;
const eventOf = (data: string) => `data: ${data}\n\n`;
const event = (json: string, pad?: string) => eventOf(chunk(json, pad));
const learnt = (data: string, written = eventOf(data)) => {
  const last = lastEventIn(Buffer.from(written), true, data);
  return last && TextTemplate.learn(last, place);
};
const plain = learnt(chunk('"x"'))!;
const padded = learnt(chunk('"x"', "ab"))!;
const frame = new FrameBytes({ head: 'data: {"id":"ours","text":', tail: "}\n\n" });
const like = { choices: [{ index: 0, delta: { content: "x" }, finish_reason: null }] };
const out = (...texts: string[]) => texts.map((text) => `data: {"id":"ours","text":${text}}\n\n`).join("");
/** What goes out, and how many bytes of the piece that is. */
const copied = (template: TextTemplate, piece: string | Buffer): [string, number] => {
  const bytes = Buffer.from(piece as string);
  const places: number[] = [];
  const end = template.find(bytes, places);
  return [end === 0 ? "" : new RepeatedText(bytes, places, like).events(frame).toString(), end];
};
const wholly = (template: TextTemplate, piece: string | Buffer) => {
  const [events, end] = copied(template, piece);
  return end === Buffer.byteLength(piece as string) ? events : undefined;
};

test("whole events of the template come out with their texts as they stood", () => {
  const texts = ['"a"', '"\\"\\\\\\b\\f\\n\\r\\t"', '"/ é ☃ 😀"', '"{}[],:"'];
  for (const text of texts) expect(wholly(plain, event(text))).toBe(out(text));
  expect(wholly(plain, texts.map((text) => event(text)).join(""))).toBe(out(...texts));
  expect(wholly(padded, event('"a"', "") + event('"b"', "a longer one"))).toBe(out('"a"', '"b"'));
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
  expect(wholly(plain, piece)).toBeUndefined();
});

test("what comes before that is copied all the same", () => {
  const whole = event('"a"') + event('"b"');
  for (const rest of [event('"c"').slice(0, 40), event('""'), "data: [DONE]\n\n", ": x\n\n"]) {
    expect(copied(plain, whole + rest)).toEqual([out('"a"', '"b"'), whole.length]);
  }
  expect(copied(plain, event('""'))).toEqual(["", 0]);
});

test("padding is read to its end, and no further", () => {
  for (const pad of ['a\\"b', "a\nb"]) expect(wholly(padded, event('"a"', pad))).toBeUndefined();
  expect(wholly(padded, event('"a"'))).toBeUndefined();
  expect(wholly(padded, event('"a"', "x").slice(0, -5))).toBeUndefined();
});

test("spaces behind the JSON may be any number of them, as Anthropic sends them", () => {
  const spaced = (json: string, spaces: number) => `data: ${chunk(json)}${" ".repeat(spaces)}\n\n`;
  const template = learnt(`${chunk('"x"')}   `)!;
  expect(wholly(template, spaced('"a"', 0) + spaced('"b"', 1) + spaced('"c"', 40))).toBe(out('"a"', '"b"', '"c"'));
  for (const rest of [
    spaced('"b"', 9).slice(0, -1),
    spaced('"b"', 9).slice(0, -4),
    `${spaced('"b"', 3).trimEnd()}  x\n\n`,
  ]) {
    expect(copied(template, spaced('"a"', 2) + rest)).toEqual([out('"a"'), spaced('"a"', 2).length]);
  }
});

test("running totals behind the text may be any whole numbers, in an object that is else the same", () => {
  const totalled = (text: string, totals: string) =>
    eventOf(`{"choices":[{"delta":{"content":${text}}}],"used":${totals},"x":1}`);
  const written = (a: string, b: string) => `{"a":${a},"of":[{"kind":"k9","b":${b}}]}`;
  const learn = (totals: string) => {
    const last = lastEventIn(Buffer.from(totalled('"x"', totals)), true, totalled('"x"', totals).slice(6, -2))!;
    return TextTemplate.learn(last, { path: place.path, totals: "used" })!;
  };
  const template = learn(written("0", "12"));
  expect(
    wholly(template, totalled('"a"', written("100", "0")) + totalled('"b"', written("7", "999999999999999"))),
  ).toBe(out('"a"', '"b"'));
  const others = [
    ...[
      written("01", "1"),
      written("-1", "1"),
      written("1.5", "1"),
      written("1e3", "1"),
      written("", "1"),
      written('"1"', "1"),
    ],
    ...[
      written("1", "1234567890123456"),
      written("1", "1").replace("k9", "k8"),
      written("1", "1").replace("}]", ',"c":1}]'),
    ],
    ...[written("1", "1").slice(0, -1), "{}", "null"],
  ];
  for (const totals of others) expect([totals, wholly(template, totalled('"a"', totals))]).toEqual([totals, undefined]);
  // What can't be learnt as totals has to be the same again.
  for (const totals of [written("1.5", "1"), written("-1", "1"), '{"a":"12"}', "{}"]) {
    const fixed = learn(totals);
    expect(wholly(fixed, totalled('"a"', totals))).toBe(out('"a"'));
    expect(wholly(fixed, totalled('"a"', totals.replace("1", "2").replace("{}", '{"a":1}')))).toBeUndefined();
  }
});

test("bytes that are no UTF-8 are left to the parser", () => {
  const [before, after] = event('"#"').split("#");
  const around = (bytes: number[] | string) =>
    Buffer.concat([Buffer.from(before!), Buffer.from(bytes as string), Buffer.from(after!)]);
  for (const bytes of [[0xff], [0xe2, 0x98], [0xc0, 0x80], [0xed, 0xa0, 0x80]]) {
    expect(wholly(plain, around(bytes))).toBeUndefined();
  }
  expect(wholly(plain, around("☃"))).toBe(out('"☃"'));
});

test("the chunks of repeated texts are like the one before them but for the texts", () => {
  const piece = Buffer.from(event('"a\\n"') + event('"☃"'));
  const places: number[] = [];
  plain.find(piece, places);
  const contents = new RepeatedText(piece, places, { ...like, extra: 1 }).chunks();
  const chunkOf = (content: string) => ({ extra: 1, choices: [{ index: 0, delta: { content }, finish_reason: null }] });
  expect(contents).toEqual([chunkOf("a\n"), chunkOf("☃")]);
});

test.each([",", ":", "content", '","', '":"'])(
  "the lone fragment %j is learnt from where other keys follow it",
  (text) => {
    const data = `{"id":",","choices":[{"delta":{"content":${JSON.stringify(text)},"role":"assistant","x":","},"index":0}],"object":":"}`;
    const template = learnt(data)!;
    expect(template.fits(Buffer.from(eventOf(data)))).toBe(true);
    expect(template.fits(Buffer.from(eventOf(data.replace('"role":"assistant"', '"role":"user"'))))).toBe(false);
  },
);

test.each([
  ["other lines before it", `event: a\nid: 7\ndata: ${chunk('"x"')}\n\n`, true],
  ["lines behind it", `data:${chunk('"x"')}\nevent: a\n\n`, false],
  ["carriage returns", `data:${chunk('"x"')}\r\n\r\n`, true],
  ["another event before it", `data: 1\n\ndata: ${chunk('"x"')}\n\n`, true],
  ["the beginning of another behind it", `data: ${chunk('"x"')}\n\ndata`, true],
  ["another event before it, which ends in another way", `data: 1\n\ndata:${chunk('"x"')}\r\n\r\n`, false],
  ["a byte-order mark", `\ufeffdata: ${chunk('"x"')}\n\n`, false],
  ["no end", `data: ${chunk('"x"')}\n`, false],
])("an event with %s", (_, written, isLearnt) => {
  expect(learnt(chunk('"x"'), written) !== undefined).toBe(isLearnt);
});

test("an event of which the beginning came before is not learnt from", () => {
  expect(lastEventIn(Buffer.from(event('"x"')), false, chunk('"x"'))).toBeUndefined();
  expect(lastEventIn(Buffer.from(`1\n\n${event('"x"')}`), false, chunk('"x"'))).toBeDefined();
});

test("what is no chunk of one fragment teaches nothing, and throws nothing", () => {
  const refused = [
    "",
    "null",
    "[]",
    '"content"',
    "{",
    '{"choices":',
    '{"choices":[{"delta":{"content":"x',
    '{"choices":{"delta":{"content":"x"}}}',
    '{"choices":[{"delta":{"content":null}}]}',
    '{"choices":[{"delta":{"content":"\\u0041"}}]}',
    '{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}',
    '{"choices":[{"delta":{"content":"a","content":"b"}}]}',
    '{"choices":[],"choices":[{"delta":{"content":"b"}}]}',
    '{"obfuscation":"ab","choices":[{"delta":{"content":"b"}}]}',
  ];
  for (const data of refused) expect([data, learnt(data)]).toEqual([data, undefined]);
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), fc.nat(), (text, cut) => {
      for (const data of [text, text.slice(0, cut % (text.length + 1)), chunk(text)]) {
        learnt(data)?.find(Buffer.from(eventOf(text)), []);
      }
    }),
  );
}, 60_000);
