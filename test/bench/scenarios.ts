/** What is measured, as data: who is asked for what, under which load, and what is wanted of the result. */
import { formatNames } from "../helpers/client-formats.ts";
import { bytesPerChar } from "./answer-shape.ts";
import { type CallSpec, call } from "./calls.ts";
import type { Job } from "./job.ts";
import {
  besideTime,
  burstMeasures,
  callTime,
  cpuPerCall,
  cpuPerFragment,
  firstFragmentRatio,
  firstFragmentTime,
  fragmentTime,
  heldBack,
  type Measure,
  memoryPerStream,
  pacedMeasures,
  peakPerBody,
  plainMeasures,
  residentAfter,
} from "./measures.ts";
import { maxOpenFiles } from "./process-stats.ts";
import { nativeFormats } from "./subjects.ts";

export type Case = { readonly label: string; readonly subject: string; readonly call: CallSpec };

/** `most` of a measure: as a ratio to (or difference from) the bare proxy of the same round, or as a value. */
export type Target = {
  readonly label: string;
  readonly measure: Measure;
  readonly most: number;
  readonly of: "comparison" | "value";
};

export type Scenario = {
  readonly name: string;
  readonly about: string;
  /** The first is what the others are set against. */
  readonly cases: readonly Case[];
  readonly load: Job["load"];
  readonly beside?: Job["beside"];
  readonly warmupSeconds: number;
  readonly seconds: number;
  /** A new process for each round: memory that was once used is not given back. */
  readonly fresh: boolean;
  readonly measures: readonly Measure[];
  readonly targets: readonly Target[];
};

const bare = (spec: CallSpec): Case => ({ label: "bare proxy", subject: "bare proxy", call: spec });
const troupe = (label: string, spec: CallSpec): Case => ({ label, subject: "troupe", call: spec });

const governed = (label: string, spec: CallSpec): Case => ({ label, subject: "troupe, governed", call: spec });

const atMost = (label: string, measure: Measure, most: number, of: Target["of"] = "comparison"): Target => ({
  label,
  measure,
  most,
  of,
});

/** What the surfaces and dialects are called in the table, and how much more than the bare proxy each may take. */
const kinds: readonly { label: string; changes: Partial<CallSpec>; call: number; fragment: number }[] = [
  { label: "gateway", changes: {}, call: 1.8, fragment: 1.1 },
  { label: "persona", changes: { surface: "persona" }, call: 2, fragment: 1.5 },
  { label: "gateway → Anthropic", changes: { family: "anthropic" }, call: 2, fragment: 1.5 },
  { label: "gateway → Google", changes: { family: "google" }, call: 2, fragment: 1.5 },
  { label: "gateway → xAI responses", changes: { family: "xai" }, call: 2, fragment: 1.5 },
];

const base = {
  warmupSeconds: 1,
  seconds: 3,
  fresh: false,
  targets: [],
} satisfies Partial<Scenario>;

const kindCases = (changes: Partial<CallSpec>): Case[] => [
  bare(call(changes)),
  ...kinds.map((kind) => troupe(kind.label, call({ ...changes, ...kind.changes }))),
];

const paced = { shape: "-f100-i10", streamed: true } as const;
const large = call({ promptChars: 400_000, promptKind: "agent" });
const burst = { shape: "-f200", streamed: true } as const;

/** A call of Anthropic's clients to Anthropic, which passes as it came, beside one of OpenAI's clients to OpenAI. */
const nativeCases = (changes: Partial<CallSpec>): Case[] => [
  troupe("gateway", call(changes)),
  troupe("gateway, Messages → Anthropic", call({ ...changes, family: "anthropic", format: "messages" })),
];
const nativeTarget = (measure: Measure) => [atMost("gateway, Messages → Anthropic", measure, 1)];

/** Every format of a client to every format of a provider; what a provider speaks itself passes as it came. */
const pairs = formatNames.flatMap((format) =>
  (["openai", "anthropic", "google", "xai"] as const).map((family) => ({
    label: `gateway, ${format} → ${family}`,
    changes: { format, family },
    isNative: nativeFormats[family] === format,
  })),
);

/** An agent's prompt in every format, native and translated, in kilobytes. */
const prompts = (kilobytes: number): Scenario => {
  const agent = { promptChars: kilobytes * 1000, promptKind: "agent" } as const;
  const chosen = pairs.filter(({ changes, isNative }) => isNative || changes.family !== "xai");
  return {
    ...base,
    name: `prompt-${kilobytes}k`,
    about: `plain calls with ${kilobytes} KB of an agent's turns and tools, 4 callers`,
    cases: [bare(call(agent)), ...chosen.map((pair) => troupe(pair.label, call({ ...agent, ...pair.changes })))],
    load: { kind: "closed", connections: 4 },
    measures: [cpuPerCall, ...callTime],
    targets: chosen.map(({ label, isNative }) => atMost(label, cpuPerCall, isNative ? 1.5 : 3)),
  };
};

const rate = (perSecond: number): Scenario => ({
  ...base,
  name: `rate-${perSecond}`,
  about: `${perSecond} plain calls a second: what a call waits for where nothing is busy`,
  cases: kindCases({}),
  load: { kind: "open", perSecond },
  warmupSeconds: 2,
  seconds: 5,
  measures: [...callTime, cpuPerCall],
  targets: perSecond === 200 ? [atMost("gateway", callTime[0]!, 0.35), atMost("gateway", callTime[1]!, 0.5)] : [],
});

/** What the memory of one caller's or of two callers' bodies may come to. */
const bodiesInMemory = [atMost("gateway", peakPerBody, 6, "value"), atMost("persona", peakPerBody, 10, "value")];

const largeBody = (megabytes: number, callers = 1): Scenario => {
  const spec = call({ promptChars: megabytes * 1_000_000 });
  return {
    ...base,
    name: `body-${megabytes}mb${callers === 1 ? "" : `-${callers}`}`,
    about: `plain calls with a body of ${megabytes} MB, ${callers === 1 ? "one after the other" : `${callers} callers`}`,
    cases: [
      bare(spec),
      { label: "bare proxy that buffers", subject: "buffering proxy", call: spec },
      troupe("gateway", spec),
      troupe("gateway, text of all scripts", { ...spec, promptKind: "mixed" }),
      troupe("persona", { ...spec, surface: "persona" }),
      troupe("gateway → Anthropic", { ...spec, family: "anthropic" }),
    ],
    load: { kind: "closed", connections: callers },
    fresh: true,
    measures: [cpuPerCall, peakPerBody, residentAfter],
    targets: [
      ...(megabytes === 10 && callers === 1 ? [atMost("gateway", cpuPerCall, 1.3)] : []),
      ...(megabytes === 10 && callers <= 2 ? bodiesInMemory : []),
    ],
  };
};

const largeAnswer = (megabytes: number): Scenario => {
  const spec = call({ shape: `-b${Math.round((megabytes * 1_000_000) / bytesPerChar)}` });
  return {
    ...base,
    name: `answer-${megabytes}mb`,
    about: `plain answers of ${megabytes} MB, one after the other`,
    cases: [bare(spec), troupe("gateway", spec), troupe("gateway → Anthropic", { ...spec, family: "anthropic" })],
    load: { kind: "closed", connections: 1 },
    fresh: true,
    measures: [cpuPerCall, peakPerBody],
  };
};

const openStreams = (streams: number): Scenario => {
  const spec = call({ shape: `-f${streams > 1000 ? 14 : 10}-i1000`, streamed: true });
  return {
    ...base,
    name: `streams-${streams}`,
    about: `${streams} streams open at once, a fragment each second`,
    cases: [
      bare(spec),
      troupe("gateway", spec),
      troupe("persona", { ...spec, surface: "persona" }),
      troupe("gateway → Anthropic", { ...spec, family: "anthropic" }),
    ],
    load: { kind: "held", streams, perSecond: 1000 },
    fresh: true,
    measures: [...memoryPerStream, cpuPerFragment],
    targets: ["gateway", "persona", "gateway → Anthropic"].map((label) =>
      atMost(label, memoryPerStream[0]!, 30, "value"),
    ),
  };
};

export const scenarios: readonly Scenario[] = [
  {
    ...base,
    name: "plain",
    about: "plain calls, 32 callers",
    cases: kindCases({}),
    load: { kind: "closed", connections: 32 },
    measures: plainMeasures,
    targets: kinds.map((kind) => atMost(kind.label, cpuPerCall, kind.call)),
  },
  {
    ...base,
    name: "cold",
    about: "the first 20,000 plain calls after a start, 64 callers",
    cases: kindCases({}),
    load: { kind: "first", connections: 64, calls: 20_000 },
    warmupSeconds: 0,
    fresh: true,
    measures: [cpuPerCall, residentAfter],
    targets: [atMost("gateway", cpuPerCall, 2.2), atMost("gateway", residentAfter, 100, "value")],
  },
  {
    ...base,
    name: "governed",
    about: "plain calls that count against two budgets, beside those that count against none, 32 callers",
    cases: [bare(call({})), troupe("gateway", call({})), governed("gateway, two budgets", call({}))],
    load: { kind: "closed", connections: 32 },
    measures: plainMeasures,
  },
  rate(200),
  rate(1000),
  rate(3000),
  prompts(16),
  prompts(400),
  {
    ...base,
    name: "beside-large",
    about: "/healthz beside 8 callers with 400 KB of an agent's turns each",
    cases: [
      { ...bare(large), label: "bare proxy that buffers", subject: "buffering proxy" },
      troupe("gateway", large),
      troupe("gateway → Anthropic", { ...large, family: "anthropic" }),
    ],
    load: { kind: "closed", connections: 8 },
    beside: { path: "/healthz", perSecond: 50 },
    measures: [...besideTime, cpuPerCall],
    targets: ["gateway", "gateway → Anthropic"].map((label) => atMost(label, besideTime[1]!, 20, "value")),
  },
  {
    ...base,
    name: "matrix",
    about: "plain calls of every format to every provider, 32 callers",
    cases: [bare(call({})), ...pairs.map(({ label, changes }) => troupe(label, call(changes)))],
    load: { kind: "closed", connections: 32 },
    measures: plainMeasures,
  },
  {
    ...base,
    name: "matrix-stream",
    about: "the same with 200 streams at a time of 100 fragments, 10 ms apart",
    cases: [bare(call(paced)), ...pairs.map(({ label, changes }) => troupe(label, call({ ...paced, ...changes })))],
    load: { kind: "closed", connections: 200 },
    measures: pacedMeasures,
  },
  {
    ...base,
    name: "first-of-64",
    about: "the first fragment of 64 streams at a time, of 200 fragments, as fast as they are taken",
    cases: kindCases(burst),
    load: { kind: "closed", connections: 64 },
    measures: firstFragmentRatio,
    targets: [atMost("gateway", firstFragmentRatio[0]!, 2)],
  },
  {
    ...base,
    name: "stream",
    about: "200 streams at a time of 100 fragments, 10 ms apart: each fragment is a wake-up",
    cases: kindCases(paced),
    load: { kind: "closed", connections: 200 },
    measures: pacedMeasures,
    targets: kinds.map((kind) => atMost(kind.label, cpuPerFragment, kind.fragment)),
  },
  {
    ...base,
    name: "burst",
    about: "32 streams at a time of 200 fragments, as fast as they are taken: many fragments in one read",
    cases: [...kindCases(burst), troupe("gateway, usage asked for", call({ ...burst, includeUsage: true }))],
    load: { kind: "closed", connections: 32 },
    measures: burstMeasures,
    targets: kinds.map((kind) => atMost(kind.label, cpuPerFragment, kind.fragment)),
  },
  {
    ...base,
    name: "first-fragment",
    about: "20 streams a second of 50 fragments, 20 ms apart",
    cases: kindCases({ shape: "-f50-i20", streamed: true }),
    load: { kind: "open", perSecond: 20 },
    warmupSeconds: 2,
    seconds: 10,
    measures: [...firstFragmentTime, ...fragmentTime, heldBack, cpuPerFragment],
    targets: kinds.flatMap((kind) => [
      atMost(kind.label, firstFragmentTime[0]!, 0.2),
      atMost(kind.label, firstFragmentTime[1]!, 1),
    ]),
  },
  {
    ...base,
    name: "messages",
    about: "plain calls of Messages to Anthropic, beside those of chat to OpenAI, 32 callers",
    cases: nativeCases({}),
    load: { kind: "closed", connections: 32 },
    measures: plainMeasures,
    targets: nativeTarget(cpuPerCall),
  },
  {
    ...base,
    name: "messages-stream",
    about: "the same with 200 streams at a time of 100 fragments, 10 ms apart",
    cases: nativeCases(paced),
    load: { kind: "closed", connections: 200 },
    measures: pacedMeasures,
    targets: nativeTarget(cpuPerFragment),
  },
  {
    ...base,
    name: "messages-burst",
    about: "the same with 32 streams at a time of 200 fragments, as fast as they are taken",
    cases: nativeCases(burst),
    load: { kind: "closed", connections: 32 },
    measures: burstMeasures,
    targets: nativeTarget(cpuPerFragment),
  },
  {
    ...base,
    name: "idempotent",
    about: "calls with a service-request-id, each a new one, beside calls without",
    cases: [bare(call({})), troupe("gateway", call({})), troupe("gateway, idempotent", call({ identified: true }))],
    load: { kind: "closed", connections: 32 },
    measures: plainMeasures,
  },
  {
    ...base,
    name: "idempotent-stream",
    about: "the same with streams of 100 fragments, 10 ms apart, 200 at a time",
    cases: [
      bare(call(paced)),
      troupe("gateway", call(paced)),
      troupe("gateway, idempotent", call({ ...paced, identified: true })),
    ],
    load: { kind: "closed", connections: 200 },
    measures: pacedMeasures,
  },
  {
    ...base,
    name: "intact",
    about: "bodies of 200 KB whose text the provider sums up: what arrives is what was sent",
    cases: kindCases({ shape: "-v", promptChars: 180_000, promptKind: "mixed" }),
    load: { kind: "closed", connections: 4 },
    warmupSeconds: 0.2,
    seconds: 1,
    measures: [cpuPerCall],
  },
  largeBody(1),
  largeBody(10),
  largeBody(10, 2),
  largeBody(10, 50),
  largeAnswer(1),
  largeAnswer(10),
  openStreams(1000),
  openStreams(5000),
  {
    ...base,
    name: "slow-readers",
    about: "50 streams of 4 MB whose readers stop after the first bytes for 5 seconds",
    cases: [
      bare(call({ shape: "-f4000-s900", streamed: true })),
      troupe("gateway", call({ shape: "-f4000-s900", streamed: true })),
      troupe("gateway → Anthropic", call({ shape: "-f4000-s900", streamed: true, family: "anthropic" })),
    ],
    load: { kind: "slow", streams: 50, pauseSeconds: 5 },
    fresh: true,
    measures: memoryPerStream,
  },
];

/** As many open streams as the system's limit of open files lets a server have: two sockets each, and some for itself. */
export function withinLimits(load: Job["load"]): Job["load"] {
  return load.kind === "held"
    ? { ...load, streams: Math.min(load.streams, Math.floor((maxOpenFiles() - 500) / 2)) }
    : load;
}

/** The short form for CI: the same calls and checks, too little of them to time. */
export function shortened(scenario: Scenario): Scenario {
  const cases = scenario.cases.map((one) => ({ ...one, call: { ...one.call, shape: hastened(one.call.shape) } }));
  const load = lightened(scenario.load);
  return { ...scenario, cases, load, warmupSeconds: 0.02, seconds: 0.15, fresh: false, targets: [] };
}

/** A tenth of the time between fragments; of those a second apart a few are enough, so that thousands of streams are too. */
const hastened = (shape: string) =>
  shape
    .replace(/-f\d+-i1000$/, "-f3-i500")
    .replace(/-i(10|20)$/, (_, milliseconds) => `-i${Number(milliseconds) / 10}`);

function lightened(load: Job["load"]): Job["load"] {
  switch (load.kind) {
    case "closed":
      return { ...load, connections: Math.min(load.connections, 20) };
    case "first":
      return { ...load, connections: 20, calls: 100 };
    case "open":
      return { ...load, perSecond: 100 };
    case "held":
      return { ...load, streams: load.streams > 1000 ? load.streams : 200, perSecond: 5000 };
    case "slow":
      return { ...load, streams: 2, pauseSeconds: 0.2 };
  }
}
