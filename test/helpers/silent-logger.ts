import type { Logger } from "../../src/lib/process/log.ts";

/** A logger that discards everything. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  flush: async () => {},
  dropped: 0,
};
