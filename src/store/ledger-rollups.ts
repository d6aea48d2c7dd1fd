/**
 * The sums that the ledger keeps: each rollup has, for a day or an hour, one row for each combination of a few members of its lines. A question
 * reads the coarsest one that knows what it groups and filters by, so that what callers write (users, clients, metadata) makes nobody's
 * question longer but those about it. The last one knows all members.
 */
import { type KindName, kindNames, metadataKeyOf, reportMembers, timeGroups } from "./ledger-columns.ts";
import type { LedgerFilter, LedgerGroup } from "./usage.ts";

export type Rollup = {
  /** In rows of sums. No other rollup gets it later. */
  readonly id: number;
  readonly members: readonly KindName[];
  /** Sums of hours too; without them, hours are read from one that has them. */
  readonly hasHours: boolean;
};

/** How calls ended, and whether their tokens were counted, stands in every sum. */
const always = ["ended", "counted"] as const;
const owner = ["keyId", "tags"] as const;
/** Bounded by configuration and upstreams, whatever callers write. */
const configured = [
  ...(["surface", "format", "model", "persona", "personaVersion", "variant", "provider", "upstreamModel"] as const),
  ...(["upstreamFormat", "upstreamKey", "upstreamEndpoint", "serviceTier", "failure", "errorCode"] as const),
  "priceSource",
] as const;

/** By how few rows they have. */
export const rollups: readonly Rollup[] = [
  { id: 1, members: always, hasHours: true },
  { id: 2, members: [...always, ...owner], hasHours: false },
  { id: 3, members: [...always, ...configured], hasHours: true },
  { id: 4, members: [...always, ...owner, "user"], hasHours: false },
  { id: 5, members: [...always, ...owner, "client"], hasHours: false },
  { id: 6, members: [...always, ...owner, "metadata"], hasHours: false },
  { id: 7, members: [...always, ...owner, ...configured], hasHours: false },
  { id: 8, members: kindNames, hasHours: true },
];

/** Sums of all calls. */
export const ofAll: Rollup = rollups[0]!;
/** Its rows have the kinds of lines; those of all others have kinds of their own, in `ledger_groups`. */
export const finest: Rollup = rollups.at(-1)!;
export const coarse: readonly Rollup[] = rollups.slice(0, -1);

const memberOf = (name: string): KindName =>
  name === "tag" ? "tags" : metadataKeyOf(name) !== undefined ? "metadata" : reportMembers.get(name)!;

/** The one with the fewest rows that answers the question. */
export function rollupFor(span: "hour" | "day", { where = {} }: LedgerFilter, by: readonly LedgerGroup[]): Rollup {
  const names = [...Object.keys(where), ...by.filter((name) => !(timeGroups as readonly string[]).includes(name))];
  const asked = names.map(memberOf);
  return rollups.find(
    ({ members, hasHours }) => (span === "day" || hasHours) && asked.every((member) => members.includes(member)),
  )!;
}

const isKnown = new Map(rollups.map(({ id, members }) => [id, kindNames.map((name) => members.includes(name))]));

/** Values of a kind, in the order of `kindColumns`. */
export type KindValues = readonly (string | null)[];

/** What a rollup knows of a kind's values, in their order; null for the rest. */
export const knownTo = ({ id }: Rollup, values: KindValues): KindValues =>
  values.map((value, at) => (isKnown.get(id)![at] === true ? value : null));

/** The one that a budget's span begins with. @param whose `all`, `key`, `tag` or `tier` @param isByModel for calls of some models alone */
export const spentIn = (whose: string, isByModel: boolean): Rollup =>
  rollupFor("day", { since: 0, until: 0 }, [
    ...(whose === "all" ? [] : ["key", "tag"]),
    ...(isByModel ? ["provider", "upstream_model"] : []),
  ]);
