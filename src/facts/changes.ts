/** What differs between two files of facts: their models, limits and rules. Prices are compared by `changesBetween` of `prices/list-format.ts`. */
import type { FactsFile } from "./file.ts";

export type FactChange = {
  readonly change: "added" | "removed" | "changed";
  readonly what: string;
  readonly words: string;
};

type Row = { readonly source: unknown; readonly note?: string };
const textOf = ({ source: _, note: _n, ...facts }: Row): string => JSON.stringify(facts).slice(1, -1);

/** @returns rows that only one of them has; a model's or a rule's that differ are one change */
export function factChanges(before: FactsFile, after: FactsFile): FactChange[] {
  const [old, next] = [rowsIn(before), rowsIn(after)];
  return [...new Set([...old.keys(), ...next.keys()])].sort().flatMap((what): FactChange[] => {
    const [was, is] = [old.get(what), next.get(what)];
    if (was === is) return [];
    if (was === undefined) return [{ change: "added", what, words: is! }];
    return is === undefined
      ? [{ change: "removed", what, words: was }]
      : [{ change: "changed", what, words: `${was} → ${is}` }];
  });
}

function rowsIn({ rules, providers, beta_members: members = [] }: FactsFile): Map<string, string> {
  const rows = new Map<string, string>();
  const add = (what: string, words: string) => rows.set(what, rows.has(what) ? `${rows.get(what)}; ${words}` : words);
  for (const [format, byProvider] of Object.entries(rules))
    for (const [provider, all] of Object.entries(byProvider))
      for (const { match, ...row } of all as readonly (Row & { readonly match: string | readonly string[] })[])
        add(`${provider} ${[match].flat().join(", ")} (${format})`, textOf(row));
  for (const { betas, ...row } of members) add(`members of ${betas.join(", ")}`, textOf(row));
  for (const [provider, { models = [], betas = [], versions = [] }] of Object.entries(providers)) {
    for (const { beta, ...row } of betas)
      for (const name of [beta].flat()) add(`${provider} ${name} (beta)`, textOf(row));
    for (const { version, ...row } of versions) add(`${provider} ${version} (version)`, textOf(row));
    for (const { model, ...row } of models) for (const name of [model].flat()) add(`${provider}/${name}`, textOf(row));
  }
  return rows;
}
