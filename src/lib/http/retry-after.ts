/** Reads how long a server says to wait: `Retry-After`, and the time at which a limit is reset. */

const second = 1000;
/** Numbers from here on are no durations but Unix times: as seconds this is the year 2001, and as a duration 31 years. */
const firstTime = 1e9;
/** The same in milliseconds. */
const firstTimeMs = 1e12;

/**
 * @param text seconds, a date, or a Unix time, which some servers take it for: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
 * @param now Unix time in milliseconds
 * @returns milliseconds; undefined where it names none, or one that is over
 */
export function retryAfterMs(text: string | null | undefined, now: number): number | undefined {
  const written = text?.trim() ?? "";
  if (written === "") return undefined;
  const number = Number(written);
  if (!Number.isNaN(number)) return waitFor(number, now);
  const date = Date.parse(written);
  return date > now ? date - now : undefined;
}

function waitFor(number: number, now: number): number | undefined {
  const ms = number < firstTime ? number * second : (number < firstTimeMs ? number * second : number) - now;
  return ms > 0 && Number.isFinite(ms) ? ms : undefined;
}

const units: Readonly<Record<string, number>> = {
  ms: 1,
  s: second,
  m: 60 * second,
  h: 3600 * second,
  d: 86_400 * second,
};

/** The same for the time at which a limit is reset, which may also be a duration in words: `6m0s`, `2.5s`, `120ms`. */
export function resetMs(text: string, now: number): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/.test(text.trim())) return retryAfterMs(text, now);
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)) ms += Number(count) * units[unit!]!;
  return ms > 0 ? ms : undefined;
}
