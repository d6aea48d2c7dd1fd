/** Maps a file into memory for reading, where another program keeps locks on it. Linux only. */
import { toArrayBuffer } from "bun:ffi";
import { openSync } from "node:fs";
import { openLibc } from "./libc.ts";

const readable = 1;
const shared = 1;
/** No address of a process lies above it: what `mmap` returns where it fails does. */
const maxAddress = 2 ** 57;

/**
 * The descriptor is never closed, and neither is the mapping given back: closing any descriptor of a file gives up all locks that this
 * process has on it. So this is for files that are mapped once, or few times. Source: https://man7.org/linux/man-pages/man2/fcntl_locking.2.html
 * @param length of its beginning, in bytes, a multiple of 4; the file must have them for as long as they are read
 * @returns what all who map or write the file see; undefined where it can't be mapped
 */
export function mapForReading(path: string, length: number): Uint32Array | undefined {
  const libc = openLibc();
  if (libc === undefined) return undefined;
  try {
    const address = libc.mmap(null, length, readable, shared, openSync(path, "r"), 0);
    if (address === null || !(Number(address) < maxAddress)) return undefined;
    return new Uint32Array(toArrayBuffer(address, 0, length));
  } catch {
    return undefined;
  }
}
