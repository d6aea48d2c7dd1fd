/** Which lines of the ledger are of like calls: what those share is written once. */
import { isSameList } from "../lib/same-list.ts";
import type { LedgerLine } from "./store.ts";

/** What like calls share; a line's other parts are its own. The first of them tell a day's sums apart, in the order of `dimensions`. */
export const sharedNames = [
  ...["keyId", "tags", "surface", "format", "model", "persona", "provider", "upstreamModel", "personaVersion"],
  ...["ended", "callOf", "serviceTier", "counted", "priceSource", "priceDate", "priceNote"],
] as const;

/** Whether two lines share all of it. Written out, as it runs for every call; what differs most comes first. */
export function isAlike(a: LedgerLine, b: LedgerLine): boolean {
  return (
    a.keyId === b.keyId &&
    a.model === b.model &&
    a.ended === b.ended &&
    a.counted === b.counted &&
    a.upstreamModel === b.upstreamModel &&
    a.provider === b.provider &&
    a.surface === b.surface &&
    a.format === b.format &&
    a.persona === b.persona &&
    a.personaVersion === b.personaVersion &&
    a.callOf === b.callOf &&
    a.serviceTier === b.serviceTier &&
    a.priceSource === b.priceSource &&
    a.priceDate === b.priceDate &&
    a.priceNote === b.priceNote &&
    isSameList(a.tags, b.tags)
  );
}
