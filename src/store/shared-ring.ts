/** Numbers in memory that several processes share, behind a file. */
import { closeSync, linkSync, openSync, rmSync, writeSync } from "node:fs";

/** Maps the file, made if it is not there. @throws the file system's errors */
export function mapNumbers(path: string, count: number): BigInt64Array {
  makeNumbers(path, count);
  const bytes = Bun.mmap(path, { shared: true });
  return new BigInt64Array(bytes.buffer, bytes.byteOffset, count);
}

/**
 * Makes the file, if it is not there, for this user only, full of zeros. They are written rather than skipped: where the
 * disk is full that fails here, and not later at a mere store to memory, which would end the process.
 * @throws the file system's errors
 */
export function makeNumbers(path: string, count: number): void {
  const unfinished = `${path}.${crypto.randomUUID()}`;
  const file = openSync(unfinished, "wx", 0o600);
  try {
    writeSync(file, new Uint8Array(count * 8));
    linkSync(unfinished, path);
  } catch (error) {
    // Another process was quicker.
    if ((error as { code?: string }).code !== "EEXIST") throw error;
  } finally {
    closeSync(file);
    rmSync(unfinished, { force: true });
  }
}
