import { expect, test } from "bun:test";
import { fittingAssertion } from "../../../src/personas/suites/fitting.ts";

const call = (name: string) => ({ id: "c", type: "function" as const, function: { name, arguments: "{}" } });
const said = (content: string | null) => ({ content });

test.each([
  [said(' {"days": 14} '), undefined, { type: "equals", value: { days: 14 } }],
  [said("[1]"), undefined, { type: "equals", value: [1] }],
  [said("7"), undefined, { type: "contains", value: "7" }],
  [said("It takes 14 days.\n"), undefined, { type: "contains", value: "It takes 14 days." }],
  [said("x".repeat(81)), undefined, undefined],
  [said(" "), undefined, undefined],
  [said(`${"x".repeat(81)} 14 Days`), "14 Days", { type: "contains", value: "14 Days" }],
  [said("It takes 14 Days"), "14 days", { type: "icontains", value: "14 days" }],
  [said("No."), "Is polite", { type: "llm-rubric", value: "Is polite", provider: "a/b" }],
  [{ content: null, refusal: "I can't." }, undefined, { type: "contains", value: "I can't." }],
  [
    { content: null, toolCalls: [call("f"), call("g"), call("f")] },
    undefined,
    { type: "trajectory:tool-used", value: ["f", "g"] },
  ],
] as const)("%j, of which %p matters", (answer, wanted, assertion) => {
  expect(fittingAssertion(answer as never, wanted, "a/b")).toEqual(assertion as never);
});
