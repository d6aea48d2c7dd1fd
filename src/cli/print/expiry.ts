/** Parses the expiry of a key. */
import { parseDuration } from "../../lib/time/duration.ts";

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
