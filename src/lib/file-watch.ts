/** Tells that files have other contents than before. */
import { type FSWatcher, readFileSync, watch } from "node:fs";
import { basename, dirname } from "node:path";
import type { Clock } from "./clock.ts";

/** A save is several events, and a certificate and its key are two files: they are waited out. */
export const settleMs = 300;
/** For what no event tells: network file systems, links to elsewhere, a machine out of watches. */
export const pollMs = 30_000;

/**
 * Watches the folders that the files are in, so that a file may be replaced, or not be there yet.
 * @param onChange called when contents differ from those of the call before
 * @returns how to stop
 */
export function watchFiles(paths: readonly string[], onChange: () => void, clock: Clock): () => void {
  const names = Map.groupBy(paths, dirname);
  let contents = fingerprintOf(paths);
  let callOff = () => {};
  let callOffPoll = () => {};
  const look = () => {
    callOff();
    const now = fingerprintOf(paths);
    if (now === contents) return;
    contents = now;
    onChange();
  };
  const touch = () => {
    callOff();
    callOff = clock.after(settleMs, look);
  };
  const poll = () => {
    callOffPoll = clock.after(pollMs, () => {
      poll();
      look();
    });
  };
  const watchers = [...names].flatMap(([folder, files]) =>
    begin(folder, new Set(files.map((file) => basename(file))), touch),
  );
  poll();
  return () => {
    callOff();
    callOffPoll();
    for (const watcher of watchers) watcher.close();
  };
}

/** Volumes of Kubernetes are renewed by a link named `..data`, and no event tells of the files behind it. */
const renewedLink = "..data";

function begin(folder: string, names: ReadonlySet<string>, touch: () => void): FSWatcher[] {
  try {
    const watcher = watch(folder, (_, name) => {
      if (name === null || name === renewedLink || names.has(name)) touch();
    });
    watcher.on("error", () => watcher.close());
    return [watcher];
  } catch {
    // The poll remains.
    return [];
  }
}

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
