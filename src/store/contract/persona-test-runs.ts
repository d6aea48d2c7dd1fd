/** The last run of each persona's tests, for all processes and nodes, and after a restart. */

export type TestRunCounts = {
  readonly persona: string;
  /** The version that was tested. */
  readonly version: string;
  /** When it began. */
  readonly at: number;
  readonly passed: number;
  readonly failed: number;
  /** Tests that could not be judged. */
  readonly errors: number;
};

/** @property run the results, as JSON */
export type TestRunRow = TestRunCounts & { readonly run: string };

/** The most personas whose runs are kept; beyond it the oldest run goes. */
export const maxTestRuns = 2_000;

export interface TestRunRepository {
  /** Takes the place of the persona's run before; not of one that began later. */
  put(row: TestRunRow): Promise<void>;
  get(persona: string): Promise<TestRunRow | undefined>;
  /** Of all personas, by their ids. */
  list(): Promise<TestRunCounts[]>;
}
