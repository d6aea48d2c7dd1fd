/** Removes expired and deleted rows, and packs sums of the ledger, in steps too small to delay a request. */
import type { Config } from "../config/config.ts";
import type { Logger } from "../lib/process/log.ts";
import type { SampledTable } from "../lib/process/metrics.ts";
import type { Clock } from "../lib/time/clock.ts";
import { hourMs } from "../lib/time/duration.ts";
import { StorageError } from "./contract/storage-error.ts";
import type { Maintenance } from "./contract/store.ts";

const everyMs = 60_000;
/** Between two steps of one sweep, for requests to come in between. */
const pauseMs = 20;
const rowsPerStep = 50;
const pagesPerStep = 64;
/** Free space left in the file for new rows; on a full disk there is no other. */
const reserveBytes = 16 * 1024 ** 2;
/** Time that a deleted turn stays, in milliseconds, since a client may still pass it as the `after` of a page. */
const deletedRetentionMs = hourMs;
/** Time that a version of a persona stays after it was last in service, called or named by a label. */
const versionRetentionMs = 400 * 24 * hourMs;
/** Beyond this size of all stored answers they are removed before they expire, oldest first, except those of the last hour. */
const maxAnswerBytes = 16 * 1024 ** 3;

export type SweepRules = {
  readonly retentionHours: number;
  readonly maxBytes?: number;
  /** Number of days that lines of the ledger are kept; absent: for ever. */
  readonly ledgerDays?: number;
};

/** A database server has room of its own; of its size nothing is known but with what vacuum has not reused yet. */
export const sweepRulesOf = ({
  idempotency,
  usage,
  store,
}: Pick<Config, "idempotency" | "usage" | "store">): SweepRules => ({
  retentionHours: idempotency.retentionHours,
  ledgerDays: usage.retentionDays,
  ...(store !== undefined && { maxBytes: Number.POSITIVE_INFINITY }),
});

/** Totals removed: idempotency records, conversation rows, ledger rows, versions, previews and reports of personas, and pages returned to the file system. */
export type SweepCounts = {
  answers: number;
  turns: number;
  ledger: number;
  versions: number;
  previews: number;
  pages: number;
};

/**
 * Runs one small step of a sweep.
 * @param deletedBefore removes turns that were deleted until then
 * @returns false when nothing is left to do
 * Rejects with StorageError
 */
export async function sweepStep(
  maintenance: Maintenance,
  now: number,
  { retentionHours, maxBytes = maxAnswerBytes, ledgerDays = Number.POSITIVE_INFINITY }: SweepRules,
  counts: SweepCounts,
  deletedBefore = now - deletedRetentionMs,
): Promise<boolean> {
  const removals: [kind: keyof SweepCounts, remove: () => number | Promise<number>][] = [
    ["answers", () => maintenance.removeExpiredRuns(now, rowsPerStep)],
    ["turns", () => maintenance.removeExpiredTurns(now, rowsPerStep)],
    ["turns", () => maintenance.removeDeletedTurns(deletedBefore, rowsPerStep)],
    [
      "ledger",
      () =>
        ledgerDays === Number.POSITIVE_INFINITY
          ? 0
          : maintenance.removeLedgerDays(now - ledgerDays * 24 * hourMs, rowsPerStep),
    ],
    ["versions", () => maintenance.removeUnusedVersions(now - versionRetentionMs, rowsPerStep)],
    // Each may be some MiB.
    ["previews", () => maintenance.removeEndedPreviews(now, 1)],
    [
      "answers",
      async () => {
        const { bytes, freeBytes } = await maintenance.size();
        const finishedHourAgo = now + (retentionHours - 1) * hourMs;
        // Answers are added up only where they may be too many: it reads them all.
        const areTooMany = bytes - freeBytes > maxBytes && (await maintenance.runTotals()).bytes > maxBytes;
        return areTooMany ? maintenance.removeExpiredRuns(finishedHourAgo, rowsPerStep) : 0;
      },
    ],
    ["pages", async () => ((await maintenance.size()).freeBytes > reserveBytes ? maintenance.shrink(pagesPerStep) : 0)],
  ];
  for (const [kind, remove] of removals) {
    const removed = await remove();
    counts[kind] += removed;
    if (removed > 0) return true;
  }
  return false;
}

export class Sweeper {
  readonly #maintenance: Maintenance;
  readonly #clock: Clock;
  readonly #rules: () => SweepRules;
  readonly #log: Logger | undefined;
  #cancelTimer = () => {};
  #isStopped = false;

  /** Running totals since the start; `failures`: sweeps that the store did not let end. */
  readonly counts = { answers: 0, turns: 0, ledger: 0, versions: 0, previews: 0, pages: 0, sweeps: 0, failures: 0 };

  constructor(
    { maintenance }: { readonly maintenance: Maintenance },
    clock: Clock,
    rules: () => SweepRules,
    log?: Logger,
  ) {
    this.#maintenance = maintenance;
    this.#clock = clock;
    this.#rules = rules;
    this.#log = log;
  }

  /** From now on, once a minute. */
  start(): void {
    this.#later(everyMs);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer();
  }

  #later(ms: number): void {
    if (!this.#isStopped) this.#cancelTimer = this.#clock.setTimer(ms, () => void this.#step());
  }

  async #step(): Promise<void> {
    try {
      const isRemoving = await sweepStep(this.#maintenance, this.#clock.now(), this.#rules(), this.counts);
      if (isRemoving || (await this.#maintenance.packLedgerDays?.()) === true) {
        this.#later(pauseMs);
        return;
      }
      await this.#maintenance.otherServers();
      this.counts.sweeps += 1;
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      if (this.#isStopped) return;
      this.counts.failures += 1;
      this.#log?.warn("old answers and conversations could not be removed", { error });
    }
    this.#later(everyMs);
  }
}

export const sweepMetrics: SampledTable<Sweeper> = {
  troupe_swept_answers_total: { help: "Expired idempotency records removed.", read: ({ counts }) => counts.answers },
  troupe_swept_turns_total: { help: "Expired conversation turns removed.", read: ({ counts }) => counts.turns },
  troupe_swept_ledger_total: { help: "Old lines of the ledger removed.", read: ({ counts }) => counts.ledger },
  troupe_swept_persona_versions_total: {
    help: "Versions of personas removed, as nothing used them.",
    read: ({ counts }) => counts.versions,
  },
  troupe_swept_previews_total: {
    help: "Previews of personas, and reports, removed, as they had ended.",
    read: ({ counts }) => counts.previews,
  },
  troupe_sweeps_total: { help: "Sweeps that ended.", read: ({ counts }) => counts.sweeps },
  troupe_sweep_failures_total: { help: "Sweeps that failed in the store.", read: ({ counts }) => counts.failures },
};
