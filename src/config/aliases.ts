/** Other names of models, without a slash, as coding agents ask for them. */

import type { Strategy } from "../lib/http/strategies.ts";
import type { PathPart } from "../lib/json/schema-errors.ts";
import { globMatches } from "../lib/text/glob.ts";

/** Several models that stand for one another. */
export type AliasGroup = {
  /** `<provider>/<model>`, in their order; at least one. */
  readonly models: readonly string[];
  readonly strategy?: Strategy | undefined;
  /** Shares of the models, in their order; absent: equal ones. */
  readonly weights?: readonly number[] | undefined;
};

/** By the alias, in the file's order: `<namespace>/<name>`. A `*` in it stands for what the alias's own `*` matched. */
type AliasConfig = Readonly<Record<string, string | AliasGroup>>;

/** All that an alias stands for. */
export const modelsOf = (target: string | AliasGroup): readonly string[] =>
  typeof target === "string" ? [target] : target.models;

type Glob = { readonly glob: string; readonly prefix: string; readonly suffix: string; readonly target: string };

/** An immutable set of aliases, replaced as a whole on reload. */
export class Aliases {
  readonly #exact = new Map<string, string>();
  readonly #groups = new Map<string, AliasGroup>();
  readonly #globs: readonly Glob[];

  constructor(config: AliasConfig) {
    const globs: Glob[] = [];
    for (const [name, target] of Object.entries(config)) {
      if (typeof target !== "string") {
        this.#exact.set(name, target.models[0]!);
        this.#groups.set(name, target);
      } else if (!name.includes("*")) this.#exact.set(name, target);
      else {
        const [prefix = "", suffix = ""] = name.split("*");
        globs.push({ glob: name, prefix, suffix, target });
      }
    }
    this.#globs = globs;
  }

  /** Aliases without a `*`, which can be listed: the name and what it stands for. */
  list(): [name: string, target: string][] {
    return [...this.#exact];
  }

  /** @returns the models that an alias stands for, where it names several */
  group(name: string): AliasGroup | undefined {
    return this.#groups.get(name);
  }

  /** @returns what a model's name stands for, of several models the first: by its own alias, else by the first glob that fits; undefined: by none */
  find(name: string): string | undefined {
    if (name.includes("/")) return undefined;
    return this.#exact.get(name) ?? this.#findByGlob(name);
  }

  #findByGlob(name: string): string | undefined {
    const found = this.#globs.find(({ glob }) => globMatches(glob, name));
    if (found === undefined) return undefined;
    const { prefix, suffix, target } = found;
    return target.replace("*", () => name.slice(prefix.length, name.length - suffix.length));
  }
}

/** @returns what is wrong with an alias, and where in it; undefined: nothing */
export function aliasError(
  name: string,
  target: string | AliasGroup,
): { readonly at: readonly PathPart[]; readonly message: string } | undefined {
  if (typeof target === "string") {
    const message = modelError(name, target);
    return message === undefined ? undefined : { at: [], message };
  }
  const { models, weights } = target;
  if (name.includes("*")) return { at: [], message: "names several models, and so may have no '*'" };
  for (const [at, model] of models.entries()) {
    const message = models.indexOf(model) < at ? `repeats ${model}` : modelError(name, model);
    if (message !== undefined) return { at: ["models", at], message };
  }
  if (weights === undefined || weights.length === models.length) return undefined;
  return { at: ["weights"], message: `must have one for each model: ${models.length}, not ${weights.length}` };
}

function modelError(name: string, target: string): string | undefined {
  const stars = (text: string) => text.split("*").length - 1;
  if (!/^[^/\s]+\/\S+$/.test(target)) return "must be <provider>/<model> or a persona's <namespace>/<name>";
  if (stars(target) > 1) return "may have one '*' at most";
  if (stars(target) === 1 && stars(name) !== 1) return `has a '*', for which the alias '${name}' needs one '*' too`;
  return undefined;
}
