/** What the facts in force say of a model, by which row, and where that was read: for people. Nothing of it is on a call's path. */
import { factsInForce, factsOf } from "./facts.ts";
import type { FactsFile } from "./file.ts";
import { isOf } from "./rules.ts";

export type Explained = {
  readonly fact: string;
  readonly value: unknown;
  /** The row: a known model's name, or a glob with the format that it is of. */
  readonly by: string;
  readonly source: readonly string[];
};

/** @param provider the provider's own name @returns its limits and abilities, then what it takes and refuses by format */
export function explained(provider: string, model: string): Explained[] {
  const { assumed, ...limits } = factsOf(provider, model);
  const known = Object.entries(limits).map(([fact, value]) => {
    const isAssumed = assumed !== undefined && fact !== "ends";
    const by = isAssumed ? assumed : model;
    return { fact, value, by: isAssumed ? `${by}, assumed` : by, source: sourcesOf(provider, by, fact) };
  });
  return [...known, ...rowsFor(factsInForce(), provider, model)];
}

const listOf = (texts: string | readonly string[]): readonly string[] => (typeof texts === "string" ? [texts] : texts);

/** The rows of a provider that are of the model; of each fact the first one counts. */
function rowsFor({ rules }: FactsFile, provider: string, model: string): Explained[] {
  const found: Explained[] = [];
  for (const [format, byProvider] of Object.entries(rules)) {
    const seen = new Set<string>();
    for (const row of Object.hasOwn(byProvider, provider) ? byProvider[provider]! : []) {
      const { match, since, source, note: _, ...facts } = row;
      const glob = listOf(match).find((one) => isOf({ match: one, ...(since !== undefined && { since }) }, model));
      if (glob === undefined) continue;
      for (const [fact, value] of Object.entries(facts)) {
        if (seen.has(fact)) continue;
        seen.add(fact);
        found.push({
          fact,
          value,
          by: `${glob}${since === undefined ? "" : ` from ${since} on`} (${format})`,
          source: listOf(source),
        });
      }
    }
  }
  return found;
}

/** Where the row was read that says a fact of a model, at its provider or at one whose models are served there. */
function sourcesOf(provider: string, model: string, fact: string): readonly string[] {
  const all = factsInForce().providers;
  const places = [provider, ...(Object.hasOwn(all, provider) ? (all[provider]!.makers ?? []) : [])];
  for (const place of places) {
    const models = Object.hasOwn(all, place) ? (all[place]!.models ?? []) : [];
    const row = models.find((one) => listOf(one.model).includes(model) && Object.hasOwn(one, fact));
    if (row !== undefined) return listOf(row.source);
  }
  return [];
}
