/**
 * Ends the calls of processes that have ended without ending them, killed or lost: each becomes a line of the ledger, with what was noted of its
 * end, else as interrupted and of unknown cost, which spends what was reserved for it. At the start, and every few seconds by every process,
 * as lines are added once whoever adds them.
 */

import type { Logger } from "../../lib/process/log.ts";
import type { Clock } from "../../lib/time/clock.ts";
import type { LedgerRepository } from "../../store/contract/usage.ts";
import { writeLeftLines } from "./journal.ts";

const everyMs = 15_000;
/** Maximum number of lines in one write. */
const batchSize = 200;

/**
 * Settles them now.
 * @param data the data folder
 * @returns how many were interrupted. @throws StorageError
 */
export async function settleInterrupted(data: string, ledger: LedgerRepository, log?: Logger): Promise<number> {
  // Who has ended by now has noted all that it ever will.
  const interrupted = await ledger.interrupted();
  const left = await writeLeftLines(data, ledger, log);
  const lines = interrupted.filter(({ owner }) => !left.has(owner)).map(({ line }) => line);
  let settled = 0;
  for (let at = 0; at < lines.length; at += batchSize)
    settled += (await ledger.append(lines.slice(at, at + batchSize))).added;
  if (settled > 0) log?.info("calls that were under way when their process ended are settled", { calls: settled });
  return settled;
}

export class CallRecovery {
  readonly #settle: () => Promise<unknown>;
  readonly #clock: Clock;
  readonly #log: Logger;
  #cancelTimer = () => {};
  #isClosed = false;

  constructor(data: string, ledger: LedgerRepository, clock: Clock, log: Logger) {
    this.#settle = () => settleInterrupted(data, ledger, log);
    this.#clock = clock;
    this.#log = log;
  }

  /** Settles them now, and again and again. Never rejects. */
  async start(): Promise<void> {
    await this.#settle().catch((error) =>
      this.#log.warn("calls that were interrupted can't be settled now", { error }),
    );
    if (!this.#isClosed) this.#cancelTimer = this.#clock.setTimer(everyMs, () => void this.start());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
  }
}
