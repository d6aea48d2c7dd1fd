/**
 * Questions to the ledger as people ask them, and its answers as they are given: one dialect for the command, a key's own usage, the admin
 * API and the console. Money is in micro-dollars, but in spreadsheets.
 */
import type { Call } from "../../api/calls.ts";
import type { Usage, UsageSums } from "../../api/usage.ts";
import { callEnds } from "../../api/words.ts";
import { snakeCaseNumbered } from "../../lib/text/snake-case.ts";
import { dayMs, parseDuration } from "../../lib/time/duration.ts";
import { ApiError } from "../../protocols/errors.ts";
import {
  costKinds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerLine,
  type LedgerPlace,
  type LedgerRepository,
  type LedgerSum,
  placeBefore,
  tokenKinds,
} from "../../store/contract/usage.ts";
import {
  costColumns,
  dimensionNames,
  firstTokenColumns,
  isLedgerGroup,
  ledgerFilters,
  ledgerGroups,
  metadataKeyOf,
  ownNames,
  tokenColumns,
} from "../../store/ledger/columns.ts";
import { checkSeveral, ownRanges, type UsageQuestion } from "../budgets/own-filters.ts";
import { firstTokensOf } from "../first-token.ts";
import { dollarsOf } from "../money.ts";

export type UsageQuery = {
  readonly filter: LedgerFilter;
  readonly by: readonly LedgerGroup[];
  readonly after?: readonly string[];
  readonly limit: number;
  readonly firstTokens?: boolean;
  /** Only so many of the costliest rows, in place of pages. */
  readonly top?: number;
};

const usualDays = 30;
export const maxRows = 10_000;
const usualRows = 1_000;
const maxGroups = 3;

export const groupWords = `1 to ${maxGroups} of ${ledgerGroups.join(", ")}, metadata.<key>, separated by commas`;

/**
 * @param now Unix milliseconds
 * @param metadata the keys that lines have by the configuration; absent: not known yet
 * @throws ApiError invalid_value
 */
export function parseUsageQuestion(question: UsageQuestion, now: number, metadata?: readonly string[]): UsageQuery {
  const by = groupsOf(question["by"] ?? "day");
  checkMetadataKeys("by", by, metadata);
  return {
    filter: parseFilter(question, now, usualDays, metadata),
    by,
    ...(question["after"] !== undefined && { after: afterOf(question["after"], by.length) }),
    limit: limitOf(question["limit"]),
    ...(question["first_token"] === "true" && { firstTokens: true }),
    ...(question["top"] !== undefined && { top: limitOf(question["top"], "top") }),
  };
}

/** @param days how far back without a beginning @param metadata as above. @throws ApiError invalid_value */
export function parseFilter(
  question: UsageQuestion,
  now: number,
  days: number,
  metadata?: readonly string[],
): LedgerFilter {
  const today = Math.floor(now / dayMs) * dayMs;
  const given = (name: "since" | "until") => {
    const text = question[name];
    return text === undefined ? undefined : timeOf(name, text, now);
  };
  // Whole hours by default: their sums are kept, and need no adding up.
  const until = given("until") ?? today + dayMs;
  const since = given("since") ?? today - (days - 1) * dayMs;
  if (since >= until) throw ApiError.invalidValue("since", "since must lie before until.");
  const where = Object.entries(question).flatMap(([name, value]) =>
    value !== undefined && (ledgerFilters.includes(name) || metadataKeyOf(name) !== undefined) ? [[name, value]] : [],
  );
  checkMetadataKeys("metadata", Object.keys(question), metadata);
  const filter = { since, until, where: Object.fromEntries(where) as Record<string, string> };
  checkSeveral(filter.where);
  const own = ownRanges(question);
  return own.length === 0 ? filter : { ...filter, own };
}

/** No line has another key: asked for by it, all would count as those without one. @throws ApiError invalid_value */
function checkMetadataKeys(param: string, names: readonly string[], known: readonly string[] | undefined): void {
  if (known === undefined) return;
  const unknown = names.find((name) => name.startsWith("metadata.") && !known.includes(metadataKeyOf(name) ?? ""));
  if (unknown === undefined) return;
  const words = known.length === 0 ? "names none" : `names ${known.join(", ")}`;
  throw ApiError.invalidValue(param, `No call has ${unknown}: usage.metadata in the configuration ${words}.`);
}

function groupsOf(text: string): LedgerGroup[] {
  const names = text.split(",").map((name) => name.trim());
  if (!names.every(isLedgerGroup) || new Set(names).size < names.length || names.length > maxGroups)
    throw ApiError.invalidValue("by", `by must be ${groupWords}.`);
  return names;
}

/** Cursor of the page of sums behind one, as a text that says nothing to people. */
const cursorOf = (group: readonly string[]): string => Buffer.from(JSON.stringify(group)).toString("base64url");

function afterOf(text: string, groups: number): string[] {
  const wrong = ApiError.invalidValue(
    "after",
    "after must be the next of a page that was asked for by the same groups.",
  );
  try {
    const group: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    const isGroup = Array.isArray(group) && group.length === groups && group.every((one) => typeof one === "string");
    if (isGroup) return group as string[];
  } catch {}
  throw wrong;
}

function limitOf(text: string | undefined, name = "limit"): number {
  if (text === undefined) return usualRows;
  const limit = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > maxRows) throw ApiError.invalidValue(name, `${name} must be a number from 1 to ${maxRows}.`);
  return limit;
}

/**
 * A day or a time in UTC, Unix seconds, or how long ago. Days and weeks are whole UTC days, today's among them, as whoever asks by default
 * gets them: `7d` begins six days before today, and `since=14d&until=7d` ends where `since=7d` begins.
 * @throws ApiError invalid_value
 */
export function timeOf(param: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return /[dw]$/.test(text) ? Math.floor(now / dayMs) * dayMs + dayMs - ago : now - ago;
  if (/^\d{9,11}$/.test(text)) return Number(text) * 1000;
  const isTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const at = isTime ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) {
    throw ApiError.invalidValue(
      param,
      `${param} must be a day (2026-11-22), a time (2026-11-22T10:00:00Z), Unix seconds or a duration (7d, 24h, 10m).`,
    );
  }
  return at;
}

/** Members by their names as JSON has them. */
const renamed = (numbers: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(numbers).map(([name, value]) => [snakeCaseNumbered(name), value]));

function totalsJson(sum: Omit<LedgerSum, "group">): UsageSums {
  return {
    calls: sum.calls,
    ended: sum.ended,
    tokens: renamed(sum.tokens),
    cost_micro_dollars: sum.cost,
    costs_micro_dollars: renamed(sum.costs),
    unknown_cost_calls: sum.unknownCosts,
    estimated_calls: sum.estimated,
    ...(sum.firstTokens && { first_token_ms: firstTokensOf(sum.firstTokens) }),
  };
}

/** Names of keys by their ids. */
export type KeyNames = ReadonlyMap<string, string>;

const keyName = (names: KeyNames, group: LedgerGroup, value: string) =>
  group === "key" ? [["key_name", names.get(value) ?? null] as const] : [];

/** By `ended` the group is said where the counts of each end are: of those all but one are 0. */
const sumJson = (by: readonly LedgerGroup[], sum: LedgerSum, names: KeyNames): UsageSums => {
  const group = Object.fromEntries(
    by.flatMap((name, at) => [[name, sum.group[at]!], ...keyName(names, name, sum.group[at]!)]),
  );
  return { ...group, ...totalsJson(sum), ...("ended" in group && { ended: group["ended"]! }) };
};

/** Names the period of a question, for files. @returns such as 2026-11-01_2026-11-24, of the first and the last day */
export const periodName = ({ since, until }: LedgerFilter): string =>
  [since, until - 1].map((at) => new Date(at).toISOString().slice(0, 10)).join("_");

const headJson = ({ filter, by }: UsageQuery) => ({
  object: "usage" as const,
  since: new Date(filter.since).toISOString(),
  until: new Date(filter.until).toISOString(),
  by,
});

export const reportTotal = async (
  ledger: LedgerRepository,
  { filter, firstTokens = false }: UsageQuery,
  signal?: AbortSignal,
) => (await ledger.sums(filter, [], { limit: 1, firstTokens, ...(signal && { signal }) }))[0]!;

/** One page of sums. @throws StorageError */
export async function usagePage(
  ledger: LedgerRepository,
  query: UsageQuery,
  names: KeyNames,
  signal: AbortSignal,
): Promise<Usage> {
  const { filter, by, after, limit, firstTokens = false, top } = query;
  if (top !== undefined) return topPage(ledger, query, top, names, signal);
  const found = await ledger.sums(filter, by, { limit: limit + 1, firstTokens, signal, ...(after && { after }) });
  const rows = found.slice(0, limit);
  const hasMore = found.length > limit;
  const total = new Total(firstTokens);
  for (const row of rows) total.add(row);
  return {
    ...headJson(query),
    data: rows.map((sum) => sumJson(by, sum, names)),
    total: totalsJson(await totalOf(ledger, query, signal, hasMore || after !== undefined ? undefined : total)),
    has_more: hasMore,
    next: hasMore ? cursorOf(rows.at(-1)!.group) : null,
  };
}

/** Adds up rows that have each call once: a call with two tags is in two rows of tags. */
class Total {
  readonly #ended = zeros(callEnds);
  readonly #tokens = zeros(tokenKinds);
  readonly #costs = zeros(costKinds);
  readonly #firstTokens: number[] | undefined;
  readonly #own = { calls: 0, cost: 0, unknownCosts: 0, estimated: 0 };

  constructor(firstTokens: boolean) {
    this.#firstTokens = firstTokens ? firstTokenColumns.map(() => 0) : undefined;
  }

  add(sum: LedgerSum): void {
    for (const end of callEnds) this.#ended[end] += sum.ended[end];
    for (const kind of tokenKinds) this.#tokens[kind] += sum.tokens[kind];
    for (const kind of costKinds) this.#costs[kind] += sum.costs[kind];
    for (const [at, calls] of sum.firstTokens?.entries() ?? []) this.#firstTokens![at]! += calls;
    for (const name of totalled) this.#own[name] += sum[name];
  }

  get sum(): Omit<LedgerSum, "group"> {
    const [ended, tokens, costs, firstTokens] = [this.#ended, this.#tokens, this.#costs, this.#firstTokens];
    return { ...this.#own, ended, tokens, costs, ...(firstTokens && { firstTokens }) };
  }
}

const totalled = ["calls", "cost", "unknownCosts", "estimated"] as const;
const zeros = <Kind extends string>(kinds: readonly Kind[]) =>
  Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<Kind, number>;

/** Sums of all rows of a question, without asking for them again where they are at hand. @param total absent: not all are at hand */
async function totalOf(
  ledger: LedgerRepository,
  query: UsageQuery,
  signal: AbortSignal,
  total: Total | undefined,
): Promise<Omit<LedgerSum, "group">> {
  return total === undefined || query.by.includes("tag") ? reportTotal(ledger, query, signal) : total.sum;
}

/** The costliest rows, and how many there are in all. */
async function topPage(
  ledger: LedgerRepository,
  query: UsageQuery,
  top: number,
  names: KeyNames,
  signal: AbortSignal,
): Promise<Usage> {
  let kept: LedgerSum[] = [];
  let all = 0;
  const total = new Total(query.firstTokens === true);
  const cut = () => kept.sort((a, b) => b.cost - a.cost || b.calls - a.calls).slice(0, top);
  for await (const sum of allSums(ledger, query, signal)) {
    all += 1;
    total.add(sum);
    if (kept.push(sum) > top + maxRows) kept = cut();
  }
  return {
    ...headJson(query),
    data: cut().map((sum) => sumJson(query.by, sum, names)),
    total: totalsJson(await totalOf(ledger, query, signal, total)),
    rows: all,
    has_more: all > top,
    next: null,
  };
}

/** All sums, however many there are, in the order of their groups. @throws StorageError */
export async function* allSums(
  ledger: Pick<LedgerRepository, "sums">,
  { filter, by, firstTokens = false }: UsageQuery,
  signal?: AbortSignal,
): AsyncIterable<LedgerSum> {
  for (let after: readonly string[] | undefined; ; ) {
    const found = await ledger.sums(filter, by, {
      ...{ limit: maxRows, firstTokens },
      ...(after && { after }),
      ...(signal && { signal }),
    });
    yield* found;
    if (found.length < maxRows || by.length === 0) return;
    after = found.at(-1)!.group;
  }
}

/** All lines, the newest first. @throws StorageError */
export async function* allLines(ledger: LedgerRepository, filter: LedgerFilter): AsyncIterable<LedgerLine> {
  const limit = 1_000;
  for (let before: LedgerPlace | undefined; ; ) {
    const { lines, reached } = await ledger.search({ ...filter, limit, ...(before && { before }) });
    yield* lines;
    if (lines.length < limit && reached === undefined) return;
    before = reached === undefined ? lines.at(-1) : placeBefore(reached);
  }
}

/** The same JSON as a page that holds all rows, in pieces. */
export async function* usageLines(ledger: LedgerRepository, query: UsageQuery, names: KeyNames): AsyncIterable<string> {
  yield `${JSON.stringify(headJson(query)).slice(0, -1)},"data":[`;
  let separator = "\n";
  for await (const sum of allSums(ledger, query)) {
    yield separator + JSON.stringify(sumJson(query.by, sum, names));
    separator = ",\n";
  }
  const total = totalsJson(await reportTotal(ledger, query));
  yield `\n],"total":${JSON.stringify(total)},"has_more":false,"next":null}\n`;
}

/** Rows for a spreadsheet (RFC 4180), with dollars to the micro-dollar. */
export async function* usageCsv(
  ledger: LedgerRepository,
  query: UsageQuery,
  names: KeyNames,
  signal?: AbortSignal,
): AsyncIterable<string> {
  yield csvRow([
    ...query.by.flatMap((group) => (group === "key" ? [group, "key_name"] : [group])),
    "calls",
    ...callEnds,
    ...tokenColumns,
    "cost_dollars",
    "unknown_cost_calls",
    "estimated_calls",
    ...(query.firstTokens === true ? firstTokenNames.map((name) => `first_token_${name}`) : []),
  ]);
  for await (const sum of allSums(ledger, query, signal)) {
    yield csvRow([
      ...query.by.flatMap((group, at) => [
        sum.group[at]!,
        ...keyName(names, group, sum.group[at]!).map(([, name]) => name ?? ""),
      ]),
      sum.calls,
      ...callEnds.map((end) => sum.ended[end]),
      ...tokenKinds.map((kind) => sum.tokens[kind]),
      dollarsOf(sum.cost),
      sum.unknownCosts,
      sum.estimated,
      ...firstTokenCells(sum),
    ]);
  }
}

const firstTokenNames = ["calls", "p50_ms", "p95_ms", "p99_ms"];

function firstTokenCells({ firstTokens }: LedgerSum): (number | string)[] {
  if (firstTokens === undefined) return [];
  const { calls, p50, p95, p99 } = firstTokensOf(firstTokens);
  return [calls, p50 ?? "", p95 ?? "", p99 ?? ""];
}

type SnakeCase<S extends string> = S extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
  : S;
type Snaked<T> = { readonly [Name in keyof T & string as SnakeCase<Name>]: T[Name] };

export function lineJson(line: LedgerLine, names: KeyNames): Omit<Call, "object" | "id"> {
  const {
    requestId,
    attempt,
    at,
    keyId,
    tags,
    tokens,
    cost,
    costs,
    metadata,
    tier: _,
    variantCall: __,
    ...rest
  } = line;
  return {
    request_id: requestId,
    attempt,
    at: new Date(at).toISOString(),
    key: keyId,
    key_name: names.get(keyId) ?? null,
    tags,
    ...(Object.fromEntries(Object.entries(rest).map(([name, value]) => [snakeCaseNumbered(name), value])) as Snaked<
      typeof rest
    >),
    metadata: metadata === null ? null : JSON.parse(metadata),
    tokens: renamed(tokens),
    cost_micro_dollars: cost,
    costs_micro_dollars: costs === null ? null : renamed(costs),
  };
}

/** Members of a line beside its counts and costs, by their names in JSON; those that name the call come first. */
const namedMembers = ["requestId", "attempt", "at", "keyId", "tags", "metadata"] as const;
const plainMembers = [...ownNames, ...dimensionNames].filter(
  (name) => !(namedMembers as readonly string[]).includes(name),
);
const textColumns: readonly string[] = [
  ...["request_id", "attempt", "at", "key", "key_name", "tags"],
  ...plainMembers.map(snakeCaseNumbered),
  "metadata",
];

/** Lines as a spreadsheet has them: what is a list or an object in JSON has a column for each part, or is JSON. */
export async function* linesCsv(lines: AsyncIterable<LedgerLine>, names: KeyNames): AsyncIterable<string> {
  yield csvRow([...textColumns, ...tokenColumns, ...costColumns.map((column) => `${column}_dollars`)]);
  for await (const line of lines) {
    const json = lineJson(line, names);
    yield csvRow([
      ...textColumns.map((name) => textCell(json[name as keyof typeof json])),
      ...tokenKinds.map((kind) => line.tokens[kind]),
      ...[line.cost, ...costKinds.map((kind) => line.costs?.[kind] ?? null)].map(dollarCell),
    ]);
  }
}

const textCell = (value: unknown) =>
  typeof value === "object" && value !== null ? JSON.stringify(value) : ((value ?? "") as string | number);
const dollarCell = (cost: number | null) => (cost === null ? "" : dollarsOf(cost));

const csvRow = (cells: readonly (string | number)[]) => `${cells.map((cell) => quoted(String(cell))).join(",")}\r\n`;

/** A cell that a spreadsheet would take for a formula begins with an apostrophe. */
function quoted(cell: string): string {
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
