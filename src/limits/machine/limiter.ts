/**
 * Opens the rate limits of one machine. Keys have sliding windows in files of the data folder, mapped by every process that serves from
 * it, so that a limit holds across workers, restarts, crashes and upgrades. Client addresses are counted in memory, each process
 * admitting its part of the limit.
 */
import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import { canMapFiles } from "../../lib/files/mapped-file.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { hourMs } from "../../lib/time/duration.ts";
import { OnceAMinute } from "../../lib/time/once-a-minute.ts";
import { type Decision, decisionOf, type Limiter, MemoryLimiter, windowMs } from "../limiter.ts";
import { WindowFiles } from "./files.ts";
import type { Hit, HitTable } from "./hit-table.ts";

type MachineLimits = {
  readonly callers: Limiter;
  readonly addresses: Limiter;
  /** A reading in milliseconds that is the same in all processes and never goes back while the machine runs. */
  now(): number;
  close(): void;
};

type MachineLimitsOptions = {
  readonly clock: Clock;
  readonly log: Logger;
  /** The number of processes that share the limits. */
  readonly processes: number;
  /** True where this process removes the files of idle keys. */
  readonly isSweeper: boolean;
};

const folderName = "limits";
const consequence =
  ": rate limits would be counted in memory, and a restart would empty them; remove it, or give it to this user.";
/** After the start, and then from one sweep to the next. */
const firstSweepMs = 60_000;
const sweepEveryMs = hourMs;
/** Callers tracked in memory; beyond it the least recently used is dropped. */
const maxTracked = 20_000;
/** The number of keys' files that stay mapped. */
const maxMapped = 10_000;
/** Retries when the table is replaced meanwhile. */
const maxTries = 10;

/** Counts in memory where files can't be mapped, as on Windows. */
export function openMachineLimits(dataFolder: string, options: MachineLimitsOptions): MachineLimits {
  const { clock, processes } = options;
  const addresses = partOf(new MemoryLimiter(clock, maxTracked), processes);
  if (!canMapFiles) return { callers: new MemoryLimiter(clock), addresses, now: () => clock.now(), close: () => {} };
  const callers = new FileLimiter(join(dataFolder, folderName), options);
  if (options.isSweeper) callers.sweepLater(firstSweepMs);
  return { callers, addresses, now: () => callers.now(), close: () => callers.close() };
}

/** A limiter that admits one process' part of each limit: of all together never more than the limit, but for each one's minimum of one. */
function partOf(limiter: Limiter, processes: number): Limiter {
  const part = (limit: number) => Math.max(1, Math.floor(limit / processes));
  return {
    hit: (caller, limit) => limiter.hit(caller, part(limit)),
    peek: (caller, limit) => limiter.peek(caller, part(limit)),
  };
}

/**
 * Looks at the data folder without writing to it.
 * @returns why the rate limits can't be kept there; undefined where nothing stands against it
 */
export function limitsDiagnostic(dataFolder: string): string | undefined {
  if (!canMapFiles) return undefined;
  const path = join(dataFolder, folderName);
  try {
    const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory();
    if (isFolder === undefined) return undefined;
    if (isFolder) accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
    else return `${path} is no folder${consequence}`;
  } catch (error) {
    return `${path} can't be used (${(error as NodeJS.ErrnoException).code})${consequence}`;
  }
  return undefined;
}

/**
 * Counts in files, and for as long as they can't be used in memory, a process' part of each limit.
 * A hit costs 0.8 µs of CPU, a refusal 0.4 µs (300,000 in a row, 50 callers).
 */
class FileLimiter implements Limiter {
  readonly #folder: string;
  readonly #options: MachineLimitsOptions;
  readonly #inMemory: Limiter;
  readonly #warnings: OnceAMinute;
  #files: WindowFiles | undefined;
  /** By caller, oldest mapping first. */
  readonly #tables = new Map<string, HitTable>();
  #isClosed = false;
  #cancelSweep = () => {};

  constructor(folder: string, options: MachineLimitsOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#inMemory = partOf(new MemoryLimiter(options.clock, maxTracked), options.processes);
    this.#warnings = new OnceAMinute(options.clock);
  }

  hit(caller: string, perMinute: number): Decision {
    try {
      const files = this.#opened();
      for (let tries = 0; tries < maxTries; tries += 1) {
        const table = this.#tableFor(files, caller, perMinute);
        const hit = table.hit(perMinute, files.now);
        if (hit !== undefined) return this.#decision(table, perMinute, hit);
        // Frozen or damaged: freeze it for all, so that it is replaced.
        table.freeze();
      }
      throw new Error("the files of the rate limits change all the time");
    } catch (error) {
      this.#warn(error);
      return this.#inMemory.hit(caller, perMinute);
    }
  }

  /** Creates no file. */
  peek(caller: string, perMinute: number): Decision {
    try {
      return this.#peek(this.#opened(), caller, perMinute);
    } catch (error) {
      this.#warn(error);
      return this.#inMemory.peek(caller, perMinute);
    }
  }

  now(): number {
    try {
      return this.#opened().now();
    } catch {
      return this.#options.clock.now();
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelSweep();
  }

  sweepLater(ms: number): void {
    this.#cancelSweep = this.#options.clock.setTimer(ms, () => void this.#sweep());
  }

  async #sweep(): Promise<void> {
    try {
      await this.#opened().sweep(() => this.#isClosed);
    } catch (error) {
      this.#options.log.warn("unused rate limit files could not be removed", { error });
    }
    if (!this.#isClosed) this.sweepLater(sweepEveryMs);
  }

  /** Opened at the first use; after a failure, at the next. */
  #opened(): WindowFiles {
    this.#files ??= new WindowFiles(this.#folder, this.#options.clock);
    return this.#files;
  }

  #peek(files: WindowFiles, caller: string, perMinute: number): Decision {
    const now = files.now();
    if (!this.#tables.has(caller) && !files.has(files.pathOf(caller)))
      return decisionOf(perMinute, true, perMinute, 0, this.#options.clock.now());
    const table = this.#tableFor(files, caller, perMinute);
    const { head } = table;
    return this.#decision(table, perMinute, { allowed: table.count(now, head) < perMinute, head, now });
  }

  #tableFor(files: WindowFiles, caller: string, limit: number): HitTable {
    const known = this.#tables.get(caller);
    if (known !== undefined && limit <= known.most && !known.isFrozen) return known;
    const table = files.open(files.pathOf(caller), limit);
    this.#tables.set(caller, table);
    if (this.#tables.size > maxMapped) this.#tables.delete(this.#tables.keys().next().value!);
    return table;
  }

  #decision(table: HitTable, perMinute: number, { allowed, head, now }: Hit): Decision {
    const count = table.count(now, head);
    // After a limit was lowered the window may hold more requests than it allows: those must expire first.
    const expiring = head - Math.min(count, perMinute);
    // Times in whole milliseconds may be a little ahead of now.
    const growsMs = count === 0 ? 0 : Math.min(windowMs + table.coarseMs, table.timeOf(expiring, now) + windowMs - now);
    return decisionOf(perMinute, allowed, perMinute - count, growsMs, this.#options.clock.now());
  }

  /** At most once a minute. */
  #warn(error: unknown): void {
    if (!this.#warnings.takes()) return;
    this.#options.log.error("the files of the rate limits can't be used; for now the limits are counted in memory", {
      error,
    });
  }
}
