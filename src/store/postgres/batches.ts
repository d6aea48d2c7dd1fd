/**
 * Gathers what is asked while a statement is under way into the next one. Each caller has its own answer, within the deadline that it
 * would have alone: it counts from when the caller asked, and ends a wait for the statement before as well.
 */
import { type Clock, setDeadline } from "../../lib/clock.ts";
import { StorageError } from "../storage-error.ts";
import { away } from "./errors.ts";

/** @param again whether what this caller asked may have been done before. Called when it is sent, each time */
export type Entry<E> = (again: boolean) => E;

export type BatchOptions<E, A> = {
  /**
   * Asks `count` at once.
   * @param entries what is sent, fewer where some gave up meanwhile; to be called each time that it is sent
   * @returns an answer for each of those that were sent last, in their order
   */
  readonly send: (count: number, entries: (again: boolean) => readonly E[]) => Promise<readonly A[]>;
  readonly clock: Clock;
  readonly deadlineMs: number;
  /** The server's address, for messages. */
  readonly place: string;
  /** Entries of one statement. */
  readonly maxEntries: number;
  /** Statements at once: one that hangs does not hold up all others. */
  readonly maxUnderWay: number;
};

type Asked<E, A> = {
  readonly id: string;
  readonly entry: Entry<E>;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
  isOver: boolean;
};

/** Beyond it nobody waits. */
const maxWaiting = 10_000;

export class Batches<E, A> {
  readonly #options: BatchOptions<E, A>;
  /** In the order in which they came. */
  readonly #waiting = new Set<Asked<E, A>>();
  #underWay = 0;
  #isPlanned = false;

  constructor(options: BatchOptions<E, A>) {
    this.#options = options;
  }

  /**
   * @param id what it is about: what is asked of it later goes with a later statement
   * @throws StorageError: `away` where it may have been done or not
   */
  ask(id: string, entry: Entry<E>): Promise<A> {
    const { clock, deadlineMs, place } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<A>();
    if (this.#waiting.size >= maxWaiting) return Promise.reject(away(place, "too many wait for a connection"));
    const cancelTimer = setDeadline(clock, deadlineMs, () => {
      const isSent = !this.#waiting.delete(asked);
      asked.reject(away(place, isSent ? `no answer within ${deadlineMs} ms` : "every connection is busy"));
    });
    const end = () => {
      asked.isOver = true;
      cancelTimer();
    };
    const asked: Asked<E, A> = {
      id,
      entry,
      resolve: (answer) => {
        end();
        resolve(answer);
      },
      reject: (error) => {
        end();
        reject(error);
      },
      isOver: false,
    };
    this.#waiting.add(asked);
    this.#sendSoon();
    return promise;
  }

  /** Those of one turn of the event loop go together. */
  #sendSoon(): void {
    if (this.#isPlanned || this.#waiting.size === 0) return;
    this.#isPlanned = true;
    queueMicrotask(() => {
      this.#isPlanned = false;
      if (this.#underWay >= this.#options.maxUnderWay || this.#waiting.size === 0) return;
      void this.#send(this.#take());
      this.#sendSoon();
    });
  }

  #take(): Asked<E, A>[] {
    const batch: Asked<E, A>[] = [];
    const ids = new Set<string>();
    for (const asked of this.#waiting) {
      if (batch.length >= this.#options.maxEntries || ids.has(asked.id)) break;
      ids.add(asked.id);
      this.#waiting.delete(asked);
      batch.push(asked);
    }
    return batch;
  }

  /** Never rejects. */
  async #send(batch: readonly Asked<E, A>[]): Promise<void> {
    this.#underWay += 1;
    await this.#ask(batch);
    this.#underWay -= 1;
    this.#sendSoon();
  }

  /** @param wasSent whether these were asked before, and may have been done */
  async #ask(batch: readonly Asked<E, A>[], wasSent = false): Promise<void> {
    let sent: readonly Asked<E, A>[] = [];
    const entries = (again: boolean) => {
      sent = batch.filter(({ isOver }) => !isOver);
      if (sent.length === 0) throw away(this.#options.place, "nobody waits for it");
      return sent.map(({ entry }) => entry(again || wasSent));
    };
    try {
      const answers = await this.#options.send(batch.length, entries);
      for (const [at, { resolve }] of sent.entries()) resolve(answers[at]!);
    } catch (error) {
      const left = batch.filter(({ isOver }) => !isOver);
      // What the server refuses of one is no other caller's failure.
      if (left.length > 1 && error instanceof StorageError && error.kind === "unusable") {
        for (const asked of left) await this.#ask([asked], true);
      } else for (const { reject } of left) reject(error);
    }
  }
}
