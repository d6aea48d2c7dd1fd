/** What the facts in force say of a model, by which row, and where that was read: for people. Nothing of it is on a call's path. */
import { factsInForce, factsOf } from "./facts.ts";
import type { FactsFile, Vocabulary } from "./file.ts";
import { bareName, withoutDay } from "./model-name.ts";
import { isOf, type ModelRule } from "./rules.ts";

export type Explained = {
  readonly fact: string;
  readonly value: unknown;
  /** The row: a known model's name, or a glob with the provider whose row it is and the format that it is of. */
  readonly by: string;
  readonly source: readonly string[];
};

/** Rows that a provider's code goes by, where they are not just its own. */
export type RowsPlace = {
  readonly format: keyof Vocabulary;
  readonly provider: string;
  /** Only rows of some names, or only those of all. Absent: all rows. */
  readonly part?: "named" | "all";
  /** Only these facts. Absent: all. */
  readonly facts?: readonly string[];
};

/** A model at a provider, as it is set up. */
type AskedOf = {
  /** The provider's own name. */
  readonly provider: string;
  readonly model: string;
  /** The rows that count, in their order. Default: the provider's own of each format. */
  readonly places?: readonly RowsPlace[] | undefined;
  /** Rows that the configuration writes. */
  readonly overrides?: readonly ModelRule[];
};

/** @returns its limits and abilities, then what it takes and refuses; of each fact the one that counts */
export function explained({ provider, model, places, overrides = [] }: AskedOf): Explained[] {
  const { assumed, ...limits } = factsOf(provider, model);
  const known = Object.entries(limits).map(([fact, value]) => {
    const isAssumed = assumed !== undefined && fact !== "ends";
    const by = isAssumed ? assumed : model;
    return { fact, value, by: isAssumed ? `${by}, assumed` : by, source: sourcesOf(provider, by, fact) };
  });
  const file = factsInForce();
  const formats = Object.keys(file.rules) as (keyof Vocabulary)[];
  const rows = (places ?? formats.map((format) => ({ format, provider }))).flatMap((place) => rowsAt(file, place));
  return [...known, ...firstOfEach([...overrides.map(overriding), ...rows], model)];
}

type Row = {
  readonly match: string | readonly string[];
  readonly since?: string | undefined;
  readonly facts: Readonly<Record<string, unknown>>;
  /** Said behind the glob. */
  readonly of: string;
  readonly source: readonly string[];
};

const overriding = ({ match, since, ...facts }: ModelRule): Row => ({
  ...{ match, since, facts, of: "model_rules", source: ["the configuration"] },
});

const listOf = (texts: string | readonly string[]): readonly string[] => (typeof texts === "string" ? [texts] : texts);

function rowsAt({ rules }: FactsFile, { format, provider, part, facts: wanted }: RowsPlace): Row[] {
  const byProvider = rules[format];
  const rows = Object.hasOwn(byProvider, provider) ? byProvider[provider]! : [];
  return rows.flatMap(({ match, since, source, note: _, ...facts }): Row[] => {
    if (part !== undefined && (part === "all") !== (match === "*")) return [];
    const said = Object.entries(facts).filter(([fact]) => wanted?.includes(fact) ?? true);
    return [{ match, since, facts: Object.fromEntries(said), of: `${provider}, ${format}`, source: listOf(source) }];
  });
}

function firstOfEach(rows: readonly Row[], model: string): Explained[] {
  const found = new Map<string, Explained>();
  for (const { match, since, facts, of, source } of rows) {
    const glob = listOf(match).find((one) => isOf({ match: one, ...(since !== undefined && { since }) }, model));
    if (glob === undefined) continue;
    const by = `${glob}${since === undefined ? "" : ` from ${since} on`} (${of})`;
    for (const [fact, value] of Object.entries(facts))
      if (!found.has(fact)) found.set(fact, { fact, value, by, source });
  }
  return [...found.values()];
}

/** Where the row was read that says a fact of a model, at its provider or at one whose models are served there. */
function sourcesOf(provider: string, model: string, fact: string): readonly string[] {
  const all = factsInForce().providers;
  const names = [model, bareName(model), withoutDay(bareName(model))];
  const places = [provider, ...(Object.hasOwn(all, provider) ? (all[provider]!.makers ?? []) : [])];
  for (const place of places) {
    const models = Object.hasOwn(all, place) ? (all[place]!.models ?? []) : [];
    const row = models.find(
      (one) => listOf(one.model).some((name) => names.includes(name)) && Object.hasOwn(one, fact),
    );
    if (row !== undefined) return listOf(row.source);
  }
  return [];
}
