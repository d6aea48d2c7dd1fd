/** Where a chart's marks and labels stand. */
import { count, duration, exactMoney, short, zoneName, zoneOffset } from "./numbers.ts";

/** `money`: micro-dollars. Another word stands behind whole numbers. */
export type Unit = "money" | "ms" | "percent" | (string & {});

/** @returns all that is known of the value, as people read it */
export function exact(value: number | null | undefined, unit: Unit): string {
  if (value === null || value === undefined) return "–";
  if (unit === "money") return exactMoney(value);
  if (unit === "ms") return duration(value);
  return unit === "percent" ? `${value.toFixed(2)} %` : `${count(value)} ${unit}`;
}

export function axisText(value: number, unit: Unit): string {
  if (unit === "money") return value === 0 ? "$0" : value < 10_000 ? `$${value / 1e6}` : `$${short(value / 1e6)}`;
  if (unit === "ms") return value === 0 ? "0" : value < 1_000 ? `${value} ms` : `${value / 1_000} s`;
  return unit === "percent" ? `${value} %` : short(value);
}

/** @returns four even values from 0 to just above `max`: three lines above the axis */
export function ticksUpTo(max: number, unit: Unit): readonly number[] {
  const least = unit === "money" || unit === "ms" || unit === "percent" ? 0 : 1;
  const third = Math.max(max / 3, least, 1e-9);
  const power = 10 ** Math.floor(Math.log10(third));
  const step = Math.max(
    [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((one) => one * power >= third * 0.999_999)! * power,
    least,
  );
  const even = least === 1 ? Math.ceil(step) : Number(step.toPrecision(3));
  return [0, 1, 2, 3].map((at) => Number((at * even).toPrecision(12)));
}

const [hour, day] = [3_600, 86_400];

type TimeWords = { readonly full: (at: number) => string; readonly axis: (at: number) => string };

/** @returns seconds between neighbours; 0: there are none */
export const stepOf = (x: readonly number[]): number => {
  const step = x.slice(1).reduce((least, at, before) => Math.min(least, at - x[before]!), Number.POSITIVE_INFINITY);
  return Number.isFinite(step) ? step : 0;
};

/** Seconds of the chosen zone's clocks. */
const onClock = (at: number) => at + zoneOffset(new Date(at * 1_000));

/** Buckets of time by their beginnings, as exact as they are apart: days are UTC's, as the ledger's are, hours stand by the chosen zone. @param x Unix seconds, ascending */
export function timeWords(x: readonly number[]): TimeWords {
  const step = stepOf(x);
  const isOfDays = x.length > 1 && step >= day && x.every((at) => at % day === 0);
  const words = (at: number, from: number, to: number) => new Date(at * 1_000).toISOString().slice(from, to);
  if (isOfDays && step >= 28 * day) return { full: (at) => words(at, 0, 7), axis: (at) => words(at, 0, 7) };
  if (isOfDays) return { full: (at) => words(at, 0, 10), axis: (at) => words(at, 5, 10) };
  return {
    full: (at) => `${words(onClock(at), 0, 10)} ${words(onClock(at), 11, 16)} ${zoneName()}`,
    axis: (at) => (onClock(at) % day === 0 ? words(onClock(at), 5, 10) : words(onClock(at), 11, 16)),
  };
}

/** @returns the zone that those times are said in */
export const zoneOf = (x: readonly number[]): string => (stepOf(x) >= day ? "UTC" : zoneName());

/** @param room how many labels there is place for @returns indexes of those that get one: round hours, or counted from the last */
export function labelled(x: readonly number[], room: number): readonly number[] {
  const least = Math.ceil(x.length / Math.max(1, room));
  const isOfHours = stepOf(x) === hour;
  const every = isOfHours ? ([1, 2, 3, 6, 12, 24, 48, 72].find((one) => one >= least) ?? least) : least;
  const indexes = x.map((_, at) => at);
  return indexes.filter((at) =>
    isOfHours ? Math.floor(onClock(x[at]!) / hour) % every === 0 : (x.length - 1 - at) % every === 0,
  );
}
