/** Durations as people write them. */

/** An hour, and a day of UTC, in milliseconds. */
export const [hourMs, dayMs] = [3_600_000, 86_400_000];

const units: Readonly<Record<string, number>> = { m: 60_000, h: hourMs, d: dayMs, w: 7 * dayMs };

/** @param text `30m`, `12h`, `90d` or `2w` @returns milliseconds; undefined when it is no duration */
export function parseDuration(text: string): number | undefined {
  const duration = /^(\d{1,5})([mhdw])$/.exec(text);
  return duration === null ? undefined : Number(duration[1]) * units[duration[2]!]!;
}
