/** A log that a test waits for the lines of. */
import type { Logger } from "../../src/lib/process/log.ts";
import { silentLogger } from "./silent-logger.ts";

export type LogLine = { readonly message: string; readonly fields: Readonly<Record<string, unknown>> };

export class WatchedLog {
  readonly lines: LogLine[] = [];
  readonly log: Logger;
  readonly #waiting = new Set<() => void>();

  constructor() {
    const write = (message: string, fields = {}) => {
      this.lines.push({ message, fields });
      for (const wake of this.#waiting) wake();
    };
    this.log = { ...silentLogger, info: write, warn: write, error: write };
  }

  /** Resolves with the first line that fits. @param from lines before are passed over */
  async logged(fits: (line: LogLine) => boolean, from = 0): Promise<LogLine> {
    for (;;) {
      const found = this.lines.slice(from).find(fits);
      if (found !== undefined) return found;
      await new Promise<void>((wake) => this.#waiting.add(wake));
    }
  }
}
