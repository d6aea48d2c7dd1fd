/** Performs a scenario: its cases in turn, round after round, each by a load generator of its own. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { bytesPerChar, parseAnswerShape } from "./answer-shape.ts";
import { fieldsOf, mockModel } from "./calls.ts";
import type { Job, LoadResult } from "./job.ts";
import type { Scale } from "./measures.ts";
import type { Processes } from "./processes.ts";
import type { Case, Scenario } from "./scenarios.ts";
import { firstLine, ignoreOutput, type Running, type Subject } from "./subjects.ts";

export type Bench = {
  readonly processes: Processes;
  /** For the servers' files; removed by whoever made it. */
  readonly folder: string;
  readonly mockPort: number;
  tell(line: string): void;
};

/** The results of a case, one per round. */
export type CaseResults = { readonly case: Case; readonly results: LoadResult[] };

const script = (name: string) => join(import.meta.dir, name);

export async function startMock(processes: Processes): Promise<number> {
  const child = processes.start({ role: "mock", command: [process.execPath, script("mock.ts")], own: true });
  const port = Number(await firstLine(child));
  ignoreOutput(child);
  return port;
}

/** @throws when the load generator fails, or takes two minutes more than it should */
export async function performJob(processes: Processes, job: Job): Promise<LoadResult> {
  const child = processes.start({ role: "load", command: [process.execPath, script("load.ts")], own: true });
  child.stdin.write(JSON.stringify(job));
  child.stdin.end();
  const overdue = setTimeout(() => child.kill("SIGKILL"), (job.warmupSeconds + job.seconds + 120) * 1e3);
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  clearTimeout(overdue);
  if ((await child.exited) !== 0) throw new Error(`the load generator failed: ${errors || "it took too long"}`);
  return JSON.parse(output);
}

export function jobFor(
  running: Running,
  { call }: Case,
  scenario: Pick<Scenario, "load" | "beside" | "warmupSeconds" | "seconds">,
): Job {
  const address = running.address(call);
  return {
    ...address,
    mockModel: mockModel(call),
    fields: { ...fieldsOf(call), ...address.fields },
    format: call.format,
    streamed: call.streamed,
    includeUsage: call.includeUsage,
    promptChars: call.promptChars,
    promptKind: call.promptKind,
    identified: call.identified,
    load: scenario.load,
    beside: scenario.beside,
    warmupSeconds: scenario.warmupSeconds,
    seconds: scenario.seconds,
    watched: running.pids,
  };
}

export function scaleOf(scenario: Scenario): Scale {
  const { load } = scenario;
  const { call } = scenario.cases[0]!;
  return {
    streams: "streams" in load ? load.streams : 1,
    bodyBytes: Math.max(call.promptChars, bytesPerChar * parseAnswerShape(call.shape).plainChars),
  };
}

let folders = 0;

async function start(bench: Bench, subject: Subject, scenario: Scenario): Promise<Running> {
  const folder = join(bench.folder, `${subject.name.replaceAll(/[^a-z0-9]+/gi, "-")}-${folders++}`);
  mkdirSync(folder);
  const calls = scenario.cases.filter((one) => one.subject === subject.name).map((one) => one.call);
  return subject.start({ processes: bench.processes, folder, mockPort: bench.mockPort, calls });
}

/** @param subjects those of the cases, each once */
export async function performScenario(
  bench: Bench,
  scenario: Scenario,
  subjects: readonly Subject[],
  rounds: number,
): Promise<CaseResults[]> {
  const subjectOf = (one: Case) => subjects.find((subject) => subject.name === one.subject)!;
  const kept = new Map<string, Running>();
  const all = scenario.cases.map((one): CaseResults => ({ case: one, results: [] }));
  try {
    for (let round = 0; round < rounds; round++) {
      for (const { case: one, results } of all) {
        let running = kept.get(one.subject);
        if (running === undefined) {
          running = await start(bench, subjectOf(one), scenario);
          kept.set(one.subject, running);
        }
        bench.tell(`${scenario.name}: round ${round + 1} of ${rounds}, ${one.label}`);
        results.push(await performJob(bench.processes, jobFor(running, one, scenario)));
        if (!scenario.fresh) continue;
        kept.delete(one.subject);
        await running.stop();
      }
    }
    return all;
  } finally {
    await Promise.all([...kept.values()].map((running) => running.stop()));
  }
}
