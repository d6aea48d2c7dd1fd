/** Everything at once for as long as wanted: the memory of a server that is used must not grow. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type CallSpec, call } from "./calls.ts";
import type { Job, LoadResult } from "./job.ts";
import { residentBytes } from "./process-stats.ts";
import { type Row, summarise } from "./report.ts";
import { type Bench, jobFor, performJob } from "./rounds.ts";
import { slope } from "./statistics.ts";
import type { Running, Subject } from "./subjects.ts";

const streamed = { shape: "-f50-i20", streamed: true } as const;

type Lane = { readonly call: CallSpec; readonly perSecond: number; readonly leaveAfter?: number };

const lanes: readonly Lane[] = [
  { call: call({}), perSecond: 300 },
  { call: call(streamed), perSecond: 40 },
  { call: call({ family: "anthropic" }), perSecond: 100 },
  { call: call({ ...streamed, family: "google" }), perSecond: 20 },
  { call: call({ ...streamed, surface: "persona" }), perSecond: 20 },
  { call: call({ identified: true }), perSecond: 20 },
  { call: call({ promptChars: 500_000 }), perSecond: 4 },
  // These leave in the middle of their streams.
  { call: call(streamed), perSecond: 20, leaveAfter: 10 },
];

const everySeconds = 2;
/** So much of the time belongs to the warm-up. */
const warmupShare = 0.3;
/** Memory is taken in pages and given back in lumps: less than this per minute is no slope. */
const maxKilobytesPerMinute = 100;

export type SoakReport = { readonly rows: Row[]; readonly faults: string[]; readonly series: [number, number][] };

export async function performSoak(bench: Bench, subject: Subject, minutes: number): Promise<SoakReport> {
  const folder = join(bench.folder, "soak");
  mkdirSync(folder);
  const calls = lanes.map((lane) => lane.call);
  const running = await subject.start({ processes: bench.processes, folder, mockPort: bench.mockPort, calls });
  try {
    const series: [number, number][] = [];
    const from = performance.now();
    const look = setInterval(() => {
      const seconds = (performance.now() - from) / 1e3;
      series.push([seconds, residentBytes(running.pids) / 1024]);
      if (series.length % 30 === 0)
        bench.tell(`soak: ${Math.round(seconds)} s, ${Math.round(series.at(-1)![1] / 1024)} MB`);
    }, everySeconds * 1e3);
    const results = await Promise.all(
      lanes.map((lane) => performJob(bench.processes, laneJob(running, lane, minutes))),
    );
    clearInterval(look);
    return { ...report(results, series, minutes), series };
  } finally {
    await running.stop();
  }
}

function laneJob(running: Running, { call: spec, perSecond, leaveAfter }: Lane, minutes: number): Job {
  const load = { kind: "open", perSecond } as const;
  const job = jobFor(
    running,
    { label: "", subject: "", call: spec },
    { load, warmupSeconds: 1, seconds: minutes * 60 },
  );
  return leaveAfter === undefined ? job : { ...job, leaveAfter };
}

function report(results: readonly LoadResult[], series: readonly [number, number][], minutes: number) {
  const steady = series.filter(([seconds]) => seconds > minutes * 60 * warmupShare && seconds < minutes * 60);
  const perMinute = slope(steady) * 60;
  const calls = results.reduce((sum, result) => sum + result.checkedCalls, 0);
  const row = (measure: string, unit: string, values: number[]): Row => ({
    scenario: "soak",
    case: "troupe",
    measure,
    unit,
    ...summarise(values),
  });
  const rows: Row[] = [
    {
      ...row("slope of resident memory", "KB/min", [perMinute]),
      target: { most: maxKilobytesPerMinute, of: "value", met: perMinute <= maxKilobytesPerMinute },
    },
    row(
      "resident after the warm-up",
      "MB",
      steady.map(([, kilobytes]) => kilobytes / 1024),
    ),
    row("calls", "", [calls]),
  ];
  const faults = results.flatMap(({ faults: found }, at) =>
    Object.entries(found).map(([fault, count]) => `soak, lane ${at + 1}: ${count} calls: ${fault}`),
  );
  return { rows, faults };
}
