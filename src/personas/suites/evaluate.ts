/**
 * Judges an answer by one assertion that needs no model, as promptfoo does.
 * Source: https://www.promptfoo.dev/docs/configuration/expected-outputs/deterministic/
 */
import { isObject, parseJson } from "../../lib/json/json.ts";
import type { Tool } from "../../protocols/chat/schema.ts";
import { outputOf, type TestAnswer, textOfOutput } from "./answer.ts";
import { jsonObjectsIn, schemaProblem } from "./json-schema.ts";
import { NotJudged } from "./not-judged.ts";
import type { Assertion } from "./suite.ts";
import { areValidCalls, argumentsProblem, calledNames, callsOf, f1Of, toolsProblem } from "./tool-calls.ts";

export type Judgement = {
  readonly isPass: boolean;
  /** From 0 to 1. */
  readonly score: number;
  /** Why it failed; "" where it passed. */
  readonly reason: string;
};

type Given = {
  readonly assertion: Assertion;
  readonly answer: TestAnswer;
  readonly output: unknown;
  readonly text: string;
  readonly tools: readonly Tool[];
};
/** Finds what is wrong with an answer, as a sentence; undefined where nothing is. */
type Check = (given: Given) => string | undefined;

const quoted = (text: unknown) => JSON.stringify(text);
const listed = (texts: readonly unknown[]) => texts.map(quoted).join(", ");
const texts = (value: unknown): string[] => (value as readonly unknown[]).map(String);

const contains =
  (fold: (text: string) => string): Check =>
  ({ assertion: { value }, text }) =>
    fold(text).includes(fold(String(value))) ? undefined : `does not contain ${quoted(value)}`;

const containsAll =
  (fold: (text: string) => string): Check =>
  ({ assertion: { value }, text }) => {
    const missing = texts(value).filter((one) => !fold(text).includes(fold(one)));
    return missing.length === 0 ? undefined : `does not contain ${listed(missing)}`;
  };

const containsAny =
  (fold: (text: string) => string): Check =>
  ({ assertion: { value }, text }) =>
    texts(value).some((one) => fold(text).includes(fold(one))) ? undefined : `contains none of ${listed(texts(value))}`;

const asIs = (text: string) => text;
const lower = (text: string) => text.toLowerCase();

const checks: Readonly<Record<string, Check>> = {
  contains: contains(asIs),
  icontains: contains(lower),
  "contains-all": containsAll(asIs),
  "icontains-all": containsAll(lower),
  "contains-any": containsAny(asIs),
  "icontains-any": containsAny(lower),
  equals: ({ assertion: { value }, text }) => {
    const isEqual = typeof value === "object" ? Bun.deepEquals(parseJson(text), value, true) : String(value) === text;
    return isEqual ? undefined : `is not ${quoted(value)}`;
  },
  "starts-with": ({ assertion: { value }, text }) =>
    text.startsWith(String(value)) ? undefined : `does not start with ${quoted(value)}`,
  regex: ({ assertion: { value }, text }) =>
    new RegExp(value as string).test(text) ? undefined : `does not match /${String(value)}/`,
  "is-json": ({ assertion: { value }, text }) => {
    const json = parseJson(text);
    if (json === undefined) return "is no JSON";
    const problem = value === undefined ? undefined : schemaProblem(value as object, json);
    return problem === undefined ? undefined : `does not fit the schema: ${problem}`;
  },
  "contains-json": ({ assertion: { value }, text }) => {
    let problem = "contains no JSON object";
    for (const json of jsonObjectsIn(text)) {
      const misfit = value === undefined ? undefined : schemaProblem(value as object, json);
      if (misfit === undefined) return undefined;
      problem = `contains no JSON that fits the schema: ${misfit}`;
    }
    return problem;
  },
  "is-valid-openai-tools-call": ({ answer, tools }) => areValidCalls(answer.toolCalls ?? [], tools),
  "trajectory:tool-used": ({ assertion, answer }) => toolsProblem(assertion, callsOf(answer)),
  "trajectory:tool-args-match": ({ assertion, answer }) => argumentsProblem(assertion, callsOf(answer)),
  "finish-reason": ({ assertion: { value }, answer: { finishReason } }) => {
    if (finishReason?.toLowerCase() === (value as string).toLowerCase()) return undefined;
    return `ended by ${finishReason === undefined ? "no reason that is known" : quoted(finishReason)}, not ${quoted(value)}`;
  },
  cost: ({ assertion: { threshold }, answer: { cost } }) => {
    if (cost === undefined) throw new NotJudged("what the call cost is unknown");
    return cost <= threshold! ? undefined : `cost $${cost}, more than $${threshold}`;
  },
  latency: ({ assertion: { threshold }, answer: { latencyMs } }) =>
    latencyMs <= threshold! ? undefined : `took ${latencyMs} ms, more than ${threshold} ms`,
};

/** Judges by any assertion but `llm-rubric`. @param tools that the model could call @throws NotJudged */
export function evaluate(assertion: Assertion, answer: TestAnswer, tools: readonly Tool[]): Judgement {
  const { base, isNegated } = assertion;
  if (base === "tool-call-f1") return judgeToolNames(assertion, answer);
  const output = outputOf(answer);
  const problem = checks[base]!({ assertion, answer, output, text: textOfOutput(output), tools });
  const isPass = (problem === undefined) !== isNegated;
  return { isPass, score: isPass ? 1 : 0, reason: isPass ? "" : (problem ?? negated(assertion)) };
}

/** Words for what an assertion forbids. */
function negated({ type, value, threshold }: Assertion): string {
  const what = isObject(value) || value === undefined ? threshold : quoted(value);
  return `is what ${type}${what === undefined ? "" : ` ${what}`} forbids`;
}

function judgeToolNames({ value, threshold = 1, isNegated }: Assertion, answer: TestAnswer): Judgement {
  const called = calledNames(value as readonly string[], callsOf(answer));
  const score = f1Of(value as readonly string[], called);
  const isPass = score >= threshold !== isNegated;
  const found = called.length === 0 ? "none" : called.join(", ");
  const reason = `called ${found}: the F1 score is ${score.toFixed(3)}, ${isNegated ? "not below" : "below"} ${threshold}`;
  return { isPass, score, reason: isPass ? "" : reason };
}
