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
import { pieces, type Switch } from "./pieces-table.ts";
import { Processes } from "./processes.ts";
import { median, quantile } from "./statistics.ts";
import { sourceCommand, troupe } from "./subjects.ts";

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
