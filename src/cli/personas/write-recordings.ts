/** Reads and writes the recordings of `troupe personas test --record`, `<name>.test.recorded.yaml` beside the tests. */
import { writeFileSync } from "node:fs";
import { basename } from "node:path";
import type { Config } from "../../config/config.ts";
import type { Output } from "../../lib/process/io.ts";
import { printable } from "../../lib/text/printable.ts";
import { readRecording } from "../../operate/suites/recordings.ts";
import type { TestResult } from "../../operate/suites/run-tests.ts";
import type { LoadedSuite } from "../../operate/suites/suites.ts";
import { verdictReasonOf } from "../../operate/suites/test-report.ts";
import { recordingPath } from "../../personas/suites/find.ts";
import {
  formatRecordings,
  keepingSame,
  type Recording,
  recordedFrom,
  recordingKey,
  renderedFor,
} from "../../personas/suites/recording.ts";
import { CommandError } from "../context.ts";

type Kept = ReadonlyMap<string, Recording>;

/** What a model answered. `model` is absent for the personas' own. */
export type Recorded = { readonly model?: string | undefined; readonly results: readonly TestResult[] };

/** What is not asked keeps its recording, so that nothing is asked before all can be read. @throws CommandError */
export function assertReadable(suites: readonly LoadedSuite[]): void {
  for (const { suite } of suites) read(suite.file);
}

/** @throws CommandError for a file that can't be read */
function read(file: string): Kept {
  const found = readRecording(recordingPath(file));
  if (typeof found === "string") throw new CommandError(found);
  return found;
}

type Place = { readonly stderr: Output; readonly config: Config; readonly suites: readonly LoadedSuite[] };

/** Replaces what was recorded of the tests and models that were asked, and drops what is of no test. @throws CommandError */
export async function writeRecordings({ stderr, config, suites }: Place, recorded: readonly Recorded[]): Promise<void> {
  for (const { suite } of suites) {
    const path = recordingPath(suite.file);
    const before = read(suite.file);
    const asked = new Map(
      recorded.flatMap(({ model, results }) =>
        results
          .filter(({ prepared }) => prepared.file === suite.file)
          .map((result) => [recordingKey(result.prepared.test.name, model), { model, result }] as const),
      ),
    );
    const warn = (name: string, result: TestResult) =>
      stderr.write(`warning: ${basename(path)}: ${printable(name)} was not recorded: ${verdictReasonOf(result)}\n`);
    const recordings = suite.tests.flatMap(({ name }) => {
      const models = [...before.values(), ...recorded].map(({ model }) => model).filter((one) => one !== undefined);
      return [undefined, ...new Set(models.toSorted())].flatMap((model): Recording[] => {
        const key = recordingKey(name, model);
        const kept = before.get(key);
        const result = asked.get(key)?.result;
        if (result === undefined) return kept === undefined ? [] : [kept];
        const answers = answersOf(result, kept);
        if (answers !== undefined) return [recordingOf(name, model, result, answers)];
        warn(model === undefined ? name : `${name} (${model})`, result);
        return kept === undefined ? [] : [kept];
      });
    });
    if (recordings.length === 0) continue;
    const text = await formatRecordings(recordings);
    assertNoSecret(text, path, config);
    writeFileSync(path, text);
    stderr.write(`Recorded ${recordings.length} ${recordings.length === 1 ? "test" : "tests"} in ${path}.\n`);
  }
}

/** @returns undefined where one of the answers did not come */
function answersOf({ runs }: TestResult, kept: Recording | undefined): Recording["answers"] | undefined {
  const answers = runs.flatMap(({ answer, grades }) => (answer === undefined ? [] : [recordedFrom(answer, grades)]));
  return answers.length === runs.length ? keepingSame(kept?.answers ?? [], answers) : undefined;
}

const recordingOf = (
  test: string,
  model: string | undefined,
  { prepared }: TestResult,
  answers: Recording["answers"],
): Recording => ({
  test,
  ...(model !== undefined && { model }),
  request: renderedFor(prepared.rendered, model),
  answers,
});

/** A recording is committed: no provider's key may be in it, whatever an upstream answers. */
function assertNoSecret(text: string, path: string, config: Config): void {
  const leaked = config.providers.find(({ apiKey }) => apiKey && apiKey.length >= 8 && text.includes(apiKey));
  if (leaked !== undefined)
    throw new CommandError(`${path} was not written: an answer holds the key of ${leaked.name}.`);
}
