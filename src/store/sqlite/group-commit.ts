import type { Database } from "bun:sqlite";
import { asStorageError } from "../contract/storage-error.ts";

type Write = { run(): void; done(): void; failed(error: unknown): void };

/**
 * Writes that come in the same turn of the event loop are committed together, as most of a small write's cost is its
 * commit: one alone takes 50 µs, in a group of eight 12 µs. Each write's promise resolves once it is committed.
 */
export class GroupCommit {
  readonly #path: string;
  readonly #commit: (writes: readonly Write[]) => void;
  #waiting: Write[] = [];
  /** Groups so far, the one that waits not among them. */
  #groups = 0;

  constructor(database: Database, path: string) {
    this.#path = path;
    const all = database.transaction((writes: readonly Write[]) => {
      for (const write of writes) write.run();
    });
    this.#commit = (writes) => all.immediate(writes);
  }

  /** @returns what `write` returned. Rejects with a StorageError, and then the whole group is rolled back */
  run<T>(write: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let result: T;
      if (this.#waiting.length === 0) setImmediate(() => this.flush());
      this.#waiting.push({
        run: () => {
          result = write();
        },
        done: () => resolve(result),
        failed: reject,
      });
    });
  }

  /**
   * Has what is asked for in one turn written by one call.
   * @param write gives an answer for each, in their order
   * @returns what asks; it rejects as `run` does
   */
  together<A, T>(write: (asked: readonly A[]) => readonly T[]): (asked: A) => Promise<T> {
    let group = -1;
    let all: A[] = [];
    let answers: Promise<readonly T[]>;
    return (asked) => {
      if (group !== this.#groups) {
        group = this.#groups;
        const own: A[] = [];
        all = own;
        answers = this.run(() => write(own));
      }
      const at = all.push(asked) - 1;
      return answers.then((found) => found[at]!);
    };
  }

  /** Commits what waits, now. */
  flush(): void {
    const writes = this.#waiting.splice(0);
    if (writes.length === 0) return;
    this.#groups += 1;
    try {
      this.#commit(writes);
    } catch (error) {
      const meaning = asStorageError(error, this.#path);
      for (const write of writes) write.failed(meaning);
      return;
    }
    for (const write of writes) write.done();
  }
}
