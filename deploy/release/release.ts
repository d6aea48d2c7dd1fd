/**
 * Everything a tag is released with: an archive for each target, packages, the bill of materials and the sums.
 * The same commit gives the same bytes on any machine with the same Bun.
 */
import { createHash, type KeyObject } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Entry, type Level, tarGz, zip } from "./archive.ts";
import { deb } from "./deb.ts";
import { signedFacts } from "./facts.ts";
import { ociArchive, type Platform } from "./image.ts";
import { manPages } from "./man.ts";
import { notices } from "./notices.ts";
import { sbom } from "./sbom.ts";
import { sshPublicKey, sshSignature } from "./signature.ts";

export type Target = {
  /** In the archive's name. */
  readonly name: string;
  readonly bun: string;
  /** Whether that build was started with bytecode inside and served requests; others go without, and start slower. */
  readonly bytecode: boolean;
  /** What Debian and OCI call machines that it is for; absent: there is no package and image for them. */
  readonly architecture?: string;
};

export const targets: readonly Target[] = [
  { name: "linux-x64", bun: "bun-linux-x64", bytecode: true, architecture: "amd64" },
  { name: "linux-x64-baseline", bun: "bun-linux-x64-baseline", bytecode: true },
  { name: "linux-arm64", bun: "bun-linux-arm64", bytecode: true, architecture: "arm64" },
  { name: "linux-x64-musl", bun: "bun-linux-x64-musl", bytecode: false },
  { name: "linux-arm64-musl", bun: "bun-linux-arm64-musl", bytecode: false },
  { name: "darwin-x64", bun: "bun-darwin-x64", bytecode: false },
  { name: "darwin-arm64", bun: "bun-darwin-arm64", bytecode: false },
  { name: "windows-x64", bun: "bun-windows-x64", bytecode: false },
];

export type ReleaseInput = {
  /** The checkout. */
  readonly folder: string;
  /** Emptied first. */
  readonly into: string;
  readonly version: string;
  readonly commit: string;
  readonly bunVersion: string;
  /** Unix time of the commit. */
  readonly seconds: number;
  /** @returns where the executable was written */
  readonly build: (target: Target) => Promise<string>;
  /** Texts that the program itself prints, by their paths in the archive. */
  readonly printed: Readonly<Record<string, string>>;
  readonly targets?: readonly Target[];
  /** An Ed25519 key that signs the sums, and the facts that are published beside the archives; absent: neither is there. */
  readonly key?: KeyObject;
  /** The C library for an image; absent: none is made. */
  readonly libraries?: (architecture: string) => Promise<readonly Entry[]>;
  /** The address that the installer downloads from, as GitHub lays releases out; absent: it must be given. */
  readonly releases?: string;
  /** Default: 9. */
  readonly level?: Level;
};

/** @returns the paths of what was made, the sums and their signature last */
export async function makeRelease(input: ReleaseInput): Promise<string[]> {
  const { into, version, seconds, key } = input;
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into, { recursive: true });
  const made: string[] = [];
  const write = (name: string, bytes: Uint8Array | string) => {
    made.push(join(into, name));
    writeFileSync(made.at(-1)!, bytes);
  };
  write(`troupe-${version}.cdx.json`, sbom(input));
  write("install.sh", installer(input));
  const beside = [...companionsIn(input.folder), ...textEntries(await textsBeside(input))];
  const platforms: Platform[] = [];
  for (const target of input.targets ?? targets) {
    const executable = readFileSync(await input.build(target));
    const stem = `troupe-${version}-${target.name}`;
    const isWindows = target.bun.includes("windows");
    const entries = [{ path: isWindows ? "troupe.exe" : "troupe", bytes: executable, executable: true }, ...beside].map(
      (entry) => ({ ...entry, path: `${stem}/${entry.path}` }),
    );
    write(isWindows ? `${stem}.zip` : `${stem}.tar.gz`, (isWindows ? zip : tarGz)(entries, seconds, input.level));
    const { architecture } = target;
    if (architecture === undefined) continue;
    write(`troupe_${version}_${architecture}.deb`, deb({ ...input, architecture, executable, beside }));
    if (input.libraries !== undefined)
      platforms.push({ architecture, executable, libraries: await input.libraries(architecture) });
  }
  const dockerfile = readFileSync(join(input.folder, "deploy/Dockerfile"), "utf8");
  if (platforms.length > 0) write(`troupe-${version}-image.tar`, ociArchive({ ...input, dockerfile, platforms }));
  for (const [name, text] of Object.entries(key === undefined ? {} : signedFacts(key, seconds))) write(name, text);
  const sums = made.map((path) => `${sha256(path)}  ${basename(path)}\n`).toSorted(byName);
  write("SHA256SUMS", sums.join(""));
  if (key !== undefined) write("SHA256SUMS.sig", sshSignature(key, Buffer.from(sums.join(""))));
  return made;
}

/** With what it knows of the release it belongs to. */
const installer = ({ folder, releases = "", key }: ReleaseInput) =>
  readFileSync(join(folder, "deploy/install.sh"), "utf8")
    .replace(/^releases=$/m, `releases=${releases}`)
    .replace(/^signer=$/m, `signer='${key === undefined ? "" : sshPublicKey(key)}'`);

async function textsBeside({ folder, version, seconds, printed }: ReleaseInput): Promise<Record<string, string>> {
  const pages = Object.entries(await manPages(folder, version, seconds));
  const manuals = Object.fromEntries(pages.map(([name, text]) => [`man/${name}`, text]));
  return { ...printed, ...manuals, "THIRD-PARTY-NOTICES.txt": notices(folder) };
}

const sha256 = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");
const byName = (a: string, b: string) => (a.slice(66) < b.slice(66) ? -1 : 1);

/** What goes beside the executable: files, and folders with all below them, but for what only makes releases. */
export const companions = [
  "LICENSE",
  "README.md",
  "CHANGELOG.md",
  "ARCHITECTURE.md",
  "CONTRIBUTING.md",
  "personas",
  "deploy",
  "docs",
];
/** What makes releases, and the file that starts a clone. */
const isOfClone = (path: string) => path.startsWith("deploy/release/") || path === "deploy/troupe";

function companionsIn(folder: string): Entry[] {
  const paths = companions.flatMap((path) => filesBelow(folder, path)).filter((path) => !isOfClone(path));
  return paths.map((path) => ({ path, bytes: readFileSync(join(folder, path)), executable: path.endsWith(".sh") }));
}

function textEntries(texts: Readonly<Record<string, string>>): Entry[] {
  return Object.entries(texts).map(([path, text]) => ({ path, bytes: new TextEncoder().encode(text) }));
}

function filesBelow(folder: string, path: string): string[] {
  try {
    return readdirSync(join(folder, path)).flatMap((name) => filesBelow(folder, `${path}/${name}`));
  } catch (error) {
    if ((error as { code?: string }).code === "ENOTDIR") return [path];
    throw error;
  }
}
