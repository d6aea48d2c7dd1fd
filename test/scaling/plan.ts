/**
 * Reckons what a number of calls a second asks for: nodes, memory, connections, statements, writes, storage, what breaks first, and into
 * how many groups of keys it has to be split. From what one call costs (`measured.json`), and nothing else.
 *
 *     bun test/scaling/plan.ts --calls 1000 --with-id 0.1 --streams 0.5 --seconds 10 --budget 0.2 --answer-kb 2 --keep-days 400
 */
import { parseArgs } from "node:util";
import { type Kind, type Measured, type PostgresCost, readMeasured } from "./measured.ts";

/** Each option with its default and what it says. */
const options = {
  calls: [1000, "calls a second"],
  "with-id": [0.1, "share of them with a service-request-id"],
  streams: [0.5, "share that is streamed"],
  budget: [0.2, "share that is held to a budget"],
  "same-budget": [0, "share that counts in one and the same budget, as in that of all"],
  store: [0, "share with store: true"],
  joined: [0, "share of the streams with an id that are read on another node"],
  seconds: [10, "how long a call lasts"],
  fragments: [20, "fragments a second of a stream"],
  "answer-kb": [2, "text of an answer"],
  "keep-days": [400, "how long lines of the ledger are kept"],
  "id-hours": [24, "how long answers under an id are kept"],
  "store-days": [30, "how long conversations are kept"],
  "key-rate": [0.1, "calls a second of one key"],
  valkey: [1, "1: Valkey or Redis counts windows; 0: PostgreSQL does"],
  busy: [0.6, "how full a processor may be, of nodes and of servers"],
  "db-cores": [32, "cores of one PostgreSQL primary"],
  "db-tb": [16, "its disk"],
  "db-mb": [250, "what the disk takes of its log, each second"],
  "db-connections": [500, "its connections"],
  checkpoint: [300, "seconds between two checkpoints (checkpoint_timeout)"],
} as const satisfies Record<string, readonly [value: number, words: string]>;

export type Load = { readonly [Name in keyof typeof options]: number };
export const defaults = Object.fromEntries(Object.entries(options).map(([name, [value]]) => [name, value])) as Load;
/** Parts of a whole. */
const shares: readonly string[] = ["with-id", "streams", "budget", "same-budget", "store", "joined", "busy"];

/** `limits.concurrent_requests`. */
const maxOpen = 10_000;
/** Source: https://www.postgresql.org/docs/current/limits.html (relation size, with pages of 8 KB). */
const maxTableBytes = 32 * 2 ** 40;
const pageBytes = 8192;
/** An entry of the index over ids, in a page that is two thirds full. */
const indexEntryBytes = 120;
/** Room that updates leave until a vacuum: `autovacuum_vacuum_scale_factor` of a table. */
const updated = 1.2;
/** How often a node writes lines of the ledger, and how many at a time. */
const ledgerWritesPerSecond = 4;
const ledgerBatch = 200;

/** Full where its disk is, if not before. */
const ledgerTable = "one table: the ledger";

export type Limit = {
  readonly what: string;
  /** What is asked of one database, and what one takes. */
  readonly need: number;
  readonly most: number;
  readonly unit: string;
};

export type Plan = {
  readonly openCalls: number;
  readonly openStreams: number;
  readonly callCores: number;
  readonly fragmentCores: number;
  /** With one more than needed, as one may fail. */
  readonly processes: number;
  readonly needsFor: "failure" | "streams" | "processor";
  readonly memoryBytes: number;
  readonly connections: number;
  readonly needsPooler: boolean;
  readonly statements: number;
  readonly writes: number;
  readonly walBytes: number;
  readonly wholePageBytes: number;
  readonly serverCores: number;
  readonly ledgerMonthBytes: number;
  readonly ledgerBytes: number;
  readonly answerBytes: number;
  readonly turnBytes: number;
  readonly valkeyCommands: number;
  readonly valkeyCores: number;
  readonly valkeyBytes: number;
  /** What one database is asked, by how full it is. */
  readonly limits: readonly Limit[];
  readonly groups: number;
};

/** Between the two sizes that were measured, and beyond them on the same line. */
function bySize<C extends { readonly [name: string]: number }>(kb: number, small: C, large: C): C {
  const part = (kb - 1) / 9;
  return Object.fromEntries(
    Object.entries(small).map(([name, from]) => [name, Math.max(0, from + (large[name]! - from) * part)]),
  ) as C;
}

export function planFor(load: Load, measured: Measured): Plan {
  const { calls } = load;
  const cost = (small: Kind, large: Kind): PostgresCost =>
    bySize(load["answer-kb"], measured.postgres[small], measured.postgres[large]);
  const plain = measured.postgres.plain;
  const inDatabase = load.valkey === 0;
  const ids = calls * load["with-id"];
  /** Kinds of calls with how many a second there are, and what one costs. */
  const parts: [number, PostgresCost][] = [
    [ids * (1 - load.streams), cost("id1Kb", "id10Kb")],
    [ids * load.streams, cost("idStream1Kb", "idStream10Kb")],
    [calls * load.budget, measured.postgres.budget],
    [calls * load.store, cost("store1Kb", "store10Kb")],
  ];
  const sum = (of: keyof PostgresCost) => parts.reduce((all, [count, one]) => all + count * one[of], 0);
  /** What comes on top of a plain call. */
  const more = (of: "nodeMicros" | "serverMicros") =>
    parts.reduce((all, [count, one]) => all + count * Math.max(0, one[of] - plain[of]), 0);

  const openCalls = calls * load.seconds;
  const openStreams = openCalls * load.streams;
  const callCores = (calls * plain.nodeMicros + more("nodeMicros")) / 1e6;
  const fragmentCores = (openStreams * load.fragments * measured.stream.fragmentMicros) / 1e6;
  const byProcessor = Math.ceil((callCores + fragmentCores) / load.busy);
  const byStreams = Math.ceil(openCalls / maxOpen);
  const processes = Math.max(byProcessor, byStreams, 1) + 1;

  const joined = openStreams * load["with-id"] * load.joined;
  const join = measured.joined;
  const keys = calls / load["key-rate"];
  const ledgerWrites = Math.max(Math.min(processes * ledgerWritesPerSecond, calls), calls / ledgerBatch);
  const statements =
    sum("statements") +
    joined * join.statements +
    processes * measured.idle.statements +
    ledgerWrites +
    (inDatabase ? calls : 0);
  const writes = sum("writes") + joined * join.writes + ledgerWrites + processes / 5;
  const { ledgerLine, ledgerHour } = measured;
  const alone = calls * shareAlone(keys, Math.min(ledgerBatch, calls / ledgerWrites));
  const walBytes = sum("walBytes") + joined * join.walBytes + calls * ledgerLine.walBytes + alone * ledgerHour.walBytes;
  const wholePageBytes = wholePages(ids, load);
  const serverCores =
    (calls * plain.serverMicros +
      more("serverMicros") +
      alone * ledgerHour.serverMicros +
      processes * measured.idle.serverMicros +
      (inDatabase ? calls * measured.windows.postgresMicros : 0)) /
    1e6;
  // Sums are of an hour, a key and a model, and of more where more is used.
  const ledgerHours = keys * Math.min(24, load["key-rate"] * 86_400);
  const ledgerDayBytes = calls * ledgerLine.keptBytes * 86_400 + ledgerHours * ledgerHour.keptBytes * updated;
  const ledgerBytes = ledgerDayBytes * load["keep-days"];
  const answerBytes =
    (parts[0]![0] * parts[0]![1].keptBytes + parts[1]![0] * parts[1]![1].keptBytes) * updated * load["id-hours"] * 3600;
  const turnBytes = parts[3]![0] * parts[3]![1].keptBytes * load["store-days"] * 86_400;
  const connections = processes * measured.idle.connections;
  const inValkey = (perCall: number) => (inDatabase ? 0 : calls * perCall);
  const { windows } = measured;
  const valkeyCores = inValkey(windows.redisMicros) / 1e6;
  const limits: Limit[] = [
    { what: "processor of the database", need: serverCores, most: load["db-cores"] * load.busy, unit: "cores" },
    { what: "log written to its disk", need: (walBytes + wholePageBytes) / 1e6, most: load["db-mb"], unit: "MB/s" },
    {
      what: "its disk",
      need: (ledgerBytes + answerBytes + turnBytes) / 1e12,
      most: load["db-tb"],
      unit: "TB",
    },
    {
      what: "commits",
      need: writes,
      // One at a time on each connection; those of the same moment share a write to the disk.
      most: (load["db-connections"] * 1000) / measured.server.commitMs,
      unit: "a second",
    },
    {
      what: "calls in one budget",
      need: calls * load["same-budget"],
      most: measured.server.reservationsOfOneBudget,
      unit: "a second",
    },
    { what: "processor of Valkey", need: valkeyCores, most: load.busy, unit: "cores" },
    { what: ledgerTable, need: ledgerBytes / 1e12, most: maxTableBytes / 1e12, unit: "TB" },
  ];
  limits.sort((a, b) => b.need / b.most - a.need / a.most);
  return {
    openCalls,
    openStreams,
    callCores,
    fragmentCores,
    processes,
    needsFor: processes === 2 ? "failure" : byStreams > byProcessor ? "streams" : "processor",
    memoryBytes: processes * measured.idle.memoryBytes + openCalls * measured.stream.memoryBytes,
    connections,
    needsPooler: connections > load["db-connections"],
    statements,
    writes,
    walBytes,
    wholePageBytes,
    serverCores,
    ledgerMonthBytes: ledgerDayBytes * 30,
    ledgerBytes,
    answerBytes,
    turnBytes,
    valkeyCommands: inValkey(1),
    valkeyCores,
    valkeyBytes: inValkey(60 * windows.redisBytesPerHit),
    limits,
    groups: Math.max(1, ...limits.map(({ need, most }) => Math.ceil(need / most))),
  };
}

/**
 * The first write to a page after a checkpoint logs all of it (`full_page_writes`). Ids are of clients, so each meets another page of
 * their index; everything else is written at the end of its table and index, where many share a page.
 * @returns bytes a second
 */
function wholePages(ids: number, load: Load): number {
  if (ids === 0) return 0;
  const pages = Math.max(1, (ids * load["id-hours"] * 3600 * indexEntryBytes) / pageBytes);
  const touched = pages * (1 - Math.exp((-ids * load.checkpoint) / pages));
  return (touched * pageBytes) / load.checkpoint;
}

/** Of lines of a batch, how many are the only one of their key. @param lines of a batch, of as many keys */
function shareAlone(keys: number, lines: number): number {
  return (keys * (1 - (1 - 1 / Math.max(1, keys)) ** lines)) / lines;
}

/** Rows of people's words: what, and how much. */
export function rowsOf(plan: Plan): [what: string, much: string][] {
  const [first, ...next] = plan.limits;
  const isFull = first!.need > first!.most;
  const fill = ({ what, need, most, unit }: Limit) => `${what}: ${number(need)} of ${number(most)} ${unit}`;
  return [
    ["open calls, streams among them", `${count(plan.openCalls)}, ${count(plan.openStreams)}`],
    ["cores for calls, for fragments of streams", `${number(plan.callCores)}, ${number(plan.fragmentCores)}`],
    ["nodes (processes), one of them may fail", `${count(plan.processes)}, by ${plan.needsFor}`],
    ["memory of all nodes", bytes(plan.memoryBytes)],
    ["connections to PostgreSQL", `${count(plan.connections)}${plan.needsPooler ? ": by PgBouncer" : ""}`],
    ["statements a second, of them writes", `${count(plan.statements)}, ${count(plan.writes)}`],
    [
      "log of the database, with whole pages",
      `${bytes(plan.walBytes)}/s, ${bytes(plan.walBytes + plan.wholePageBytes)}/s`,
    ],
    ["cores of the database", number(plan.serverCores)],
    ["ledger a month, at its retention's end", `${bytes(plan.ledgerMonthBytes)}, ${bytes(plan.ledgerBytes)}`],
    ["answers under an id", bytes(plan.answerBytes)],
    ...(plan.turnBytes > 0 ? [["stored conversations", bytes(plan.turnBytes)] satisfies [string, string]] : []),
    [
      "Valkey: commands a second, cores, memory",
      plan.valkeyCommands === 0
        ? "none"
        : `${count(plan.valkeyCommands)}, ${number(plan.valkeyCores)}, ${bytes(plan.valkeyBytes)}`,
    ],
    [isFull ? "what breaks first" : "what would break first", fill(first!)],
    ["and then", fill(next.find(({ what }) => what !== ledgerTable)!)],
    ["groups of keys", count(plan.groups)],
  ];
}

/** Two digits, as more of them say nothing. */
function number(value: number): string {
  if (value === 0) return "0";
  if (value < 0.01) return "< 0.01";
  const short = Number(value.toPrecision(2));
  return short >= 1000 ? short.toLocaleString("en-US") : String(short);
}
const count = (value: number) => (Math.ceil(value) < 100 ? String(Math.ceil(value - 1e-9)) : number(value));

export function bytes(value: number): string {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  const at = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)));
  return `${number(value / 1000 ** at)} ${units[at]}`;
}

/** @throws Error for an option that is none, or no number that can be */
export function loadFrom(args: readonly string[]): Load {
  const known = Object.fromEntries(Object.keys(options).map((name) => [name, { type: "string" as const }]));
  const { values } = parseArgs({ args: [...args], options: known });
  const given = Object.entries(values).map(([name, text]) => {
    const value = Number(text);
    const isShare = shares.includes(name);
    // No call at all, or none that ends, is nothing to reckon with.
    const mayBeZero = (isShare && name !== "busy") || ["fragments", "valkey", "store-days", "id-hours"].includes(name);
    if (!(value >= 0) || !Number.isFinite(value) || (value === 0 && !mayBeZero) || (isShare && value > 1))
      throw new Error(
        `--${name} must be ${isShare ? "a share up to 1" : "a number"}${mayBeZero ? "" : " above 0"}: ${text}`,
      );
    return [name, value];
  });
  return { ...defaults, ...Object.fromEntries(given) };
}

export const help = (): string =>
  Object.entries(options)
    .map(([name, [value, words]]) => `--${name.padEnd(15)} ${String(value).padEnd(5)} ${words}\n`)
    .join("");

if (import.meta.main) {
  try {
    const args = process.argv.slice(2);
    if (args.includes("--help")) {
      process.stdout.write(help());
      process.exit(0);
    }
    const rows = rowsOf(planFor(loadFrom(args), readMeasured()));
    const width = Math.max(...rows.map(([what]) => what.length));
    for (const [what, much] of rows) console.log(`${what.padEnd(width)}  ${much}`);
  } catch (error) {
    console.error(String(error instanceof Error ? error.message : error));
    process.exit(1);
  }
}
