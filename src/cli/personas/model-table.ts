/** Which model would do: one table of the verdicts, costs, times and tokens of several models, in all and by persona and test. */

import { printable } from "../../lib/text/printable.ts";
import type { TestResult } from "../../operate/suites/run-tests.ts";
import { type SideResult, testSummaryOf, verdictReasonOf } from "../../operate/suites/test-report.ts";
import { dollars } from "../../personas/suites/dollars.ts";
import { formatTable } from "../print/table.ts";

type Measures = {
  /** Dollars of the answers, without those of grades; undefined where one of them is unknown, or none came. */
  readonly cost: number | undefined;
  /** Answers whose cost is unknown. */
  readonly unpriced: number;
  /** Milliseconds; absent without answers. */
  readonly p50?: number;
  readonly p95?: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
};

function measuresOf(results: readonly TestResult[]): Measures {
  const answers = results.flatMap(({ runs }) => runs.flatMap(({ answer }) => answer ?? []));
  const unpriced = answers.filter(({ cost }) => cost === undefined).length;
  const latencies = answers.map(({ latencyMs }) => latencyMs).sort((one, other) => one - other);
  const isKnown = answers.length > 0 && unpriced === 0;
  return {
    // Sums of decimal fractions have digits that nobody paid.
    cost: isKnown ? Number(answers.reduce((sum, { cost = 0 }) => sum + cost, 0).toFixed(9)) : undefined,
    unpriced,
    ...(latencies.length > 0 && { p50: rank(latencies, 0.5), p95: rank(latencies, 0.95) }),
    promptTokens: answers.reduce((sum, { usage }) => sum + (usage?.prompt ?? 0), 0),
    completionTokens: answers.reduce((sum, { usage }) => sum + (usage?.completion ?? 0), 0),
  };
}

/** The nearest rank. @param sorted not empty */
const rank = (sorted: readonly number[], share: number): number =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)]!;

const isWhole = ({ results }: SideResult) => results.every(({ verdict }) => verdict === "pass");
const passedOf = ({ results }: SideResult) => results.filter(({ verdict }) => verdict === "pass").length;

/** Those that pass every test first, the cheapest of them before the others; then by how many they pass. */
export function byCost(sides: readonly SideResult[]): SideResult[] {
  const costs = new Map(sides.map((side) => [side, measuresOf(side.results).cost ?? Number.POSITIVE_INFINITY]));
  return sides.toSorted((one, other) => {
    const [cost, otherCost] = [costs.get(one)!, costs.get(other)!];
    return passedOf(other) - passedOf(one) || (cost === otherCost ? 0 : cost - otherCost);
  });
}

const columns = ["", "verdict", "cost", "p50", "p95", "tokens in", "out"] as const;
const milliseconds = (value: number | undefined) => (value === undefined ? undefined : `${value} ms`);

function row(name: string, verdict: string, results: readonly TestResult[]): (string | undefined)[] {
  const { cost, unpriced, p50, p95, promptTokens, completionTokens } = measuresOf(results);
  const price = cost === undefined ? (unpriced > 0 ? "unknown" : undefined) : dollars(cost);
  const tokens = p50 === undefined ? [undefined, undefined] : [String(promptTokens), String(completionTokens)];
  return [name, verdict, price, milliseconds(p50), milliseconds(p95), ...tokens];
}

/** The test in one word, or in how many of its repetitions it passed. */
function verdictWords({ runs, verdict }: TestResult): string {
  const word = verdict === "pass" ? verdict : verdict.toUpperCase();
  const passed = runs.filter((run) => run.verdict === "pass").length;
  return runs.length > 1 ? `${word} (${passed} of ${runs.length})` : word;
}

/** @param sides of the same tests, not empty, in the order that they are shown in */
export function modelTable(sides: readonly SideResult[]): string {
  const [first] = sides;
  const head = (title: string) => [printable(title), ...columns.slice(1).map(() => "")];
  const names = sides.map(({ label }) => `  ${printable(label)}`);
  const all = sides.map(({ results }, at) => {
    const { passed, tests, errors } = testSummaryOf(results);
    const lost = errors === 0 ? "" : `, ${errors} ${errors === 1 ? "error" : "errors"}`;
    return row(names[at]!, `${passed} of ${tests}${lost}`, results);
  });
  const tests = first!.results.flatMap(({ prepared: { persona, test } }, number) => [
    head(`${persona.id}: ${test.name}`),
    ...sides.map(({ results }, at) => row(names[at]!, verdictWords(results[number]!), [results[number]!])),
  ]);
  return [formatTable(columns, [head("all tests"), ...all, ...tests]), lostWords(sides), answerWords(sides)].join("");
}

function lostWords(sides: readonly SideResult[]): string {
  const lines = sides.flatMap(({ label, results }) =>
    results
      .filter(({ verdict }) => verdict !== "pass")
      .map((result) => {
        const { persona, test } = result.prepared;
        return `  ${result.verdict}  ${label}: ${persona.id}: ${test.name}: ${verdictReasonOf(result)}`;
      }),
  );
  return lines.length === 0 ? "" : `Not passed:\n${lines.map((line) => `${printable(line)}\n`).join("")}`;
}

function answerWords(sides: readonly SideResult[]): string {
  const unpriced = sides.filter(({ results }) => measuresOf(results).unpriced > 0).map(({ label }) => label);
  const unknown = unpriced.length === 0 ? "" : `No price is known of ${printable(unpriced.join(", "))}.\n`;
  const [best] = sides;
  const cost = measuresOf(best!.results).cost;
  const price = cost === undefined ? "at an unknown cost" : `for ${dollars(cost)}`;
  const answer = isWhole(best!) ? `${printable(best!.label)} passes all, ${price}.\n` : "None of them passes all.\n";
  return `${unknown}${answer}`;
}

/** What the table says, for `--json`: by side, beside the tests. */
export function measuresJson({ results }: SideResult): object {
  const { cost, unpriced, p50, p95, promptTokens, completionTokens } = measuresOf(results);
  return {
    passes: results.every(({ verdict }) => verdict === "pass"),
    answers_cost: cost ?? null,
    unpriced_answers: unpriced,
    latency_p50_ms: p50 ?? null,
    latency_p95_ms: p95 ?? null,
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
  };
}
