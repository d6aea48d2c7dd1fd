/** What an account's own reports say of its use and cost, in one form for all vendors, formats and files. */

import { dayMs } from "../../lib/time/duration.ts";

/** Kinds of tokens that all reports tell apart. `input` includes what was read from and written to a cache. */
export const reportedTokens = ["input", "cacheRead", "cacheWrite", "output"] as const;
export type ReportedTokens = { readonly [Kind in (typeof reportedTokens)[number]]: number };

export type ReportedLine = {
  /** A day in UTC: `2026-11-22`. */
  readonly day: string;
  /** Absent: what is billed beside models, such as searches, or where nothing was told apart. */
  readonly model?: string;
  readonly tier: string;
  /** What is billed beside models; absent together with `model`: the cost of all. */
  readonly item?: string;
  readonly calls?: number;
  readonly tokens?: ReportedTokens;
  /** In billionths of a micro-dollar, or of what is a millionth of another currency's unit. */
  readonly cost?: bigint;
  /** In lower case; absent: `usd`. */
  readonly currency?: string;
};

/** The two reports: of costs, and of use. */
export const reportKinds = ["costs", "usage"] as const;
export type ReportKind = (typeof reportKinds)[number];

/** One report. @property days that it is about, even where there is nothing to tell; absent: a file has no line of such days */
export type Reported = { readonly kind: ReportKind; readonly lines: ReportedLine[]; readonly days?: Set<string> };

/** A report that can't be read. */
export class ReportError extends Error {
  override readonly name = "ReportError";
}

/** What a cost of one micro-dollar is in the unit of `cost`. */
export const perMicroDollar = 1_000_000_000n;
const unitDigits = 15;

/**
 * @param text a decimal number, such as `0.0600`, `123.45` or `6e-7`
 * @param shift digits by which its unit is smaller than a dollar's: 2 for cents
 * @returns exactly, or to the nearest unit; undefined for what is no number
 */
export function amountOf(text: string, shift = 0): bigint | undefined {
  const parts = /^([+-]?)(\d{1,30})(?:\.(\d{0,60}))?(?:e([+-]?\d{1,2}))?$/i.exec(text.trim());
  if (parts === null) return undefined;
  const [, sign, whole = "", fraction = "", exponent = "0"] = parts;
  const digits = BigInt(whole + fraction);
  const power = unitDigits - fraction.length - shift + Number(exponent);
  const units =
    power >= 0 ? digits * 10n ** BigInt(power) : (2n * digits + 10n ** BigInt(-power)) / (2n * 10n ** BigInt(-power));
  return sign === "-" ? -units : units;
}

/** The day in UTC of a time as reports write it. @throws ReportError */
export function dayIn(time: string | number, place: string): string {
  const at = typeof time === "number" ? time * 1000 : Date.parse(time);
  if (Number.isNaN(at) || Math.abs(at) > 8e15)
    throw new ReportError(`${place}: '${String(time).slice(0, 40)}' is no time`);
  return new Date(at).toISOString().slice(0, 10);
}

/** A day that a bucket is, and not a part of one nor another zone's. @throws ReportError */
export function wholeDay(from: string | number, to: string | number, place: string): string {
  const [start, end] = [from, to].map((time) => (typeof time === "number" ? time * 1000 : Date.parse(time)));
  if (!(start! % dayMs === 0 && end! - start! === dayMs))
    throw new ReportError(`${place}: from ${from} to ${to} is no day in UTC`);
  return dayIn(from, place);
}

/** Words of both vendors for what is billed at the usual price. */
const usualTiers = new Set(["", "default", "standard", "auto", "on_demand", "message"]);
export const tierOf = (name: string | null | undefined): string => {
  const word = (name ?? "").toLowerCase();
  return usualTiers.has(word) ? "standard" : word;
};

/**
 * The name that a model has in all reports and in the ledger: requests name an alias, bills a snapshot by its date, and Anthropic's files
 * of costs what people call it (`Claude Haiku` and its number).
 */
export const modelName = (name: string): string =>
  name
    .trim()
    .toLowerCase()
    .replaceAll(" ", "-")
    .replace(/^claude-.*/, (claude) => claude.replaceAll(".", "-"))
    .replace(/(?:-\d{4}-\d\d-\d\d|[-@]\d{8}|-latest)$/, "")
    .replace(/^(claude-[a-z]+-\d+)-0$/, "$1");
