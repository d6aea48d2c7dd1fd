import { expect, test } from "bun:test";
import fc from "fast-check";
import { DetailNumbers, wholeDetails } from "../../../src/protocols/chat/reasoning-details.ts";

const text = (index: number | undefined, said: string, more: object = {}) => ({
  type: "reasoning.text",
  text: said,
  ...(index !== undefined && { index }),
  ...more,
});

test("pieces of one entry become that entry, with what its last piece adds", () => {
  expect(
    wholeDetails([
      text(0, "Let ", { format: "anthropic-claude-v1", signature: null }),
      text(0, "me see"),
      { type: "reasoning.text", index: 0, signature: "c2ln" },
      text(0, "Next"),
      { type: "reasoning.summary", summary: "A", index: 1, id: "rs_1" },
      { type: "reasoning.summary", summary: "B", index: 1 },
      { type: "reasoning.summary", summary: "C", index: 1, id: "rs_2" },
      { type: "reasoning.encrypted", data: "x", index: 1 },
      { type: "reasoning.encrypted", data: "y", index: 1 },
    ]),
  ).toEqual([
    text(0, "Let me see", { format: "anthropic-claude-v1", signature: "c2ln" }),
    text(0, "Next"),
    { type: "reasoning.summary", summary: "AB", index: 1, id: "rs_1" },
    { type: "reasoning.summary", summary: "C", index: 1, id: "rs_2" },
    { type: "reasoning.encrypted", data: "x", index: 1 },
    { type: "reasoning.encrypted", data: "y", index: 1 },
  ]);
});

test("an empty signature, id or format of a piece is none", () => {
  const first = text(0, "Let ", { format: "anthropic-claude-v1", signature: "", id: "" });
  const others = [
    text(0, "me see", { format: "", signature: "" }),
    text(0, "", { signature: "c2ln", id: "r_1" }),
    text(0, "Next"),
  ];
  expect(wholeDetails([first, ...others])).toEqual([
    text(0, "Let me see", { format: "anthropic-claude-v1", signature: "c2ln", id: "r_1" }),
    text(0, "Next"),
  ]);
});

test("however an entry is cut, and whatever empty members its pieces have, it is whole again", () => {
  const filler = fc.constantFrom(
    {},
    { signature: "" },
    { signature: null },
    { id: "" },
    { format: null },
    { format: "" },
  );
  const entry = fc.record({
    pieces: fc.array(fc.tuple(fc.string(), filler), { minLength: 1, maxLength: 5 }),
    signature: fc.option(fc.string({ minLength: 1 })),
    format: fc.constantFrom("unknown", "anthropic-claude-v1"),
  });
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 4 }), (entries) => {
      const pieces = entries.flatMap((one, index) => [
        ...one.pieces.map(([said, empty], at) =>
          text(index, said, at === 0 ? { ...empty, format: one.format } : empty),
        ),
        ...(one.signature === null ? [] : [text(index, "", { signature: one.signature })]),
      ]);
      const whole = wholeDetails(pieces).map(({ text, signature, format }) => ({
        text,
        format,
        signature: signature || null,
      }));
      expect(whole).toEqual(
        entries.map(({ pieces, signature, format }) => ({
          text: pieces.map(([said]) => said).join(""),
          format,
          signature,
        })),
      );
    }),
  );
});

test("entries without a number stay apart, and what is no list of objects holds none", () => {
  expect(wholeDetails([text(undefined, "a"), text(undefined, "b"), 1, null, [text(0, "c")]])).toEqual([
    text(undefined, "a"),
    text(undefined, "b"),
  ]);
  for (const value of [undefined, null, "x", {}, 7]) expect(wholeDetails(value)).toEqual([]);
});

test("entries have numbers of their own, and pieces of one entry share theirs", () => {
  const encrypted = (index: number | undefined, data: string) => ({
    type: "reasoning.encrypted",
    data,
    ...(index !== undefined && { index }),
  });
  const numbers = new DetailNumbers();
  const given = [
    [text(0, "Let "), text(0, "me see")],
    [encrypted(0, "x"), encrypted(undefined, "y")],
    [text(2, "Next")],
  ];
  expect(given.flatMap((pieces) => numbers.number(pieces))).toEqual([
    text(0, "Let "),
    text(0, "me see"),
    encrypted(1, "x"),
    encrypted(2, "y"),
    text(3, "Next"),
  ]);
  const unnumbered = new DetailNumbers().number([text(undefined, "Let "), text(undefined, "me see")]);
  expect(wholeDetails(unnumbered)).toEqual([text(0, "Let me see")]);
});
