/** The tables of docs/scaling.md, reckoned from `measured.json`. `bun test/scaling/page.ts` writes them anew. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Kind, type Measured, readMeasured } from "./measured.ts";
import { bytes, defaults, planFor, rowsOf } from "./plan.ts";

export const page = join(import.meta.dir, "../../docs/scaling.md");

const names: { readonly [K in Kind]: string } = {
  plain: "plain: its ledger line, in batches",
  id1Kb: "`service-request-id`, answer of 1 KB",
  id10Kb: "the same, 10 KB",
  idStream1Kb: "the same, a stream of 1 KB",
  idStream10Kb: "the same, a stream of 10 KB",
  budget: "held to a budget",
  store1Kb: "`store: true`, answer of 1 KB",
  store10Kb: "the same, 10 KB",
};

const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |\n`).join("");
const micros = (value: number) => `${Math.round(value)} µs`;
const many = (value: number) => Number(value.toPrecision(2)).toLocaleString("en-US");
const few = (value: number) => String(Math.round(value * 10) / 10);

function postgresRows({ postgres, ledgerLine, budgetLive }: Measured): string[][] {
  const { statements, nodeMicros, serverMicros, redisMicros } = budgetLive;
  const live = [
    "the same, counted in Valkey or Redis",
    "0",
    few(statements),
    "0 B",
    "0 B",
    micros(postgres.plain.nodeMicros + nodeMicros),
    `${micros(postgres.plain.serverMicros + serverMicros)}, and ${micros(redisMicros)} of Valkey or Redis`,
  ];
  return Object.entries(names).flatMap(([kind, name]) => {
    const { before, statements, walBytes, keptBytes, nodeMicros, serverMicros } = postgres[kind as Kind];
    const isPlain = kind === "plain";
    const row = [
      name,
      few(before),
      few(statements),
      bytes(isPlain ? ledgerLine.walBytes : walBytes),
      bytes(isPlain ? ledgerLine.keptBytes : keptBytes),
      micros(nodeMicros),
      micros(serverMicros),
    ];
    return kind === "budget" ? [row, live] : [row];
  });
}

function sqliteRows({ sqlite }: Measured): string[][] {
  return Object.entries(names).map(([kind, name]) => {
    const { keptBytes, writtenBytes, syncs, nodeMicros } = sqlite[kind as Kind];
    return [name, bytes(keptBytes), bytes(writtenBytes), few(1000 * syncs), micros(nodeMicros), many(1e6 / nodeMicros)];
  });
}

const sizes = [10, 1_000, 100_000];

/** @returns the text of each place of the page, by its name */
export function tables(measured: Measured): Record<string, string> {
  const plans = sizes.map((calls) => rowsOf(planFor({ ...defaults, calls }, measured)));
  const shortly = sizes.map((calls) => planFor({ ...defaults, calls, "keep-days": 30 }, measured));
  const {
    ledgerDay,
    at,
    machine,
    versions,
    idle,
    stream,
    joined,
    joinedLive,
    budgetLive,
    windows,
    limiters,
    joins,
    server,
  } = measured;
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
          `${few(joined.statements)} statements, ${bytes(joined.walBytes)} of log; or ${few(joinedLive.statements)} statements, and ${few(joinedLive.commands)} commands and ${micros(joinedLive.redisMicros)} of Valkey or Redis`,
        ],
        [
          "a key in use, a second and node: its window",
          `${micros(windows.postgresMicros)} of PostgreSQL; or ${micros(windows.redisMicros)} and ${bytes(windows.redisBytesPerCaller)} of Valkey or Redis, which gets ${few(windows.redisCommands)} commands a second from a node`,
        ],
        [
          "a ledger line that is the only one of its key in its batch",
          `${bytes(ledgerDay.walBytes)} of log more; ${bytes(ledgerDay.keptBytes)} for each key and day`,
        ],
        ["commits", `${few(server.commitMs)} ms each; ${many(server.commits)} a second by 32 connections`],
        [
          "calls that count in one and the same budget",
          `${many(server.reservationsOfOneBudget)} a second; ${many(1e6 / budgetLive.redisMicros)} by the one core of Valkey or Redis`,
        ],
      ],
    ),
    shared: table(
      ["", "through files of one machine", "over nodes"],
      [
        [
          "a hit on a rate limit",
          `${few(limiters.filesMicros)} µs`,
          `${few(limiters.clusterMicros)} µs with a slot that the node holds`,
        ],
        [
          "a fragment, to a reader of another process",
          `${Math.round(joins.sqliteMs)} ms later (SQLite)`,
          `${Math.round(joins.postgresMs)} ms later (PostgreSQL), ${few(joins.redisMs)} ms (Valkey or Redis)`,
        ],
        [
          "a call with an id, beside a plain one",
          `${micros(measured.sqlite.id1Kb.nodeMicros - measured.sqlite.plain.nodeMicros)} of the process`,
          `${micros(measured.postgres.id1Kb.nodeMicros - measured.postgres.plain.nodeMicros)} of the process, ${micros(measured.postgres.id1Kb.serverMicros)} of the database`,
        ],
      ],
    ),
    sqlite: table(
      ["a call", "kept", "written to the disk", "syncs of 1,000 calls", "process", "calls a second, one core"],
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
