/**
 * Which names a row of a price list means. A price is never taken across a number: `claude-sonnet-5` is no prefix of
 * `claude-sonnet-5-5`, nor `gpt-6` of `gpt-6.1`, whatever the list says; dates and revisions of the same model are.
 */
import type { Match } from "./listed.ts";

/** @param name in lower case */
export function matches(match: Match, name: string): boolean {
  if ("or" in match) return match.or.some((one) => matches(one, name));
  if ("and" in match) return match.and.every((one) => matches(one, name));
  if ("equals" in match) return name === match.equals.toLowerCase();
  if ("starts_with" in match) {
    const start = match.starts_with.toLowerCase();
    return name.startsWith(start) && endsAt(name, start.length);
  }
  if ("ends_with" in match) return name.endsWith(match.ends_with.toLowerCase());
  if ("contains" in match) {
    const part = match.contains.toLowerCase();
    const at = name.indexOf(part);
    return at >= 0 && endsAt(name, at + part.length);
  }
  return matchesPattern(match.regex, name);
}

/** Some patterns end where a date begins. */
const openDigit = /-\\d\+?$/;

function matchesPattern(pattern: string, name: string): boolean {
  const found = new RegExp(pattern).exec(name);
  if (found === null || !openDigit.test(pattern)) return found !== null;
  const start = new RegExp(pattern.replace(openDigit, "")).exec(name);
  return start !== null && endsAt(name, start.index + start[0].length);
}

/**
 * What may follow the name of a model with a digit: a date (2025-08-07, 20250807, 2025-08, 08-2024, 05-20, and without a year's first
 * half 250807, 2508 or 0807), or a revision (001).
 */
const dateOrRevision =
  /^[-@](?:20\d\d(?:-?[01]\d(?:-?[0-3]\d)?)?|[01]\d-20\d\d|[01]\d-[0-3]\d|\d\d[01]\d[0-3]\d|\d\d[0-3]\d|0\d\d)(?![\d.])/;

/** A row that ends with a sign means all sizes: `gemma-3-` is of `gemma-3-27b-it`, and not of `gemma-3-5`. */
const size = /^[-@.]\d+(?:\.\d+)?[bkm](?![a-z\d])/;

/** True if what is matched of the name is all of its model's name: a number that goes on behind it is another model's. */
function endsAt(name: string, end: number): boolean {
  let from = end;
  // A row may end within a number: `claude-sonnet-4-2025`.
  while (isDigit(name, from) && isDigit(name, from - 1)) from -= 1;
  if (from < end) return dateOrRevision.test(name.slice(from - 1));
  if (isDigit(name, end) && isSign(name, end - 1)) {
    const rest = name.slice(end - 1);
    return dateOrRevision.test(rest) || size.test(rest);
  }
  return !isSign(name, end) || !isDigit(name, end + 1) || dateOrRevision.test(name.slice(end));
}

const isDigit = (name: string, at: number) => at >= 0 && name[at]! >= "0" && name[at]! <= "9";
const isSign = (name: string, at: number) => name[at] === "-" || name[at] === "." || name[at] === "@";
