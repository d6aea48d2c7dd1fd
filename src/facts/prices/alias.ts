/**
 * Names that mean the latest model of a family. Price lists keep them beside the versions that they meant when someone last looked:
 * the newest version that the list knows by its date says what they cost now.
 */
import type { Match, PricedModel } from "./listed.ts";

/** @returns the family that `mistral-large-latest` is the latest of; undefined for other names */
export const aliasOf = (name: string): string | undefined => /^(.+)-latest$/.exec(name)?.[1];

/**
 * @param own what the list says of the alias itself
 * @returns the newest dated name of the family; undefined where there is none, or the alias's own price began after it
 */
export function newestDated(models: readonly PricedModel[], family: string, own?: PricedModel): string | undefined {
  let newest: { readonly name: string; readonly from: number } | undefined;
  for (const { id, match } of models) {
    for (const name of [id.toLowerCase(), ...literalsOf(match)]) {
      if (!name.startsWith(`${family}-`)) continue;
      const from = dateOf(name.slice(family.length + 1));
      if (from !== undefined && (newest === undefined || from > newest.from)) newest = { name, from };
    }
  }
  return newest === undefined || latestStart(own) > newest.from ? undefined : newest.name;
}

function* literalsOf(match: Match): Generator<string> {
  if ("or" in match) for (const one of match.or) yield* literalsOf(one);
  else if ("and" in match) for (const one of match.and) yield* literalsOf(one);
  else if ("equals" in match) yield match.equals.toLowerCase();
}

/** 2025-08-07, 20250807 or, as Mistral writes it, 2508. Two numbers without a year (0709) say nothing. */
const dates = /^(20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])$|^(2[2-9]|[3-9]\d)(0[1-9]|1[0-2])$/;

function dateOf(text: string): number | undefined {
  const [, year, month, day, shortYear, shortMonth] = dates.exec(text) ?? [];
  if (year !== undefined) return Date.UTC(Number(year), Number(month) - 1, Number(day));
  return shortYear === undefined ? undefined : Date.UTC(2000 + Number(shortYear), Number(shortMonth) - 1, 1);
}

/** When the latest of its prices began, as far as the list says it. */
function latestStart(model: PricedModel | undefined): number {
  if (model === undefined || !Array.isArray(model.prices)) return Number.NEGATIVE_INFINITY;
  const starts = (model.prices as readonly { constraint?: { type: string; start_date?: string } }[]).map(
    ({ constraint }) => Date.parse(constraint?.start_date ?? ""),
  );
  return Math.max(Number.NEGATIVE_INFINITY, ...starts.filter((start) => !Number.isNaN(start)));
}
