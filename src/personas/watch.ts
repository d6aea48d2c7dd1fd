/** Tells that something in a folder may have changed. What did is found out by reading it again. */
import { type FSWatcher, watch } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import type { Clock } from "../lib/clock.ts";

/** An editor's save is several events: they are waited out. */
export const debounceMs = 150;
/** For what no event tells: network file systems, links to elsewhere, a machine out of watches. */
export const pollMs = 30_000;

export type Watch = { close(): void };

/**
 * The folder is watched with all below it, and its parent for the folder's own name, which tells when the folder is replaced,
 * or is a link that is pointed elsewhere. It need not exist yet.
 * @param onChange called after each burst of events, and every 30 s anyway
 */
export function watchFolder(path: string, onChange: () => void, clock: Clock): Watch {
  const folder = resolve(path);
  let watchers: FSWatcher[] = [];
  let callOff = () => {};
  let callOffPoll = () => {};

  const disarm = () => {
    for (const watcher of watchers) watcher.close();
    watchers = [];
  };
  // A watch follows the inode it began with and knows no folder made later, so each reading gets fresh ones, made before it.
  const arm = () => {
    disarm();
    watchers = [
      ...begin(dirname(folder), false, (name) => name === basename(folder) && touch()),
      ...begin(folder, true, touch),
    ];
  };
  const fire = () => {
    callOff();
    arm();
    onChange();
  };
  const touch = () => {
    callOff();
    callOff = clock.after(debounceMs, fire);
  };
  const poll = () => {
    callOffPoll = clock.after(pollMs, () => {
      poll();
      fire();
    });
  };

  arm();
  poll();
  return {
    close() {
      callOff();
      callOffPoll();
      disarm();
    },
  };
}

/** @returns no watcher where the system gives none: the poll remains */
function begin(folder: string, recursive: boolean, onEvent: (name: string | null) => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { recursive }, (_, name) => onEvent(name));
    watcher.on("error", () => watcher.close());
    return [watcher];
  } catch {
    return [];
  }
}
