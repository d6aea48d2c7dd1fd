import { expect, test } from "bun:test";
import { wholeDetails } from "../../src/wire/reasoning-details.ts";

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

test("entries without a number stay apart, and what is no list of objects holds none", () => {
  expect(wholeDetails([text(undefined, "a"), text(undefined, "b"), 1, null, [text(0, "c")]])).toEqual([
    text(undefined, "a"),
    text(undefined, "b"),
  ]);
  for (const value of [undefined, null, "x", {}, 7]) expect(wholeDetails(value)).toEqual([]);
});
