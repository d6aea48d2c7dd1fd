/**
 * Makes the executable: `bun build.ts [--target=<bun target>] [--outfile=<path>]`.
 * Everything it serves is inside: personas, the API page, version and commit.
 */
import { $ } from "bun";
import manifest from "./package.json" with { type: "json" };

export type BuildOptions = {
  /** A Bun target such as `bun-linux-x64-baseline`; absent: this machine's. */
  readonly target?: string;
  readonly outfile: string;
  /** RFC 3339. */
  readonly builtAt: string;
  readonly commit: string;
};

/** @throws when the compiler finds fault */
export async function buildExecutable({ target, outfile, builtAt, commit }: BuildOptions): Promise<void> {
  const bake = (name: string, value: string) => ["--define", `${name}=${JSON.stringify(value)}`];
  const flags = [
    "--compile",
    // Halves the start time; needs ESM for top-level await in dependencies.
    "--bytecode",
    "--format=esm",
    "--sourcemap",
    // What the current folder holds must not run inside a server.
    "--no-compile-autoload-dotenv",
    "--no-compile-autoload-bunfig",
    ...(target === undefined ? [] : [`--target=${target}`]),
    ...bake("process.env.NODE_ENV", "production"),
    ...bake("TROUPE_VERSION", manifest.version),
    ...bake("TROUPE_COMMIT", commit),
    ...bake("TROUPE_BUILT_AT", builtAt),
  ];
  await $`${process.execPath} build ${flags} src/main.ts --outfile ${outfile}`.cwd(import.meta.dir).quiet();
}

/** The commit that is checked out, marked when the tree differs from it. */
export async function currentCommit(): Promise<string> {
  const head = await $`git rev-parse --short=12 HEAD`
    .cwd(import.meta.dir)
    .nothrow()
    .quiet()
    .text();
  const changes = await $`git status --porcelain`
    .cwd(import.meta.dir)
    .nothrow()
    .quiet()
    .text();
  return head.trim() === "" ? "unknown" : `${head.trim()}${changes.trim() === "" ? "" : "-dirty"}`;
}

if (import.meta.main) {
  const option = (name: string) =>
    process.argv.find((argument) => argument.startsWith(`--${name}=`))?.slice(name.length + 3);
  const target = option("target");
  const outfile = option("outfile") ?? "dist/troupe";
  await buildExecutable({
    ...(target === undefined ? {} : { target }),
    outfile,
    builtAt: new Date().toISOString(),
    commit: await currentCommit(),
  });
  console.log(outfile);
}
