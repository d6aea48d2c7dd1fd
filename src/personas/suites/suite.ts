/** The tests of one persona, as their file says them: variables filled in, lists expanded, each test with its own assertions. */
import type { Message } from "../../protocols/chat/schema.ts";

export type TestSuite = {
  readonly file: string;
  /** The id of the persona that the file stands beside. */
  readonly persona: string;
  readonly tests: readonly TestCase[];
  readonly maxConcurrency?: number;
};

export type TestCase = {
  /** Unique within its file. */
  readonly name: string;
  /** Counted from 1. */
  readonly line: number;
  readonly vars: Readonly<Record<string, unknown>>;
  readonly messages: readonly Message[];
  /** Fields of the request beside its messages. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly assertions: readonly (Assertion | AssertionSet)[];
  /** The least score; absent: every assertion has to pass. */
  readonly threshold?: number;
  readonly repeat: number;
  /** Of its repetitions, that which has to pass; absent: all. */
  readonly share?: number;
};

export type GraderModel = {
  /** `<provider>/<model>`, or a persona. */
  readonly model: string;
  /** Sampling fields of its request. */
  readonly fields: Readonly<Record<string, unknown>>;
};

export type Assertion = {
  /** As written, with `not-`. */
  readonly type: string;
  /** Without `not-`. */
  readonly base: string;
  readonly isNegated: boolean;
  readonly value: unknown;
  readonly threshold?: number;
  readonly weight: number;
  readonly metric?: string;
  /** Present in an `llm-rubric`. */
  readonly grader?: GraderModel;
  readonly line: number;
};

export type AssertionSet = Pick<Assertion, "weight" | "metric" | "threshold" | "line"> & {
  readonly type: "assert-set";
  readonly assertions: readonly Assertion[];
};

/** The request of a test but for its model. @param declared names of the persona's variables */
export function requestOf(
  { messages, vars, fields }: Pick<TestCase, "messages" | "vars" | "fields">,
  declared: Iterable<string>,
): Record<string, unknown> & { messages: readonly Message[] } {
  const own = [...declared].filter((name) => Object.hasOwn(vars, name)).map((name) => [name, valueText(vars[name])]);
  const variables = { ...Object.fromEntries(own), ...(fields["variables"] as object | undefined) };
  return { ...fields, messages, ...(Object.keys(variables).length > 0 && { variables }) };
}

/** A variable's value as text: null is none. A line break at its end is left out, as promptfoo does: YAML's blocks have one. */
export function valueText(value: unknown): string {
  if (value === null) return "";
  return typeof value === "string" ? value.replace(/\n$/, "") : (JSON.stringify(value) ?? "");
}
