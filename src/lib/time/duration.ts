/** Durations as people write them. */

const units: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** @param text `30m`, `12h`, `90d` or `2w` @returns milliseconds; undefined when it is no duration */
export function parseDuration(text: string): number | undefined {
  const duration = /^(\d{1,5})([mhdw])$/.exec(text);
  return duration === null ? undefined : Number(duration[1]) * units[duration[2]!]!;
}
