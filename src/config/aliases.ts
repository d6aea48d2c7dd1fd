/** Other names of models, without a slash, as coding agents ask for them. */
import { globMatches } from "../lib/glob.ts";

/** By the alias, in the file's order: `<namespace>/<name>`. A `*` in it stands for what the alias's own `*` matched. */
export type AliasConfig = Readonly<Record<string, string>>;

type Glob = { readonly glob: string; readonly prefix: string; readonly suffix: string; readonly target: string };

/** An immutable set of aliases, replaced as a whole on reload. */
export class Aliases {
  readonly #exact = new Map<string, string>();
  readonly #globs: readonly Glob[];

  constructor(config: AliasConfig) {
    const globs: Glob[] = [];
    for (const [name, target] of Object.entries(config)) {
      if (!name.includes("*")) this.#exact.set(name, target);
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

  /** @returns what a model's name stands for: by its own alias, else by the first glob that fits; undefined: by none */
  find(name: string): string | undefined {
    if (name.includes("/")) return undefined;
    const exact = this.#exact.get(name);
    if (exact !== undefined) return exact;
    const found = this.#globs.find(({ glob }) => globMatches(glob, name));
    if (found === undefined) return undefined;
    const { prefix, suffix, target } = found;
    return target.replace("*", () => name.slice(prefix.length, name.length - suffix.length));
  }
}

/** @returns what is wrong with an alias; undefined: nothing */
export function aliasError(name: string, target: string): string | undefined {
  const stars = (text: string) => text.split("*").length - 1;
  if (!/^[^/\s]+\/\S+$/.test(target)) return "must be <provider>/<model> or a persona's <namespace>/<name>";
  if (stars(target) > 1) return "may have one '*' at most";
  if (stars(target) === 1 && stars(name) !== 1) return `has a '*', for which the alias '${name}' needs one '*' too`;
  return undefined;
}
