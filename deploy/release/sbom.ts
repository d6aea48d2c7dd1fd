/** What is inside the executable, as a CycloneDX document: the packages of bun.lock that it imports, and the runtime. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ParseError, parse } from "jsonc-parser";

export type Locked = {
  readonly at: string;
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
};
type Details = {
  readonly dependencies?: Record<string, string>;
  readonly peerDependencies?: Record<string, string>;
  readonly optionalPeers?: readonly string[];
};
type Lock = {
  readonly workspaces: { readonly "": { readonly dependencies: Record<string, string> } };
  readonly packages: Record<string, [spec: string, registry: string, details: Details, integrity: string]>;
};

export type SbomInput = {
  /** The checkout, with node_modules installed: the licences are read there. */
  readonly folder: string;
  readonly version: string;
  readonly commit: string;
  readonly bunVersion: string;
  /** Unix time. */
  readonly seconds: number;
};

/** Source: https://cyclonedx.org/docs/1.6/json/ */
export function sbom({ folder, version, commit, bunVersion, seconds }: SbomInput): string {
  const packages = packagesInside(readFileSync(join(folder, "bun.lock"), "utf8"));
  const components = packages.map((one) => ({
    type: "library",
    "bom-ref": purl(one),
    name: one.name,
    version: one.version,
    purl: purl(one),
    licenses: [{ expression: licenceOf(folder, one) }],
    hashes: [{ alg: "SHA-512", content: Buffer.from(one.integrity.replace("sha512-", ""), "base64").toString("hex") }],
  }));
  const runtime = {
    type: "platform",
    "bom-ref": `pkg:npm/bun@${bunVersion}`,
    name: "bun",
    version: bunVersion,
    purl: `pkg:npm/bun@${bunVersion}`,
    licenses: [{ expression: "MIT" }],
  };
  const application = {
    type: "application",
    "bom-ref": `troupe@${version}`,
    name: "troupe",
    version,
    licenses: [{ expression: "MIT" }],
    properties: [{ name: "troupe:commit", value: commit }],
  };
  const document = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidFrom(`${version} ${commit}`)}`,
    version: 1,
    metadata: { timestamp: new Date(seconds * 1000).toISOString(), component: application },
    components: [runtime, ...components],
    dependencies: [{ ref: application["bom-ref"], dependsOn: [runtime, ...components].map((one) => one["bom-ref"]) }],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

/**
 * What the dependencies in bun.lock lead to, without those that only development needs.
 * @throws when the lock file can't be read, or lacks a package that another one needs
 */
export function packagesInside(lockFile: string): Locked[] {
  const errors: ParseError[] = [];
  const lock = parse(lockFile, errors, { allowTrailingComma: true }) as Lock;
  if (errors.length > 0) throw new Error("bun.lock is not readable");
  const found = new Map<string, Locked>();
  const queue = Object.keys(lock.workspaces[""].dependencies).map((name) => ({ name, from: "" }));
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const at = nearest(lock, next.name, next.from);
    if (at === undefined) throw new Error(`bun.lock lacks ${next.name}, which ${next.from || "package.json"} needs`);
    if (found.has(at)) continue;
    const [spec, , { dependencies = {}, peerDependencies = {}, optionalPeers = [] }, integrity] = lock.packages[at]!;
    const split = spec.lastIndexOf("@");
    found.set(at, { at, name: spec.slice(0, split), version: spec.slice(split + 1), integrity });
    const peers = Object.keys(peerDependencies).filter((name) => !optionalPeers.includes(name));
    for (const name of [...Object.keys(dependencies), ...peers]) queue.push({ name, from: at });
  }
  // One version may stand in several places, where another one has the top.
  const unique = new Map(found.values().map((one) => [purl(one), one]));
  return [...unique.values()].toSorted((a, b) => (purl(a) < purl(b) ? -1 : 1));
}

/** Packages that differ in version from their namesake at the top are kept below who needs them: `elysia/cookie`. */
function nearest(lock: Lock, name: string, from: string): string | undefined {
  for (let above = from; ; above = above.replace(/\/?(@[^/]+\/)?[^/]+$/, "")) {
    const at = above === "" ? name : `${above}/${name}`;
    if (at in lock.packages) return at;
    if (above === "") return undefined;
  }
}

/** Source: https://github.com/package-url/purl-spec/blob/main/types-doc/npm-definition.md */
function purl({ name, version }: Locked): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

/** @returns where a package is installed, from the checkout on */
export function packageFolder({ at }: Locked): string {
  // `a/@s/b` stands for node_modules/a/node_modules/@s/b.
  return at.replaceAll(/(@[^/]+\/)?[^/]+/g, (name) => `node_modules/${name}`);
}

/** @returns its licence's SPDX expression @throws when it names none, or is not installed */
export function licenceOf(folder: string, one: Locked): string {
  const path = join(folder, packageFolder(one), "package.json");
  const manifest = JSON.parse(readFileSync(path, "utf8")) as { license?: string };
  if (manifest.license === undefined) throw new Error(`${one.at} names no licence`);
  return manifest.license;
}

/** The same for the same text, so that a build can be repeated. */
function uuidFrom(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
