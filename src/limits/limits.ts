/** The rate limits of a data folder, as one of the processes that serve from it keeps them. */
import { join } from "node:path";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { canMapFiles } from "../lib/mapped-file.ts";
import { LimiterWithFallback } from "./limiter-with-fallback.ts";
import { type Limiter, RateLimiter } from "./rate-limiter.ts";
import { SharedWindows } from "./shared-windows.ts";
import { WindowFiles } from "./window-files.ts";

export type Limits = {
  readonly callers: Limiter;
  readonly addresses: Limiter;
  close(): void;
};

export type LimitsOptions = {
  readonly clock: Clock;
  readonly log: Logger;
  /** How many processes serve together. */
  readonly processes: number;
  /** Whether this one removes the files of keys that are not used. */
  readonly isSweeper: boolean;
};

/** After the start, and then from one sweep to the next. */
const firstSweepMs = 60_000;
const sweepEveryMs = 3_600_000;
/** Where windows are in memory: how many addresses; beyond it the longest silent is forgotten. */
const maxAddresses = 20_000;

/** Where files can't be mapped, as on Windows, the windows are this process' own and end with it. */
export function openLimits(dataFolder: string, options: LimitsOptions): Limits {
  const { clock, log } = options;
  if (!canMapFiles) {
    return { callers: new RateLimiter(clock), addresses: new RateLimiter(clock, maxAddresses), close: () => {} };
  }
  let opened: WindowFiles | undefined;
  const files = () => {
    opened ??= new WindowFiles(join(dataFolder, "limits"), clock);
    return opened;
  };
  const sweeper = new Sweep(files, clock, log);
  if (options.isSweeper) sweeper.later(firstSweepMs);
  return {
    callers: new LimiterWithFallback(
      once(() => SharedWindows.ofKeys(files(), clock)),
      options,
    ),
    addresses: new LimiterWithFallback(
      once(() => SharedWindows.ofAddresses(files(), clock)),
      options,
    ),
    close: () => sweeper.stop(),
  };
}

/** Makes it when it is first asked for, and again until that succeeds. */
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
      this.#log.warn("files of rate limits that nobody uses could not be removed", { error });
    }
    if (!this.#isOver) this.later(sweepEveryMs);
  }
}
