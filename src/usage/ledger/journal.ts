/**
 * Notes each call as it begins, and its ledger line when it is over, until the ledger has it, in a file that is mapped into memory: what a
 * process has stored there outlives it, however it ends and however long it had no processor. Other processes on the data folder write
 * what was left: of a call that was under way, that it was interrupted. Adding a line twice adds it once, so a note may outlive its need.
 *
 * The file has two areas. When one is half full, what the ledger does not have yet goes to the other, and new notes follow it. Linux only.
 */
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { mapFile } from "../../lib/files/mapped-file.ts";
import { openLibc } from "../../lib/linux/libc.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { LedgerLine, LedgerRepository } from "../../store/contract/usage.ts";
import { NoteArea, notedLines } from "./journal-lines.ts";

const folderName = "ledger-notes";
const suffix = ".notes";
/** In each area some 3,000 lines, or 12,000 calls under way. */
const areaBytes = 1024 * 1024;
/** Maximum number of lines in one write, as in the ledger's writer. */
const batchSize = 400;

/** Source: flock(2). Unlike other locks it ends with the process and with nothing else. */
const exclusively = 2;
const withoutWaiting = 4;

export class LedgerJournal {
  readonly #path: string;
  readonly #file: number;
  #current: NoteArea;
  #other: NoteArea;
  #generation = 1;

  private constructor(path: string, file: number, [current, other]: readonly [NoteArea, NoteArea]) {
    this.#path = path;
    this.#file = file;
    this.#current = current;
    this.#other = other;
  }

  /**
   * Makes a file of this process's own.
   * @param data the data folder @param name of the process, never used again by another one
   * @returns undefined where the system has no such locks. @throws the file system's errors
   */
  static open(data: string, name: string = crypto.randomUUID()): LedgerJournal | undefined {
    if (openLibc() === undefined) return undefined;
    const folder = join(data, folderName);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, name + suffix);
    const unfinished = `${path}.unfinished`;
    const file = openSync(unfinished, "wx+", 0o600);
    try {
      // Before it has its name: nobody takes it for a dead one's.
      if (!lock(file)) throw new Error(`${unfinished} can't be locked`);
      // Zeros are written, as on a full disk a store to memory that has no place there would end the process.
      const zeros = new Uint8Array(2 * areaBytes);
      for (let written = 0; written < zeros.length; ) written += writeSync(file, zeros, written);
      const areas = areasOf(mapFile(unfinished)).map((bytes) => new NoteArea(bytes)) as [NoteArea, NoteArea];
      areas[0].begin(1);
      areas[1].begin(0);
      renameSync(unfinished, path);
      return new LedgerJournal(path, file, areas);
    } catch (error) {
      closeSync(file);
      rmSync(unfinished, { force: true });
      throw error;
    }
  }

  /** @param line `interrupted` of a call that begins @returns whether there was room for it */
  note(line: LedgerLine): boolean {
    return this.#current.note(line);
  }

  /** True if it is time to forget what the ledger has. */
  get isHalfFull(): boolean {
    return this.#current.isHalfFull;
  }

  /** Forgets all but these. @returns whether there was room for them; else nothing is forgotten */
  keep(lines: Iterable<LedgerLine>): boolean {
    this.#other.begin(++this.#generation);
    for (const line of lines) {
      if (this.#other.note(line)) continue;
      this.#other.begin(0);
      return false;
    }
    [this.#current, this.#other] = [this.#other, this.#current];
    this.#other.begin(0);
    return true;
  }

  /** @param isDone whether the ledger has all lines; else the next start looks for them here */
  close(isDone: boolean): void {
    if (isDone) rmSync(this.#path, { force: true });
    closeSync(this.#file);
  }
}

/**
 * Writes what killed processes have noted, and removes their files. Never rejects: what can't be written now stays for the next time.
 * @param data the data folder
 * @returns the names of processes whose files are there still: they live, or what they noted can't be written
 */
export async function writeLeftLines(data: string, ledger: LedgerRepository, log?: Logger): Promise<Set<string>> {
  const folder = join(data, folderName);
  const left = new Set<string>();
  for (const name of namesIn(folder)) {
    const path = join(folder, name);
    try {
      if (!(await isWritten(path, ledger, log))) left.add(processOf(name));
    } catch (error) {
      // The process whose it was has just ended, and written all.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") continue;
      left.add(processOf(name));
      log?.warn("lines of the ledger that a killed process left can't be written; the next start tries again", {
        path,
        error,
      });
    }
  }
  return left;
}

const processOf = (name: string) => name.slice(0, name.indexOf(suffix));

function namesIn(folder: string): string[] {
  try {
    return openLibc() === undefined ? [] : readdirSync(folder);
  } catch {
    // It is made with the first line.
    return [];
  }
}

/** @returns false for a live process's */
async function isWritten(path: string, ledger: LedgerRepository, log?: Logger): Promise<boolean> {
  const file = openSync(path, "r+");
  try {
    if (!lock(file)) return false;
    const { size } = fstatSync(file);
    // A process that was killed while it made the file, and a power cut, leave less than a whole one.
    const isWhole = path.endsWith(suffix) && size > 0;
    if (isWhole && size !== 2 * areaBytes) throw new Error("another version of Troupe wrote it");
    const lines = isWhole ? notedLines(areasOf(mapFile(path))) : [];
    if (lines === undefined) throw new Error("another version of Troupe wrote it");
    let added = 0;
    for (let at = 0; at < lines.length; at += batchSize)
      added += (await ledger.append(lines.slice(at, at + batchSize))).added;
    rmSync(path, { force: true });
    if (added > 0) log?.info("lines of the ledger that a killed process left were written", { lines: added });
    return true;
  } finally {
    closeSync(file);
  }
}

const lock = (file: number) => openLibc()!.flock(file, exclusively | withoutWaiting) === 0;

const areasOf = (bytes: Uint8Array) => [bytes.subarray(0, areaBytes), bytes.subarray(areaBytes)];
