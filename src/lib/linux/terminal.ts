/** True if a person reads or types. Bun's `process.stdout` knows too, but loads the streams: 10 ms of a start. */
import { openLibc } from "./libc.ts";

/** @param descriptor 0, 1 or 2: of the standard input and outputs */
export function isTerminal(descriptor: 0 | 1 | 2): boolean {
  const libc = openLibc();
  if (libc !== undefined) return libc.isatty(descriptor) === 1;
  const { isatty } = require("node:tty") as typeof import("node:tty");
  return isatty(descriptor);
}
