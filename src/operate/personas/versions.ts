/** A persona's versions that are kept, and what the ledger says of them: for the admin API and `troupe personas log`. */
import type { Store } from "../../store/contract/store.ts";
import type { LedgerSum } from "../../store/contract/usage.ts";

type Listed = {
  readonly version: string;
  /** Unix milliseconds; null: it is in service, and not kept yet. */
  readonly createdAt: number | null;
  readonly usedAt: number | null;
  readonly isServed: boolean;
  readonly labels: readonly string[];
};

/** @param served the version in service @returns the newest first, and before them one that is not kept yet @throws StorageError */
export async function listVersions(
  { personaVersions }: Pick<Store, "personaVersions">,
  id: string,
  served: string | undefined,
): Promise<Listed[]> {
  const [kept, all] = await Promise.all([personaVersions.list(id), personaVersions.labels()]);
  const labels = Map.groupBy(
    all.filter(({ persona }) => persona === id),
    ({ version }) => version,
  );
  const isKept = served === undefined || kept.some(({ version }) => version === served);
  const rows = isKept ? kept : [{ version: served, createdAt: null, usedAt: null }, ...kept];
  return rows.map(({ version, createdAt, usedAt }) => ({
    ...{ version, createdAt, usedAt, isServed: version === served },
    labels: (labels.get(version) ?? []).map(({ label }) => label),
  }));
}

/** What counts as a call, and as an error: replays cost nothing and are no calls. */
export const countsOf = ({ calls, ended, cost, unknownCosts }: LedgerSum) => ({
  calls: calls - ended.replayed - ended.joined,
  errors: ended.broken + ended.refused + ended.interrupted,
  cost_micro_dollars: cost,
  unknown_cost_calls: unknownCosts,
});
