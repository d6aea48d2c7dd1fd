/** A report of what a branch changes in personas: its shape, and what it comes to. Pure. */
import { createTwoFilesPatch } from "diff";
import { isObject } from "../../lib/json/json.ts";
import { snakeCase } from "../../lib/text/snake-case.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { dollars } from "../suites/dollars.ts";
import type { Verdict } from "../suites/score.ts";
import type { FailOn } from "./fail-on.ts";

export type TestSide = {
  readonly verdict: Verdict;
  /** Why it did not pass; "" where it did. */
  readonly reason: string;
  /** True where there is no recording of it, or an older persona's. */
  readonly isUnrecorded?: true;
  /** Absent: there is none. */
  readonly answer?: string;
  /** Dollars; absent: unknown. */
  readonly cost?: number;
  readonly latencyMs?: number;
};

export type TestReview = {
  readonly name: string;
  /** `edited`: the test itself is another on each side, so that each answer is of its own test. */
  readonly change: "same" | "edited" | "new" | "gone";
  /** Absent where the side does not have the test. */
  readonly before?: TestSide;
  readonly after?: TestSide;
};

export type FileReview = {
  readonly file: string;
  readonly change: "changed" | "new" | "gone" | "moved";
  readonly from?: string;
  /** A unified diff without headers; absent where nothing is shown. */
  readonly patch?: string;
};

export type RequestReview = {
  /** `<provider>/<model>` */
  readonly model: string;
  readonly change: "same" | "changed" | "new" | "gone";
  /** What changes in the body that it is sent, as phrases; or why nothing can be sent. */
  readonly changes: readonly string[];
};

export type Totals = {
  readonly tests: number;
  readonly passed: number;
  readonly failed: number;
  readonly errors: number;
  /** Dollars of an answer on average, of those that both sides have; absent: unknown. */
  readonly cost?: number;
  /** The median of those that both sides have. */
  readonly latencyMs?: number;
};

export type PersonaReview = {
  readonly id: string;
  readonly change: "changed" | "new" | "gone" | "renamed" | "same";
  /** Its id before, where it is renamed. */
  readonly from?: string;
  readonly before?: { readonly version: string };
  readonly after?: { readonly version: string };
  /** Sentences without their subject; Markdown's code marks stand around names. */
  readonly mustSee: readonly string[];
  /** The content with its includes in place, as a unified diff without headers; "" where it is the same. */
  readonly patch: string;
  readonly knowledge: readonly FileReview[];
  readonly requests: readonly RequestReview[];
  /** Dollars that a call costs at most by prices, the texts' length and the bound of the answer; absent: unknown. */
  readonly price: { readonly before?: number; readonly after?: number };
  /** Those about which there is something to say. */
  readonly tests: readonly TestReview[];
  /** Tests with the same verdict and answer on both sides. */
  readonly sameTests: number;
  readonly totals: { readonly before: Totals; readonly after: Totals };
};

export type Report = {
  readonly against: { readonly ref: string; readonly commit: string; readonly isForkPoint: boolean };
  readonly isLive: boolean;
  /** What holds of the whole, as sentences. */
  readonly notes: readonly string[];
  /** Files that can't be read, each behind its place. */
  readonly faults: { readonly before: readonly string[]; readonly after: readonly string[] };
  /** Files that several personas include. */
  readonly shared: readonly { readonly file: string; readonly personas: readonly string[] }[];
  /** Labels that name another version. */
  readonly labels: readonly { readonly label: string; readonly before?: string; readonly after?: string }[];
  readonly personas: readonly PersonaReview[];
  /** Personas of which nothing is changed. */
  readonly unchanged: number;
};

/** Beyond these nobody reads a diff. */
const maxPatch = 200_000;
const maxEditLength = 2000;

/** @returns a unified diff without its headers; "" where the texts are the same */
export function patchOf(before: string, after: string): string {
  if (before === after) return "";
  const sizes = `@@ ${before.length} → ${after.length} characters, in which little is the same @@`;
  if (before.length + after.length > maxPatch) return sizes;
  const patch = createTwoFilesPatch("a", "b", before, after, undefined, undefined, { context: 2, maxEditLength });
  return patch === undefined ? sizes : patch.slice(patch.indexOf("@@")).trimEnd();
}

/** What a reviewer must see of a persona, the worst first: sentences without their subject. */
export function mustSeeOf(persona: PersonaReview): string[] {
  const { tests, mustSee, price, totals } = persona;
  const worse = tests.filter(isRegression);
  const [old, come] = [worse.filter(({ before }) => before !== undefined), worse.filter(({ before }) => !before)];
  const said: string[] = [];
  if (old.length > 0) said.push(`fails ${counted(old.length, "test", "tests")} that it passed before: ${few(old)}`);
  if (come.length > 0) said.push(`fails ${counted(come.length, "new test", "new tests")}: ${few(come)}`);
  const gone = tests.filter(({ change }) => change === "gone").length;
  if (gone > 0 && persona.change !== "gone") said.push(`has ${counted(gone, "test", "tests")} less`);
  said.push(...mustSee);
  const priced = riseOf(price.before, price.after);
  const answered = riseOf(totals.before.cost, totals.after.cost);
  if (priced !== undefined && priced >= dearer)
    said.push(
      `may cost more: a plain call ${dollars(price.before!)} → ${dollars(price.after!)} at most (${percent(priced)})`,
    );
  if (answered !== undefined && answered >= dearer)
    said.push(
      `costs more: an answer ${dollars(totals.before.cost!)} → ${dollars(totals.after.cost!)} (${percent(answered)})`,
    );
  const unrecorded = tests.filter(({ after }) => after?.isUnrecorded).length;
  if (unrecorded > 0)
    said.push(
      `has ${counted(unrecorded, "test whose recording is", "tests whose recordings are")} missing or older than this change: record anew`,
    );
  const unjudged = tests.filter(({ after }) => after?.verdict === "error" && !after.isUnrecorded).length;
  if (unjudged > 0) said.push(`has ${counted(unjudged, "test that can't be judged", "tests that can't be judged")}`);
  return said;
}

/** All that must be seen, by persona: those whose tests fail first, and new ones last, as lists may be cut. */
export function allMustSee({ personas }: Report): { readonly id: string; readonly words: string }[] {
  const rank = ({ tests, change }: PersonaReview) => (tests.some(isRegression) ? 0 : change === "new" ? 2 : 1);
  return personas
    .toSorted((one, other) => rank(one) - rank(other))
    .flatMap((persona) => mustSeeOf(persona).map((words) => ({ id: persona.id, words })));
}

const maxNamed = 3;

const few = (tests: readonly TestReview[]): string => {
  const shown = tests.slice(0, maxNamed).map(
    ({ name }) =>
      `\`${truncate(name, 80)
        .replace(/[`\s]+/g, " ")
        .trim()}\``,
  );
  return `${shown.join(", ")}${tests.length > maxNamed ? " and others" : ""}`;
};

/** A rise that is worth a reviewer's look. */
const dearer = 0.1;

export const isRegression = ({ before, after }: TestReview): boolean =>
  after?.verdict === "fail" && (before === undefined || before.verdict === "pass");

/** The rise of what a persona costs: of its answers where both sides have some, else of the price of a call. */
const costRise = ({ totals, price }: PersonaReview): number | undefined =>
  riseOf(totals.before.cost, totals.after.cost) ?? riseOf(price.before, price.after);

const latencyRise = ({ totals }: PersonaReview): number | undefined =>
  riseOf(totals.before.latencyMs, totals.after.latencyMs);

/** @returns 0.2 for 20 % more */
export function riseOf(before: number | undefined, after: number | undefined): number | undefined {
  if (before === undefined || after === undefined) return undefined;
  if (before === 0) return after === 0 ? 0 : Number.POSITIVE_INFINITY;
  return after / before - 1;
}

/** @returns what fails, as sentences; `isError` where only a verdict is missing */
export function failuresOf(report: Report, on: FailOn): { readonly said: string[]; readonly isError: boolean } {
  const said: string[] = [];
  for (const persona of report.personas) {
    const { id, tests } = persona;
    const worse = tests.filter(isRegression);
    if (on.regression && worse.length > 0)
      said.push(`${id}: ${counted(worse.length, "test fails", "tests fail")} that did not before`);
    for (const [what, rise] of [
      ["cost", costRise(persona)],
      ["latency", latencyRise(persona)],
    ] as const) {
      const most = on[what];
      // Shares of decimal fractions are not exact.
      if (most !== undefined && rise !== undefined && rise > most + 1e-9)
        said.push(`${id}: ${what} ${percent(rise)}, more than +${Number((most * 100).toFixed(2))} %`);
    }
  }
  if (said.length > 0 || !on.error) return { said, isError: false };
  const unjudged = report.personas.reduce(
    (sum, { tests }) => sum + tests.filter(({ after }) => after?.verdict === "error").length,
    0,
  );
  const { after: faults } = report.faults;
  if (faults.length > 0) said.push(counted(faults.length, "fault in files", "faults in files"));
  if (unjudged > 0) said.push(counted(unjudged, "test could not be judged", "tests could not be judged"));
  return { said, isError: said.length > 0 };
}

export const counted = (number: number, one: string, several: string): string =>
  `${number} ${number === 1 ? one : several}`;

export function percent(rise: number): string {
  if (!Number.isFinite(rise)) return "from nothing";
  const share = Math.round(rise * 100);
  return `${share > 0 ? "+" : share < 0 ? "−" : "±"}${Math.abs(share)} %`;
}

export const jsonOf = (report: Report): unknown => snakeJson({ ...report, mustSee: allMustSee(report) });

/** A part of a report as JSON has it; no object in it has names of authors. */
export const snakeJson = (value: object): unknown =>
  JSON.parse(JSON.stringify(value), (_, value: unknown) =>
    isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [snakeCase(key), inner])) : value,
  );
