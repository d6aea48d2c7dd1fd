/**
 * Recordings of tests, `<name>.test.recorded.yaml` beside the test file: for each test the request that the persona made of it and the
 * answers that came. `--replay` answers from them. A file is the same for the same answers, so that a review shows what changed.
 */
import { type Static, Type } from "@sinclair/typebox";
import { isObject } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { Closed, Open } from "../../lib/json/schemas.ts";
import { snakeKeys } from "../../lib/text/snake-case.ts";
import { type Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import type { ToolCall } from "../../protocols/chat/schema.ts";
import type { Persona } from "../persona.ts";
import type { TestAnswer } from "./answer.ts";
import type { Grade } from "./rubric.ts";

const RecordedGrade = Closed({
  grader: Type.String(),
  rubric: Type.String(),
  pass: Type.Boolean(),
  score: Type.Number(),
  reason: Type.String(),
  cost: Type.Optional(Type.Number()),
});

const RecordedAnswer = Closed({
  content: Type.Optional(Type.String()),
  refusal: Type.Optional(Type.String()),
  tool_calls: Type.Optional(
    Type.Array(
      Closed({
        id: Type.String(),
        type: Type.Literal("function"),
        function: Closed({ name: Type.String(), arguments: Type.String() }),
      }),
    ),
  ),
  mcp_calls: Type.Optional(
    Type.Array(
      Closed({ server: Type.String(), tool: Type.String(), arguments: Type.String(), is_error: Type.Boolean() }),
    ),
  ),
  mcp_calls_omitted: Type.Optional(Type.Integer()),
  finish_reason: Type.Optional(Type.String()),
  usage: Type.Optional(Closed({ prompt_tokens: Type.Integer(), completion_tokens: Type.Integer() })),
  cost: Type.Optional(Type.Number({ description: "Dollars." })),
  latency_ms: Type.Number(),
  grades: Type.Optional(Type.Array(RecordedGrade)),
});

const RecordingFile = Closed({
  recordings: Type.Array(
    Closed({
      test: Type.String({ minLength: 1 }),
      model: Type.Optional(Type.String({ minLength: 1, description: "That answered in place of the persona's own." })),
      request: Open({}),
      answers: Type.Array(RecordedAnswer, { minItems: 1 }),
    }),
  ),
});

export type RecordedGrade = Static<typeof RecordedGrade>;
export type RecordedAnswer = Static<typeof RecordedAnswer>;
export type Recording = Static<typeof RecordingFile>["recordings"][number];

/** Recordings hold long answers. */
const maxLength = 16 * 1024 * 1024;

/** By this a recording is found. @param model that answered in place of the persona's own */
export const recordingKey = (test: string, model: string | undefined): string =>
  model === undefined ? test : `${test}\0${model}`;

/** @returns by `recordingKey` */
export function parseRecordings(
  text: string,
  file: string,
): { readonly recordings: ReadonlyMap<string, Recording> } | { readonly errors: readonly Diagnostic[] } {
  const source = new YamlSource(text, file, { maxLength });
  const errors = source.errors.length > 0 ? source.errors : source.check(RecordingFile, source.value ?? {});
  if (errors.length > 0) return { errors };
  const { recordings } = source.value as Static<typeof RecordingFile>;
  return { recordings: new Map(recordings.map((one) => [recordingKey(one.test, one.model), one])) };
}

const head = "# Written by 'troupe personas test --record'; --replay answers from it.\n";

export async function formatRecordings(recordings: readonly Recording[]): Promise<string> {
  const { stringify } = await import("yaml");
  return head + stringify({ recordings }, { lineWidth: 0, aliasDuplicateObjects: false });
}

export function recordedFrom(answer: TestAnswer, grades: readonly RecordedGrade[]): RecordedAnswer {
  const { content, refusal, toolCalls, mcp, finishReason, usage, cost, latencyMs } = answer;
  return {
    ...(content !== null && { content }),
    ...(refusal !== undefined && { refusal }),
    ...(toolCalls !== undefined && { tool_calls: toolCalls.map(plainCall) }),
    ...(mcp !== undefined && {
      mcp_calls: mcp.calls.map(({ server, tool, arguments: given, isError }) => ({
        ...{ server, tool, arguments: given },
        is_error: isError,
      })),
      ...(mcp.omitted > 0 && { mcp_calls_omitted: mcp.omitted }),
    }),
    ...(finishReason !== undefined && { finish_reason: finishReason }),
    ...(usage && { usage: { prompt_tokens: usage.prompt, completion_tokens: usage.completion } }),
    ...(cost !== undefined && { cost }),
    latency_ms: latencyMs,
    ...(grades.length > 0 && { grades: [...grades] }),
  };
}

const plainCall = ({ id, function: { name, arguments: given } }: ToolCall) => ({
  id,
  type: "function" as const,
  function: { name, arguments: given },
});

export function answerFrom(recorded: RecordedAnswer): TestAnswer {
  const { content, refusal, tool_calls: toolCalls, finish_reason: finishReason, usage, cost, mcp_calls } = recorded;
  return {
    content: content ?? null,
    ...(refusal !== undefined && { refusal }),
    ...(toolCalls !== undefined && { toolCalls }),
    ...(mcp_calls !== undefined && {
      mcp: {
        calls: mcp_calls.map(({ server, tool, arguments: given, is_error: isError }) => ({
          ...{ server, tool, arguments: given, isError },
        })),
        omitted: recorded.mcp_calls_omitted ?? 0,
      },
    }),
    ...(finishReason !== undefined && { finishReason }),
    ...(usage && { usage: { prompt: usage.prompt_tokens, completion: usage.completion_tokens } }),
    ...(cost !== undefined && { cost }),
    latencyMs: recorded.latency_ms,
  };
}

/** @returns undefined where the answer was not graded by that model and rubric */
export function gradeIn(
  { grades = [] }: RecordedAnswer,
  grader: string,
  rubric: string,
): (Grade & { readonly cost?: number }) | undefined {
  return grades.find((one) => one.grader === grader && one.rubric === rubric);
}

/**
 * The answers as they are recorded, in place of those before. Where nothing differs but the time and the ids that an upstream makes anew,
 * the earlier answer stays, so that no review shows a change that is none.
 */
export function keepingSame(before: readonly RecordedAnswer[], answers: readonly RecordedAnswer[]): RecordedAnswer[] {
  return answers.map((answer, at) => {
    const earlier = before[at];
    return earlier !== undefined && Bun.deepEquals(lasting(earlier), lasting(answer), true) ? earlier : answer;
  });
}

function lasting({ latency_ms: _, tool_calls, ...rest }: RecordedAnswer): object {
  return { ...rest, calls: tool_calls?.map((call) => call.function) ?? [] };
}

/**
 * A request as a recording holds it: what the persona made of the test, with what its knowledge and lorebook add, the models that it
 * asks, the tools by MCP that these may call meanwhile, and the versions of the skills that they may read.
 */
export const renderedRequest = (
  { targets: models, mcp, mcpLimits, skills }: Pick<Persona, "targets" | "mcp" | "mcpLimits" | "skills">,
  composed: object,
): Record<string, unknown> => {
  const limits = mcpLimits === undefined ? {} : { mcp_limits: snakeKeys(mcpLimits) };
  return JSON.parse(JSON.stringify({ models, ...composed, mcp, ...limits, skills: skills?.versions })) as Record<
    string,
    unknown
  >;
};

/** The same where another model answers. */
export const renderedFor = <T extends Readonly<Record<string, unknown>>>(rendered: T, model: string | undefined): T =>
  model === undefined ? rendered : { ...rendered, models: [model] };

const maxChanges = 4;
const maxShown = 80;

/** @returns each difference as a phrase with its path, some at most */
export function changesBetween(before: unknown, after: unknown): string[] {
  const changes = [...differences(before, after, [])];
  const more = changes.length - maxChanges;
  return more > 0 ? [...changes.slice(0, maxChanges), `${more} more`] : changes;
}

function* differences(before: unknown, after: unknown, path: readonly PathPart[]): Generator<string> {
  if (Bun.deepEquals(before, after, true)) return;
  if (Array.isArray(before) && Array.isArray(after)) {
    const { from, old, now } = between<unknown>(before, after);
    for (let at = 0; at < Math.max(old.length, now.length); at += 1)
      yield* differences(old[at], now[at], [...path, from + at]);
    return;
  }
  if (isObject(before) && isObject(after)) {
    for (const key of Object.keys({ ...before, ...after })) yield* differences(before[key], after[key], [...path, key]);
    return;
  }
  const place = formatPath(path);
  if (before === undefined) yield `${place} is new: ${shown(after)}`;
  else if (after === undefined) yield `${place} is gone: ${shown(before)}`;
  else if (typeof before === "string" && typeof after === "string") yield `${place}${changedLine(before, after)}`;
  else yield `${place}: ${shown(before)} → ${shown(after)}`;
}

function changedLine(before: string, after: string): string {
  const [old, now] = [before.split("\n"), after.split("\n")];
  const { from, ...lines } = between(old, now);
  const place = old.length > 1 || now.length > 1 ? ` line ${from + 1}` : "";
  const [gone, come] = [lines.old[0], lines.now[0]];
  if (gone === undefined) return `${place} is new: ${shown(come)}`;
  return come === undefined ? `${place} is gone: ${shown(gone)}` : `${place}: ${shown(gone)} → ${shown(come)}`;
}

/** What stands between the beginning and the end that two lists share: what was put in is not taken for what follows it. */
function between<T>(before: readonly T[], after: readonly T[]): { from: number; old: readonly T[]; now: readonly T[] } {
  const least = Math.min(before.length, after.length);
  const isSame = (one: T | undefined, other: T | undefined) => Bun.deepEquals(one, other, true);
  let from = 0;
  while (from < least && isSame(before[from], after[from])) from += 1;
  let end = 0;
  while (end < least - from && isSame(before.at(-1 - end), after.at(-1 - end))) end += 1;
  return { from, old: before.slice(from, before.length - end), now: after.slice(from, after.length - end) };
}

function shown(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
}
