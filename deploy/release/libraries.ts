/** The C library of the image for each architecture: Debian's package, fetched once and proved by its sum. */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { $ } from "bun";
import type { Entry } from "./archive.ts";

/** Renew it with Debian 12's own: `apt-cache show libc6` names version and sums. */
const version = "2.36-9+deb12u14";
/** Where it still is when the first has a newer one. Source: https://snapshot.debian.org */
const mirrors = ["http://deb.debian.org/debian", "http://snapshot.debian.org/archive/debian/20261129T000000Z"];

type Library = { readonly sha256: string; readonly folder: string; readonly loader: string };
const libraries: Readonly<Record<string, Library>> = {
  amd64: {
    sha256: "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
    folder: "lib/x86_64-linux-gnu",
    loader: "lib64/ld-linux-x86-64.so.2",
  },
  arm64: {
    sha256: "01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4",
    folder: "lib/aarch64-linux-gnu",
    loader: "lib/ld-linux-aarch64.so.1",
  },
};

/** What the executable is linked to, beside its loader. */
const needed = ["libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0"];

/**
 * @param cache a folder that keeps what was fetched
 * @throws where it is not to be had, or is another one
 */
export async function librariesOf(architecture: string, cache: string): Promise<Entry[]> {
  const { sha256, folder, loader } = libraries[architecture]!;
  const name = `libc6_${version}_${architecture}.deb`;
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, "unpacked-"));
  try {
    writeFileSync(join(work, name), await fetched(name, sha256, join(cache, name)));
    await $`dpkg-deb --extract ${join(work, name)} ${work}`.quiet();
    const read = (from: string, path: string): Entry => ({
      path,
      bytes: readFileSync(join(work, from)),
      executable: true,
    });
    const [, loaderName] = /([^/]+)$/.exec(loader)!;
    return [
      read(`${folder}/${loaderName}`, loader),
      ...needed.map((one) => read(`${folder}/${one}`, `${folder}/${one}`)),
    ];
  } finally {
    rmSync(work, { recursive: true });
  }
}

async function fetched(name: string, sha256: string, kept: string): Promise<Uint8Array> {
  const isIt = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex") === sha256;
  const local = Bun.file(kept);
  if (await local.exists()) {
    const bytes = await local.bytes();
    if (isIt(bytes)) return bytes;
  }
  for (const mirror of mirrors) {
    const answer = await fetch(`${mirror}/pool/main/g/glibc/${name}`).catch(() => undefined);
    const bytes = answer?.ok === true ? await answer.bytes() : undefined;
    if (bytes === undefined) continue;
    if (!isIt(bytes)) throw new Error(`${mirror} has another ${name} than that of ${sha256}`);
    writeFileSync(kept, bytes);
    return bytes;
  }
  throw new Error(`${name} is at none of ${mirrors.join(", ")}: renew deploy/release/libraries.ts`);
}
