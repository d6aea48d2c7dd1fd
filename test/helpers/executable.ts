/**
 * The executable that tests start: built anew when a file changed that goes into it, since a build takes seconds and a start of the sources
 * four times as long. Run by itself, this file builds it, as `npm test` does before the files that share it.
 */
import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { buildExecutable } from "../../build.ts";
import { executableKeys } from "./facts-files.ts";

export const executableBuild = {
  builtAt: "2026-01-02T03:04:05.000Z",
  commit: "abcdef123456",
  factsKeys: executableKeys.publicKey,
};
const root = resolve(import.meta.dir, "../..");
const cache = join(root, "node_modules/.cache/troupe-test");
const ingredients = ["build.ts", "bun.lock", "deploy/release", "package.json", "personas", "src"];

/** A name for the state of all that goes in. */
function state(): string {
  const files = ingredients.flatMap((place) => {
    const path = join(root, place);
    if (!statSync(path).isDirectory()) return [path];
    return readdirSync(path, { recursive: true, encoding: "utf8" }).map((name) => join(path, name));
  });
  const seen = files.sort().map((path) => {
    const { size, mtimeMs } = statSync(path);
    return `${path} ${size} ${mtimeMs}`;
  });
  return Bun.hash(`${process.execPath}\n${executableBuild.factsKeys}\n${seen.join("\n")}`).toString(36);
}

async function build(): Promise<string> {
  const name = state();
  const outfile = join(cache, name, "troupe");
  if (existsSync(outfile)) return outfile;
  // Renamed when whole: another process may do the same.
  const workshop = join(cache, `.${name}-${process.pid}`);
  await buildExecutable({ outfile: join(workshop, "troupe"), ...executableBuild });
  // Another run may use those that are younger.
  for (const path of readdirSync(cache).map((entry) => join(cache, entry)))
    if (statSync(path).mtimeMs < Date.now() - 3_600_000) rmSync(path, { recursive: true, force: true });
  try {
    renameSync(workshop, dirname(outfile));
  } catch {
    rmSync(workshop, { recursive: true, force: true });
  }
  return outfile;
}

let built: Promise<string> | undefined;

/** @returns its path; it belongs to all tests, so copy it where it is changed or must be readable for others */
export const testExecutable = (): Promise<string> => (built ??= build());

if (import.meta.main) await testExecutable();
