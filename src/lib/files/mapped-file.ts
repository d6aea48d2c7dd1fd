/** Memory-mapped files of a fixed size, shared by several processes. */
import { closeSync, linkSync, openSync, renameSync, rmSync, writeSync } from "node:fs";

/** True if files can be mapped on this platform. Source: https://bun.com/reference/bun/mmap */
export const canMapFiles = process.platform !== "win32";

/** @returns the file's bytes, as all who map it see them. @throws the file system's errors */
export function mapFile(path: string): Uint8Array {
  return Bun.mmap(path, { shared: true });
}

/** Makes the file with these bytes, for this user only, unless it is there. @throws the file system's errors */
export function makeFile(path: string, bytes: Uint8Array): void {
  place(path, bytes, (unfinished) => {
    try {
      linkSync(unfinished, path);
    } catch (error) {
      // Another process was quicker.
      if ((error as { code?: string }).code !== "EEXIST") throw error;
    }
  });
}

/** Puts a file with these bytes in the place of the one there. Who has that one mapped keeps it. @throws likewise */
export function replaceFile(path: string, bytes: Uint8Array): void {
  place(path, bytes, (unfinished) => renameSync(unfinished, path));
}

/**
 * Zeros are written too rather than skipped: where the disk is full that fails here, and not later at a mere store to
 * memory, which would end the process.
 */
function place(path: string, bytes: Uint8Array, put: (unfinished: string) => void): void {
  const unfinished = `${path}.${crypto.randomUUID()}`;
  try {
    const file = openSync(unfinished, "wx", 0o600);
    try {
      for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written);
    } finally {
      closeSync(file);
    }
    put(unfinished);
  } finally {
    rmSync(unfinished, { force: true });
  }
}
