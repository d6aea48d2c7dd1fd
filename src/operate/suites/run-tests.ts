/** Runs tests: asks, judges, and adds up repetitions. */
import type { Additions } from "../../personas/knowledge/additions.ts";
import type { Persona } from "../../personas/persona.ts";
import { outputOf, type TestAnswer, textOfOutput } from "../../personas/suites/answer.ts";
import { evaluate } from "../../personas/suites/evaluate.ts";
import { NotJudged } from "../../personas/suites/not-judged.ts";
import type { RecordedGrade } from "../../personas/suites/recording.ts";
import { judgeByGrade } from "../../personas/suites/rubric.ts";
import { type AssertionResult, resultOf, scoreOf, type Verdict, verdictOf } from "../../personas/suites/score.ts";
import type { Assertion, AssertionSet, TestCase } from "../../personas/suites/suite.ts";
import type { ChatRequest, Tool } from "../../protocols/chat/schema.ts";
import { type Answers, type PreparedTest, prepare, refusalOf } from "./answers.ts";

/** One time that a test was asked. */
export type TestRun = {
  readonly verdict: Verdict;
  readonly score: number;
  readonly parts: readonly AssertionResult[];
  /** Absent: there was none. */
  readonly answer?: TestAnswer;
  readonly grades: readonly RecordedGrade[];
  /** Dollars of the answer and its grades; undefined: unknown. */
  readonly cost: number | undefined;
  /** Why there is no verdict on the answer as a whole. */
  readonly problem?: string;
};

export type TestResult = {
  readonly prepared: PreparedTest;
  readonly runs: readonly TestRun[];
  readonly verdict: Verdict;
};

/** Those who are asked: the personas as they are, or another version or model of them. */
export type TestedSide = { readonly label: string; readonly answers: Answers };

/** A test that can't be asked, as its persona refuses it, has a problem in place of a request. */
export type PlannedTest = { readonly test: TestCase; readonly prepared: PreparedTest; readonly problem?: string };

export function planTest(test: TestCase, persona: Persona, file: string, additions?: Additions): PlannedTest {
  try {
    return { test, prepared: prepare(test, persona, file, additions) };
  } catch (error) {
    const request = { model: persona.id, messages: [...test.messages] };
    return { test, prepared: { test, persona, file, request, rendered: {} }, problem: refusalOf(error) };
  }
}

/** What a persona's knowledge and lorebook add to a request. */
export type FindAdditions = (persona: Persona, request: ChatRequest) => Promise<Additions | undefined>;

/** The same with all that goes into the request. */
export async function planWhole(
  test: TestCase,
  persona: Persona,
  file: string,
  find: FindAdditions,
): Promise<PlannedTest> {
  const plain = planTest(test, persona, file);
  if (plain.problem !== undefined || (persona.knowledge ?? persona.lorebook) === undefined) return plain;
  return planTest(test, persona, file, await find(persona, plain.prepared.request));
}

type RunOptions = {
  readonly concurrency: number;
  /** How often each is asked; absent: as its file says. */
  readonly repeat?: number | undefined;
  /** The share of repetitions that has to pass; absent: as each test says, else all. */
  readonly threshold?: number | undefined;
  /** Called after each time that a test was asked. */
  readonly onRun: (planned: PlannedTest, side: TestedSide, run: TestRun) => void;
};

export const repetitionsOf = ({ test }: PlannedTest, repeat: number | undefined): number => repeat ?? test.repeat;

/** @returns for each side the results, in the order of the tests */
export async function runTests(
  tests: readonly PlannedTest[],
  sides: readonly TestedSide[],
  { concurrency, repeat, threshold, onRun }: RunOptions,
): Promise<TestResult[][]> {
  const runs = sides.map(() => tests.map((planned) => new Array<TestRun>(repetitionsOf(planned, repeat))));
  const jobs = tests.flatMap((planned, at) =>
    sides.flatMap((side, sideAt) =>
      Array.from({ length: repetitionsOf(planned, repeat) }, (_, repetition) => async () => {
        const run = await runOnce(planned, side.answers, repetition);
        runs[sideAt]![at]![repetition] = run;
        onRun(planned, side, run);
      }),
    ),
  );
  let next = 0;
  const work = async () => {
    while (next < jobs.length) {
      next += 1;
      await jobs[next - 1]!();
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, jobs.length) }, work));
  return runs.map((ofSide) =>
    ofSide.map((ofTest, at) => {
      const verdicts = ofTest.map(({ verdict }) => verdict);
      const { test, prepared } = tests[at]!;
      return { prepared, runs: ofTest, verdict: verdictOf(verdicts, threshold ?? test.share ?? 1) };
    }),
  );
}

const failed = (problem: string): TestRun => ({ verdict: "error", score: 0, parts: [], grades: [], cost: 0, problem });

async function runOnce({ prepared, problem }: PlannedTest, answers: Answers, repetition: number): Promise<TestRun> {
  if (problem !== undefined) return failed(problem);
  let answer: TestAnswer;
  try {
    answer = await answers.answer(prepared, repetition);
  } catch (error) {
    if (error instanceof NotJudged) return failed(error.message);
    throw error;
  }
  return new Judge(prepared, answers, repetition, answer).judge();
}

class Judge {
  readonly #prepared: PreparedTest;
  readonly #answers: Answers;
  readonly #repetition: number;
  readonly #answer: TestAnswer;
  readonly #tools: readonly Tool[];
  readonly #grades: RecordedGrade[] = [];
  #cost: number | undefined;

  constructor(prepared: PreparedTest, answers: Answers, repetition: number, answer: TestAnswer) {
    this.#prepared = prepared;
    this.#answers = answers;
    this.#repetition = repetition;
    this.#answer = answer;
    this.#tools = (prepared.rendered["tools"] ?? []) as Tool[];
    this.#cost = answer.cost;
  }

  async judge(): Promise<TestRun> {
    const { assertions, threshold } = this.#prepared.test;
    const parts: AssertionResult[] = [];
    for (const assertion of assertions) parts.push(await this.#judgeOne(assertion));
    const { verdict, score } = scoreOf(parts, threshold);
    return { verdict, score, parts, answer: this.#answer, grades: this.#grades, cost: this.#cost };
  }

  async #judgeOne(one: Assertion | AssertionSet): Promise<AssertionResult> {
    if (!("assertions" in one)) return this.#judgeSingle(one);
    const parts: AssertionResult[] = [];
    for (const inner of one.assertions) parts.push(await this.#judgeSingle(inner));
    const { verdict, score } = scoreOf(parts, one.threshold);
    const { type, weight, metric, line } = one;
    const reason = verdict === "fail" ? `the set's score is ${score.toFixed(2)}` : "";
    return { type, verdict, score, reason, weight, ...(metric !== undefined && { metric }), line, parts };
  }

  async #judgeSingle(assertion: Assertion): Promise<AssertionResult> {
    try {
      const isGraded = assertion.base === "llm-rubric";
      return resultOf(
        assertion,
        isGraded ? await this.#grade(assertion) : evaluate(assertion, this.#answer, this.#tools),
      );
    } catch (error) {
      if (!(error instanceof NotJudged)) throw error;
      const { type, weight, metric, line } = assertion;
      const verdict = weight === 0 ? "pass" : "error";
      return { type, verdict, score: 0, reason: error.message, weight, ...(metric !== undefined && { metric }), line };
    }
  }

  async #grade(assertion: Assertion) {
    const output = textOfOutput(outputOf(this.#answer));
    const { cost, ...grade } = await this.#answers.grade(this.#prepared, this.#repetition, assertion, output);
    this.#cost = this.#cost === undefined || cost === undefined ? undefined : this.#cost + cost;
    const { pass, score, reason } = grade;
    this.#grades.push({
      grader: assertion.grader!.model,
      rubric: assertion.value as string,
      ...{ pass, score, reason },
      ...(cost !== undefined && { cost }),
    });
    return judgeByGrade(assertion, grade);
  }
}
