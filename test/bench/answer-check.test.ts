import { describe, expect, test } from "bun:test";
import { expectedText, expectedTexts, PlainCheck, StreamCheck } from "./answer-check.ts";
import { parseAnswerShape, writeDigits } from "./answer-shape.ts";
import { families, plainText } from "./mock-families.ts";

const model = "gpt-4o-f5-s30";
const shape = parseAnswerShape(model);
const expectation = { shape, streamed: true, includeUsage: true };
const good = families.openai.stream(model, shape, true);

function check(pieces: readonly string[], cut = Number.POSITIVE_INFINITY) {
  const seen: number[] = [];
  const stream = new StreamCheck(expectation, expectedTexts(shape), (index) => seen.push(index));
  for (const piece of pieces) {
    const bytes = new TextEncoder().encode(piece);
    for (let at = 0; at < bytes.length; at += cut) stream.push(bytes.subarray(at, at + cut), 0);
  }
  return { seen, fault: stream.end() };
}

describe("a check of Messages", () => {
  const claude = families.anthropic;
  const events = claude.stream(model, shape, false);
  const look = (...pieces: readonly string[]) => {
    const stream = new StreamCheck(
      { ...expectation, format: "messages", includeUsage: false },
      expectedTexts(shape),
      () => {},
    );
    stream.push(new TextEncoder().encode(pieces.join("")), 0);
    return stream.end();
  };

  test("takes what the mock gives, and nothing less", () => {
    const { opening, fragments, closing } = events;
    expect(look(opening, ...fragments, closing)).toBeUndefined();
    expect(look(opening, ...fragments.slice(1), closing)).toStartWith("lost or reordered: fragment 1");
    expect(look(opening, ...fragments)).toBe("broken: no finish_reason");
    expect(look(opening, ...fragments, closing.replace("end_turn", "max_tokens"))).toContain("stop_reason max_tokens");
    expect(look(opening.replace("event: ping", "event: pong"))).toContain("event: pong holds a ping");
  });

  test("reads a plain answer", () => {
    const plain = new PlainCheck(plainText(shape), "messages");
    plain.push(Buffer.from(claude.plain(model, plainText(shape))));
    expect(plain.end()).toBeUndefined();
  });
});

describe.each([
  ["responses", "xai"],
  ["generate-content", "google"],
] as const)("a check of %s", (format, name) => {
  const family = families[name];
  const { opening, fragments, closing } = family.stream(model, shape, false);
  const look = (...pieces: readonly string[]) => {
    const stream = new StreamCheck({ ...expectation, format, includeUsage: false }, expectedTexts(shape), () => {});
    stream.push(new TextEncoder().encode(pieces.join("")), 0);
    return stream.end();
  };

  test("takes what the mock gives, and nothing less", () => {
    expect(look(opening, ...fragments, closing)).toBeUndefined();
    expect(look(opening, ...fragments.slice(1), closing)).toStartWith("lost or reordered: fragment 1");
    expect(look(opening, ...fragments.slice(0, -1))).toStartWith("lost: 4 of 5");
    const plain = new PlainCheck(plainText(shape), format);
    plain.push(Buffer.from(family.plain(model, plainText(shape))));
    expect(plain.end()).toBeUndefined();
  });
});

describe("a stream's check", () => {
  test("takes a good stream, however it is cut", () => {
    for (const cut of [1, 7, 1000]) {
      expect(check([good.opening, ...good.fragments, good.closing], cut)).toEqual({
        seen: [0, 1, 2, 3, 4],
        fault: undefined,
      });
    }
  });

  test("takes comments and event ids", () => {
    const numbered = good.fragments.map((text, at) => `id: ${at}\n${text}: keep-alive\n\n`);
    expect(check([good.opening, ...numbered, good.closing]).fault).toBeUndefined();
  });

  test("takes chunks that leave out what is null, as some gateways do", () => {
    const terse = [good.opening, ...good.fragments].map((text) => text.replaceAll(',"finish_reason":null', ""));
    expect(terse.join("")).not.toContain("finish_reason");
    expect(check([...terse, good.closing]).fault).toBeUndefined();
  });

  const [first = "", second = "", ...others] = good.fragments;
  const faults: Record<string, [string[], string]> = {
    "a lost fragment": [[good.opening, first, ...others, good.closing], "lost or reordered: fragment 2"],
    "a lost last fragment": [[good.opening, ...good.fragments.slice(0, 4), good.closing], "lost: 4 of 5"],
    "a reordered one": [[good.opening, second, first, ...others, good.closing], "lost or reordered: fragment 1"],
    "a repeated one": [[good.opening, first, first, second, ...others, good.closing], "repeated: fragment 0"],
    "changed text": [
      [good.opening, first.replace("naïve", "naive"), second, ...others, good.closing],
      "broken: fragment 0",
    ],
    "broken JSON": [[good.opening, first.slice(0, -3), "\n\n"], "broken: SyntaxError"],
    "no end": [[good.opening, ...good.fragments], "no finish_reason"],
    "no [DONE]": [
      [good.opening, ...good.fragments, good.closing.replace("data: [DONE]\n\n", "")],
      "last event is missing",
    ],
    "another finish_reason": [
      [good.opening, ...good.fragments, good.closing.replace('"stop"', '"length"')],
      "broken: finish_reason length",
    ],
    "half an event": [[good.opening, ...good.fragments, good.closing, "data: {"], "within an event"],
    "another id": [[good.opening, ...good.fragments, good.closing.replace("chatcmpl-B", "chatcmpl-C")], "a chunk of"],
    "wrong usage": [
      [good.opening, ...good.fragments, good.closing.replace('"completion_tokens":5', '"completion_tokens":6')],
      "wrong usage: 17,6,22,5 instead of 17,5,22,5",
    ],
    "an error": [[good.opening, 'data: {"error":{"message":"overloaded"}}\n\n'], "overloaded"],
  };
  for (const [name, [pieces, fault]] of Object.entries(faults)) {
    test(`sees ${name}`, () => expect(check(pieces).fault).toContain(fault));
  }

  test("tells when a fragment was sent", () => {
    const times: number[] = [];
    const stream = new StreamCheck(expectation, expectedTexts(shape), (_, at, sentAt) => times.push(at, sentAt));
    const bytes = new TextEncoder().encode(first);
    writeDigits(bytes, Buffer.from(bytes).indexOf("0".repeat(16)), 16, 987654321.9);
    stream.push(bytes, 12);
    expect(times).toEqual([12, 987654321]);
  });
});

describe("a plain answer's check", () => {
  const answer = families.openai.plain(model, plainText(shape));
  const checkPlain = (body: string) => {
    const plain = new PlainCheck(expectedText({ ...expectation, streamed: false }));
    plain.push(new TextEncoder().encode(body));
    return plain.end();
  };

  test("takes the right one", () => expect(checkPlain(answer)).toBeUndefined());
  test("sees a changed text", () =>
    expect(checkPlain(answer.replace("naïve", "naive"))).toStartWith("broken: the answer"));
  test("sees wrong usage", () =>
    expect(checkPlain(answer.replace('"prompt_tokens":17', '"prompt_tokens":18'))).toStartWith("wrong usage: 18"));
  test("sees what is no answer", () => expect(checkPlain("<html>")).toContain("broken: SyntaxError"));
});
