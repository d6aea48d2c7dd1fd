/**
 * What each piece of a plain call costs: one server, in which one piece after the other is left out for a moment, in alternation with the
 * whole. `bun test/bench/pieces.ts [seconds]`; Linux, with a C compiler. docs/decisions/path-of-a-call.md has the results.
 *
 * The server preloads this same file, which puts a switch before each piece (a text of `src` that is no longer there ends it), and tells the
 * CPU of its main thread (user and system) and the calls that were answered whenever the switches turn. So all pieces share one process, its
 * compiled code and its neighbours on the machine. Threads of the compiler and the collector are left out, as they come in bursts.
 */
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { call } from "./calls.ts";
import { buildEnds, performLoad, startEndsMock } from "./ends.ts";
import { Processes } from "./processes.ts";
import { median, quantile } from "./statistics.ts";
import { sourceCommand, troupe } from "./subjects.ts";

/** A text that stands once in a file of `src`, and what stands there instead; `OFF` is true while the piece is left out. */
type Switch = readonly [file: string, text: string, instead: string];

const skip = (file: string, ...texts: string[]) => texts.map((text): Switch => [file, text, `OFF || ${text}`]);
const unless = (file: string, text: string): Switch[] => [[file, text, `!OFF && ${text}`]];
/** Leaves the function where that text begins. */
const leave = (file: string, text: string, how = "return"): Switch[] => [[file, text, `if (OFF) ${how};\n${text}`]];

const clientFile = "upstream/client.ts";
const asCame = `if (OFF) {
  observer.completed({ usage: whole.usage, completion: whole, upstreamResponseId });
  return { kind: "whole", status: 200, headers: { "content-type": "application/json; charset=utf-8" }, body: answer.asCame };
}
`;

/** Without one of them calls go on to be answered rightly, but for their ids, counts or records. */
const pieces: Record<string, readonly Switch[]> = {
  "log line": skip("call/context.ts", 'log[level]("request", logFields)'),
  "ledger, all of it": [
    ...leave("usage/ledger-writer.ts", "const isKnown = "),
    ...leave("usage/usage.ts", "if (this.#isSettled) return;"),
  ],
  "ledger: notes in the mapped file": unless("usage/ledger-writer.ts", "this.#journal?.note(line) === false"),
  "ledger: writes to SQLite": [
    [
      "usage/ledger-writer.ts",
      "await this.#ledger.append(batch",
      "OFF ? { spending: [] } : await this.#ledger.append(batch",
    ],
  ],
  "ledger: price": [["usage/usage.ts", "const own = !isBilled\n", "const own = OFF || !isBilled\n"]],
  metrics: [
    ...skip("call/context.ts", "this.series.request("),
    ...skip("call/settle/observer.ts", "this.#modelSeries.operation(", "this.#modelSeries.usage("),
    ...skip("call/settle/observer.ts", "this.#context.series.overhead("),
    ...leave("usage/metrics.ts", "const { surface, ended, provider,"),
  ],
  "`Host`": unless("http/serve.ts", "checksNames ? checkHost"),
  "whether keys have changed": skip("http/serve.ts", 'area === "operations" ? undefined : services.keys'),
  "count of the limit, its headers": skip("call/admit/authenticate.ts", "perMinute === undefined) return;"),
  "deadline of the body": leave("call/context.ts", "const { bodyDeadlines, live } =", "return body"),
  "deadline of the first byte": [
    ...skip(clientFile, "\n    opened.deadlines.add(this);"),
    ...skip(clientFile, "this.#opened.deadlines.delete(this);\n    this.#idleTimer"),
  ],
  "idle timeout of the connection": leave("call/context.ts", "this.#hasOwnIdleTimeout = true;"),
  abort: [
    [
      "call/call.ts",
      "const { signal } = context.request;",
      "const signal = OFF ? neverAborted : context.request.signal;",
    ],
    ...skip(clientFile, 'signal.addEventListener("abort", this);', "this.#signal.removeEventListener("),
  ],
  ids: [
    ["call/context.ts", "= services.clock.newId();", "= OFF ? String(1e15 + answeredCalls) : services.clock.newId();"],
  ],
  "`x-troupe-*` headers": leave("call/settle/observer.ts", "if (persona?.hidesUpstream === true) return;\n    const {"),
  "client's name": [
    ["call/admit/authenticate.ts", "services.clients.labelsOf(", "OFF ? context.labels : services.clients.labelsOf("],
  ],
  "bounds and doubled names of the body": [
    ...skip("protocols/body.ts", "checkBounds(scan, bytes, limits);\n  const text"),
    ...skip("protocols/body.ts", "refuseDoubledNames(bytes, scan.outerKeys, parsed);\n  return { body"),
  ],
  "estimate's sample of the prompt": [
    [
      "call/send/send.ts",
      "input: requestMeter(call.request, source)",
      "input: OFF ? undefined : requestMeter(call.request, source)",
    ],
  ],
  Elysia: [
    ["http/app.ts", "plugin.route(\n", "takeRoute(path, (request) => answer({ request }));\n    plugin.route(\n"],
  ],
  "whether the upstream has closed": unless("lib/http/connection.ts", "hasUnread(this.#descriptor)").map(
    ([file, text]) => [file, `!${text}`, `(OFF || !${text})`],
  ),
  "answer's copy (as it came instead)": [
    [
      "upstream/call.ts",
      "decodePlain(await answer.text(), reader",
      "decodePlain((answer.asCame = await answer.text()), reader",
    ],
    ...leave("upstream/call.ts", "// Some upstreams ignore `stream: true`.").map(
      ([file, text]): Switch => [file, text, asCame + text],
    ),
  ],
  "going on together at a turn's end": [
    ...skip("upstream/call.ts", "await turnEnd();"),
    ...skip("call/read/request-body.ts", "await turnEnd();"),
  ],
};

const names = Object.keys(pieces);
/** Milliseconds: the calls that begin in one slice and end in the next are few beside all. */
const sliceMs = 80;
const whole = -1;

type Handler = (request: Request, server: unknown) => unknown;
/** What the switches look at. */
const state = globalThis as unknown as {
  leftOut: number;
  answeredCalls: number;
  neverAborted: AbortSignal;
  takeRoute: (path: string, answer: Handler) => void;
};

/** In the server. @param file to which slices are told: what was left out, microseconds of CPU, calls */
function switchPieces(file: string): void {
  const src = join(import.meta.dir, "../../src/");
  state.leftOut = whole;
  state.answeredCalls = 0;
  state.neverAborted = new AbortController().signal;
  const isOff = (at: number) => `(globalThis.leftOut === ${at})`;
  const counted: Switch = [
    "call/context.ts",
    "this.#services.running -= 1;",
    "answeredCalls += 1; this.#services.running -= 1;",
  ];
  const switches = names.flatMap((name, at) =>
    pieces[name]!.map(([path, text, instead]): Switch => [path, text, instead.replaceAll("OFF", isOff(at))]),
  );
  const byFile = Map.groupBy([...switches, counted], ([path]) => path);
  Bun.plugin({
    name: "pieces",
    setup(build) {
      for (const [path, its] of byFile)
        build.onLoad({ filter: new RegExp(`^${RegExp.escape(src + path)}$`) }, async () => {
          let contents = await Bun.file(src + path).text();
          for (const [, text, instead] of its) {
            if (contents.split(text).length !== 2) throw new Error(`${path} does not have once: ${text}`);
            contents = contents.replace(text, () => instead);
          }
          return { contents, loader: "ts" };
        });
    },
  });
  passByElysia();
  let slice = 0;
  let [cpu, calls] = [process.threadCpuUsage(), 0];
  setInterval(() => {
    const { user, system } = process.threadCpuUsage(cpu);
    appendFileSync(file, `${state.leftOut} ${user + system} ${state.answeredCalls - calls}\n`);
    state.leftOut = slice % 2 === 0 ? (slice / 2) % names.length : whole;
    slice += 1;
    calls = state.answeredCalls;
    cpu = process.threadCpuUsage();
  }, sliceMs);
}

/** Has Bun's router call the handlers of routes for calls themselves while Elysia is left out. */
function passByElysia(): void {
  const direct = new Map<string, Handler>();
  state.takeRoute = (path, answer) => direct.set(path, answer);
  const { serve } = Bun;
  Bun.serve = ((options: { routes?: Record<string, Record<string, Handler>> }) => {
    for (const [path, answer] of direct) {
      const methods = options.routes?.[path] ?? {};
      const byElysia = methods["POST"];
      if (byElysia !== undefined)
        methods["POST"] = (request, server) => (names[state.leftOut] === "Elysia" ? answer : byElysia)(request, server);
    }
    return serve(options as never);
  }) as typeof Bun.serve;
}

/** @returns a row of Markdown for each piece: the median of what a slice without it saves beside the whole ones around it, and its standard error */
function tableOf(text: string): string {
  const slices = text
    .trim()
    .split("\n")
    .map((line) => line.split(" ").map(Number) as [number, number, number]);
  const costs = slices.map(([, used, calls]) => used / calls);
  const rows = names.map((name, piece) => {
    const saved: number[] = [];
    for (let at = 1; at < slices.length - 1; at += 1)
      if (slices[at]![0] === piece) saved.push((costs[at - 1]! + costs[at + 1]!) / 2 - costs[at]!);
    const spread = (quantile(saved, 0.75) - quantile(saved, 0.25)) / 1.35;
    return { name, saved: median(saved), error: (1.25 * spread) / Math.sqrt(saved.length), slices: saved.length };
  });
  const lines = rows
    .sort((a, b) => b.saved - a.saved)
    .map(({ name, saved, error }) => `| ${name} | ${saved.toFixed(1)} | ±${error.toFixed(1)} |`);
  const all = median(costs.filter((_, at) => slices[at]![0] === whole));
  return `${all.toFixed(1)} µs a call; ${rows[0]!.slices} slices without each\n\n| piece | µs | |\n| --- | --- | --- |\n${lines.join("\n")}`;
}

async function measure(seconds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bench-pieces-"));
  try {
    await using processes = new Processes();
    const plain = call({});
    const ends = buildEnds(folder);
    const mock = await startEndsMock(processes, ends, folder, plain);
    const file = join(folder, "slices");
    process.env[fileVariable] = file;
    const [bun = "", ...program] = sourceCommand;
    const surroundings = { processes, folder, mockPort: mock.port, calls: [plain] };
    const running = await troupe([bun, "--preload", import.meta.path, ...program]).start(surroundings);
    const load = (how: number) =>
      performLoad(processes, ends, folder, plain, running.address(plain), { callers: 64, seconds: how });
    await load(10);
    const warm = readFileSync(file, "utf8").length;
    const { calls, wrong, fault } = await load(seconds);
    console.log(`${tableOf(readFileSync(file, "utf8").slice(warm))}\n\n${calls} calls, ${wrong} wrong ${fault}`);
    await Promise.all([running.stop(), mock.stop()]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const fileVariable = "BENCH_PIECES";
const told = process.env[fileVariable];
if (told === undefined || Bun.main === import.meta.path) await measure(Number(process.argv[2] ?? 300));
else switchPieces(told);
