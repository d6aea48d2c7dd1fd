/** The time that all pages show: chosen once, kept in this tab from page to page, and in the address of the page that it is chosen on. */
import { signal } from "@preact/signals";
import { hourMs, lastDay, lengthOf, periodOf, type Range, timeOf } from "./period.ts";
import { type Query, route, setQuery } from "./router.ts";
import { briefly } from "./ui/numbers.ts";

type Preset = { readonly since: string; readonly title: string; readonly short?: string };

export const presets: readonly Preset[] = [
  { since: "1h", title: "1 hour", short: "1 h" },
  { since: "24h", title: "24 hours", short: "24 h" },
  { since: "7d", title: "7 days", short: "7 d" },
  { since: "30d", title: "30 days", short: "30 d" },
  { since: "today", title: "today (UTC)" },
  { since: "month", title: "this month (UTC)" },
  { since: "90d", title: "90 days" },
  { since: "400d", title: "all that is kept" },
];
export const everything: Range = { since: "400d" };
const usual: Range = { since: "24h" };

const name = "troupe.range";

function readKept(): Range {
  try {
    return { ...usual, ...(JSON.parse(sessionStorage.getItem(name) ?? "{}") as object) };
  } catch {
    return usual;
  }
}
const kept = signal(readKept());

/** @returns what the address says, else what was chosen last */
export function range(): Range {
  const { query } = route.value;
  const [since, until] = [query.get("since") || undefined, query.get("until") || undefined];
  if (since !== undefined) return { since, until };
  return until === undefined ? kept.value : { ...everything, until };
}

/** Chooses the time of all pages. */
export function setRange({ since, until }: Range): void {
  kept.value = { since, until };
  sessionStorage.setItem(name, JSON.stringify(kept.value));
  setQuery({ since, until, after: undefined }, { replace: true });
}

/** The time as the API is asked for it: the same question until the next hour begins. */
export function askedTime({ since, until }: Range = range()): Query {
  const from = () => new Date(periodOf({ since, until }, Date.now()).since).toISOString();
  if (since === "today" || since === "month") return { since: from().slice(0, 10), until };
  return { since: since.endsWith("h") && lengthOf(since) > hourMs ? from() : since, until };
}

/** The time as links hand it on. */
export const linkedTime = (): Query => ({ ...range() });

const isDay = (text: string) => /^\d{4}-\d\d-\d\d$/.test(text);
const placed = (text: string) => (isDay(text) || timeOf(text) === undefined ? text : briefly(new Date(timeOf(text)!)));
/** @returns such as "24 hours", or its two ends */
export function rangeWords({ since, until }: Range = range()): string {
  const preset = presets.find((one) => one.since === since)?.title;
  if (until === undefined) return preset ?? `since ${placed(since)}`;
  const last = isDay(until) ? lastDay(until) : placed(until);
  if (since === everything.since) return `until ${last}`;
  return isDay(since) && since === last ? last : `${placed(since)} to ${last}`;
}

/** @returns the time that it is compared with, such as "24 hours before" */
export function beforeWords(of: Range = range()): string {
  const named: Readonly<Record<string, string>> = { today: "yesterday", month: "last month", "1h": "hour before" };
  if (of.until !== undefined || !presets.some(({ since }) => since === of.since)) return "time before";
  return named[of.since] ?? `${rangeWords(of)} before`;
}
