/** Large files of packages: from source as they lie there, in the executable compressed, which makes it 4 MB smaller. */
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Name of the folder in the executable into which `build.ts` packs them. */
declare const TROUPE_PACKED: string | undefined;

/** Where executables hold what was compiled in. Source: https://bun.com/docs/bundler/executables */
const embedded = process.platform === "win32" ? "B:/~BUN/root" : "/$bunfs/root";

/** @param specifier by which it would be imported. `build.ts` lists those that are packed */
export function packagedFile(specifier: string): Buffer {
  if (typeof TROUPE_PACKED === "undefined") return readFileSync(fileURLToPath(import.meta.resolve(specifier)));
  return Bun.zstdDecompressSync(readFileSync(join(embedded, TROUPE_PACKED, `${basename(specifier)}.zst`)));
}
