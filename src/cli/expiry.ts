/** Parses the expiry of a key, and durations. */

const units: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** @param text `30m`, `12h`, `90d` or `2w` @returns milliseconds; undefined when it is no duration */
export function parseDuration(text: string): number | undefined {
  const duration = /^(\d{1,5})([mhdw])$/.exec(text);
  return duration === null ? undefined : Number(duration[1]) * units[duration[2]!]!;
}

/**
 * @param text a duration from now (`30m`, `12h`, `90d`, `2w`), a date (its beginning, UTC), or an RFC 3339 time
 * @returns Unix milliseconds; undefined when it is none of these
 */
export function parseExpiry(text: string, now: number): number | undefined {
  const duration = parseDuration(text);
  if (duration !== undefined) return now + duration;
  const isTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const parsed = isTime ? Date.parse(text) : Number.NaN;
  // 2027-02-30 would become 2 March, with a time of day as well.
  const day = Date.parse(text.slice(0, 10));
  const isReal = !Number.isNaN(parsed) && new Date(day).toISOString().startsWith(text.slice(0, 10));
  return isReal ? parsed : undefined;
}
