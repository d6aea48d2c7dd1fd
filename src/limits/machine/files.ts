/** The rate limit files of a data folder: opens, replaces and removes them, under a lock where processes could collide. */
import { closeSync, existsSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { makeFile, mapFile, replaceFile } from "../../lib/files/mapped-file.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { hourMs } from "../../lib/time/duration.ts";
import { lockFile } from "../../store/sqlite/liveness-lock.ts";
import { retryOnBusy } from "../../store/sqlite/retry-on-busy.ts";
import { openWindowClock } from "./clock.ts";
import type { HitTable } from "./hit-table.ts";
import { PartTable } from "./part-table.ts";
import { WindowTable } from "./table.ts";

/** The lock is held for milliseconds. */
const lockWaitMs = 1_000;
/** Files of keys that were idle for so long are removed. */
const idleMs = 600_000;
/** A temporary file of this age was left behind by a killed process. */
const abandonedMs = hourMs;
const filesPerStep = 16;
const tableName = /^[0-9a-f]{64}$/;

export class WindowFiles {
  readonly #keys: string;
  readonly #lock: string;
  /** In milliseconds; the same in all processes, and after a restart. */
  readonly now: () => number;

  /** @throws the file system's errors, and SQLite's when another process holds the lock for too long */
  constructor(folder: string, clock: Clock) {
    this.#keys = join(folder, "keys");
    this.#lock = join(folder, "lock");
    mkdirSync(this.#keys, { recursive: true, mode: 0o700 });
    closeSync(openSync(this.#lock, "a", 0o600));
    this.now = this.#exclusively(() => openWindowClock(join(folder, "clock"), clock));
  }

  /** The file of a key's window. */
  pathOf(caller: string): string {
    return join(this.#keys, Bun.SHA256.hash(caller, "hex"));
  }

  has(path: string): boolean {
    return existsSync(path);
  }

  /** @param limit that a new file is for, and an old one must have room for. @throws as the constructor */
  open(path: string, limit: number): HitTable {
    if (!existsSync(path)) makeFile(path, bytesFor(limit, this.now()));
    return usable(path, limit) ?? this.#exclusively(() => usable(path, limit) ?? this.#replace(path, limit));
  }

  /** Under the lock. */
  #replace(path: string, limit: number): HitTable {
    const old = read(path);
    old?.freeze();
    replaceFile(path, bytesFor(limit, this.now(), old));
    return usable(path, limit)!;
  }

  /**
   * Removes the files of idle keys, in small steps.
   * @param isOver checked between two steps
   * @throws the file system's errors, and SQLite's when another process holds the lock for too long
   */
  async sweep(isOver: () => boolean): Promise<void> {
    const names = await readdir(this.#keys);
    for (let at = 0; at < names.length && !isOver(); at += filesPerStep) {
      this.#sweepSome(names.slice(at, at + filesPerStep));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #sweepSome(names: readonly string[]): void {
    const idle = names.map((name) => join(this.#keys, name)).filter((path) => this.#isIdle(path, () => true));
    if (idle.length === 0) return;
    this.#exclusively(() => {
      const isOver = (table: HitTable, head: number) => table.freeze(head);
      for (const path of idle) if (this.#isIdle(path, isOver)) rmSync(path, { force: true });
    });
  }

  /** @param ends asked of a idle table, whose head was that before it was looked at */
  #isIdle(path: string, ends: (table: HitTable, head: number) => boolean): boolean {
    if (!tableName.test(basename(path))) return isAbandoned(path);
    const table = read(path);
    if (table === undefined) return false;
    const head = table.head;
    return table.isIdleFor(idleMs, this.now()) && ends(table, head);
  }

  #exclusively<T>(work: () => T): T {
    const lock = retryOnBusy(() => lockFile(this.#lock, 0), lockWaitMs);
    try {
      return work();
    } finally {
      lock.close();
    }
  }
}

/** The bytes of a table for that limit. @param old one whose hits are carried over; once they were counted by parts, they still are */
function bytesFor(limit: number, now: number, old?: HitTable): Uint8Array<ArrayBuffer> {
  const isSmall = WindowTable.takes(limit) && (old === undefined || (old instanceof WindowTable && old.isSmall));
  return isSmall ? WindowTable.make(limit, now, old) : PartTable.make(now, old);
}

const tableOf = (bytes: Uint8Array): HitTable | undefined => PartTable.of(bytes) ?? WindowTable.of(bytes);

/** @returns undefined when it is not there, damaged, frozen, or too small */
function usable(path: string, limit: number): HitTable | undefined {
  const table = read(path);
  return table === undefined || table.isFrozen || limit > table.most ? undefined : table;
}

/** @returns undefined when it is not there, or damaged. @throws the file system's other errors */
function read(path: string): HitTable | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  try {
    // A power cut may leave an empty file, which can't be mapped.
    return size === 0 ? undefined : tableOf(mapFile(path));
  } catch (error) {
    // Another process removed it meanwhile.
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}

function isAbandoned(path: string): boolean {
  const file = statSync(path, { throwIfNoEntry: false });
  return file !== undefined && Date.now() - file.mtimeMs > abandonedMs;
}
