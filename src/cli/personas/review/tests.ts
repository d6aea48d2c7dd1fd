/** The tests of a persona on both sides: verdicts, the answers that differ, what they cost and how long they took. */

import { readIfThere } from "../../../lib/files/file-watch.ts";
import { formatDiagnostic } from "../../../lib/yaml/yaml.ts";
import {
  type Answers,
  LiveAnswers,
  ReplayedAnswers,
  type TestedServer,
  wantsRecording,
} from "../../../operate/suites/answers.ts";
import { readRecording } from "../../../operate/suites/recordings.ts";
import {
  type FindAdditions,
  type PlannedTest,
  planWhole,
  runTests,
  type TestResult,
} from "../../../operate/suites/run-tests.ts";
import { verdictReasonOf } from "../../../operate/suites/test-report.ts";
import type { Persona } from "../../../personas/persona.ts";
import type { TestReview, TestSide, Totals } from "../../../personas/review/report.ts";
import { outputOf, textOfOutput } from "../../../personas/suites/answer.ts";
import { recordingPath } from "../../../personas/suites/find.ts";
import type { TestCase } from "../../../personas/suites/suite.ts";
import { type ParsedTests, parseTestFile } from "../../../personas/suites/test-file.ts";
import type { Side } from "./sides.ts";

/** How one side is asked. */
export type AskedSide = {
  readonly side: Side;
  readonly find: FindAdditions;
  /** Absent: recordings answer. */
  readonly server?: TestedServer | undefined;
  /** Plans that were made already, and those that are made: absent where nothing is planned twice. */
  readonly plans?: Map<Persona, Planning> | undefined;
};

export type Planning = {
  readonly planned: readonly PlannedTest[];
  readonly file: string;
  readonly faults: readonly string[];
};
/** Results are absent where the test file has faults. */
type Ran = { readonly results?: ReadonlyMap<string, TestResult>; readonly faults: readonly string[] };

const concurrency = 4;

/** The latest test file: most have the same text on both sides, and to find its lines takes most of the time of reading it. */
let latest: { readonly key: string; readonly parsed: ParsedTests } | undefined;

function parseSuite(file: string, { id, variables }: Persona): ParsedTests {
  const text = readIfThere(file) ?? "";
  const declared = new Set(variables.keys());
  const key = JSON.stringify([id, [...declared], text]);
  if (latest?.key !== key || "errors" in latest.parsed)
    latest = { key, parsed: parseTestFile(text, file, { persona: id, declared }) };
  return latest.parsed;
}

/** A persona's tests on one side; without its variants, as tests are. */
export async function planSide(asking: AskedSide, persona: Persona | undefined): Promise<Planning | undefined> {
  const { side, plans } = asking;
  if (persona === undefined || !side.tests.has(persona.id)) return undefined;
  const plan = plans?.get(persona) ?? (await planned(asking, persona));
  plans?.set(persona, plan);
  return plan;
}

async function planned({ side, find }: AskedSide, persona: Persona): Promise<Planning> {
  const file = side.tests.get(persona.id)!;
  const parsed = parseSuite(file, persona);
  const faults = "errors" in parsed ? parsed.errors.map((error) => side.places(formatDiagnostic(error))) : [];
  const { variants: _, ...asked } = persona;
  const tests = "errors" in parsed ? [] : parsed.suite.tests;
  const made: PlannedTest[] = [];
  for (const test of tests) made.push(await planWhole(test, asked, file, find));
  return { planned: made, file, faults };
}

async function runSide(asked: AskedSide, persona: Persona | undefined): Promise<Ran> {
  const { side, server } = asked;
  const plan = await planSide(asked, persona);
  if (plan === undefined) return { results: new Map(), faults: [] };
  const { planned, file } = plan;
  if (plan.faults.length > 0) return { faults: plan.faults };
  const faults: string[] = [];
  let answers: Answers;
  if (server === undefined) {
    const recorded = readRecording(recordingPath(file));
    if (typeof recorded === "string") faults.push(side.places(recorded));
    answers = new ReplayedAnswers(new Map([[file, typeof recorded === "string" ? side.places(recorded) : recorded]]));
  } else
    answers = new LiveAnswers(
      server,
      (id) => id,
      (id) => side.personas.has(id),
    );
  const [results] = await runTests(planned, [{ label: "", answers }], { concurrency, onRun: () => {} });
  return { results: new Map(results!.map((one) => [one.prepared.test.name, one])), faults };
}

const none: ReadonlyMap<string, TestResult> = new Map();

type TestsReview = {
  readonly tests: readonly TestReview[];
  readonly same: number;
  readonly totals: { readonly before: Totals; readonly after: Totals };
  readonly faults: { readonly before: readonly string[]; readonly after: readonly string[] };
};

export async function reviewTests(
  before: AskedSide,
  after: AskedSide,
  pair: { readonly before?: Persona; readonly after?: Persona },
): Promise<TestsReview> {
  const [one, other] = [await runSide(before, pair.before), await runSide(after, pair.after)];
  const [old = none, now = none] = [one.results, other.results];
  const names = [...new Set([...old.keys(), ...now.keys()])];
  // Of a file with faults nobody knows which tests it has.
  const isWhole = one.results !== undefined && other.results !== undefined;
  const all = isWhole ? names.map((name) => comparison(name, old.get(name), now.get(name))) : [];
  const told = all.filter((review) => !isSame(review));
  const both = names.filter((name) => isAnswered(old.get(name)) && isAnswered(now.get(name)));
  return {
    tests: told,
    same: all.length - told.length,
    totals: { before: totalsOf(old, both), after: totalsOf(now, both) },
    faults: { before: one.faults, after: other.faults },
  };
}

function comparison(name: string, one: TestResult | undefined, other: TestResult | undefined): TestReview {
  const change =
    one === undefined
      ? "new"
      : other === undefined
        ? "gone"
        : Bun.deepEquals(lasting(one.prepared.test), lasting(other.prepared.test), true)
          ? "same"
          : "edited";
  return { name, change, ...(one && { before: sideOf(one) }), ...(other && { after: sideOf(other) }) };
}

/** A test but for where it stands in its file. */
const lasting = ({ line: _, ...test }: TestCase): unknown =>
  JSON.parse(JSON.stringify(test, (key, value: unknown) => (key === "line" ? undefined : value)));

function isSame({ change, before, after }: TestReview): boolean {
  if (change !== "same" || after?.verdict === "error") return false;
  return before?.verdict === after?.verdict && before?.answer === after?.answer;
}

/** The run that shows the verdict. */
const shownOf = ({ runs, verdict }: TestResult) => runs.find((run) => run.verdict === verdict) ?? runs[0];

function sideOf(result: TestResult): TestSide {
  const run = shownOf(result);
  const answer = run?.answer;
  const reason = verdictReasonOf(result);
  return {
    verdict: result.verdict,
    reason,
    ...(result.verdict === "error" && wantsRecording(reason) && { isUnrecorded: true as const }),
    ...(answer && { answer: textOfOutput(outputOf(answer)), latencyMs: answer.latencyMs }),
    ...(answer && run.cost !== undefined && { cost: run.cost }),
  };
}

const isAnswered = (result: TestResult | undefined) => result !== undefined && shownOf(result)?.answer !== undefined;

function totalsOf(results: ReadonlyMap<string, TestResult>, both: readonly string[]): Totals {
  const of = (verdict: string) => [...results.values()].filter((one) => one.verdict === verdict).length;
  const runs = both.flatMap((name) => results.get(name)!.runs).filter(({ answer }) => answer !== undefined);
  const costs = runs.map(({ cost }) => cost);
  const latencies = runs.map(({ answer }) => answer!.latencyMs).sort((a, b) => a - b);
  const isPriced = costs.length > 0 && !costs.includes(undefined);
  return {
    tests: results.size,
    passed: of("pass"),
    failed: of("fail"),
    errors: of("error"),
    ...(isPriced && { cost: (costs as number[]).reduce((sum, cost) => sum + cost, 0) / costs.length }),
    ...(latencies.length > 0 && { latencyMs: latencies[Math.floor((latencies.length - 1) / 2)]! }),
  };
}
