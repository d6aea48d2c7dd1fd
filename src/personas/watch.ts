/** Tells that something in a folder may have changed. What did is found out by reading it again. */
import type { FSWatcher } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import type { Clock } from "../lib/clock.ts";
import { beginWatch, lookWhenSettled } from "../lib/watching.ts";

/** An editor's save is several events: they are waited out. */
export const debounceMs = 150;
export type Watch = { close(): void };

/**
 * The folder is watched with all below it, and its parent for the folder's own name, which tells when the folder is replaced,
 * or is a link that is pointed elsewhere. It need not exist yet.
 * @param onChange called after each burst of events, and every 30 s anyway
 */
export function watchFolder(path: string, onChange: () => void, clock: Clock): Watch {
  const folder = resolve(path);
  let watchers: FSWatcher[] = [];
  const disarm = () => {
    for (const watcher of watchers) watcher.close();
    watchers = [];
  };
  // A watch follows the inode it began with and knows no folder made later, so each reading gets fresh ones, made before it.
  const arm = () => {
    disarm();
    watchers = [
      ...beginWatch(dirname(folder), false, (name) => name === basename(folder) && settling.touch()),
      ...beginWatch(folder, true, settling.touch),
    ];
  };
  const look = () => {
    arm();
    onChange();
  };
  const settling = lookWhenSettled(debounceMs, look, clock);
  arm();
  return {
    close() {
      settling.close();
      disarm();
    },
  };
}
