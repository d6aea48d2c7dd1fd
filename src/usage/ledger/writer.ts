/**
 * Writes ledger lines in batches, off the path of calls. From their beginning calls are noted where a killed process leaves them: in a file
 * of this machine, and where several share the store also there, within half a second.
 */

import { type Link, LinkedList } from "../../lib/process/linked-list.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { nextSlice } from "../../lib/time/cooperative-scheduling.ts";
import type { LedgerLine, LedgerRepository, Spending } from "../../store/contract/usage.ts";
import type { LedgerJournal } from "./journal.ts";

/** Longest time that a line waits for others before whoever reads the ledger sees it. */
const everyMs = 250;
/**
 * Lines of one write, which holds up this process; each line of a smaller one costs more. At 3,000 calls a second one in a hundred waited 8 to
 * 15 ms with 400, and 5 to 7 with 100. As many wait for no others.
 */
const batchSize = 100;
/** Maximum number of lines that wait while the store fails; any more are lost, and counted. */
const maxWaiting = 50_000;

type LedgerWriterOptions = {
  readonly ledger: LedgerRepository;
  readonly clock: Clock;
  readonly log?: Logger;
  /** Opens what notes lines, when there is one to note; may throw, and then they are not noted. */
  readonly openJournal?: () => LedgerJournal | undefined;
  /** True if others may find the calls of this process, when it has ended, in the store alone. */
  readonly isShared?: boolean;
  /** Given what is spent of each budget that lines were spent of. */
  readonly onWritten?: (spending: readonly Spending[]) => void;
  /** Called when lines have stopped a persona's variant. */
  readonly onStopped?: () => void;
};

export class LedgerWriter {
  readonly #ledger: LedgerRepository;
  readonly #clock: Clock;
  readonly #log: Logger | undefined;
  readonly #openJournal: (() => LedgerJournal | undefined) | undefined;
  readonly #isShared: boolean;
  readonly #onWritten: ((spending: readonly Spending[]) => void) | undefined;
  readonly #onStopped: (() => void) | undefined;
  /** Null: not opened yet, as nothing was noted. */
  #journal: LedgerJournal | undefined | null = null;
  /** Calls under way, with the monotonic readings when those began that the store is yet to know of; infinite for the others. */
  readonly #begun = new LinkedList<LedgerLine>();
  /** True if all lines that wait are noted. */
  #areNoted = true;
  readonly #waiting: LedgerLine[] = [];
  /** When the oldest waiting line came, as a monotonic reading. */
  #since = 0;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;
  #isFailing = false;

  /** Totals since the start: lines written and lost, and writes that failed. */
  readonly counts = { written: 0, lost: 0, failures: 0 };

  constructor({ ledger, clock, log, openJournal, isShared = false, onWritten, onStopped }: LedgerWriterOptions) {
    this.#ledger = ledger;
    this.#clock = clock;
    this.#log = log;
    this.#openJournal = openJournal;
    this.#isShared = isShared;
    this.#onWritten = onWritten;
    this.#onStopped = onStopped;
  }

  /** Lines that are not written yet. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** True while the store refuses lines: since the last write, which is tried again and again. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Lines of the calls under way in this process, in the order in which they began. */
  get begun(): readonly LedgerLine[] {
    return [...this.#begun].map(({ value }) => value);
  }

  /** For how many seconds the oldest of them has waited. */
  get lagSeconds(): number {
    return this.#waiting.length === 0 ? 0 : (this.#clock.monotonic() - this.#since) / 1000;
  }

  /**
   * Notes that a call begins.
   * @param line what it is if the process ends before the call does @param isStored whether the store knows of it
   * @returns what it is ended by
   */
  begin(line: LedgerLine, isStored: boolean): Link<LedgerLine> {
    const isKnown = !this.#isShared || isStored;
    this.#note(line);
    if (!isKnown) this.#later();
    return this.#begun.add(line, isKnown ? Number.POSITIVE_INFINITY : this.#clock.monotonic());
  }

  /** @param begun what `begin` returned for it */
  push(line: LedgerLine, begun?: Link<LedgerLine>): void {
    if (begun !== undefined) this.#begun.delete(begun);
    if (this.#waiting.length >= maxWaiting) {
      this.counts.lost += 1;
      return;
    }
    if (this.#waiting.length === 0) this.#since = this.#clock.monotonic();
    this.#waiting.push(line);
    this.#note(line);
    // Under load lines are written while they are young, and no burst of writes holds up the calls. A line by which a variant may stop is
    // written at once, as others are called until then.
    const isDue = this.#waiting.length === batchSize || line.variantCall !== undefined;
    if (isDue && this.#writing === undefined && !this.#isFailing) this.#soon();
    else this.#later();
  }

  /** Writes what waits, as it may end reservations. Never rejects. @returns whether there was anything to write */
  async settleNow(): Promise<boolean> {
    if (this.waiting === 0 || this.#isFailing) return false;
    await this.flush();
    return true;
  }

  /** Writes all that waits by now; what the store refuses goes on waiting. Never rejects. */
  async flush(): Promise<void> {
    this.#cancel();
    while (this.#writing !== undefined) await this.#writing;
    // Cleared in a later step: a write of nothing ends before this line does.
    this.#writing = this.#write().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  /** Writes what it can, and counts the rest as lost. */
  async close(): Promise<void> {
    do await this.flush();
    while (this.#waiting.length > 0 && !this.#isFailing);
    this.#cancel();
    const left = this.#waiting.splice(0).length;
    const journal = this.#journal ?? undefined;
    this.#journal = undefined;
    // Calls that nobody ends any more are interrupted.
    journal?.close(left === 0 && this.#begun.first === undefined);
    if (left === 0) return;
    if (journal !== undefined && this.#areNoted) {
      this.#log?.error("lines of the ledger could not be written; the next start writes them", { lines: left });
      return;
    }
    this.counts.lost += left;
    this.#log?.error("lines of the ledger could not be written and are lost", { lines: left });
  }

  #note(line: LedgerLine): void {
    if (this.#journal === null) this.#journal = this.#opened();
    if (this.#journal?.note(line) === false) this.#areNoted = false;
  }

  #opened(): LedgerJournal | undefined {
    try {
      return this.#openJournal?.();
    } catch (error) {
      this.#log?.warn("lines of the ledger that a killed process has not written will be lost", { error });
      return undefined;
    }
  }

  #later(afterMs = everyMs): void {
    this.#cancelTimer ??= this.#clock.setTimer(afterMs, () => void this.flush());
  }

  /** In a turn of its own: who pushes a line waits for no write. */
  #soon(): void {
    this.#cancel();
    this.#later(0);
  }

  #cancel(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  /** Calls under way that the store is yet to know of. */
  #unknown(): Link<LedgerLine>[] {
    return this.#isShared ? [...this.#begun].filter(({ at }) => Number.isFinite(at)) : [];
  }

  async #write(): Promise<void> {
    // A call that ends within a quarter of a second is in the store by its line alone.
    const until = this.#clock.monotonic() - everyMs;
    const begun = this.#unknown().filter(({ at }) => at <= until);
    if (this.#waiting.length === 0 && begun.length === 0) {
      if (this.#unknown().length > 0) this.#later();
      return;
    }
    try {
      // Lines that come meanwhile wait for others again: a few lines cost nearly as much as a batch.
      let left = this.#waiting.length;
      do {
        const began = this.#clock.monotonic();
        const batch = this.#waiting.slice(0, Math.min(left, batchSize));
        const notes = begun.splice(0, batchSize);
        const lines = notes.map(({ value }) => value);
        const { spending, stopped } = await this.#ledger.append(batch, lines);
        for (const link of notes) link.at = Number.POSITIVE_INFINITY;
        this.#waiting.splice(0, batch.length);
        left -= batch.length;
        this.counts.written += batch.length;
        this.#since = began;
        if (batch.length > 0) this.#onWritten?.(spending);
        if (stopped === true) this.#onStopped?.();
        if (left > 0 || begun.length > 0) await nextSlice();
      } while (left > 0 || begun.length > 0);
      this.#isFailing = false;
      if (this.#journal?.isHalfFull) this.#areNoted = this.#journal.keep([...this.begun, ...this.#waiting]);
      else if (this.#waiting.length === 0) this.#areNoted = true;
      if (this.#waiting.length >= batchSize) this.#soon();
      else if (this.#unknown().length > 0) this.#later();
    } catch (error) {
      this.counts.failures += 1;
      if (!this.#isFailing) {
        this.#log?.error("the ledger can't be written; its lines wait in memory", { error, lines: this.waiting });
      }
      this.#isFailing = true;
      this.#later();
    }
  }
}
