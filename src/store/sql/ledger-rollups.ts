/**
 * The sums that the ledger keeps: each rollup has, for a day or an hour, one row for each combination of a few members of its lines. A question
 * reads the coarsest one that knows what it groups and filters by, so that what callers write (users, clients, metadata) makes nobody's
 * question longer but those about it. The last one knows all members.
 */

import type { LedgerFilter, LedgerGroup } from "../contract/usage.ts";
import { type DimensionName, dimensionNames, metadataKeyOf, reportMembers, timeGroups } from "../ledger/columns.ts";

export type Rollup = {
  /** In rows of sums. No other rollup gets it later. */
  readonly id: number;
  /** Which of `parts` it knows, in their order. */
  readonly parts: readonly number[];
  readonly members: readonly DimensionName[];
  /** Sums of hours too; without them, hours are read from one that has them. */
  readonly hasHours: boolean;
};

/** Members that rollups know together, or not at all. */
const named = {
  /** How calls ended, and whether their tokens were counted, stands in every sum. */
  always: ["ended", "counted"],
  owner: ["keyId", "tags"],
  /** Bounded by configuration and upstreams, whatever callers write. */
  configured: [
    ...(["surface", "format", "model", "persona", "personaVersion", "variant", "provider", "upstreamModel"] as const),
    ...(["upstreamFormat", "upstreamKey", "upstreamEndpoint", "serviceTier", "failure", "errorCode"] as const),
    "priceSource",
  ],
  user: ["user"],
  client: ["client"],
  metadata: ["metadata"],
  /** What no question asks for. */
  rest: ["priceDate", "priceNote"],
} as const satisfies Record<string, readonly DimensionName[]>;
type Part = keyof typeof named;
const partNames = Object.keys(named) as Part[];
/** Every member stands in one of them. */
export const parts: readonly (readonly DimensionName[])[] = partNames.map((name) => named[name]);

const rollup = (id: number, names: readonly Part[], hasHours = false): Rollup => {
  const known = ["always", ...names] as const;
  return {
    ...{ id, hasHours, parts: known.map((name) => partNames.indexOf(name)) },
    members: known.flatMap((name): readonly DimensionName[] => named[name]),
  };
};

/** By how few rows they have. */
export const rollups: readonly Rollup[] = [
  rollup(1, [], true),
  rollup(2, ["owner"]),
  rollup(3, ["configured"], true),
  rollup(9, ["user"]),
  rollup(5, ["owner", "client"]),
  rollup(6, ["owner", "metadata"]),
  rollup(7, ["owner", "configured"]),
  rollup(4, ["owner", "user"]),
  rollup(10, ["configured", "user"]),
  rollup(8, partNames.slice(1), true),
];

/** Sums of all calls. */
export const ofAll: Rollup = rollups[0]!;
/** Its rows have the dimensions of lines; those of all others have fewer, in `ledger_groups`. */
export const finest: Rollup = rollups.at(-1)!;

const memberOf = (name: string): DimensionName =>
  name === "tag" ? "tags" : metadataKeyOf(name) !== undefined ? "metadata" : reportMembers.get(name)!;

/** The one with the fewest rows that answers the question. */
export function rollupFor(bucket: "hour" | "day", { where = {} }: LedgerFilter, by: readonly LedgerGroup[]): Rollup {
  const names = [...Object.keys(where), ...by.filter((name) => !(timeGroups as readonly string[]).includes(name))];
  const asked = names.map(memberOf);
  return rollups.find(
    ({ members, hasHours }) => (bucket === "day" || hasHours) && asked.every((member) => members.includes(member)),
  )!;
}

const isKnown = new Map(rollups.map(({ id, members }) => [id, dimensionNames.map((name) => members.includes(name))]));

/** A line's dimensions, in the order of `dimensionColumns`. */
export type DimensionValues = readonly (string | null)[];

/** Those that a rollup knows, in their order; null for the rest. */
export const knownTo = ({ id }: Rollup, values: DimensionValues): DimensionValues =>
  values.map((value, at) => (isKnown.get(id)![at] === true ? value : null));

/** The one that a budget's span begins with. @param whose `all`, `key`, `tag` or `tier` @param isByModel for calls of some models alone */
export const spentIn = (whose: string, isByModel: boolean): Rollup =>
  rollupFor("day", { since: 0, until: 0 }, [
    ...(whose === "all" ? [] : ["key", "tag"]),
    ...(isByModel ? ["provider", "upstream_model"] : []),
  ]);
