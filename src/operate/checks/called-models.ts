/** What there is to say of models that were called of late, and of which no file speaks: of those a file names, its line is told. */
import type { Config } from "../../config/config.ts";
import { factsOf } from "../../facts/facts.ts";
import { few } from "../../lib/text/few.ts";
import { printable } from "../../lib/text/printable.ts";
import type { Persona } from "../../personas/persona.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { namedModels } from "./named-models.ts";
import type { PriceChecks } from "./prices.ts";
import { type RetiringMessage, retirementWords } from "./retiring.ts";

/** Findings that are told one by one: callers choose model names freely. */
const maxTold = 20;

/**
 * @param called as `<account>/<model>`
 * @returns a line for each that has no price or one that changes soon, and for each that has ended or will
 */
export function calledModelWarnings(
  called: readonly string[],
  personas: readonly Persona[],
  config: Config,
  { words }: PriceChecks,
  now: number,
): { readonly prices: string[]; readonly models: string[] } {
  const named = new Set(namedModels(personas, config));
  const others = called.filter(
    (id) => !named.has(id) && config.providers.some(({ name }) => id.startsWith(`${name}/`)),
  );
  const told = (message: RetiringMessage) => {
    const found = others
      .flatMap((id) => message(id, [id]) ?? [])
      .map((text) => `called within 30 days: ${printable(text)}`);
    return found.length > maxTold ? [...found.slice(0, maxTold), `${found.length - maxTold} more like these`] : found;
  };
  return { prices: told(words), models: told(retirementWords(config, now)) };
}

/** For people: which of the models in use nobody knows, and for which each is taken; empty where all are known. */
export function assumedPhrase(inUse: readonly string[], config: Config): string {
  const dialects = new Map(config.providers.map(({ name, dialect }) => [name, dialect ?? name]));
  const found = [...new Set(inUse)].flatMap((id) => {
    const { namespace, name } = parseModelId(id) ?? {};
    const dialect = namespace === undefined ? undefined : dialects.get(namespace);
    const { assumed, ends } = dialect === undefined ? {} : factsOf(dialect, name!);
    // Of one whose end is known by its name no more is to be known.
    return assumed === undefined || ends !== undefined ? [] : [`${printable(id)} as ${assumed}`];
  });
  return found.length === 0
    ? ""
    : `; ${found.length} of the models in use ${found.length === 1 ? "is" : "are"} assumed: ${few(found)}`;
}
