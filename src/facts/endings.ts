/**
 * Dates on which models end, as their makers announced them; what a provider's own list says goes before. Floors ("not sooner than") are no
 * announcements. Other hosts of the same models have schedules of their own.
 */
import { dayMs } from "../lib/time/duration.ts";
import { factsOf } from "./facts.ts";

/**
 * @param provider the provider's own name (the account's dialect)
 * @returns the day (YYYY-MM-DD, UTC) on which the model ends; undefined where none is announced
 */
export const announcedEnd = (provider: string, model: string): string | undefined => factsOf(provider, model).ends;

/** How long before its end a model is reported: six months, in days. */
const noticeDays = 183;

export type EndState = "ended" | "ends_soon" | "later";

/** @param ends YYYY-MM-DD: the first day on which it no longer answers @param now Unix milliseconds */
export function endState(ends: string, now: number): EndState {
  const at = Date.parse(ends);
  if (now >= at) return "ended";
  return at - now < noticeDays * dayMs ? "ends_soon" : "later";
}

/** `ended on 2026-06-15`, `ends on 2027-01-14`: for people. */
export const endWords = (ends: string, now: number): string =>
  `${endState(ends, now) === "ended" ? "ended" : "ends"} on ${ends}`;
