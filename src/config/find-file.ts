/** The configuration file: the one that is named, or the first of the usual ones. */
import type { Diagnostic } from "../lib/yaml/yaml.ts";
import { type ReadFile, withoutPlace } from "./variables.ts";

const defaultFiles = ["troupe.yaml", "troupe.yml", "/etc/troupe/troupe.yaml", "/etc/troupe/troupe.yml"];
/** Names that people take for those. */
const nearlyDefault = ["troupe.YAML", "troupe.YML", "Troupe.yaml", "/etc/troupe/troupe.YAML"];

type FoundFile = {
  /** Absent: there is none. */
  readonly file?: { readonly path: string; readonly content: string };
  readonly errors: readonly Diagnostic[];
  readonly warnings: readonly Diagnostic[];
};

/** @param flag of the command line @param variable TROUPE_CONFIG */
export function findFile(flag: string | undefined, variable: string | undefined, readFile: ReadFile): FoundFile {
  const named = flag ?? (variable || undefined);
  const isThere = (path: string) => {
    try {
      return readFile(path) !== undefined;
    } catch {
      return true;
    }
  };
  const notRead = (path: string, why: string) => withoutPlace(path, "", `is not read${why}`);
  for (const path of named === undefined ? defaultFiles : [named]) {
    try {
      const content = readFile(path);
      if (content === undefined) continue;
      const other = path.replace(/\.yaml$/, ".yml");
      const isDouble = named === undefined && other !== path && isThere(other);
      return {
        file: { path, content },
        errors: [],
        warnings: isDouble ? [notRead(other, `, as ${path} stands beside it`)] : [],
      };
    } catch (error) {
      return { errors: [withoutPlace(path, "", `can't be read: ${(error as Error).message}`)], warnings: [] };
    }
  }
  if (named === undefined) {
    const near = nearlyDefault.filter(isThere);
    return {
      errors: [],
      warnings: near.map((path) => notRead(path, "; a configuration is named troupe.yaml or troupe.yml")),
    };
  }
  const by = flag === undefined ? "TROUPE_CONFIG" : "--config";
  return { errors: [withoutPlace(named, "", `does not exist, but ${by} names it`)], warnings: [] };
}
