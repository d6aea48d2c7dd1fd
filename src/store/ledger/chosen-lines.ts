/** By which words lines of the ledger are chosen, beside what databases say in SQL: for lines that are in memory. */

import type { LedgerFilter, LedgerLine } from "../contract/usage.ts";
import { metadataKeyOf, reportMembers } from "./columns.ts";

/** Filters that take several values, separated by commas: no value of theirs has one. */
export const severalNames: readonly string[] = ["ended", "failure", "price_source"];

/** Ids of keys; a user whom a proxy names may have a comma. */
const severalKeys = /^key_[0-9a-f]+(?:,key_[0-9a-f]+)+$/;

/** The values of a filter, any of which fits. */
export const severalOf = (name: string, value: string): readonly string[] =>
  severalNames.includes(name) || (name === "key" && severalKeys.test(value)) ? value.split(",") : [value];

/** True if a line is one of those that the databases would give, whatever its time. */
export function isChosen(line: LedgerLine, { where = {}, own = [] }: Pick<LedgerFilter, "where" | "own">): boolean {
  return (
    Object.entries(where).every(([name, value]) => {
      if (name === "tag") return value === "" ? line.tags.length === 0 : line.tags.includes(value);
      return severalOf(name, value).includes(valueIn(line, name) ?? "");
    }) &&
    own.every(({ member, ranges }) => {
      const number = line[member];
      return number !== null && ranges.some(([from, to]) => number >= from && number <= to);
    })
  );
}

function valueIn(line: LedgerLine, name: string): string | null | undefined {
  const key = metadataKeyOf(name);
  if (key === undefined) return line[reportMembers.get(name)!] as string | null;
  const metadata = JSON.parse(line.metadata ?? "{}") as Record<string, string>;
  return Object.hasOwn(metadata, key) ? metadata[key] : undefined;
}
