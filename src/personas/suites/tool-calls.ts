/** Assertions about the tools that a model calls. */

import { isObject, parseJson } from "../../lib/json/json.ts";
import { globMatches } from "../../lib/text/glob.ts";
import type { Tool, ToolCall } from "../../protocols/chat/schema.ts";
import type { TestAnswer } from "./answer.ts";
import { schemaProblem } from "./json-schema.ts";
import { NotJudged } from "./not-judged.ts";
import type { Assertion } from "./suite.ts";

/** @returns what is wrong with the calls, by the schemas of the tools */
export function areValidCalls(calls: readonly ToolCall[], tools: readonly Tool[]): string | undefined {
  if (calls.length === 0) return "calls no tool";
  for (const { function: called } of calls) {
    const known = tools.find((tool) => tool.type === "function" && tool.function.name === called.name);
    if (known?.type !== "function") return `calls ${called.name}, which is no tool of the request`;
    const given = parseJson(called.arguments);
    if (given === undefined) return `calls ${called.name} with arguments that are no JSON: ${called.arguments}`;
    const { parameters } = known.function;
    const problem = isObject(parameters) ? schemaProblem(parameters, given) : undefined;
    if (problem !== undefined) return `calls ${called.name} with arguments that don't fit its parameters: ${problem}`;
  }
  return undefined;
}

/** The harmonic mean of precision and recall over the sets of names. */
export function f1Of(expected: readonly string[], called: readonly string[]): number {
  const [wanted, found] = [new Set(expected), new Set(called)];
  const both = [...wanted].filter((name) => found.has(name)).length;
  return both === 0 ? 0 : (2 * both) / (wanted.size + found.size);
}

/** A call that assertions are about: of a caller's tool, or by MCP. */
type NamedCall = {
  /** As the model knows the tool; by MCP `<server>__<tool>`. */
  readonly name: string;
  /** The tool's own name at its server, which may be meant too. */
  readonly alias?: string;
  readonly arguments: string;
};

/** All calls of an answer. @throws NotJudged where some are not known */
export function callsOf({ toolCalls = [], mcp }: Pick<TestAnswer, "toolCalls" | "mcp">): NamedCall[] {
  if (mcp !== undefined && mcp.omitted > 0)
    throw new NotJudged(`${mcp.omitted} of the calls by MCP are not shown in the answer`);
  const byMcp = (mcp?.calls ?? []).map(({ server, tool, arguments: given }): NamedCall => {
    return { name: `${server}__${tool}`, alias: tool, arguments: given };
  });
  return [...byMcp, ...toolCalls.map((call) => call.function)];
}

type Matcher = { readonly name?: string; readonly pattern?: string };

const isNamed = (name: string, call: NamedCall) => call.name === name || call.alias === name;

const matches = ({ name, pattern }: Matcher, call: NamedCall) =>
  name === undefined
    ? globMatches(pattern!, call.name) || (call.alias !== undefined && globMatches(pattern!, call.alias))
    : isNamed(name, call);

/** @returns the names of the calls, in the words of those that are expected */
export const calledNames = (expected: readonly string[], calls: readonly NamedCall[]): string[] =>
  calls.map((call) => expected.find((name) => isNamed(name, call)) ?? call.name);

const namesOf = (calls: readonly NamedCall[]) =>
  calls.length === 0 ? "no tool" : calls.map((call) => call.name).join(", ");

/** For a list of names that may not be called each counts, so a negated one finds what was called. */
export function toolsProblem({ value, isNegated }: Assertion, calls: readonly NamedCall[]): string | undefined {
  if (typeof value === "string" || Array.isArray(value)) {
    const names = [value].flat() as string[];
    const missing = names.filter((name) => !calls.some((call) => matches({ name }, call)));
    const isFulfilled = isNegated ? missing.length < names.length : missing.length === 0;
    return isFulfilled ? undefined : `calls ${namesOf(calls)}, not ${missing.join(", ")}`;
  }
  const { min = 1, max = Number.POSITIVE_INFINITY, ...matcher } = value as Matcher & { min?: number; max?: number };
  const count = calls.filter((call) => matches(matcher, call)).length;
  if (count >= min && count <= max) return undefined;
  const range = max === Number.POSITIVE_INFINITY ? `at least ${min}` : `${min} to ${max}`;
  return `calls ${matcher.name ?? matcher.pattern} ${count} times, not ${range}`;
}

/** @throws NotJudged where arguments are cut off that may fit */
export function argumentsProblem({ value }: Assertion, calls: readonly NamedCall[]): string | undefined {
  const { args, mode = "partial", ...matcher } = value as Matcher & { args: object; mode?: "partial" | "exact" };
  const called = calls.filter((call) => matches(matcher, call));
  if (called.length === 0) return `calls ${namesOf(calls)}, not ${matcher.name ?? matcher.pattern}`;
  const fits =
    mode === "exact" ? (given: unknown) => Bun.deepEquals(given, args, true) : (given: unknown) => holds(given, args);
  if (called.some((call) => fits(parseJson(call.arguments)))) return undefined;
  const cut = called.find((call) => call.alias !== undefined && isCutOff(call.arguments));
  if (cut !== undefined) throw new NotJudged(`the answer does not show all arguments of ${cut.name}`);
  const given = called.map((call) => call.arguments).join(", ");
  return `calls ${called[0]!.name} with ${given}, not ${JSON.stringify(args)}`;
}

/** Answers show so many characters of a call's arguments, and no more. */
const isCutOff = (given: string) => given.length >= 500 && parseJson(given) === undefined;

/** True if a value has all that is expected of it; objects may have more members. */
function holds(given: unknown, expected: unknown): boolean {
  if (Array.isArray(expected)) {
    return (
      Array.isArray(given) && given.length === expected.length && expected.every((one, at) => holds(given[at], one))
    );
  }
  if (!isObject(expected)) return Bun.deepEquals(given, expected, true);
  return (
    isObject(given) &&
    Object.entries(expected).every(([key, one]) => Object.hasOwn(given, key) && holds(given[key], one))
  );
}
