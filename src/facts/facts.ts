/**
 * What is known of models: one file of data (`models.json`, its form in `file.ts`), or a newer one in its place, and who answers for it.
 * Data choose among behaviours of ours, they bring none.
 */
import { ownMember } from "../lib/json/own-member.ts";
import type { FactsFile, Vocabulary } from "./file.ts";
import { bareName, isAtLeast, numberedName, type Version, versionAt, withoutDay } from "./model-name.ts";
import data from "./models.json";
import { forgetRules, type ModelRule } from "./rules.ts";

/** The facts in the executable. */
export const compiledFacts = data as unknown as FactsFile;
let file = compiledFacts;

/** The day on which the facts in the executable were read last, YYYY-MM-DD. */
export const factsAsOf = compiledFacts.as_of;
/** Those that count now. */
export const factsInForce = (): FactsFile => file;

/** Lists that were made of the facts, in the order in which they were: a later one may be made of an earlier one. */
const followers: (() => void)[] = [];

/**
 * A list that is made of the facts. It stays the same object, and is filled anew when others come in force.
 * @param make to be called where modules are loaded, as lists are never given up
 */
export function following<T>(make: () => readonly T[]): readonly T[] {
  const list = [...make()];
  followers.push(() => list.splice(0, list.length, ...make()));
  return list;
}

/** Has other facts in force, from now on. @param next of the form; absent: those in the executable */
export function useFacts(next: FactsFile = compiledFacts): void {
  if (next === file) return;
  file = next;
  tables.clear();
  answers.clear();
  forgetRules();
  for (const follow of followers) follow();
}

/** The form of rows by which a format's models differ. */
type Rows<F extends keyof Vocabulary> = readonly (Vocabulary[F] & ModelRule)[];

export const asNames = (names: string | readonly string[]): readonly string[] =>
  typeof names === "string" ? [names] : names;

/** @param format that the provider's upstream speaks @returns its rows, a glob each, also of facts to come; none where nothing is known */
export const rowsOf = <F extends keyof Vocabulary>(format: F, provider: string): Rows<F> =>
  following<unknown>(() => rowsIn(format, provider)) as Rows<F>;

function rowsIn(format: keyof Vocabulary, provider: string): readonly unknown[] {
  const rows = ownMember(file.rules[format] as Readonly<Record<string, readonly SourcedRow[]>>, provider) ?? [];
  return rows.flatMap(({ match, source: _, note: _n, ...facts }) =>
    asNames(match).map((glob) => ({ ...facts, match: glob })),
  );
}

type SourcedRow = { readonly match: string | readonly string[]; readonly source: unknown; readonly note?: string };

/** Well-known models of a provider, for where no list of its own is known. */
export const listedModels = (provider: string): readonly string[] =>
  following(() => ownMember(file.providers, provider)?.listed ?? []);

type ModelRow = NonNullable<FactsFile["providers"][string]["models"]>[number];
/** Limits and abilities of a model. */
export type ModelFacts = Readonly<Omit<ModelRow, "model" | "counts_as" | "source" | "note">> & {
  /** The known model whose facts these are, where nobody knows the one that was asked for: the newest of its line that is not newer. */
  readonly assumed?: string;
};

type Table = {
  readonly models: ReadonlyMap<string, ModelFacts>;
  /** Known models by what stands before their number, the newest first. */
  readonly lines: ReadonlyMap<string, readonly Numbered[]>;
};
type Numbered = { readonly name: string; readonly version: Version; readonly end: string };

/** Made when a provider's models are asked for first, as most never are. */
const tables = new Map<string, Table>();
const answers = new Map<string, Map<string, ModelFacts>>();
/** Callers choose model names freely: beyond so many of one provider its answers are forgotten. */
const maxAnswers = 500;
const nothing: ModelFacts = Object.freeze({});

/**
 * @param provider the provider's own name (the account's dialect)
 * @param model as a caller names it
 * @returns the same frozen object for the same names; an empty one where neither the model nor its line is known. A day of its end is that
 * of the very model at this provider, and never assumed.
 */
export function factsOf(provider: string, model: string): ModelFacts {
  const known = answers.get(provider)?.get(model);
  if (known !== undefined) return known;
  if (!Object.hasOwn(file.providers, provider)) return nothing;
  const facts = Object.freeze(findFacts(provider, model));
  const byModel = answers.get(provider) ?? new Map<string, ModelFacts>();
  if (byModel.size >= maxAnswers) byModel.clear();
  answers.set(provider, byModel.set(model, facts));
  return facts;
}

function findFacts(provider: string, model: string): ModelFacts {
  const names = [model.toLowerCase(), bareName(model)];
  const makers = file.providers[provider]?.makers ?? [];
  const own = tableOf(provider);
  const exact = firstOf(names, (name) => factsIn(own, name));
  if (exact !== undefined && Object.keys(exact).some((fact) => fact !== "ends")) return exact;
  const found = firstOf([provider, ...makers], (maker) =>
    firstOf(names, (name) => {
      const { ends: _, ...facts } = factsIn(tableOf(maker), name) ?? {};
      return Object.keys(facts).length > 0 ? facts : undefined;
    }),
  );
  const assumed = found ?? firstOf([provider, ...makers], (maker) => assumedIn(tableOf(maker), names.at(-1)!));
  return { ...assumed, ...exact };
}

function firstOf<T, R>(values: readonly T[], find: (value: T) => R | undefined): R | undefined {
  for (const value of values) {
    const found = find(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

const factsIn = ({ models }: Table, name: string): ModelFacts | undefined =>
  models.get(name) ?? models.get(withoutDay(name));

/** Takes the newest known of the line that is not newer than the model, else its newest; of one version the one that is named alike. */
function assumedIn({ models, lines }: Table, name: string): ModelFacts | undefined {
  const asked = numberedName(withoutDay(name));
  const line = asked && lines.get(asked.begin);
  if (asked === undefined || line === undefined) return undefined;
  const alike = asked.end === "" ? line : line.filter(({ end }) => end === asked.end);
  const among = alike.length > 0 ? alike : line;
  const next = among.find(({ version }) => isAtLeast(asked.version, version)) ?? among[0]!;
  const { ends: _, ...facts } = models.get(next.name)!;
  // Gateways write numbers with a dot: `claude-opus-4.5` is `claude-opus-4-5`.
  const dashed = (text: string) => text.replaceAll(".", "-");
  return dashed(withoutDay(name)) === dashed(next.name) ? facts : { ...facts, assumed: next.name };
}

function tableOf(provider: string): Table {
  const known = tables.get(provider);
  if (known !== undefined) return known;
  const models = new Map<string, ModelFacts>();
  const lines = new Map<string, Numbered[]>();
  for (const { model, counts_as, source: _, note: _n, ...facts } of ownMember(file.providers, provider)?.models ?? []) {
    for (const name of asNames(model)) {
      models.set(name, { ...facts, ...models.get(name) });
      const numbered = numberedName(bareName(name));
      // Of models that have ended nothing else may be known.
      if (numbered === undefined || facts.context === undefined || !Number.isFinite(numbered.version[0])) continue;
      const { begin, end } = numbered;
      const version = counts_as === undefined ? numbered.version : versionAt(counts_as)!;
      lines.set(begin, [...(lines.get(begin) ?? []), { name, version, end }]);
    }
  }
  for (const line of lines.values()) line.sort((a, b) => b.version[0] - a.version[0] || b.version[1] - a.version[1]);
  const table = { models, lines };
  tables.set(provider, table);
  return table;
}

/** Every model with an announced end: provider, name, and the first day on which it no longer answers. */
export const announcedEndings = (): readonly (readonly [provider: string, model: string, ends: string])[] =>
  Object.entries(file.providers).flatMap(([provider, { models = [] }]) =>
    models.flatMap(({ model, ends }) =>
      ends === undefined ? [] : asNames(model).map((name) => [provider, name, ends] as const),
    ),
  );
