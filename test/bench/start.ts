/** From exec to the first answer, and what is resident when idle: of Troupe with a hundred personas, and of the others. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { call } from "./calls.ts";
import { proportionalBytes, residentBytes } from "./process-stats.ts";
import { type Row, summarise } from "./report.ts";
import type { Bench } from "./rounds.ts";
import type { Subject } from "./subjects.ts";

export const startScenario = {
  name: "start",
  about: "from exec to the first answer, with 100 personas; memory when idle",
};

type Sample = { readonly ms: number; readonly residentMb: number; readonly proportionalMb: number };
type Start = { readonly label: string; run(): Promise<Sample> };

/** One for each persona. */
const calls = Array.from({ length: 100 }, (_, at) => call({ surface: "persona", shape: `-f${at + 1}` }));
const maxMs = 60;
const maxResidentMb = 90;
const megabyte = 1024 * 1024;

async function sample(bench: Bench, subject: Subject, folder: string, idleSeconds: number): Promise<Sample> {
  const { pids, firstAnswerMs, stop } = await subject.start({ ...bench, folder, calls });
  await Bun.sleep(idleSeconds * 1e3);
  const memory = { residentMb: residentBytes(pids) / megabyte, proportionalMb: proportionalBytes(pids) / megabyte };
  await stop();
  return { ms: firstAnswerMs, ...memory };
}

/** Takes the file out of the page cache, so that the next start reads the disk. */
async function forgetPages(file: string): Promise<void> {
  await Bun.$`dd if=${file} iflag=nocache count=0 status=none`.quiet().nothrow();
}

/** The ways in which a subject is started, each after the one before. */
function startsOf(bench: Bench, subject: Subject, command: readonly string[], idleSeconds: number): Start[] {
  let folder = "";
  const again = () => sample(bench, subject, folder, idleSeconds);
  const first = () => {
    folder = mkdtempSync(join(bench.folder, "start-"));
    return again();
  };
  if (subject.name !== "troupe") return [{ label: subject.name, run: first }];
  const [program = "", source] = command;
  const form = source === undefined ? "compiled" : "from source";
  const uncached = async () => {
    await forgetPages(program);
    return again();
  };
  return [
    { label: `troupe, ${form}, first start`, run: first },
    { label: `troupe, ${form}, again`, run: again },
    ...(source === undefined ? [{ label: "troupe, compiled, not in the page cache", run: uncached }] : []),
  ];
}

/**
 * @param command how Troupe is started
 * @param idleSeconds how long each rests before its memory is read
 */
export async function performStart(
  bench: Bench,
  subjects: readonly Subject[],
  command: readonly string[],
  rounds: number,
  idleSeconds: number,
): Promise<Row[]> {
  const starts = subjects.flatMap((subject) => startsOf(bench, subject, command, idleSeconds));
  const samples = new Map(starts.map(({ label }) => [label, [] as Sample[]]));
  for (let round = 0; round < rounds; round++) {
    for (const { label, run } of starts) {
      bench.tell(`start: round ${round + 1} of ${rounds}, ${label}`);
      samples.get(label)!.push(await run());
    }
  }
  return [...samples].flatMap(([label, taken]) => [
    row(
      label,
      "first answer",
      "ms",
      taken.map(({ ms }) => ms),
      maxMs,
    ),
    row(
      label,
      "resident when idle",
      "MB",
      taken.map(({ residentMb }) => residentMb),
      maxResidentMb,
    ),
    row(
      label,
      "the same, shared pages by share",
      "MB",
      taken.map(({ proportionalMb }) => proportionalMb),
    ),
  ]);
}

function row(label: string, measure: string, unit: string, values: number[], most?: number): Row {
  const summary = { scenario: startScenario.name, case: label, measure, unit, ...summarise(values) };
  if (most === undefined || !label.startsWith("troupe")) return summary;
  return { ...summary, target: { most, of: "value", met: summary.median <= most } };
}
