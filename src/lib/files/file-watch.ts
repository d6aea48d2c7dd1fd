/**
 * Watches files and folders for changes. Events are debounced, since one save is several of them, and a poll finds what no event
 * reports: changes on network file systems, behind links to elsewhere, and on a machine that has no watches left.
 */
import { type FSWatcher, readFileSync, watch } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { type Clock, repeat } from "../time/clock.ts";

export type Watch = { close(): void };

export const pollMs = 30_000;
export const folderDebounceMs = 150;
/** Longer: a certificate and its key are two saves. */
const fileDebounceMs = 300;

/** Kubernetes updates a mounted volume by replacing the link `..data`, without an event for the files behind it. */
const kubernetesLink = "..data";

/** Files by their paths, each with the digest of the content that was read. */
export type ReadFiles = ReadonlyMap<string, string>;

/**
 * Watches the folders of the files, so that a file may be replaced, or not exist yet.
 * @param read what is known of them: one that was written since is a change too, as nothing says when a watch begins
 * @param onChange called when the contents differ from those, or from those at the last call
 */
export function watchFiles(read: ReadFiles, onChange: () => void, clock: Clock): Watch {
  const paths = [...read.keys()];
  let contents = [...read.values()].join();
  const debounce = new Debounce(clock, fileDebounceMs, () => {
    const now = paths.map((path) => digestOf(readIfThere(path))).join();
    if (now === contents) return;
    contents = now;
    onChange();
  });
  const watchers = [...Map.groupBy(paths, dirname)].flatMap(([folder, files]) => {
    const names = new Set([...files.map((file) => basename(file)), kubernetesLink]);
    return openWatcher(folder, false, (name) => {
      if (name === null || names.has(name)) debounce.touch();
    });
  });
  debounce.touch();
  return {
    close() {
      debounce.close();
      for (const watcher of watchers) watcher.close();
    },
  };
}

/**
 * Watches a folder with all below it, and its parent for the folder's own name, so that the folder may be replaced, be a link
 * that is pointed elsewhere, or not exist yet.
 * @param onChange called after each burst of events, and every 30 s anyway
 */
export function watchFolder(path: string, onChange: () => void, clock: Clock): Watch {
  const folder = resolve(path);
  let watchers: FSWatcher[] = [];
  const disarm = () => {
    for (const watcher of watchers) watcher.close();
    watchers = [];
  };
  // A watcher follows the inode it began with and knows no folder made later: each reading gets new ones, made before it.
  const arm = () => {
    disarm();
    watchers = [
      ...openWatcher(dirname(folder), false, (name) => name === basename(folder) && debounce.touch()),
      ...openWatcher(folder, true, () => debounce.touch()),
    ];
  };
  const debounce = new Debounce(clock, folderDebounceMs, () => {
    arm();
    onChange();
  });
  arm();
  return {
    close() {
      debounce.close();
      disarm();
    },
  };
}

/** Runs once no event has come for a while, and at every poll. */
class Debounce {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #run: () => void;
  #cancelTimer = () => {};
  readonly #stopPolling: () => void;

  constructor(clock: Clock, ms: number, run: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#run = run;
    this.#stopPolling = repeat(clock, pollMs, () => {
      this.#cancelTimer();
      run();
    });
  }

  touch(): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#clock.setTimer(this.#ms, this.#run);
  }

  close(): void {
    this.#cancelTimer();
    this.#stopPolling();
  }
}

/** @returns no watcher where the system has none left: the poll remains */
function openWatcher(folder: string, recursive: boolean, onEvent: (name: string | null) => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { recursive }, (_, name) => onEvent(name));
    watcher.on("error", () => watcher.close());
    return [watcher];
  } catch {
    return [];
  }
}

/** @param content undefined where there is no file */
export const digestOf = (content: string | undefined): string =>
  content === undefined ? "absent" : Bun.SHA256.hash(content, "hex");

/** @returns undefined where the file is not there, or can't be read */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
