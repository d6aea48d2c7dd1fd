/** Periods as addresses name them, in numbers. */

export const [hourMs, dayMs] = [3_600_000, 86_400_000];

export type Range = {
  /** `24h`, `7d` and their like, `today`, `month`, or a day or a time. */
  readonly since: string;
  /** A day or a time; absent: until now. */
  readonly until?: string | undefined;
};

export type Period = {
  /** Unix milliseconds. */
  readonly since: number;
  /** Absent: until now. */
  readonly until?: number;
  /** How much earlier the time is that it is compared with. */
  readonly shiftMs: number;
};

const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: hourMs, d: dayMs, w: 7 * dayMs };
/** @returns milliseconds of such as 7d; 0: it is no length */
export const lengthOf = (text: string): number => {
  const [, amount, unit] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  return unit === undefined ? 0 : Number(amount) * units[unit]!;
};
/** @returns Unix milliseconds of a day, a time or Unix seconds */
export const timeOf = (text: string): number | undefined =>
  (/^\d{9,11}$/.test(text) ? Number(text) * 1_000 : Date.parse(text)) || undefined;

/** When it begins, and its length where its name says that. Days are whole ones in UTC with today's, hours end with this one, so that whole sums are at hand. */
function begun(since: string, now: number): readonly [from: number, length?: number] {
  const today = Math.floor(now / dayMs) * dayMs;
  const monthOf = (at: number) => Date.UTC(new Date(at).getUTCFullYear(), new Date(at).getUTCMonth());
  if (since === "today") return [today, dayMs];
  if (since === "month") return [monthOf(now), monthOf(now) - monthOf(monthOf(now) - 1)];
  const length = lengthOf(since);
  if (length === 0) return [timeOf(since) ?? today - 29 * dayMs];
  if (/[dw]$/.test(since)) return [today + dayMs - length, length];
  return [length > hourMs ? (Math.floor(now / hourMs) + 1) * hourMs - length : now - length, length];
}

export function periodOf({ since, until }: Range, now: number): Period {
  const [from, length] = begun(since, now);
  const end = until === undefined ? undefined : timeOf(until);
  if (end === undefined && length !== undefined) return { since: from, shiftMs: length };
  const shiftMs = Math.max(1, Math.ceil(((end ?? now) - from) / hourMs)) * hourMs;
  return { since: from, ...(end !== undefined && { until: end }), shiftMs };
}

/** A time, and as much of the one before it as has gone of this one, in the words of the API. */
export function bothTimes(of: Range, now = Date.now()) {
  const { since, until, shiftMs } = periodOf(of, now);
  const end = Math.min(until ?? now, now);
  const text = (at: number) => new Date(at).toISOString();
  return {
    // Nothing began behind now: the whole hour's sum is at hand.
    now: { since: text(since), until: text(until ?? Math.ceil(now / hourMs) * hourMs) },
    before: { since: text(since - shiftMs), until: text(end - shiftMs) },
    end: text(end),
  };
}

/** @returns the last day of a time that ends before another begins */
export const lastDay = (until: string): string =>
  new Date((timeOf(until) ?? Date.now()) - 1).toISOString().slice(0, 10);
export const dayAfter = (day: string): string => new Date(Date.parse(day) + dayMs).toISOString().slice(0, 10);
