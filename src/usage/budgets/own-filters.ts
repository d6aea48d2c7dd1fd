/** Filters by what is a single call's own: numbers, in the words of the admin API and of `troupe usage --lines`. Sums know nothing of them. */
import { callEnds, failureReasons, priceSources } from "../../api/words.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { OwnRange } from "../../store/contract/usage.ts";
import { severalNames } from "../../store/ledger/chosen-lines.ts";

/** Question as text, by the names of the command's flags and the API's parameters; filters by metadata as `metadata.<key>`. */
export type UsageQuestion = Readonly<Record<string, string | undefined>>;

/** Filters that give the least a number may be. */
export const leastFilters = {
  min_first_token_ms: { member: "firstTokenMs", description: "Only calls whose first token took so long, or longer." },
  min_total_ms: { member: "totalMs", description: "Only attempts that took so long, or longer." },
  min_cost_micro_dollars: { member: "cost", description: "Only calls that cost so much, or more." },
  min_attempt: {
    member: "attempt",
    description: "Only attempts from that one of their request on: with 2, those that others were made before.",
  },
} as const satisfies Record<string, { readonly member: OwnRange["member"]; readonly description: string }>;

/** The most that a number may be: JSON has all whole ones up to there. */
export const maxLeast: number = Number.MAX_SAFE_INTEGER;
const maxStatuses = 20;

/** Statuses of HTTP, or classes of them. */
export const statusPattern = `^(?:[1-5]\\d\\d|[1-5]xx)(?:,(?:[1-5]\\d\\d|[1-5]xx)){0,${maxStatuses - 1}}$`;
export const statusWords = `Only attempts that were answered with that HTTP status: 429, a class such as 5xx, or several, separated by commas.`;

export const ownFilterNames: readonly string[] = [...Object.keys(leastFilters), "status"];

/** @throws ApiError invalid_value */
export function ownRanges(question: UsageQuestion): OwnRange[] {
  const found: OwnRange[] = [];
  for (const [name, { member }] of Object.entries(leastFilters)) {
    const text = question[name];
    if (text === undefined) continue;
    const least = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (!(least <= maxLeast)) throw ApiError.invalidValue(name, `${name} must be a whole number, 0 or more.`);
    found.push({ member, ranges: [[least, maxLeast]] });
  }
  const { status } = question;
  if (status === undefined) return found;
  if (!new RegExp(statusPattern).test(status))
    throw ApiError.invalidValue(
      "status",
      `status must be a status from 100 to 599 or a class such as 5xx, or up to ${maxStatuses} of them, separated by commas.`,
    );
  const ranges = status.split(",").map((one): readonly [number, number] => {
    const from = Number(one.replace("xx", "00"));
    return [from, one.endsWith("xx") ? from + 99 : from];
  });
  return [...found, { member: "status", ranges }];
}

const severalValues: Readonly<Record<string, readonly string[]>> = {
  ended: callEnds,
  failure: failureReasons,
  price_source: priceSources,
};

/** @param name of `severalNames` @returns the words that it takes, in a sentence */
export const severalWords = (name: string): string =>
  `one of ${severalValues[name]!.join(", ")}, or several, separated by commas`;

/** @param name of `severalNames` */
export const severalPattern = (name: string): string => {
  const one = `(?:${severalValues[name]!.join("|")})`;
  return `^${one}(?:,${one})*$`;
};

/** @throws ApiError invalid_value where a filter by known words has others; an empty one asks for those without one */
export function checkSeveral(where: Readonly<Record<string, string>>): void {
  for (const name of severalNames) {
    const value = where[name];
    if (value !== undefined && value !== "" && !new RegExp(severalPattern(name)).test(value))
      throw ApiError.invalidValue(name, `${name} must be ${severalWords(name)}.`);
  }
}
