/** Writes ledger lines in batches, off the path of calls. Until it has, they are noted where a killed process leaves them. */
import type { Clock } from "../lib/clock.ts";
import { nextSlice } from "../lib/cooperative-scheduling.ts";
import type { Logger } from "../lib/log.ts";
import type { LedgerLine, LedgerRepository } from "../store/store.ts";
import type { LedgerJournal } from "./ledger-journal.ts";

/** How long a line waits for others before whoever reads the ledger sees it. */
const everyMs = 250;
/** Lines of one write, which holds up this process for a millisecond. As many wait for no others. */
const batchSize = 200;
/** How many lines wait at most while the store fails; what comes then is lost, and counted. */
const maxWaiting = 50_000;

export class LedgerWriter {
  readonly #ledger: LedgerRepository;
  readonly #clock: Clock;
  readonly #log: Logger | undefined;
  readonly #openJournal: (() => LedgerJournal | undefined) | undefined;
  /** Null: not opened yet, as nothing was noted. */
  #journal: LedgerJournal | undefined | null = null;
  /** Noted in place of lines that are still being made. */
  readonly #held = new Set<LedgerLine>();
  /** Whether all lines that wait are noted. */
  #areNoted = true;
  readonly #waiting: LedgerLine[] = [];
  /** When the oldest waiting line came, as a monotonic reading. */
  #since = 0;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;
  #isFailing = false;

  /** Totals since the start: lines written and lost, and writes that failed. */
  readonly counts = { written: 0, lost: 0, failures: 0 };

  /** @param openJournal opens what notes lines, when there is one to note; may throw, and then they are not noted */
  constructor(
    { ledger }: { readonly ledger: LedgerRepository },
    clock: Clock,
    log?: Logger,
    openJournal?: () => LedgerJournal | undefined,
  ) {
    this.#ledger = ledger;
    this.#clock = clock;
    this.#log = log;
    this.#openJournal = openJournal;
  }

  /** Lines that are not written yet. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** For how many seconds the oldest of them has waited. */
  get lagSeconds(): number {
    return this.#waiting.length === 0 ? 0 : (this.#clock.monotonic() - this.#since) / 1000;
  }

  /** Notes what is known of a line that is still being made: where the process is killed before it is, this is the line. */
  hold(line: LedgerLine): void {
    this.#held.add(line);
    this.#note(line);
  }

  /** @param held what stood in its place */
  push(line: LedgerLine, held?: LedgerLine): void {
    if (held !== undefined) this.#held.delete(held);
    if (this.#waiting.length >= maxWaiting) {
      this.counts.lost += 1;
      return;
    }
    if (this.#waiting.length === 0) this.#since = this.#clock.monotonic();
    this.#waiting.push(line);
    this.#note(line);
    // Under load lines are written while they are young, and no burst of writes holds up the calls.
    if (this.#waiting.length === batchSize && this.#writing === undefined && !this.#isFailing) this.#soon();
    else this.#later();
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
    journal?.close(left === 0);
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

  async #write(): Promise<void> {
    if (this.#waiting.length === 0) return;
    try {
      this.#journal?.beginWrite(this.#held);
      // What comes meanwhile waits for others again: a few lines cost nearly as much as a batch.
      for (let left = this.#waiting.length; left > 0; ) {
        const began = this.#clock.monotonic();
        const batch = this.#waiting.slice(0, Math.min(left, batchSize));
        await this.#ledger.append(batch);
        this.#waiting.splice(0, batch.length);
        left -= batch.length;
        this.counts.written += batch.length;
        this.#since = began;
        if (left > 0) await nextSlice();
      }
      this.#isFailing = false;
      this.#journal?.endWrite();
      if (this.#waiting.length === 0) this.#areNoted = true;
      if (this.#waiting.length >= batchSize) this.#soon();
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
