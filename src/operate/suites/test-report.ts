/** What tests came to, for people and as JSON. */
import { basename } from "node:path";
import { printable } from "../../lib/text/printable.ts";
import { outputOf, textOfOutput } from "../../personas/suites/answer.ts";
import { dollars } from "../../personas/suites/dollars.ts";
import type { AssertionResult, Verdict } from "../../personas/suites/score.ts";
import type { TestResult, TestRun } from "./run-tests.ts";

export type SideResult = { readonly label: string; readonly results: readonly TestResult[] };

export type Summary = {
  readonly tests: number;
  readonly passed: number;
  readonly failed: number;
  readonly errors: number;
  /** Answers that came. */
  readonly answers: number;
  /** Dollars of the calls whose cost is known. */
  readonly cost: number;
  readonly unknownCosts: number;
  /** The median of the answers' latencies; absent where there are none. */
  readonly latencyMs?: number;
};

export function testSummaryOf(results: readonly TestResult[]): Summary {
  const of = (verdict: Verdict) => results.filter((one) => one.verdict === verdict).length;
  const runs = results.flatMap((one) => one.runs);
  const answered = runs.flatMap(({ answer }) => (answer === undefined ? [] : [answer]));
  const latencies = answered.map(({ latencyMs }) => latencyMs).toSorted((a, b) => a - b);
  const latencyMs = latencies[Math.floor((latencies.length - 1) / 2)];
  return {
    tests: results.length,
    passed: of("pass"),
    failed: of("fail"),
    errors: of("error"),
    answers: answered.length,
    // Sums of decimal fractions have digits that nobody paid.
    cost: Number(runs.reduce((sum, { cost = 0 }) => sum + cost, 0).toFixed(9)),
    unknownCosts: runs.filter(({ cost }) => cost === undefined).length,
    ...(latencyMs !== undefined && { latencyMs }),
  };
}

const marks: Readonly<Record<Verdict, string>> = { pass: "pass ", fail: "FAIL ", error: "ERROR" };

/** The results of one side, by the personas' files. */
export function resultsText(results: readonly TestResult[]): string {
  const lines: string[] = [];
  let file = "";
  for (const result of results) {
    const { prepared, runs, verdict } = result;
    if (prepared.file !== file) {
      file = prepared.file;
      lines.push(`${prepared.persona.id}`);
    }
    const passed = runs.filter((run) => run.verdict === "pass").length;
    const repeated = runs.length > 1 ? `  ${passed} of ${runs.length} passed` : "";
    lines.push(`  ${marks[verdict]} ${printable(prepared.test.name)}${repeated}${measures(runs)}`);
    const shown = runs.find((run) => run.verdict === verdict);
    if (verdict !== "pass" && shown !== undefined) lines.push(...detailsOf(result, shown));
  }
  return lines.map((line) => `${line}\n`).join("");
}

function measures(runs: readonly TestRun[]): string {
  const [run] = runs;
  if (runs.length !== 1 || run?.answer === undefined) return "";
  return `  ${run.answer.latencyMs} ms${run.cost === undefined ? "" : `, ${dollars(run.cost)}`}`;
}

/** At most so much of an answer is shown; the JSON report has all of it. */
const maxShown = 400;

function detailsOf({ prepared }: TestResult, run: TestRun): string[] {
  const place = basename(prepared.file);
  const indent = "        ";
  const problems = run.problem === undefined ? [] : [`${indent}${place}:${prepared.test.line}: ${run.problem}`];
  const parts = flat(run.parts).filter(({ verdict }) => verdict !== "pass");
  const text = run.answer === undefined ? "" : textOfOutput(outputOf(run.answer));
  return [
    ...problems,
    ...parts.map(({ type, line, reason, metric }) => {
      const label = metric === undefined ? "" : ` (${metric})`;
      return `${indent}${place}:${line}: ${type}${label}: ${printable(reason)}`;
    }),
    ...(run.answer === undefined
      ? []
      : [
          `${indent}answer: ${printable(text.slice(0, maxShown).replaceAll("\n", " "))}${text.length > maxShown ? "…" : ""}`,
        ]),
  ];
}

const flat = (parts: readonly AssertionResult[]): AssertionResult[] =>
  parts.flatMap((part) => (part.parts === undefined ? [part] : [part, ...part.parts]));

export function testSummaryText(summary: Summary): string {
  const { tests, passed, failed, errors } = summary;
  const parts = [
    `${passed} passed`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(errors > 0 ? [`${errors} ${errors === 1 ? "error" : "errors"}`] : []),
  ];
  return `${parts.join(", ")}; ${tests} ${tests === 1 ? "test" : "tests"}, ${costWords(summary)}`;
}

function costWords({ answers, cost, unknownCosts }: Summary): string {
  const unknown = unknownCosts === 0 ? "" : `, and ${unknownCosts} at an unknown cost`;
  return `${answers} ${answers === 1 ? "answer" : "answers"}, ${dollars(cost)}${unknown}`;
}

/** Two sides beside each other, and the tests whose verdicts differ. */
export function comparisonText([one, other]: readonly [SideResult, SideResult]): string {
  const columns = [one, other].map(({ results }) => testSummaryOf(results));
  const row = (name: string, cell: (summary: Summary) => string) => [name, ...columns.map(cell)];
  const rows = [
    row("passed", ({ passed, tests }) => `${passed} of ${tests}`),
    row("failed", ({ failed }) => String(failed)),
    row("errors", ({ errors }) => String(errors)),
    row(
      "cost",
      ({ cost, unknownCosts }) => `${dollars(cost)}${unknownCosts === 0 ? "" : ` + ${unknownCosts} unknown`}`,
    ),
    row("latency (median)", ({ latencyMs }) => (latencyMs === undefined ? "-" : `${latencyMs} ms`)),
  ];
  const changes = changesOf([one, other]);
  const words = changes.map(({ name, persona, before, after, reason }) => {
    const why = reason === "" ? "" : `: ${printable(reason)}`;
    return `  ${before} → ${after}  ${persona}: ${printable(name)}${why}\n`;
  });
  const widths = [0, 1].map((at) =>
    Math.max(...[["", one.label, other.label], ...rows].map((cells) => Bun.stringWidth(cells[at]!))),
  );
  const line = ([name, left, right]: readonly string[]) =>
    `${name!.padEnd(widths[0]!)}  ${left!.padEnd(widths[1]!)}  ${right}`.trimEnd();
  const table = [["", one.label, other.label], ...rows].map((cells) => `${line(cells)}\n`).join("");
  return `${table}${changes.length === 0 ? "No verdict differs.\n" : `Verdicts that differ:\n${words.join("")}`}`;
}

export type Change = {
  readonly persona: string;
  readonly name: string;
  readonly before: Verdict;
  readonly after: Verdict;
  /** Of the side that did not pass. */
  readonly reason: string;
};

/** The tests whose verdict is another on the second side. */
export function changesOf([one, other]: readonly [SideResult, SideResult]): Change[] {
  return one.results.flatMap((before, at) => {
    const after = other.results[at]!;
    if (before.verdict === after.verdict) return [];
    const worse = after.verdict === "pass" ? before : after;
    return [
      {
        persona: before.prepared.persona.id,
        name: before.prepared.test.name,
        before: before.verdict,
        after: after.verdict,
        reason: verdictReasonOf(worse),
      },
    ];
  });
}

/** The first reason for which a test did not pass; "" where it did. */
export function verdictReasonOf({ runs, verdict }: TestResult): string {
  const run = runs.find((one) => one.verdict === verdict);
  if (verdict === "pass" || run === undefined) return "";
  if (run.problem !== undefined) return run.problem;
  const part = flat(run.parts).find((one) => one.verdict === verdict && one.reason !== "" && one.parts === undefined);
  return part === undefined ? `the score is ${run.score.toFixed(2)}` : `${part.type}: ${part.reason}`;
}

const partJson = ({ type, verdict, score, reason, weight, metric, line, parts }: AssertionResult): object => ({
  ...{ type, verdict, score, reason, weight, line },
  ...(metric !== undefined && { metric }),
  ...(parts && { parts: parts.map(partJson) }),
});

const runJson = ({ verdict, score, parts, answer, cost, problem }: TestRun) => ({
  verdict,
  score,
  ...(problem !== undefined && { problem }),
  ...(answer && {
    output: outputOf(answer),
    ...(answer.version !== undefined && { version: answer.version }),
    finish_reason: answer.finishReason ?? null,
    latency_ms: answer.latencyMs,
  }),
  cost: cost ?? null,
  assertions: parts.map(partJson),
});

/** The report that `--json` writes. @param more members of each side; given: the sides are no two to be compared */
export function reportJson(sides: readonly SideResult[], more?: (side: SideResult) => object): object {
  const [one, other] = sides;
  return {
    sides: sides.map((side) => {
      const { label, results } = side;
      const { unknownCosts, latencyMs, ...summary } = testSummaryOf(results);
      return {
        side: label,
        ...more?.(side),
        summary: { ...summary, unknown_costs: unknownCosts, latency_ms: latencyMs ?? null },
        tests: results.map(({ prepared, runs, verdict }) => ({
          persona: prepared.persona.id,
          test: prepared.test.name,
          file: prepared.file,
          line: prepared.test.line,
          verdict,
          runs: runs.map(runJson),
        })),
      };
    }),
    ...(one && other && more === undefined && { changes: changesOf([one, other]) }),
  };
}
