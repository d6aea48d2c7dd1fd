/**
 * Compares builds of Troupe by the CPU of a plain gateway call, cold and warm, in alternating slices with both ends in C, beside the bare
 * proxy. Linux, with a C compiler. `bun test/bench/compare.ts old=<executable> new=dist/troupe`; --help has the options.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { call } from "./calls.ts";
import { describeMachine } from "./machine.ts";
import { cpuSeconds, residentBytes } from "./process-stats.ts";
import { Processes } from "./processes.ts";
import { median } from "./statistics.ts";
import {
  bareProxy,
  firstLine,
  ignoreOutput,
  installedNginx,
  type Running,
  readPeers,
  type Subject,
  troupe,
} from "./subjects.ts";

const help = `Usage: bun test/bench/compare.ts [options] <name>=<command> …

Measures the CPU of a plain gateway call, with key, exact limit, ledger, log and metrics, of each named command (dist/troupe, say) beside the bare
proxy: of the first calls after a start, and of calls then, in alternating slices. Exit code 1: an answer was wrong; 2: it could not be measured.

  --rounds <n>    slices of each (default 10)
  --seconds <n>   of each slice (default 2)
  --first <n>     calls that count as cold (default 20000)
  --warm <n>      seconds of load between the first calls and the slices (default 8)
  --callers <n>   at a time (default 64)
  --peers <file>  other gateways in the same rounds, described as docs/performance.md says, and nginx where it is installed
`;

type Slice = { readonly calls: number; readonly wrong: number; readonly seconds: number; readonly cpu: number };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "10" },
    seconds: { type: "string", default: "2" },
    first: { type: "string", default: "20000" },
    warm: { type: "string", default: "8" },
    callers: { type: "string", default: "64" },
    peers: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});

function numberOf(name: Exclude<keyof typeof values, "help" | "peers">): number {
  const value = Number(values[name]);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`--${name} must be a number above zero, not '${values[name]}'`);
}

/** @throws where a positional is no `<name>=<command>` */
function subjectsOf(named: readonly string[]): Subject[] {
  return named.map((one) => {
    const at = one.indexOf("=");
    if (at <= 0 || at === one.length - 1) throw new Error(`'${one}' is no <name>=<command>; see --help`);
    const [program = "", ...rest] = one.slice(at + 1).split(" ");
    // Relative paths are from here; the server has a folder of its own.
    return { ...troupe([Bun.which(program) ?? resolve(program), ...rest]), name: one.slice(0, at) };
  });
}

/** The other gateways of a file; says on standard error which of them are not installed. */
function peersOf(file: string): Subject[] {
  const { subjects, absent } = readPeers(file);
  for (const name of absent) console.error(`not installed: ${name}`);
  return [...installedNginx(), ...subjects];
}

/** @throws where there is no C compiler, or it finds fault */
function buildEnds(folder: string): string {
  const compiler = Bun.which("cc") ?? Bun.which("gcc") ?? Bun.which("clang");
  if (compiler === null) throw new Error("a C compiler (cc, gcc or clang) is needed for the ends");
  const file = join(folder, "ends");
  const { exitCode, stderr } = Bun.spawnSync([compiler, "-O2", "-o", file, join(import.meta.dir, "ends.c")]);
  if (exitCode !== 0) throw new Error(`the ends can't be built: ${stderr}`);
  return file;
}

async function compare(processes: Processes, folder: string): Promise<number> {
  const subjects = [
    bareProxy,
    ...subjectsOf(positionals),
    ...(values.peers === undefined ? [] : peersOf(values.peers)),
  ];
  const [rounds, seconds, first, warmUp, callers] = [
    numberOf("rounds"),
    numberOf("seconds"),
    numberOf("first"),
    numberOf("warm"),
    numberOf("callers"),
  ];
  const ends = buildEnds(folder);
  const mock = processes.start({ role: "mock", command: [ends, "mock"] });
  const mockPort = Number(await firstLine(mock));
  ignoreOutput(mock);
  const asked = call({});
  const running: { readonly name: string; readonly server: Running }[] = [];
  for (const subject of subjects) {
    const own = join(folder, String(running.length));
    mkdirSync(own);
    running.push({
      name: subject.name,
      server: await subject.start({ processes, folder: own, mockPort, calls: [asked] }),
    });
  }
  /** One load of a server, with what it cost. */
  const slice = async (server: Running, calls: number, until: number): Promise<Slice> => {
    const { port, path, headers, model } = server.address(asked);
    const key = headers["authorization"]!.slice("Bearer ".length);
    const words = [port, path, key, model, callers, calls, until].map(String);
    const before = cpuSeconds(server.pids);
    const child = processes.start({ role: "load", command: [ends, "load", ...words] });
    const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    const cpu = cpuSeconds(server.pids) - before;
    if ((await child.exited) !== 0) throw new Error(`the load generator failed: ${errors}`);
    const [made = 0, wrong = 0, took = 0] = output.split(" ").map(Number);
    return { calls: made, wrong, seconds: took, cpu: (cpu / made) * 1e6 };
  };
  const cold: Slice[] = [];
  for (const { server } of running) {
    cold.push(await slice(server, first, 600));
    await slice(server, 1e9, warmUp);
  }
  const warm: Slice[][] = running.map(() => []);
  for (let round = 0; round < rounds; round += 1)
    for (const [at, { server }] of running.entries()) warm[at]!.push(await slice(server, 1e9, seconds));
  console.log("| server | first calls, CPU, µs | warm, CPU, µs | beside the bare proxy | calls/s | resident, MB |");
  console.log("| --- | --- | --- | --- | --- | --- |");
  for (const [at, { name, server }] of running.entries()) {
    const slices = warm[at]!;
    const all = slices.map(({ cpu }) => cpu);
    const ratios = slices.map(({ cpu }, round) => cpu / warm[0]![round]!.cpu);
    const [least, most] = [Math.min(...all), Math.max(...all)].map((one) => one.toFixed(0));
    const cells = [
      name,
      cold[at]!.cpu.toFixed(0),
      `${median(all).toFixed(1)} (${least}–${most})`,
      `${median(ratios).toFixed(2)}×`,
      median(slices.map(({ calls, seconds }) => calls / seconds)).toFixed(0),
      (residentBytes(server.pids) / 1e6).toFixed(0),
    ];
    console.log(`| ${cells.join(" | ")} |`);
  }
  const wrong = [...cold, ...warm.flat()].reduce((sum, one) => sum + one.wrong, 0);
  if (wrong > 0) console.error(`${wrong} answers were wrong`);
  return wrong > 0 ? 1 : 0;
}

if (values.help || positionals.length === 0) console.log(help);
else {
  const folder = mkdtempSync(join(tmpdir(), "bench-compare-"));
  try {
    console.log(Object.values(describeMachine()).join("; "));
    await using processes = new Processes();
    process.exitCode = await compare(processes, folder);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 2;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
