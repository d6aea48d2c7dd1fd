/** Numbers and times as people read them, and a time as a page shows it. */
import { ago, dayWords, exactMoney, inYear, moment, money, timeOfDay, timeOfYear } from "./numbers.ts";

export * from "./numbers.ts";

/**
 * A time relative to now, with the exact one behind it.
 * @param at RFC 3339 or Unix milliseconds; null: never @param exact in place of the relative one; `brief`: without the day where that is today, and without the year where it is this one
 */
export function Time({
  at,
  exact = false,
}: {
  readonly at: string | number | null | undefined;
  readonly exact?: boolean | "brief";
}) {
  if (at === null || at === undefined) return <span class="muted">never</span>;
  const date = new Date(at);
  const local = moment(date);
  const isToday = dayWords(date) === dayWords(new Date());
  const shown = exact === "brief" ? (isToday ? timeOfDay : inYear(date) ? timeOfYear : moment) : moment;
  return (
    <time dateTime={date.toISOString()} title={`${local} (${date.toISOString()})`}>
      {exact ? shown(date) : ago(date.getTime())}
    </time>
  );
}

type MoneyProps = { readonly micro: number | null; readonly most?: number | undefined };

/** A sum, with all of its digits behind it. @param micro millionths of a dollar; null: unknown @param most the largest of its column */
export const Money = ({ micro, most }: MoneyProps) => (
  <span title={micro === null ? undefined : exactMoney(micro)}>{money(micro, most)}</span>
);
/** The largest of a column of sums, by which all of them are rounded. */
export const largest = (sums: readonly (number | null)[]): number =>
  sums.reduce<number>((max, one) => Math.max(max, Math.abs(one ?? 0)), 0);
/** For what takes a function. */
export const shownMoney = (micro: number | null) => <Money micro={micro} />;
/** A sum of so many dollars, as budgets have them. */
export const Dollars = ({ of }: { readonly of: number }) => <Money micro={Math.round(of * 1e6)} />;
