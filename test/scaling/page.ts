/** The tables of docs/scaling.md, reckoned from `measured.json`. `bun test/scaling/page.ts` writes them anew. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Kind, type Measured, readMeasured } from "./measured.ts";
import { bytes, defaults, planFor, rowsOf } from "./plan.ts";

export const page = join(import.meta.dir, "../../docs/scaling.md");

/** Of what was measured, the calls that the page shows. */
const names: { readonly [K in Kind]?: string } = {
  plain: "plain: its ledger line, in batches",
  id1Kb: "`service-request-id`, answer of 1 KB",
  idStream10Kb: "the same, a stream of 10 KB",
  budget: "held to a budget",
  store1Kb: "`store: true`, answer of 1 KB",
};

const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |\n`).join("");
const micros = (value: number) => `${Math.round(value)} µs`;
const many = (value: number) => Number(value.toPrecision(2)).toLocaleString("en-US");
const few = (value: number) => String(Math.round(value * 10) / 10);

function postgresRows({ postgres, ledgerLine }: Measured): string[][] {
  return Object.entries(names).map(([kind, name]) => {
    const { before, statements, walBytes, keptBytes, nodeMicros, serverMicros } = postgres[kind as Kind];
    const isPlain = kind === "plain";
    return [
      name,
      few(before),
      few(statements),
      bytes(isPlain ? ledgerLine.walBytes : walBytes),
      bytes(isPlain ? ledgerLine.keptBytes : keptBytes),
      micros(nodeMicros),
      micros(serverMicros),
    ];
  });
}

function sqliteRows({ sqlite }: Measured): string[][] {
  return Object.entries(names).map(([kind, name]) => {
    const { keptBytes, writtenBytes, nodeMicros } = sqlite[kind as Kind];
    return [name, bytes(keptBytes), bytes(writtenBytes), micros(nodeMicros), many(1e6 / nodeMicros)];
  });
}

const sizes = [10, 1_000, 100_000];

/** @returns the text of each place of the page, by its name */
export function tables(measured: Measured): Record<string, string> {
  const plans = sizes.map((calls) => rowsOf(planFor({ ...defaults, calls }, measured)));
  const shortly = sizes.map((calls) => planFor({ ...defaults, calls, "keep-days": 30 }, measured));
  const { at, machine, versions, idle, stream, joined, windows, server } = measured;
  return {
    costs: table(
      ["a call", "statements before the upstream is called", "in all", "log (WAL)", "kept", "node", "PostgreSQL"],
      postgresRows(measured),
    ),
    others: table(
      ["beside calls", ""],
      [
        [
          "a node without calls",
          `${few(idle.statements)} statements a second, ${idle.connections} connections, ${micros(idle.serverMicros)} of PostgreSQL a second, ${bytes(idle.memoryBytes)} of memory`,
        ],
        [
          "an open stream",
          `${bytes(stream.memoryBytes)} of memory; ${micros(stream.fragmentMicros)} of the node for each fragment`,
        ],
        [
          "a stream that is read on another node, a second",
          `${few(joined.statements)} statements, ${bytes(joined.walBytes)} of log`,
        ],
        [
          "a request that is counted on its key's window",
          `${micros(windows.postgresMicros)} of PostgreSQL; or ${micros(windows.redisMicros)} and ${bytes(windows.redisBytesPerHit)} for a minute of Valkey or Redis`,
        ],
        ["commits", `${few(server.commitMs)} ms each; ${many(server.commits)} a second by 32 connections`],
        ["calls that count in one and the same budget", `${many(server.reservationsOfOneBudget)} a second`],
      ],
    ),
    sqlite: table(
      ["a call", "kept", "written to the disk", "process", "calls a second, one core"],
      sqliteRows(measured),
    ),
    machine: `Measured on ${at}: ${machine.processor}, load average ${machine.load}; Bun ${versions.bun}, PostgreSQL ${versions.postgres} with \`fsync\`, Redis ${versions.redis}, SQLite ${versions.sqlite}.\n`,
    plans: table(
      ["calls a second", ...sizes.map((calls) => calls.toLocaleString("en-US"))],
      [
        ...plans[0]!.map(([what], at) => [what, ...plans.map((rows) => rows[at]![1])]),
        ["groups, where the ledger is kept 30 days", ...shortly.map(({ groups }) => String(groups))],
      ],
    ),
  };
}

/** The page with every table in its place. */
export function withTables(text: string, measured = readMeasured()): string {
  return Object.entries(tables(measured)).reduce(
    (now, [name, lines]) =>
      now.replace(
        new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(<!-- /${name} -->)`),
        (_, start, end) => start + lines + end,
      ),
    text,
  );
}

if (import.meta.main) writeFileSync(page, withTables(readFileSync(page, "utf8")));
