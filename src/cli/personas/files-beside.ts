/** Files that stand beside one that is imported, as partials and values do: none outside its folder is read, links looked through. */
import { readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import type { FilesBeside } from "../../personas/exchange/importers/source.ts";

const maxBytes = 16 * 1024 * 1024;

/** @param file the absolute path of the file that is imported */
export function filesBeside(file: string): FilesBeside {
  return (path) => {
    try {
      const folder = realpathSync(dirname(file));
      const found = realpathSync(join(folder, path));
      if (!found.startsWith(folder.endsWith(sep) ? folder : folder + sep)) return undefined;
      const { size } = statSync(found);
      return size > maxBytes ? undefined : readFileSync(found);
    } catch {
      return undefined;
    }
  };
}
