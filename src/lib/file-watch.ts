/** Tells that files have other contents than before. */
import { readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { Clock } from "./clock.ts";
import { beginWatch, lookWhenSettled } from "./watching.ts";

/** A save is several events, and a certificate and its key are two files: they are waited out. */
export const settleMs = 300;

/**
 * Watches the folders that the files are in, so that a file may be replaced, or not be there yet.
 * @param onChange called when contents differ from those of the call before
 * @returns how to stop
 */
export function watchFiles(paths: readonly string[], onChange: () => void, clock: Clock): () => void {
  const names = Map.groupBy(paths, dirname);
  let contents = fingerprintOf(paths);
  const look = () => {
    const now = fingerprintOf(paths);
    if (now === contents) return;
    contents = now;
    onChange();
  };
  const settling = lookWhenSettled(settleMs, look, clock);
  const watchers = [...names].flatMap(([folder, files]) => {
    const watched = new Set([...files.map((file) => basename(file)), renewedLink]);
    return beginWatch(folder, false, (name) => {
      if (name === null || watched.has(name)) settling.touch();
    });
  });
  return () => {
    settling.close();
    for (const watcher of watchers) watcher.close();
  };
}

/** Volumes of Kubernetes are renewed by a link named `..data`, and no event tells of the files behind it. */
const renewedLink = "..data";

function fingerprintOf(paths: readonly string[]): string {
  const hash = new Bun.CryptoHasher("sha256");
  for (const path of paths) {
    const content = contentOf(path);
    hash.update(content === undefined ? "absent;" : `${content.byteLength};`).update(content ?? "");
  }
  return hash.digest("hex");
}

function contentOf(path: string): Uint8Array | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}
