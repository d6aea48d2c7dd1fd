import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { formatSseEvent, type SseEvent, SseOverflow, SseParser } from "../../../src/lib/streams/sse.ts";
import { runs } from "../../helpers/long-form.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function parse(pieces: readonly Uint8Array[]): SseEvent[] {
  const parser = new SseParser();
  return [...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()];
}

const data = (text: string) => parse([bytes(text)]).map((event) => event.data);

function cut(whole: Uint8Array, places: readonly number[]): Uint8Array[] {
  const at = [...new Set([0, ...places.map((place) => place % (whole.length + 1)), whole.length])].sort(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => whole.slice(at[index]!, end));
}

describe("SseParser", () => {
  test("takes LF, CRLF and CR line ends, and fields with and without a space", () => {
    expect(data("data: a\n\ndata:b\r\n\r\ndata:  c\r\r")).toEqual(["a", "b", " c"]);
  });

  test("joins data lines, and keeps event and id with their event only", () => {
    expect(parse([bytes("event: error\nid: 7\ndata: one\ndata: two\n\ndata: three\n\n")])).toEqual([
      { event: "error", id: "7", data: "one\ntwo" },
      { event: "", id: "", data: "three" },
    ]);
  });

  test("passes over comments, unknown fields and a byte-order mark", () => {
    expect(data("\uFEFF: hello\n\nretry: 5\n\nid: 7\n\n: OPENROUTER PROCESSING\n\ndata: x\n\n")).toEqual(["x"]);
  });

  test("an event that has a name alone is one with empty data, as its data may be lost", () => {
    const [named, next] = parse([bytes("event: ping\n\ndata: x\n\n")]);
    expect([named, next]).toEqual([
      { event: "ping", data: "", id: "" },
      { event: "", data: "x", id: "" },
    ]);
  });

  test("bytes before the name of a data field are an event that can't be read, not an event less", () => {
    expect(data("data: a\n\n\0data: b\n\n<html>data: c\n\nmetadata: d\n\nx-data: e\n\n")).toEqual([
      "a",
      "\0data: b",
      "<html>data: c",
    ]);
  });

  test("an event without its closing blank line still counts at the end", () => {
    expect(data("data: a\n\ndata: b")).toEqual(["a", "b"]);
    expect(data('data: a\n\ndata: {"b":1}')).toEqual(["a", '{"b":1}']);
  });

  test("an event that was cut within its JSON does not count", () => {
    expect(data('data: a\n\ndata: {"b":')).toEqual(["a"]);
    expect(data('data: a\n\ndata: {"b":\n')).toEqual(["a", '{"b":']);
  });

  test("an empty data line is an event with empty data", () => {
    expect(data("data\n\ndata:\n\n")).toEqual(["", ""]);
  });

  test("an `error:` line of older llama.cpp servers is an error event", () => {
    expect(parse([bytes('error: {"code":500}\n\n')])).toEqual([{ event: "error", id: "", data: '{"code":500}' }]);
  });

  test("JSON outside of any field is an event, in one line or in several, and text that is none is passed over", () => {
    const error = '{\n  "error": {\n    "code": 503,\n    "message": "Overloaded: {later}"\n  }\n}';
    expect(data(`data: a\n\n${error}\n`)).toEqual(["a", error]);
    expect(data(`data: a\r\n\r\n[${error.replaceAll("\n", "\r\n")}\r\n]`)).toEqual(["a", `[${error}\n]`]);
    expect(data('{"error":{"code":500}}\ndata: b\n\n')).toEqual(['{"error":{"code":500}}', "b"]);
    expect(data("{ no JSON }\nno JSON either\n\ndata: c\n\n[DONE]\n\n")).toEqual(["c"]);
    expect(data(`{"a":"${"x".repeat(70_000)}"}\n\ndata: d\n\n`)).toEqual(["d"]);
  });

  test("an event beyond the limit is refused, in one line or in many", () => {
    expect(() => new SseParser(100).push(bytes(`data: ${"x".repeat(200)}`))).toThrow(SseOverflow);
    expect(() => new SseParser(100).push(bytes("data: 1234567890\n".repeat(20)))).toThrow(SseOverflow);
  });

  test("any cutting of the bytes gives the same events", () => {
    const value = fc.string({ unit: "binary", maxLength: 30 }).map((text) => text.replace(/[\r\n]/g, " "));
    const line = fc.oneof(
      value.map((text) => `data: ${text}`),
      value.map((text) => `data:${text}`),
      value.map((text) => `: ${text}`),
      fc.constantFrom("event: ping", "id: 3", ""),
    );
    const ending = fc.constantFrom("\n", "\r\n", "\r");
    const stream = fc.array(fc.tuple(line, ending), { maxLength: 30 }).map((lines) => lines.flat().join(""));
    fc.assert(
      fc.property(stream, fc.array(fc.nat(400), { maxLength: 12 }), (text, places) => {
        const whole = bytes(text);
        const expected = parse([whole]);
        expect(parse(cut(whole, places))).toEqual(expected);
        expect(parse([...whole].map((byte) => Uint8Array.of(byte)))).toEqual(expected);
      }),
      { numRuns: runs(300) },
    );
  });

  test("what is formatted is parsed back", () => {
    const json = fc.json();
    fc.assert(
      fc.property(fc.array(json, { maxLength: 10 }), (texts) => {
        expect(data(texts.map((text) => formatSseEvent(text)).join(""))).toEqual(texts);
      }),
    );
    expect(parse([bytes(formatSseEvent("{}", "named"))])).toEqual([{ event: "named", id: "", data: "{}" }]);
  });
});

test("it is between events only where the next bytes begin one", () => {
  const parser = new SseParser();
  const at = (bytes: string | number[]) => {
    parser.push(typeof bytes === "string" ? Buffer.from(bytes) : Uint8Array.from(bytes));
    return parser.isBetweenEvents;
  };
  expect(parser.isBetweenEvents).toBe(true);
  expect([at("data: x\n\n"), at("data: x\n"), at("\n"), at("event: e\n"), at("\n"), at("")]).toEqual([
    true,
    false,
    true,
    false,
    true,
    true,
  ]);
  expect([at("data: x\r\n\r"), at("\n"), at("data: x\n\n\u00e9\n")]).toEqual([false, true, true]);
  // The beginning of a character, which the decoder holds back.
  expect([at([100, 10, 10, 0xe2]), at([0x98, 0x83]), at("\n\n")]).toEqual([false, false, true]);
});
