/**
 * Makes the executable: `bun build.ts [--target=<bun target>] [--outfile=<path>]`, or with `--release` an archive of it
 * for every target, in `dist/release`. Everything it serves is inside: personas, the API page, version and commit.
 */
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { $ } from "bun";
import { privateKeyOf, publicKeyOf } from "./deploy/release/facts.ts";
import { librariesOf } from "./deploy/release/libraries.ts";
import { makeRelease, targets } from "./deploy/release/release.ts";
import manifest from "./package.json" with { type: "json" };
import { browserPages, bundlePage } from "./src/http/pages/page-bundle.ts";
import { compressBest } from "./src/http/pages/pages.ts";
import { builtinValues } from "./src/personas/builtin.ts";

export type BuildOptions = {
  /** A Bun target such as `bun-linux-x64-baseline`; absent: this machine's. */
  readonly target?: string;
  readonly outfile: string;
  /** RFC 3339. */
  readonly builtAt: string;
  readonly commit: string;
  /** Keys by which newer facts are proved, apart by spaces. Default: those that the environment names. */
  readonly factsKeys?: string;
  /** Code that was parsed beforehand, which halves the start time. Default: yes. */
  readonly bytecode?: boolean;
};

const folder = import.meta.dir;

/** What the executable begins with, and the threads that it starts. */
const entryPoints = [
  ...["src/main.ts", "src/usage/tokens/token-worker.ts", "src/store/sqlite/checkpoint-worker.ts"],
  ...["src/store/sqlite/knowledge/worker.ts", "src/usage/facts/worker.ts"],
];

/** Files of packages that `packagedFile()` reads. */
const packagedFiles = [
  ...["swagger-ui-dist/swagger-ui-bundle.js", "swagger-ui-dist/swagger-ui.css"],
  "gpt-tokenizer/data/o200k_base.tiktoken",
];
/** The folder in which they are compressed; the executable has its last name. */
const packed = "dist/packed";

/** @throws when the compiler finds fault */
export async function buildExecutable(options: BuildOptions): Promise<void> {
  const { target, outfile, builtAt, commit, bytecode = true } = options;
  const bake = (name: string, value: unknown) => ["--define", `${name}=${JSON.stringify(value)}`];
  const flags = [
    "--compile",
    ...(bytecode ? ["--bytecode"] : []),
    // Dependencies have top-level await.
    "--format=esm",
    // A start reads only the parts it needs, and reads less. Names stay, for logs and for Elysia, which looks at functions.
    ...["--splitting", "--minify-syntax", "--minify-whitespace"],
    "--sourcemap",
    // The libraries of MCP have a validator of schemas that is thrice smaller; neither is used, as ours is given to them.
    "--conditions=workerd",
    `--asset=${packed}`,
    // Most of what a start runs, runs once: it is not worth compiling (`runServer` ends this).
    "--compile-jit-policy=8",
    // What the current folder holds must not run inside a server.
    "--no-compile-autoload-dotenv",
    "--no-compile-autoload-bunfig",
    ...(target === undefined ? [] : [`--target=${target}`]),
    ...bake("process.env.NODE_ENV", "production"),
    ...bake("TROUPE_VERSION", manifest.version),
    ...bake("TROUPE_COMMIT", commit),
    ...bake("TROUPE_BUILT_AT", builtAt),
    // Entry points lie as they do in `src`, and what they share beside the first one.
    ...bake("TROUPE_TOKEN_WORKER", "./usage/tokens/token-worker.js"),
    ...bake("TROUPE_CHECKPOINT_WORKER", "./store/sqlite/checkpoint-worker.js"),
    ...bake("TROUPE_KNOWLEDGE_WORKER", "./store/sqlite/knowledge/worker.js"),
    ...bake("TROUPE_FACTS_WORKER", "./usage/facts/worker.js"),
    ...bake("TROUPE_FACTS_KEYS", options.factsKeys ?? factsKeys()),
    ...bake("TROUPE_PERSONAS", builtinValues()),
    ...bake("TROUPE_CONSOLE", true),
    ...bake("TROUPE_PACKED", basename(packed)),
  ];
  const path = resolve(folder, outfile);
  mkdirSync(dirname(path), { recursive: true });
  const workshop = mkdtempSync(join(dirname(path), ".build-"));
  try {
    for (const page of browserPages) await writePage(page);
    rmSync(join(folder, packed), { recursive: true, force: true });
    for (const file of packagedFiles) await pack(file);
    await $`${process.execPath} build ${flags} ${entryPoints} --outfile ${join(workshop, basename(path))}`
      .cwd(folder)
      .quiet();
    // The compiler leaves the source maps beside the executable, which has them inside: nobody needs them.
    const made = readdirSync(workshop).filter((name) => !name.endsWith(".map"));
    for (const name of made) renameSync(join(workshop, name), join(dirname(path), name));
  } finally {
    rmSync(workshop, { recursive: true, force: true });
  }
}

/** Signs the sums and facts of a release; absent: neither is there. */
const factsKey = () => {
  const pem = process.env["TROUPE_FACTS_PRIVATE_KEY"];
  return pem ? privateKeyOf(pem) : undefined;
};

/** By which newer facts are proved: those that are named, and the one that signs. */
function factsKeys(): string {
  const own = factsKey();
  const named = (process.env["TROUPE_FACTS_PUBLIC_KEYS"] ?? "").split(/[\s,]+/).filter((key) => key !== "");
  return [...new Set([...named, ...(own === undefined ? [] : [publicKeyOf(own)])])].join(" ");
}

/** Where `embedded.ts` of each page takes them from. */
async function writePage(page: (typeof browserPages)[number]): Promise<void> {
  const { script, style } = await bundlePage(page);
  const files = { [`${page}.js`]: script, [`${page}.css`]: style };
  for (const [name, text] of Object.entries(files)) {
    const { br, gzip } = await compressBest(text);
    await Bun.write(join(folder, `dist/${page}/${name}.br`), br);
    await Bun.write(join(folder, `dist/${page}/${name}.gz`), gzip);
  }
}

async function pack(specifier: string): Promise<void> {
  const file = await Bun.file(fileURLToPath(import.meta.resolve(specifier))).bytes();
  await Bun.write(join(folder, packed, `${basename(specifier)}.zst`), Bun.zstdCompressSync(file, { level: 12 }));
}

const git = async (...words: string[]) => (await $`git ${words}`.cwd(folder).nothrow().quiet().text()).trim();

/** The commit that is checked out, marked when the tree differs from it. */
export async function currentCommit(): Promise<string> {
  const head = await git("rev-parse", "--short=12", "HEAD");
  const changes = await git("status", "--porcelain");
  return head === "" ? "unknown" : `${head}${changes === "" ? "" : "-dirty"}`;
}

/**
 * Unix time that stands in what is built: the commit's, so that a build can be repeated.
 * Source: https://reproducible-builds.org/specs/source-date-epoch/
 */
export async function sourceSeconds(): Promise<number> {
  const given = process.env["SOURCE_DATE_EPOCH"] || (await git("log", "-1", "--format=%ct"));
  return given === "" ? Math.floor(Date.now() / 1000) : Number(given);
}

/** Where each shell looks for its completions. */
const completions = {
  bash: "completions/troupe.bash",
  zsh: "completions/_troupe",
  fish: "completions/troupe.fish",
} as const;

async function printed(): Promise<Record<string, string>> {
  const print = async ([shell, path]: [string, string]): Promise<[string, string]> => [
    path,
    await $`${process.execPath} src/main.ts completion ${shell}`.cwd(folder).quiet().text(),
  ];
  return Object.fromEntries(await Promise.all(Object.entries(completions).map(print)));
}

async function release(): Promise<string[]> {
  const [commit, seconds] = [await currentCommit(), await sourceSeconds()];
  const builtAt = new Date(seconds * 1000).toISOString();
  return makeRelease({
    folder,
    into: join(folder, "dist/release"),
    version: manifest.version,
    commit,
    bunVersion: manifest.engines.bun,
    seconds,
    printed: await printed(),
    ...(factsKey() !== undefined && { key: factsKey()! }),
    ...imageLibraries(),
    ...releasesAddress(process.env),
    targets: option("target") === undefined ? targets : targets.filter(({ bun }) => bun === option("target")),
    build: async ({ bun, bytecode }) => {
      // The file's name is inside the executable, so it is the same for all.
      const outfile = join(folder, "dist/target", bun.includes("windows") ? "troupe.exe" : "troupe");
      rmSync(join(folder, "dist/target"), { recursive: true, force: true });
      await buildExecutable({ target: bun, outfile, builtAt, commit, bytecode });
      return outfile;
    },
  });
}

/** An image has Debian's C library, which Debian's own program unpacks. */
function imageLibraries() {
  if (Bun.which("dpkg-deb") !== null)
    return { libraries: (architecture: string) => librariesOf(architecture, join(folder, "dist/libraries")) };
  console.error("No image is made: dpkg-deb is not on this machine.");
  return {};
}

/** Source: https://docs.github.com/en/actions/reference/workflows-and-actions/variables */
function releasesAddress({ GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository }: NodeJS.ProcessEnv) {
  return server === undefined || repository === undefined ? {} : { releases: `${server}/${repository}/releases` };
}

function option(name: string): string | undefined {
  return process.argv.find((argument) => argument.startsWith(`--${name}=`))?.slice(name.length + 3);
}

async function buildOne(): Promise<string[]> {
  const target = option("target");
  const outfile = option("outfile") ?? "dist/troupe";
  await buildExecutable({
    ...(target === undefined ? {} : { target }),
    outfile,
    builtAt: new Date((await sourceSeconds()) * 1000).toISOString(),
    commit: await currentCommit(),
  });
  return [outfile];
}

if (import.meta.main) {
  const made = process.argv.includes("--release") ? await release() : await buildOne();
  console.log(made.join("\n"));
}
