/** Patterns of models that a key may use. */
import type { Config } from "../../config/config.ts";
import { globMatches, globReaches } from "../../lib/text/glob.ts";
import { suggest } from "../../lib/text/suggest.ts";
import type { Persona } from "../../personas/persona.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";

/** @param pattern of models that a budget counts, by what is called @returns what is wrong with it; undefined: nothing */
export const faultOfBudgetModel = (pattern: string, { providers }: Pick<Config, "providers">): string | undefined =>
  /^[!-~]{1,200}$/.test(pattern)
    ? unmatchedPattern([pattern], { aliases: {}, providers }, [])
    : "a pattern of models is of 1 to 200 characters without spaces.";

/** @returns what is wrong with patterns of models that a key may use, the first that fits no model that there can be; undefined: nothing */
export function unmatchedPattern(
  models: readonly string[],
  { aliases, providers: configured }: Pick<Config, "aliases" | "providers">,
  personas: readonly Persona[],
): string | undefined {
  const spaces = new Set([
    ...[...providers, ...configured].map(({ name }) => name),
    ...personas.map(({ id }) => parseModelId(id)!.namespace),
  ]);
  const fits = (glob: string) =>
    [...spaces].some((name) => globReaches(glob, `${name}/`)) ||
    Object.keys(aliases).some((alias) => globMatches(alias, glob) || globMatches(glob, alias));
  const lost = models.find((glob) => !fits(glob));
  if (lost === undefined) return undefined;
  const [name = ""] = lost.split("/");
  const guess = spaces.has(name) ? name : suggest(name, [...spaces]);
  const rest = lost.includes("/") ? lost.slice(name.length) : "/*";
  return `'${lost}' fits no model, as models are named <provider>/<model> and personas <namespace>/<name>${guess === undefined ? "" : `; did you mean '${guess}${rest}'?`}`;
}
