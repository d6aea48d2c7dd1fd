/** Ends with 1 where what the executable knows of models is older than a release may have it: `bun test/tools/prices/fresh.ts`. */
import facts from "../../../src/facts/models.json" with { type: "json" };
import { compiledList } from "../../../src/facts/prices/list.ts";

const dayMs = 86_400_000;
/** Of a release. */
export const maxDays = 14;

/** @param days by what they are of, as YYYY-MM-DD @returns a line for each that is too old */
export const staleOf = (days: Readonly<Record<string, string>>, now: number): string[] =>
  Object.entries(days).flatMap(([what, day]) => {
    const age = Math.floor((now - Date.parse(day)) / dayMs);
    return age > maxDays ? [`${what} are of ${day}, ${age} days old: more than ${maxDays}`] : [];
  });

if (import.meta.main) {
  const stale = staleOf({ prices: compiledList.asOf, "facts of models": facts.as_of }, Date.now());
  process.stdout.write(stale.map((line) => `${line}\n`).join(""));
  process.exitCode = stale.length === 0 ? 0 : 1;
}
