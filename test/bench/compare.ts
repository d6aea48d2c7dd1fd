/**
 * Compares builds of Troupe, beside the bare proxy, nginx and other gateways, by kinds of calls, in alternating slices with both ends in C.
 * Linux, with a C compiler. `bun test/bench/compare.ts old=<executable> new=dist/troupe`; --help has the options.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Kind, kinds, kindsOf } from "./compare-kinds.ts";
import { type Comparison, type Outcome, type Participant, performKind } from "./compare-run.ts";
import { comparisonTable } from "./compare-table.ts";
import { buildEnds } from "./ends.ts";
import { describeMachine } from "./machine.ts";
import { Processes } from "./processes.ts";
import { bareProxy, direct, installedNginx, readPeers, type Subject, troupe } from "./subjects.ts";

const help = `Usage: bun test/bench/compare.ts [options] <name>=<command> …

Measures what calls cost each named command (dist/troupe, say) beside the bare proxy, with key, exact limit, ledger, log and metrics, and writes a
table for each kind of calls. Every answer is checked. What can't answer a kind is left out of it; what fails is told as such. The row 'direct' has
the ends without a server between them. Exit code 1: a build's or the bare proxy's answer was wrong, or it failed; 2: nothing could be measured.

  --kinds <names> of calls, by commas, or 'all' (default plain)
  --rounds <n>    slices of each (default 10)
  --seconds <n>   of each slice (default 2)
  --first <n>     calls that count as cold (default 20000)
  --warm <n>      seconds of load before the slices (default 8)
  --callers <n>   at a time, instead of the kind's own
  --peers <file>  other gateways in the same rounds, described as docs/performance.md says, and nginx where it is installed

Kinds:
${kinds.map(({ name, about }) => `  ${name.padEnd(18)}${about}`).join("\n")}
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    kinds: { type: "string", default: "plain" },
    rounds: { type: "string", default: "10" },
    seconds: { type: "string", default: "2" },
    first: { type: "string", default: "20000" },
    warm: { type: "string", default: "8" },
    callers: { type: "string" },
    peers: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});

function numberOf(name: "rounds" | "seconds" | "first" | "warm" | "callers"): number {
  const value = Number(values[name]);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`--${name} must be a number above zero, not '${values[name]}'`);
}

type Build = { readonly plain: Subject; readonly governed: Subject };

/** @throws where a positional is no `<name>=<command>` */
function buildsOf(named: readonly string[]): Build[] {
  return named.map((one) => {
    const at = one.indexOf("=");
    if (at <= 0 || at === one.length - 1) throw new Error(`'${one}' is no <name>=<command>; see --help`);
    const [program = "", ...rest] = one.slice(at + 1).split(" ");
    // Relative paths are from here; the server has a folder of its own.
    const command = [Bun.which(program) ?? resolve(program), ...rest];
    const name = one.slice(0, at);
    return { plain: { ...troupe(command), name }, governed: { ...troupe(command, true), name } };
  });
}

/** The other gateways of a file; says on standard error which of them are not installed. */
function peersOf(file: string): Subject[] {
  const { subjects, absent } = readPeers(file);
  for (const name of absent) console.error(`not installed: ${name}`);
  return [...installedNginx(), ...subjects];
}

function participantsOf(kind: Kind, builds: readonly Build[], peers: readonly Subject[]): Participant[] {
  const part = (subject: Subject): Participant => ({
    subject,
    call: subject.answers(kind.call) ? kind.call : kind.baseline,
    isDirect: subject === direct,
    isBaseline: subject === bareProxy,
  });
  const others = kind.governed ? [] : peers.filter((peer) => peer.answers(kind.call));
  const own = builds.map(({ plain, governed }) => (kind.governed ? governed : plain));
  return [direct, bareProxy, ...own, ...others].map(part);
}

async function compare(processes: Processes, folder: string): Promise<number> {
  const chosen = kindsOf(values.kinds);
  const builds = buildsOf(positionals);
  const comparison: Omit<Comparison, "ends"> = {
    processes,
    folder,
    rounds: numberOf("rounds"),
    seconds: numberOf("seconds"),
    first: numberOf("first"),
    warm: numberOf("warm"),
    callers: values.callers === undefined ? undefined : numberOf("callers"),
    tell: process.stderr.isTTY ? (line) => console.error(`· ${line}`) : () => {},
  };
  const peers = values.peers === undefined ? [] : peersOf(values.peers);
  const ends = buildEnds(folder);
  let faults = 0;
  for (const kind of chosen) {
    const outcomes = await performKind({ ...comparison, ends }, kind, participantsOf(kind, builds, peers));
    console.log(`\n${kind.name}: ${kind.about}\n\n${comparisonTable(kind, outcomes)}`);
    const isAtFault = ({ subject, failure, wrong }: Outcome) =>
      !peers.includes(subject) && (failure !== undefined || wrong > 0);
    faults += outcomes.filter(isAtFault).length;
  }
  return faults > 0 ? 1 : 0;
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
