/** `troupe usage`: what calls used and cost. A running server's last half second may be missing. */

import { inPieces } from "../../lib/streams/pieces.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { snakeCaseNumbered } from "../../lib/text/snake-case.ts";
import { systemClock } from "../../lib/time/clock.ts";
import type { LedgerRepository, LedgerSum } from "../../store/contract/usage.ts";
import { metadataKeyOf, timeGroups } from "../../store/ledger/columns.ts";
import { ownFilterNames, type UsageQuestion } from "../../usage/budgets/own-filters.ts";
import { firstTokensOf } from "../../usage/first-token.ts";
import {
  allLines,
  allSums,
  type KeyNames,
  lineJson,
  linesCsv,
  parseUsageQuestion,
  reportTotal,
  type UsageQuery,
  usageCsv,
  usageLines,
} from "../../usage/ledger/report.ts";
import { dollarsOf } from "../../usage/money.ts";
import { type Context, type ExitCode, UsageError } from "../context.ts";
import { formatTable } from "../print/table.ts";
import { keysIn } from "./operator.ts";
import { withStore } from "./storage.ts";

type UsageOptions = {
  readonly json?: boolean;
  readonly csv?: boolean;
  readonly lines?: boolean;
  readonly firstToken?: boolean;
  readonly metadata?: readonly string[];
} & { readonly [Name in string]?: unknown };

export function showUsage(
  context: Context,
  { json, csv, lines, firstToken, metadata = [], ...flags }: UsageOptions,
): Promise<ExitCode> {
  const { io } = context;
  if (lines && !json && !csv) throw new UsageError("--lines are written by --csv or --json.");
  const question = {
    ...questionFrom(flags),
    ...(firstToken && { first_token: "true" }),
    ...Object.fromEntries(metadata.map(metadataFilter)),
  };
  // A wrong question is refused before anything is opened.
  const { filter } = asked(question);
  const single = ownFilterNames.find((name) => Object.hasOwn(question, name));
  if (single !== undefined && !lines) throw new UsageError(`--${single.replaceAll("_", "-")} chooses among --lines.`);
  return withStore(context, async (store, config) => {
    const keys = keysIn(store, config);
    const key = filter.where?.["key"];
    const named = { ...question, ...(key !== undefined && { key: (await keys.show(key)).id }) };
    const query = asked(named, config.usage.metadata);
    const names = await keys.names();
    const { ledger } = store;
    const rows = lines
      ? linesOf(ledger, query, names, csv === true)
      : json
        ? usageLines(ledger, query, names)
        : csv
          ? usageCsv(ledger, query, names)
          : [await usageTable(ledger, query, names, io.stdout.isTerminal)];
    for await (const text of inPieces(rows)) {
      io.stdout.write(text);
      await io.stdout.flush();
    }
  });
}

async function* linesOf(ledger: LedgerRepository, { filter }: UsageQuery, names: KeyNames, csv: boolean) {
  const lines = allLines(ledger, filter);
  if (csv) yield* linesCsv(lines, names);
  else for await (const line of lines) yield `${JSON.stringify(lineJson(line, names))}\n`;
}

/** The command's flags by the names of the API's parameters. */
const questionFrom = (flags: Readonly<Record<string, unknown>>): UsageQuestion =>
  Object.fromEntries(
    Object.entries(flags).flatMap(([name, value]) =>
      typeof value === "string" ? [[snakeCaseNumbered(name), value]] : [],
    ),
  );

function metadataFilter(text: string): [string, string] {
  const at = text.indexOf("=");
  const name = `metadata.${text.slice(0, Math.max(0, at))}`;
  if (metadataKeyOf(name) === undefined) throw new UsageError("--metadata has the form <key>=<value>.");
  return [name, text.slice(at + 1)];
}

const asked = (question: UsageQuestion, metadata?: readonly string[]) =>
  parseUsageQuestion(question, systemClock.now(), metadata);

const barWidth = 20;
/** Beyond it a table is no table. */
const tableRows = 1_000;

/** The costliest rows; by time in its order. */
async function usageTable(
  ledger: LedgerRepository,
  query: UsageQuery,
  names: KeyNames,
  bars: boolean,
): Promise<string> {
  const { by } = query;
  const isByTime = (timeGroups as readonly string[]).includes(by[0]!);
  let rows: LedgerSum[] = [];
  let all = 0;
  const costliest = () =>
    isByTime ? rows.slice(-tableRows) : rows.sort((a, b) => b.cost - a.cost).slice(0, tableRows);
  for await (const sum of allSums(ledger, query)) {
    all += 1;
    if (rows.push(sum) > 10 * tableRows) rows = costliest();
  }
  rows = costliest();
  const total = await reportTotal(ledger, query);
  const most = Math.max(...rows.map(({ cost }) => cost), 1);
  const barOf = ({ cost }: LedgerSum) => "█".repeat(Math.round((cost / most) * barWidth));
  const cells = ({ group, calls, tokens, cost, unknownCosts, firstTokens }: LedgerSum, named = group) => [
    ...named,
    count(calls),
    count(tokens.input),
    count(tokens.cacheRead),
    count(tokens.output),
    `$${dollarsOf(cost)}`,
    unknownCosts === 0 ? undefined : count(unknownCosts),
    ...(firstTokens === undefined ? [] : quantilesOf(firstTokens)),
  ];
  const named = (sum: LedgerSum) =>
    sum.group.map((value, at) => printableLine(by[at] === "key" ? (names.get(value) ?? value) : value) || "(none)");
  const table = formatTable(
    [
      ...by.map((group) => group.replace("_", " ")),
      "calls",
      "input",
      "cached",
      "output",
      "cost",
      "unknown",
      ...(query.firstTokens === true ? ["p50", "p95", "p99"] : []),
      ...(bars ? [""] : []),
    ],
    [
      ...rows.map((sum) => [...cells(sum, named(sum)), ...(bars ? [barOf(sum)] : [])]),
      [
        ...cells(
          total,
          by.map((_, at) => (at === 0 ? "total" : "")),
        ),
        ...(bars ? [""] : []),
      ],
    ],
  );
  const left = total.unknownCosts;
  const shown = isByTime ? "latest" : "costliest";
  return [
    table,
    all === rows.length ? "" : `The ${count(rows.length)} ${shown} of ${count(all)} rows; --csv and --json give all.\n`,
    left === 0 ? "" : `The cost leaves out ${count(left)} ${left === 1 ? "call" : "calls"} whose price is not known.\n`,
  ].join("");
}

function quantilesOf(counts: readonly number[]): (string | undefined)[] {
  const { p50, p95, p99 } = firstTokensOf(counts);
  return [p50, p95, p99].map((ms) => (ms === null ? undefined : `${count(ms)} ms`));
}

export const count = (number: number) => number.toLocaleString("en-US");
