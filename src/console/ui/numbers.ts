/** Numbers and times as people read them. */
import { signal } from "@preact/signals";
import { dayMs, hourMs } from "../period.ts";

export type Zone = "local" | "utc";
/** Kept in this browser; the same in charts and in lists. */
export const zone = signal<Zone>(globalThis.localStorage?.getItem("troupe.zone") === "utc" ? "utc" : "local");
export function setZone(chosen: Zone): void {
  localStorage.setItem("troupe.zone", chosen);
  zone.value = chosen;
}

const inZone = (options: Intl.DateTimeFormatOptions) => {
  const [local, utc] = [{}, { timeZone: "UTC" }].map((own) => new Intl.DateTimeFormat("en-GB", { ...options, ...own }));
  return (date: Date): string => (zone.value === "utc" ? utc! : local!).format(date);
};

const formats = {
  count: new Intl.NumberFormat("en"),
  short: new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }),
  relative: new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" }),
};

/** Made once: a list has hundreds of them, and the browser takes as long for each as for a row. */
const dollars = [2, 4, 6].map(
  (digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
);

/** @returns such as 27 Nov 2026, 20:17:20, in the zone that is chosen */
export const moment = inZone({ dateStyle: "medium", timeStyle: "medium" });
/** @returns such as 27 Nov, 20:17:20 */
export const timeOfYear = inZone({
  ...{ day: "numeric", month: "short" },
  ...{ hour: "2-digit", minute: "2-digit", second: "2-digit" },
});
const yearOf = inZone({ year: "numeric" });
export const inYear = (date: Date, now = new Date()): boolean => yearOf(date) === yearOf(now);
export const timeOfDay = inZone({ timeStyle: "medium" });
/** @returns such as 27 Nov, 20:17 */
export const briefly = inZone({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
export const dayWords = inZone({ dateStyle: "medium" });
/** @returns by how many seconds the zone's clocks are ahead of UTC then */
export const zoneOffset = (at: Date): number => (zone.value === "utc" ? 0 : -60 * at.getTimezoneOffset());
/** @returns such as UTC or GMT+1 */
export const zoneName = (): string =>
  zone.value === "utc"
    ? "UTC"
    : (new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" })
        .formatToParts()
        .find(({ type }) => type === "timeZoneName")?.value ?? "local");

/** @param micro millionths of a dollar; null: unknown @param most the largest of its column, by which all of them are rounded */
export function money(micro: number | null | undefined, most = Math.abs(micro ?? 0)): string {
  if (micro === null || micro === undefined) return "unknown";
  const amount = Math.abs(micro / 1e6);
  const size = most === 0 || most >= 1e6 ? 0 : most >= 10_000 ? 1 : 2;
  // A sum that is none would be a lie.
  const least = 100 ** -(size + 1);
  if (amount > 0 && amount < least / 2) return `<$${dollars[size]!.format(least)}`;
  return `${micro < 0 ? "−" : ""}$${dollars[size]!.format(amount)}`;
}

/** @param micro millionths of a dollar @returns all six digits where they are needed */
export const exactMoney = (micro: number): string =>
  `${micro < 0 ? "−" : ""}$${(Math.abs(micro) / 1e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 })}`;

export const count = (n: number): string => formats.count.format(n);
/** @returns such as 1.2M */
export const short = (n: number): string => (Math.abs(n) < 10_000 ? count(n) : formats.short.format(n));

/** @param ms milliseconds; null: there is none */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  if (ms < hourMs) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  if (ms < dayMs) return `${Math.floor(ms / hourMs)} h ${Math.round((ms % hourMs) / 60_000)} min`;
  return `${Math.floor(ms / dayMs)} d ${Math.round((ms % dayMs) / hourMs)} h`;
}

const steps = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
] as const;

/** @returns such as "3 min. ago" or "in 2 days" */
export function ago(at: number, now = Date.now()): string {
  let amount = (at - now) / 1_000;
  for (const [unit, size] of steps) {
    if (Math.abs(amount) < size) return formats.relative.format(Math.round(amount), unit);
    amount /= size;
  }
  return formats.relative.format(Math.round(amount), "year");
}

/** @param size in bytes @returns such as 12.3 MiB */
export function bytes(size: number): string {
  const unit = Math.min(4, Math.floor(Math.log2(Math.max(size, 1)) / 10));
  return `${(size / 1024 ** unit).toFixed(unit === 0 ? 0 : 1)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}
