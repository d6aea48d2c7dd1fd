/** `troupe reconcile`: the ledger beside OpenAI's and Anthropic's own reports of use and cost. */

import type { Config, ProviderConfig } from "../../config/config.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";
import { recordReconciled } from "../../operate/reconciliations.ts";
import type { LedgerSum } from "../../store/contract/usage.ts";
import { allSums, timeOf } from "../../usage/ledger/report.ts";
import { moneyWords } from "../../usage/money.ts";
import {
  type ComparedSide,
  type Reason,
  type Reconciled,
  type ReconciledRow,
  reconcile,
} from "../../usage/reconcile/compare.ts";
import { fetchReports } from "../../usage/reconcile/fetch.ts";
import { type FileReport, readReport, vendors } from "../../usage/reconcile/files.ts";
import { ReportError, type Reported, reportKinds } from "../../usage/reconcile/reported.ts";
import type { Question, Vendor } from "../../usage/reconcile/vendor.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";
import { operatorOf } from "./operator.ts";
import { assertDatabase, usingStore } from "./storage.ts";
import { count } from "./usage.ts";

type ReconcileOptions = {
  readonly provider?: readonly string[];
  readonly report?: readonly string[];
  readonly project?: readonly string[];
  readonly since?: string;
  readonly until?: string;
  /** A share of what is reported. */
  readonly tolerance?: number;
  readonly all?: boolean;
  readonly json?: boolean;
};

const maxDays = 366;
/** Within it numbers count as equal where none is given. */
const usualTolerance = 0.005;

/** @returns 1 where `tolerance` is given and a difference is beyond it, or can't be judged */
export function reconcileReports(context: Context, options: ReconcileOptions): Promise<ExitCode> {
  const period = periodOf(options);
  return withConfig(context, async (config) => {
    const { tolerance, all = false, json } = options;
    try {
      const parts = partsOf(context, config, options);
      await assertDatabase(context, config);
      const found = await reconciled(config, parts, { ...period, projects: options.project ?? [] }, tolerance);
      const verdicts = found.map((one) => isWithin(one, tolerance ?? usualTolerance));
      await keepOutcomes(context, config, period, found, tolerance ?? usualTolerance);
      if (json) {
        const data = found.map(foundJson(verdicts));
        printJson(context.io, { ...headOf(period), tolerance: tolerance ?? null, data });
      } else for (const one of found) context.io.stdout.write(textOf(one, period, all));
      return tolerance === undefined || verdicts.every(Boolean) ? 0 : 1;
    } catch (error) {
      if (error instanceof ReportError) throw new CommandError(printableLine(error.message));
      throw error;
    }
  });
}

/** Leaves a line of the audit for each account, by which the doctor and the console say how they last compared. */
const keepOutcomes = (context: Context, config: Config, period: Period, found: readonly Found[], tolerance: number) =>
  usingStore(config, async (store) => {
    const operator = operatorOf(context, store, config);
    for (const one of found)
      await recordReconciled(operator, {
        ...{ account: one.vendor.name, since: isoDay(period.since), until: isoDay(period.until) },
        ledger_micro_dollars: one.ledger.cost ?? null,
        reported_micro_dollars: one.reported.cost ?? null,
        ...{ within: isWithin(one, tolerance), tolerance },
        rows_that_differ: one.rows.filter(({ why }) => why.length > 0).length,
      });
  });

/**
 * The last seven days of the accounts whose admin keys the environment has, in a line each.
 * @param names of providers at other addresses than the vendors' own
 * @throws ReportError
 */
export async function billedLately(
  context: Context,
  config: Config,
  names?: readonly string[],
): Promise<{ words: string; isWithin: boolean }[]> {
  const period = periodOf({});
  const parts = accountsOf(context, chosenProviders(config, names), []);
  const found = await reconciled(config, parts, { ...period, projects: [] }, undefined);
  return found.map((one) => {
    const { vendor, ledger, reported } = one;
    const [own, theirs] = [ledger.cost ?? 0, reported.cost ?? 0];
    const days = `${isoDay(period.since)} to ${isoDay(period.until - dayMs)}`;
    return {
      words: `${vendor.name} reports ${moneyWords(theirs)}, the ledger has ${moneyWords(own)}${percent(own, theirs)}, ${days}`,
      isWithin: isWithin(one, usualTolerance),
    };
  });
}

async function reconciled(
  config: Config,
  parts: readonly Part[],
  asked: Question,
  tolerance = usualTolerance,
): Promise<Found[]> {
  const found: Found[] = [];
  for (const { vendor, providers, given, key } of parts) {
    const reports = given ?? (await fetchReports(vendor, providers[0]!.baseUrl, key, asked));
    found.push({ vendor, providers, ...reconcile(await sumsOf(config, providers, asked), reports, asked, tolerance) });
  }
  return found;
}

type Period = Pick<Question, "since" | "until">;
type Part = {
  readonly vendor: Vendor;
  readonly providers: readonly ProviderConfig[];
  /** Its reports, where files were given. */
  readonly given?: readonly Reported[];
  readonly key: string;
};
type Found = Reconciled & Pick<Part, "vendor" | "providers">;

/** Whole days, by default the seven before today: reports are some hours late. @throws UsageError */
function periodOf({ since, until }: ReconcileOptions): Period {
  const now = systemClock.now();
  const today = Math.floor(now / dayMs) * dayMs;
  const given = (name: "since" | "until", text: string) => {
    const at = timeOf(name, text, now);
    if (at % dayMs === 0) return at;
    throw new UsageError(`--${name} must be a whole day in UTC, as reports have no others: 2026-11-22, 7d, 2w.`);
  };
  const end = until === undefined ? today : given("until", until);
  const begin = since === undefined ? end - 7 * dayMs : given("since", since);
  if (begin >= end)
    throw new UsageError("--since must lie before --until, which is the beginning of today by default.");
  if (end - begin > maxDays * dayMs) throw new UsageError(`--since and --until lie more than ${maxDays} days apart.`);
  return { since: begin, until: end };
}

/** @throws CommandError, ReportError */
function filesOf({ io }: Context, { report = [], project = [] }: ReconcileOptions): FileReport[] {
  return report.map((path) => {
    const text = io.readFile(path);
    if (text === undefined) throw new CommandError(`There is no file ${printableLine(path)}.`);
    return readReport(path, text, project);
  });
}

/** @throws CommandError, ReportError, UsageError */
function partsOf(context: Context, config: Config, options: ReconcileOptions): Part[] {
  const files = filesOf(context, options);
  const chosen = chosenProviders(config, options.provider);
  const parts = accountsOf(context, chosen, files);
  if (parts.length > 0) return parts;
  const variables = vendors.map(({ variable }) => variable).join(" or ");
  throw new UsageError(
    chosen.length === 0
      ? "No provider is OpenAI or Anthropic at its own address; --provider names one at another."
      : `Set ${variables} to an admin key of the account, or give its exported files by --report.`,
  );
}

/** The accounts that files are of; without files, those whose admin keys the environment has. @throws CommandError */
function accountsOf({ io }: Context, chosen: readonly ProviderConfig[], files: readonly FileReport[]): Part[] {
  return vendors.flatMap((vendor): Part[] => {
    const providers = chosen.filter(({ dialect }) => dialect === vendor.name);
    const given = files.filter((file) => file.vendor === vendor).map((file) => file.report);
    if (given.length > 0 && providers.length === 0)
      throw new CommandError(
        `There is a report of ${vendor.name}, and no provider there; --provider names one at another address.`,
      );
    const key = io.env[vendor.variable] ?? "";
    if (providers.length === 0 || (files.length > 0 ? given.length === 0 : key === "")) return [];
    return [{ vendor, providers, key, ...(files.length > 0 && { given }) }];
  });
}

/** @throws UsageError */
function chosenProviders({ providers }: Config, names: readonly string[] | undefined): ProviderConfig[] {
  const vendorOf = ({ dialect }: ProviderConfig) => vendors.find(({ name }) => name === dialect);
  if (names === undefined) {
    return providers.filter((one) => {
      const { hostname } = new URL(one.baseUrl);
      const host = vendorOf(one)?.host;
      return host !== undefined && (hostname === host || hostname.endsWith(`.${host}`));
    });
  }
  return names.map((name) => {
    const found = providers.find((one) => one.name === name);
    if (found !== undefined && vendorOf(found) !== undefined) return found;
    const known = vendors.map((vendor) => vendor.name).join(" or ");
    throw new UsageError(`--provider ${printableLine(name)} is no configured provider of the kind ${known}.`);
  });
}

function sumsOf(config: Config, providers: readonly ProviderConfig[], period: Period): Promise<LedgerSum[]> {
  return usingStore(config, async ({ ledger }) => {
    const sums: LedgerSum[] = [];
    for (const { name } of providers) {
      const filter = { ...period, where: { provider: name } };
      for await (const sum of allSums(ledger, { filter, by: ["day", "upstream_model", "service_tier"], limit: 1 }))
        sums.push(sum);
    }
    return sums;
  });
}

/** True if the sums agree, and all of them could be compared. */
function isWithin({ ledger, reported, missing, currencies }: Reconciled, tolerance: number): boolean {
  const pairs =
    reported.cost !== undefined
      ? [[ledger.cost ?? 0, reported.cost]]
      : (["input", "output"] as const).map((kind) => [ledger.tokens?.[kind] ?? 0, reported.tokens?.[kind] ?? 0]);
  const isClose = pairs.every(([mine, told]) => Math.abs(told! - mine!) <= tolerance * Math.abs(told!));
  return (
    isClose &&
    currencies.length === 0 &&
    reportKinds.every((kind) => missing[kind].length === 0 || isAbsent(kind, reported))
  );
}

/** No report of a kind was given: one of the other is enough. */
const isAbsent = (kind: "costs" | "usage", reported: ComparedSide) =>
  (kind === "costs" ? reported.cost : reported.tokens) === undefined;

const isoDay = (at: number) => new Date(at).toISOString().slice(0, 10);
const headOf = ({ since, until }: Period) => ({ object: "reconciliation", since: isoDay(since), until: isoDay(until) });

const sideJson = ({ calls, tokens, cost }: ComparedSide) => ({
  ...(calls !== undefined && { calls }),
  ...(tokens && {
    input_tokens: tokens.input,
    cache_read_tokens: tokens.cacheRead,
    cache_write_tokens: tokens.cacheWrite,
    output_tokens: tokens.output,
  }),
  ...(cost !== undefined && { cost_micro_dollars: cost }),
});

const rowJson = ({ day, model, tier, items, ledger, reported, why }: ReconciledRow) => ({
  ...{ day, model: model || null, service_tier: tier, ...(items && { items }) },
  ledger: {
    ...sideJson(ledger),
    unknown_cost_calls: ledger.unknownCosts,
    estimated_calls: ledger.estimated,
    unfinished_calls: ledger.unfinished,
  },
  ...{ reported: sideJson(reported), why },
});

const foundJson = (verdicts: readonly boolean[]) => (found: Found, at: number) => ({
  ...{ account: found.vendor.name, providers: found.providers.map(({ name }) => name), within: verdicts[at]! },
  ...{ ledger: sideJson(found.ledger), reported: sideJson(found.reported) },
  missing_days: Object.fromEntries(
    reportKinds.map((kind) => [kind, isAbsent(kind, found.reported) ? null : found.missing[kind]]),
  ),
  ...{ other_currencies: found.currencies, rows: found.rows.map(rowJson) },
});

const calls = (number = 0) => `${count(number)} ${number === 1 ? "call" : "calls"}`;
const words: { readonly [R in Reason]: (number?: number) => string } = {
  not_in_ledger: () => "not in the ledger: another key of the account, or past this program",
  not_reported: () => "not reported (yet?)",
  more_calls: (number) => `${calls(number)} more than the ledger has: other keys of the account`,
  unknown_cost: (number) => `${calls(number)} of unknown cost`,
  estimated: (number) => `${calls(number)} with estimated tokens`,
  unfinished: (number) => `${calls(number)} left or broken before the end`,
  price: () => "tokens agree, the price differs",
  tier_not_reported: () => "this tier is not in the report of costs",
  tokens: () => "tokens differ",
  cost: () => "the cost differs",
};

const signed = (number: number, text: string) => (number > 0 ? `+${text}` : text);
const percent = (own: number, theirs: number) =>
  theirs === 0 ? "" : ` (${signed(theirs - own, (((theirs - own) / Math.abs(theirs)) * 100).toFixed(2))}%)`;

function cellsOf(ledger: ComparedSide, reported: ComparedSide): (string | undefined)[] {
  const { cost } = ledger;
  const tokens = (["input", "output"] as const).map((kind) => {
    const [own, theirs] = [ledger.tokens?.[kind], reported.tokens?.[kind]];
    if (own === undefined || theirs === undefined) return own === undefined ? undefined : count(own);
    return own === theirs ? count(own) : `${count(own)} (${signed(theirs - own, count(theirs - own))})`;
  });
  const difference = cost === undefined || reported.cost === undefined ? undefined : reported.cost - cost;
  return [
    ...tokens,
    cost === undefined ? undefined : moneyWords(cost),
    reported.cost === undefined ? undefined : moneyWords(reported.cost),
    difference === undefined
      ? undefined
      : `${signed(difference, moneyWords(difference))}${percent(cost!, reported.cost!)}`,
  ];
}

function textOf(
  { vendor, providers, rows, ledger, reported, missing, currencies }: Found,
  period: Period,
  all: boolean,
): string {
  const names = providers.map(({ name }) => printableLine(name)).join(", ");
  const shown = all ? rows : rows.filter(({ why }) => why.length > 0);
  const table = formatTable(
    ["day", "model", "tier", "input", "output", "ledger", "reported", "difference", "why"],
    [
      ...shown.map((row) => [
        ...[row.day, printableLine(row.model || row.items?.join(", ") || "(beside models)"), row.tier],
        ...cellsOf(row.ledger, row.reported),
        row.why.map(({ reason, calls: number }) => words[reason](number)).join("; "),
      ]),
      ["total", "", "", ...cellsOf(ledger, reported), ""],
    ],
  );
  const left = rows.length - shown.length;
  return [
    `${vendor.name} (${names}), ${isoDay(period.since)} to ${isoDay(period.until - dayMs)}, days in UTC\n`,
    table,
    left === 0
      ? ""
      : `${count(left)} more ${left === 1 ? "row agrees" : "rows agree"}; --all shows ${left === 1 ? "it" : "them"}.\n`,
    ...reportKinds.map((kind) =>
      isAbsent(kind, reported)
        ? `There was no report of ${kind}.\n`
        : missing[kind].length === 0
          ? ""
          : `The report of ${kind} lacks ${missing[kind].join(", ")}; the total leaves them out on both sides.\n`,
    ),
    currencies.length === 0 ? "" : `Reported in other currencies, and not compared: ${currencies.join(", ")}.\n`,
  ].join("");
}
