/** Opens the rate limiters of a data folder: one for API keys, one for client addresses. */
import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { canMapFiles } from "../lib/mapped-file.ts";
import { type Limiter, MemoryLimiter } from "./limiter.ts";
import { LimiterWithFallback } from "./limiter-with-fallback.ts";
import { SharedMemoryLimiter } from "./shared-memory-limiter.ts";
import { WindowFiles } from "./window-files.ts";

export type Limits = {
  readonly callers: Limiter;
  readonly addresses: Limiter;
  /** A reading in milliseconds that is the same in all processes and never goes back while the machine runs. */
  now(): number;
  close(): void;
};

type LimitsOptions = {
  readonly clock: Clock;
  readonly log: Logger;
  /** How many processes share the limits. */
  readonly processes: number;
  /** Whether this process removes the files of idle keys. */
  readonly isSweeper: boolean;
};

const folderName = "limits";
const consequence =
  ": rate limits would be counted in memory, and a restart would empty them; remove it, or give it to this user.";
/** After the start, and then from one sweep to the next. */
const firstSweepMs = 60_000;
const sweepEveryMs = 3_600_000;
/** Client addresses tracked where windows are in memory; beyond it the least recently used is dropped. */
const maxAddresses = 20_000;

/** Where files can't be mapped, as on Windows, the limiters are in process memory. */
export function openLimits(dataFolder: string, options: LimitsOptions): Limits {
  const { clock, log } = options;
  if (!canMapFiles) {
    return {
      callers: new MemoryLimiter(clock),
      addresses: new MemoryLimiter(clock, maxAddresses),
      now: () => clock.now(),
      close: () => {},
    };
  }
  const files = once(() => new WindowFiles(join(dataFolder, folderName), clock));
  const sweeper = new Sweep(files, clock, log);
  if (options.isSweeper) sweeper.later(firstSweepMs);
  return {
    callers: new LimiterWithFallback(
      once(() => SharedMemoryLimiter.ofKeys(files(), clock)),
      options,
    ),
    addresses: new LimiterWithFallback(
      once(() => SharedMemoryLimiter.ofAddresses(files(), clock)),
      options,
    ),
    now() {
      try {
        return files().now();
      } catch {
        return clock.now();
      }
    },
    close: () => sweeper.stop(),
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

/** Makes it at the first call; after a failure, at the next. */
function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

class Sweep {
  readonly #files: () => WindowFiles;
  readonly #clock: Clock;
  readonly #log: Logger;
  #isOver = false;
  #cancelTimer = () => {};

  constructor(files: () => WindowFiles, clock: Clock, log: Logger) {
    this.#files = files;
    this.#clock = clock;
    this.#log = log;
  }

  later(ms: number): void {
    this.#cancelTimer = this.#clock.setTimer(ms, () => void this.#run());
  }

  stop(): void {
    this.#isOver = true;
    this.#cancelTimer();
  }

  async #run(): Promise<void> {
    try {
      await this.#files().sweep(() => this.#isOver);
    } catch (error) {
      this.#log.warn("unused rate limit files could not be removed", { error });
    }
    if (!this.#isOver) this.later(sweepEveryMs);
  }
}
