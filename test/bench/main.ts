/** `bun run bench`: what Troupe adds to a call, beside a bare proxy on the same platform, in the same minutes. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { describeMachine } from "./machine.ts";
import { Processes } from "./processes.ts";
import { faultsOf, type Row, rowsOf, tableOf } from "./report.ts";
import { type Bench, performScenario, startMock } from "./rounds.ts";
import { type Case, type Scenario, scenarios, shortened, withinLimits } from "./scenarios.ts";
import { performSoak } from "./soak.ts";
import { performStart, startScenario } from "./start.ts";
import {
  bareProxy,
  bufferingProxy,
  installedNginx,
  readPeers,
  type Subject,
  sourceCommand,
  troupe,
  withProfiles,
} from "./subjects.ts";

const help = `Usage: bun run bench [options]

Measures Troupe beside a bare proxy (and nginx, where it is installed), all on this machine, and prints a table.
The results go to test/bench/results/ as JSON. Exit code 1: an answer was lost, reordered, changed or miscounted.

  --only <names>      these scenarios, separated by commas
  --cases <pattern>   only the cases whose label fits this regular expression, beside the bare proxy
  --without <names>   leave out these: troupe, nginx or a peer's name
  --rounds <n>        rounds of each scenario (default 5)
  --seconds <n>       measured seconds of each case and round (default: the scenario's own)
  --command <words>   how Troupe is started, e.g. dist/troupe (default: bun src/main.ts)
  --peers <file>      more gateways to measure, described as docs/performance.md says
  --profile <folder>  write CPU profiles of Troupe's process there (not of a compiled one)
  --quick             the short form for CI: one short round of everything, for correctness alone
  --soak              everything at once, for the slope of memory; for so long: --minutes <n> (default 10)
  --help              this text

Scenarios:
${[...scenarios, startScenario].map(({ name, about }) => `  ${name.padEnd(18)} ${about}`).join("\n")}
`;

type Flags = ReturnType<typeof readFlags>;

function readFlags() {
  const { values } = parseArgs({
    options: {
      only: { type: "string" },
      cases: { type: "string" },
      without: { type: "string" },
      rounds: { type: "string" },
      seconds: { type: "string" },
      command: { type: "string" },
      peers: { type: "string" },
      profile: { type: "string" },
      quick: { type: "boolean", default: false },
      soak: { type: "boolean", default: false },
      minutes: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const number = (name: "rounds" | "seconds" | "minutes", otherwise: number) => {
    const value = Number(values[name] ?? otherwise);
    if (Number.isFinite(value) && value > 0) return value;
    throw new Error(`--${name} must be a number above zero, not '${values[name]}'`);
  };
  const names = (text: string | undefined) => text?.split(",").map((name) => name.trim()) ?? [];
  const known = [...scenarios, startScenario].map(({ name }) => name);
  const only = names(values.only);
  const unknown = only.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`--only: no scenario is called ${unknown.join(", ")}; see --help`);
  return {
    ...values,
    only: only.length > 0 ? only : known,
    command: commandFrom(values.command, values.profile),
    cases: new RegExp(values.cases ?? ""),
    without: names(values.without),
    rounds: values.quick ? 1 : number("rounds", 5),
    seconds: values.seconds === undefined ? undefined : number("seconds", 1),
    minutes: number("minutes", values.quick ? 0.2 : 10),
  };
}

/** Relative paths are from here; the server has a folder of its own. */
function commandFrom(words: string | undefined, profiles: string | undefined): readonly string[] {
  const [program = "", ...rest] = words?.split(" ").filter(Boolean) ?? [];
  const command = words === undefined ? sourceCommand : [Bun.which(program) ?? resolve(program), ...rest];
  return profiles === undefined ? command : withProfiles(command, profiles);
}

/** The scenario as asked for: its cases of the subjects that take part, and those subjects' own of the same calls. */
function adapted(scenario: Scenario, subjects: readonly Subject[], others: readonly Subject[], flags: Flags): Scenario {
  const taking = (one: Case) => subjects.some(({ name }) => name === one.subject);
  const [reference, ...own] = scenario.cases.filter(taking);
  const theirs = others.flatMap((peer) =>
    scenario.cases
      .filter((one) => (one === reference || one.label.includes("→")) && peer.answers(one.call))
      .map((one) => ({ ...one, subject: peer.name, label: peer.name + (one.label.split("gateway")[1] ?? "") })),
  );
  const cases = [...own, ...theirs].filter(({ label }) => flags.cases.test(label));
  const chosen = { ...scenario, cases: [reference!, ...cases], seconds: flags.seconds ?? scenario.seconds };
  const form = flags.quick ? shortened(chosen) : chosen;
  return { ...form, load: withinLimits(form.load) };
}

type Outcome = { readonly rows: Row[]; readonly faults: string[]; readonly soak?: unknown };

async function performAll(bench: Bench, flags: Flags): Promise<Outcome> {
  const taking = ({ name }: Subject) => !flags.without.some((left) => name === left || name.startsWith(`${left}, `));
  const governed = troupe(flags.command, true);
  const own = [bareProxy, bufferingProxy, governed, troupe(flags.command)].filter(taking);
  if (flags.soak) {
    const { series, ...outcome } = await performSoak(bench, own.at(-1)!, flags.minutes);
    return { ...outcome, soak: series };
  }
  const { subjects: peers, absent } = flags.peers === undefined ? { subjects: [], absent: [] } : readPeers(flags.peers);
  for (const name of absent) bench.tell(`${name} is left out: its command is not on the PATH`);
  const others = [...(flags.quick ? [] : installedNginx()), ...peers].filter(taking);
  const outcome: Outcome = { rows: [], faults: [] };
  for (const scenario of scenarios.filter(({ name }) => flags.only.includes(name))) {
    const chosen = adapted(scenario, own, others, flags);
    const results = await performScenario(bench, chosen, [...own, ...others], flags.rounds);
    const rows = rowsOf(chosen, results);
    outcome.rows.push(...rows);
    outcome.faults.push(...faultsOf(chosen, results));
    if (!flags.quick) console.log(`\n${chosen.name}: ${chosen.about}\n\n${tableOf(rows)}`);
  }
  if (flags.only.includes(startScenario.name)) {
    const subjects = [...own, ...others].filter((one) => one !== bufferingProxy && one !== governed);
    const rows = await performStart(bench, subjects, flags.command, flags.rounds, flags.quick ? 0 : 1);
    outcome.rows.push(...rows);
    if (!flags.quick) console.log(`\n${startScenario.name}: ${startScenario.about}\n\n${tableOf(rows)}`);
  }
  return outcome;
}

/** @returns where they were written */
function keepResults(results: object): string {
  const folder = join(import.meta.dir, "results");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${new Date().toISOString().replaceAll(":", "-").slice(0, 19)}.json`);
  writeFileSync(path, `${JSON.stringify(results, undefined, 1)}\n`);
  return path;
}

async function main(): Promise<number> {
  const flags = readFlags();
  if (flags.help) {
    console.log(help);
    return 0;
  }
  const machine = describeMachine();
  for (const [name, value] of Object.entries(machine)) console.log(`${name.padEnd(8)}${value}`);
  const folder = mkdtempSync(join(tmpdir(), "troupe-bench-"));
  await using processes = new Processes();
  // At the very end, also when a signal brings it: the processes that write there have been killed by then.
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const tell = (line: string) => console.error(`· ${line}`);
  const bench = { processes, folder, mockPort: await startMock(processes), tell };
  const { rows, faults, soak } = await performAll(bench, flags);
  if (flags.soak) console.log(`\n${tableOf(rows)}`);
  const path = keepResults({
    at: new Date().toISOString(),
    arguments: process.argv.slice(2),
    machine,
    rows,
    faults,
    soak,
  });
  for (const fault of faults) console.log(`FAULT ${fault}`);
  console.log(`\n${faults.length} kinds of fault; results in ${resolve(path)}`);
  return faults.length > 0 ? 1 : 0;
}

process.exitCode = await main().catch((error) => {
  console.error(`bench: ${error instanceof Error ? error.message : error}`);
  return 2;
});
