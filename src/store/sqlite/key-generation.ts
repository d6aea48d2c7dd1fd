/**
 * A number in a mapped file beside the database, raised by whichever process changed keys or budgets, once the change is committed. So
 * a server learns of it without asking SQLite for each call, which takes two locks: 5 to 12 µs in a busy process.
 *
 * Changes of keys in another way, or by a process that is killed between its commit and the number, are found within a second.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { canMapFiles, makeFile, mapFile } from "../../lib/files/mapped-file.ts";

const fileName = "troupe.db-keys";
/** The database is asked so often, whatever the number says. */
const askMs = 1_000;

/** @param folder of the database */
export class KeyGeneration {
  readonly #path: string;
  #number: Int32Array | undefined;

  constructor(folder: string) {
    this.#path = join(folder, fileName);
  }

  /** To be called once a change is committed. Never throws: a server then learns of it a little later. */
  raise(): void {
    const number = this.#mapped();
    if (number !== undefined) Atomics.add(number, 0, 1);
  }

  /**
   * @param ask what the database says
   * @param now a monotonic reading in milliseconds
   * @returns what asks it only where the number was raised since, or a second is over; where no file can be mapped, each time
   */
  untilRaised<T>(ask: () => T, now: () => number): () => T {
    const number = this.#mapped();
    if (number === undefined) return ask;
    let answer: { readonly value: T; readonly generation: number; readonly until: number } | undefined;
    return () => {
      // Read before the database is asked: a change in between is noticed the next time.
      const generation = Atomics.load(number, 0);
      const at = now();
      if (answer === undefined || answer.generation !== generation || at >= answer.until) {
        answer = undefined;
        answer = { value: ask(), generation, until: at + askMs };
      }
      return answer.value;
    };
  }

  #mapped(): Int32Array | undefined {
    if (this.#number !== undefined || !canMapFiles) return this.#number;
    try {
      if (!existsSync(this.#path)) makeFile(this.#path, new Uint8Array(4));
      const bytes = mapFile(this.#path);
      if (bytes.byteLength >= 4) this.#number = new Int32Array(bytes.buffer, bytes.byteOffset, 1);
    } catch {
      // The disk is full, or the folder may only be read.
    }
    return this.#number;
  }
}
