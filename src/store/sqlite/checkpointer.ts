/**
 * Moves what the write-ahead log holds into the database in a thread of its own. SQLite else does it within the write that fills the
 * log, and syncs both files: tens of milliseconds in which a server stands still. The thread starts when a log is first full, and ends
 * when none was for a while. Source: https://www.sqlite.org/wal.html#ckpt
 */
import type { Database } from "bun:sqlite";
import { statSync } from "node:fs";

/** Size of a full log, which a thousand calls a second fill in half a minute: pages that many writes change are moved once. */
const fullBytes = 8_000_000;
/** Above it: after it was emptied, a log goes back to this size, and so shows how full it is. */
const emptyBytes = 1_048_576;
/** In pages of 4 KB: where this process moves the log itself after all, as writes came faster than the thread; and SQLite's own value. */
const lateAt = 4_000;
const withoutThreadAt = 1_000;
/** An open transaction of another process may hold up the end of the thread. */
const endMs = 2_000;

/** The thread as it is needed here. */
interface CheckpointThread {
  checkpoint(): void;
  /** Resolves when it is gone. */
  end(): Promise<void>;
}

export type CheckpointEvents = {
  readonly done: () => void;
  /** It is gone: `failed`, where it should not be. */
  readonly ended: (failed: boolean) => void;
};
type StartCheckpoints = (path: string, events: CheckpointEvents) => CheckpointThread;

export class Checkpointer {
  readonly #database: Database;
  readonly #path: string;
  readonly #start: StartCheckpoints;
  #thread: CheckpointThread | undefined;
  #isBusy = false;
  #isOver = false;

  /** @param path of the database's file */
  constructor(database: Database, path: string, start: StartCheckpoints = startThread) {
    this.#database = database;
    this.#path = path;
    this.#start = start;
    database.run(`pragma journal_size_limit = ${emptyBytes}`);
    database.run(`pragma wal_autocheckpoint = ${lateAt}`);
  }

  /** To be called after writes, as often as is convenient: it looks at the log's size. Never throws. */
  wrote(): void {
    if (this.#isBusy || this.#isOver || !this.#isFull) return;
    try {
      this.#thread ??= this.#newThread();
      this.#isBusy = true;
      this.#thread.checkpoint();
    } catch {
      this.#giveUp();
    }
  }

  /** Ends the thread, which has the database open. */
  async close(): Promise<void> {
    this.#isOver = true;
    await this.#thread?.end();
  }

  get #isFull(): boolean {
    return (statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0) >= fullBytes;
  }

  #newThread(): CheckpointThread {
    const ended = (failed: boolean) => {
      this.#thread = undefined;
      this.#isBusy = false;
      if (failed && !this.#isOver) this.#giveUp();
    };
    const done = () => {
      this.#isBusy = false;
    };
    return this.#start(this.#path, { done, ended });
  }

  /** From now on this process moves the log itself, as without a thread. */
  #giveUp(): void {
    this.#isOver = true;
    this.#database.run(`pragma wal_autocheckpoint = ${withoutThreadAt}`);
  }
}

/** Path of the thread's code in the executable; `build.ts` compiles it in. */
declare const TROUPE_CHECKPOINT_WORKER: string | undefined;

function startThread(path: string, { done, ended }: CheckpointEvents): CheckpointThread {
  const code = typeof TROUPE_CHECKPOINT_WORKER === "string" ? TROUPE_CHECKPOINT_WORKER : "./checkpoint-worker.ts";
  const worker = new Worker(new URL(code, import.meta.url).href, { smol: true });
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  worker.onmessage = () => done();
  worker.onerror = (event) => event.preventDefault();
  worker.addEventListener("close", ({ code: status }) => {
    ended(status !== 0);
    resolve();
  });
  // A process that has nothing else to do ends.
  worker.unref();
  worker.postMessage({ path });
  return {
    checkpoint: () => worker.postMessage("checkpoint"),
    async end() {
      worker.postMessage("end");
      const overdue = setTimeout(() => worker.terminate(), endMs);
      await gone;
      clearTimeout(overdue);
    },
  };
}
