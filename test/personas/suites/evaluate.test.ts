import { describe, expect, test } from "bun:test";
import type { TestAnswer } from "../../../src/personas/suites/answer.ts";
import { evaluate } from "../../../src/personas/suites/evaluate.ts";
import { NotJudged } from "../../../src/personas/suites/not-judged.ts";
import { judgeByGrade, parseGrade } from "../../../src/personas/suites/rubric.ts";
import { type AssertionResult, scoreOf, verdictOf } from "../../../src/personas/suites/score.ts";
import type { Assertion } from "../../../src/personas/suites/suite.ts";

const assertionOf = (type: string, value?: unknown, threshold?: number): Assertion => ({
  type,
  base: type.replace(/^not-/, ""),
  isNegated: type.startsWith("not-"),
  value,
  weight: 1,
  line: 1,
  ...(threshold !== undefined && { threshold }),
});

const said = (content: string): TestAnswer => ({ content, latencyMs: 250, finishReason: "stop", cost: 0.002 });
const call = (name: string, args: string) => ({
  id: "call_1",
  type: "function" as const,
  function: { name, arguments: args },
});
const called = (...calls: ReturnType<typeof call>[]): TestAnswer => ({
  content: null,
  toolCalls: calls,
  finishReason: "tool_calls",
  latencyMs: 250,
});

const point = { type: "object", required: ["lat"], properties: { lat: { type: "number", maximum: 90 } } };
const answer = said('Your parcel ships on Monday, order 4711. {"lat": 48.1}');

/** Each with the reason for which the same with `not-` passes; "" for those that pass. */
const cases: [type: string, value: unknown, answer: TestAnswer, reason: string][] = [
  ["contains", "parcel", answer, ""],
  ["is-json", { type: "object", properties: { a: { type: "string", nullable: true } } }, said('{"a": null}'), ""],
  ["is-json", { properties: { nullable: { type: "null" }, type: { const: 1 } } }, said('{"nullable": null}'), ""],
  ["contains", "Parcel", answer, 'does not contain "Parcel"'],
  ["contains", 4711, answer, ""],
  ["icontains", "PARCEL", answer, ""],
  ["contains-all", ["parcel", "Monday"], answer, ""],
  ["contains-all", ["parcel", "Tuesday", "no"], answer, 'does not contain "Tuesday", "no"'],
  ["icontains-all", ["PARCEL", "monday"], answer, ""],
  ["contains-any", ["Tuesday", "Monday"], answer, ""],
  ["contains-any", ["Tuesday"], answer, 'contains none of "Tuesday"'],
  ["icontains-any", ["monday"], answer, ""],
  ["starts-with", "Your", answer, ""],
  ["starts-with", "your", answer, 'does not start with "your"'],
  ["regex", "order \\d{4}", answer, ""],
  ["regex", "^order", answer, "does not match /^order/"],
  ["equals", "yes", said("yes"), ""],
  ["equals", "yes", said("yes."), 'is not "yes"'],
  ["equals", 12, said("12"), ""],
  ["equals", { a: [1] }, said('{ "a": [1] }'), ""],
  ["equals", { a: [1] }, said('{ "a": [1], "b": 2 }'), 'is not {"a":[1]}'],
  ["is-json", undefined, said("[1]"), ""],
  ["is-json", undefined, answer, "is no JSON"],
  ["is-json", point, said('{"lat": 48.1}'), ""],
  ["is-json", point, said('{"lat": 91}'), "does not fit the schema: /lat: 91 is greater than 90."],
  ["is-json", point, said("{}"), 'does not fit the schema: Instance does not have required property "lat".'],
  ["contains-json", undefined, answer, ""],
  ["contains-json", point, said('{"x": "}"} and {"lat": 1}'), ""],
  ["contains-json", undefined, said("{none} [1]"), "contains no JSON object"],
  [
    "contains-json",
    point,
    said('{"lat": "x"}'),
    'contains no JSON that fits the schema: /lat: Instance type "string" is invalid. Expected "number".',
  ],
  ["finish-reason", "STOP", answer, ""],
  ["finish-reason", "length", answer, 'ended by "stop", not "length"'],
  ["trajectory:tool-used", "search", called(call("search", "{}")), ""],
  ["trajectory:tool-used", ["search", "order"], called(call("search", "{}")), "calls search, not order"],
  ["trajectory:tool-used", { pattern: "s*", min: 2 }, called(call("search", "{}")), "calls s* 1 times, not at least 2"],
  ["trajectory:tool-used", { name: "search", min: 0, max: 0 }, said("no"), ""],
  ["trajectory:tool-args-match", { name: "order", args: { id: 1 } }, called(call("order", '{"id":1,"x":2}')), ""],
  [
    "trajectory:tool-args-match",
    { name: "order", args: { id: 1 }, mode: "exact" },
    called(call("order", '{"id":1,"x":2}')),
    'calls order with {"id":1,"x":2}, not {"id":1}',
  ],
  ["trajectory:tool-args-match", { name: "order", args: {} }, said("no"), "calls no tool, not order"],
  // The calls are the output where there is no text, as promptfoo has it.
  ["contains", '"name":"search"', called(call("search", "{}")), ""],
];

describe("assertions", () => {
  test.each(cases)("%s %j", (type, value, given, reason) => {
    const judged = evaluate(assertionOf(type, value), given, []);
    expect(judged).toEqual({ isPass: reason === "", score: reason === "" ? 1 : 0, reason });
    // A list of tools that were called in part is neither fulfilled nor kept out.
    if (type === "trajectory:tool-used" && Array.isArray(value) && reason !== "") return;
    const negated = evaluate(assertionOf(`not-${type}`, value), given, []);
    expect(negated.isPass).toBe(reason !== "");
    expect(negated.reason === "").toBe(reason !== "");
  });

  test("of cost and latency take their bound in", () => {
    expect(evaluate(assertionOf("cost", undefined, 0.002), answer, []).isPass).toBe(true);
    expect(evaluate(assertionOf("cost", undefined, 0.001), answer, []).reason).toBe("cost $0.002, more than $0.001");
    expect(evaluate(assertionOf("latency", undefined, 250), answer, []).isPass).toBe(true);
    expect(evaluate(assertionOf("latency", undefined, 249), answer, []).reason).toBe("took 250 ms, more than 249 ms");
    expect(evaluate(assertionOf("not-latency", undefined, 249), answer, []).isPass).toBe(true);
    expect(() => evaluate(assertionOf("cost", undefined, 1), called(), [])).toThrow(NotJudged);
  });

  test("of calls check them by the tools of the request", () => {
    const tool = { type: "function" as const, function: { name: "locate", parameters: point } };
    const judge = (given: TestAnswer) => evaluate(assertionOf("is-valid-openai-tools-call"), given, [tool]).reason;
    expect(judge(called(call("locate", '{"lat":1}')))).toBe("");
    expect(judge(called(call("locate", '{"lat":"1"}')))).toStartWith("calls locate with arguments that don't fit");
    expect(judge(called(call("locate", "{")))).toBe("calls locate with arguments that are no JSON: {");
    expect(judge(called(call("other", "{}")))).toBe("calls other, which is no tool of the request");
    expect(judge(said("hm"))).toBe("calls no tool");
  });

  test("of tools' names have an F1 score", () => {
    const given = called(call("a", "{}"), call("b", "{}"), call("b", "{}"));
    expect(evaluate(assertionOf("tool-call-f1", ["a", "b"]), given, [])).toMatchObject({ isPass: true, score: 1 });
    const partly = evaluate(assertionOf("tool-call-f1", ["a", "c"]), given, []);
    expect(partly).toEqual({ isPass: false, score: 0.5, reason: "called a, b, b: the F1 score is 0.500, below 1" });
    expect(evaluate(assertionOf("tool-call-f1", ["a", "c"], 0.5), given, []).isPass).toBe(true);
  });
});

describe("a grade", () => {
  test("is found in what the grader writes", () => {
    const text = 'Sure: {"reason": "it greets", "pass": true, "score": 0.8}';
    expect(parseGrade(text)).toEqual({ pass: true, score: 0.8, reason: "it greets" });
    expect(parseGrade('{"pass": "no"}')).toEqual({ pass: false, score: 0, reason: "" });
    expect(parseGrade('{"x": 1} {"score": 7}')).toEqual({ pass: true, score: 1, reason: "" });
    expect(() => parseGrade("I can't say.")).toThrow(NotJudged);
  });

  test("passes by its word, and its score where there is a threshold", () => {
    const grade = { pass: true, score: 0.6, reason: "so so" };
    expect(judgeByGrade(assertionOf("llm-rubric", "x"), grade)).toMatchObject({ isPass: true, score: 0.6 });
    expect(judgeByGrade(assertionOf("llm-rubric", "x", 0.7), grade)).toEqual({
      isPass: false,
      score: 0.6,
      reason: "is graded: so so (score 0.6, below 0.7)",
    });
    expect(judgeByGrade(assertionOf("not-llm-rubric", "x"), grade)).toMatchObject({ isPass: false, score: 0.4 });
  });
});

describe("a score", () => {
  const part = (verdict: AssertionResult["verdict"], score: number, weight = 1): AssertionResult => ({
    type: "equals",
    verdict,
    score,
    reason: "",
    weight,
    line: 1,
  });

  test("is the weighted mean, which a threshold is compared with", () => {
    const parts = [part("fail", 0, 2), part("pass", 1)];
    expect(scoreOf(parts, undefined)).toEqual({ verdict: "fail", score: 1 / 3 });
    expect(scoreOf(parts, 0.5).verdict).toBe("fail");
    expect(scoreOf(parts, 0.3).verdict).toBe("pass");
    expect(scoreOf([], undefined)).toEqual({ verdict: "pass", score: 1 });
  });

  test("is an error where what could not be judged may have changed it", () => {
    expect(scoreOf([part("error", 0), part("pass", 1)], undefined).verdict).toBe("error");
    expect(scoreOf([part("error", 0), part("fail", 0)], undefined).verdict).toBe("fail");
    expect(scoreOf([part("error", 0), part("fail", 0)], 0.5).verdict).toBe("error");
    expect(scoreOf([part("error", 0), part("fail", 0)], 0.6).verdict).toBe("fail");
    expect(scoreOf([part("error", 0), part("pass", 1)], 0.5).verdict).toBe("pass");
  });

  test("of repetitions is a share", () => {
    expect(verdictOf(["pass", "pass", "fail"], 1)).toBe("fail");
    expect(verdictOf(["pass", "pass", "fail"], 2 / 3)).toBe("pass");
    expect(verdictOf(["pass", "error", "fail"], 2 / 3)).toBe("error");
    expect(verdictOf(["pass", "error", "fail"], 0.9)).toBe("fail");
    expect(verdictOf(["pass", "error"], 0.5)).toBe("pass");
    expect(verdictOf(["error"], 1)).toBe("error");
  });
});
