/** Writes ledger lines in batches, off the path of calls. */
import type { Clock } from "../lib/clock.ts";
import { nextSlice } from "../lib/cooperative-scheduling.ts";
import type { Logger } from "../lib/log.ts";
import type { LedgerLine, LedgerRepository } from "../store/store.ts";

/** How long a line waits for others: a killed process loses no more than these. What is promised is a second, on a busy machine too. */
const everyMs = 250;
/** Lines of one write, which holds up this process for a millisecond. As many wait for no others. */
const batchSize = 200;
/** How many lines wait at most while the store fails; what comes then is lost, and counted. */
const maxWaiting = 50_000;

export class LedgerWriter {
  readonly #ledger: LedgerRepository;
  readonly #clock: Clock;
  readonly #log: Logger | undefined;
  readonly #waiting: LedgerLine[] = [];
  /** When the oldest waiting line came, as a monotonic reading. */
  #since = 0;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;
  #isFailing = false;

  /** Totals since the start: lines written and lost, and writes that failed. */
  readonly counts = { written: 0, lost: 0, failures: 0 };

  constructor({ ledger }: { readonly ledger: LedgerRepository }, clock: Clock, log?: Logger) {
    this.#ledger = ledger;
    this.#clock = clock;
    this.#log = log;
  }

  /** Lines that are not written yet. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** For how many seconds the oldest of them has waited. */
  get lagSeconds(): number {
    return this.#waiting.length === 0 ? 0 : (this.#clock.monotonic() - this.#since) / 1000;
  }

  push(line: LedgerLine): void {
    if (this.#waiting.length >= maxWaiting) {
      this.counts.lost += 1;
      return;
    }
    if (this.#waiting.length === 0) this.#since = this.#clock.monotonic();
    this.#waiting.push(line);
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
    const lost = this.#waiting.splice(0).length;
    this.counts.lost += lost;
    if (lost > 0) this.#log?.error("lines of the ledger could not be written and are lost", { lines: lost });
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
    try {
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
