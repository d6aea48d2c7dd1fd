import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";

/**
 * Writes a file that only this user may read. A reader finds the old one or the new one, whole; a machine that stops leaves
 * one of them. @throws the file system's errors
 */
export function writePrivately(path: string, text: string): void {
  const unfinished = `${path}.unfinished`;
  const file = openSync(unfinished, "w", 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(unfinished, path);
}
