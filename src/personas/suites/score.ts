/**
 * The score of a test: the weighted mean of its assertions' scores. With a threshold it decides, else every assertion has to pass.
 * Source: https://www.promptfoo.dev/docs/configuration/expected-outputs/#weighted-assertions
 */
import type { Judgement } from "./evaluate.ts";

export type Verdict = "pass" | "fail" | "error";

/** One assertion of a test that was judged, or could not be. */
export type AssertionResult = {
  readonly type: string;
  readonly verdict: Verdict;
  readonly score: number;
  readonly reason: string;
  readonly weight: number;
  readonly metric?: string;
  readonly line: number;
  /** Of an `assert-set`. */
  readonly parts?: readonly AssertionResult[];
};

/** @returns a result by what was judged; one without weight is for information, and always passes, as in promptfoo */
export const resultOf = (
  { type, weight, metric, line }: Pick<AssertionResult, "type" | "weight" | "metric" | "line">,
  { isPass, score, reason }: Judgement,
): AssertionResult => ({
  type,
  verdict: isPass || weight === 0 ? "pass" : "fail",
  score,
  reason,
  weight,
  ...(metric !== undefined && { metric }),
  line,
});

/** The verdict on a test, or a set, by its parts. What could not be judged is an error where it may have changed the verdict. */
export function scoreOf(
  parts: readonly AssertionResult[],
  threshold: number | undefined,
): { readonly verdict: Verdict; readonly score: number } {
  const weight = parts.reduce((sum, part) => sum + part.weight, 0);
  const total = (scores: (part: AssertionResult) => number) =>
    weight === 0 ? 0 : parts.reduce((sum, part) => sum + scores(part) * part.weight, 0) / weight;
  const score = parts.length === 0 ? 1 : total(({ score }) => score);
  if (threshold !== undefined) {
    const best = parts.length === 0 ? 1 : total(({ verdict, score }) => (verdict === "error" ? 1 : score));
    return { verdict: score >= threshold ? "pass" : best >= threshold ? "error" : "fail", score };
  }
  if (parts.some(({ verdict }) => verdict === "fail")) return { verdict: "fail", score };
  return { verdict: parts.some(({ verdict }) => verdict === "error") ? "error" : "pass", score };
}

/** The verdict on repetitions. @param share of them that has to pass, from 0 to 1 */
export function verdictOf(verdicts: readonly Verdict[], share: number): Verdict {
  const count = (wanted: Verdict) => verdicts.filter((one) => one === wanted).length;
  const needed = share * verdicts.length - 1e-9;
  if (count("pass") >= needed) return "pass";
  return count("pass") + count("error") >= needed ? "error" : "fail";
}
