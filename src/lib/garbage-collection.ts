/** Collects garbage early where large values were garbage: requests and answers of megabytes. */
import { fullGC } from "bun:jsc";

/**
 * Values that are smaller are left to the collector, and not reported: a full collection takes some 7 ms, which for each tenth body of 400 KB
 * was a fifth of what such a call costs.
 */
export const minReported = 1024 * 1024;
const minGarbage = 4 * 1024 * 1024;
/** A collection's cost grows with the live heap: garbage may grow with it too. */
const minGarbageShare = 1 / 4;

let garbage = 0;
let isDue = false;
/** Live bytes after the latest collection, with buffers outside the heap. */
let live = 0;

/**
 * Reports bytes that become garbage at the end of this turn of the event loop. Left alone, the collector lets garbage grow to the
 * size of the live heap and more. A full collection, since a large body has often been promoted to the old generation by then:
 * two callers with bodies of 10 MB take 100 MB with it, and 350 MB with collections of the young generation.
 */
export function reportGarbage(bytes: number): void {
  garbage += bytes;
  if (isDue || garbage < Math.max(minGarbage, live * minGarbageShare)) return;
  isDue = true;
  setImmediate(() => {
    isDue = false;
    garbage = 0;
    live = fullGC();
    idleTimer ??= setTimeout(returnMemory, idleMs).unref();
    idleTimer.refresh();
  });
}

/** Memory goes back to the system after a burst only: getting it again costs more than collecting. */
const idleMs = 1000;
const minReturned = 128 * 1024 * 1024;
let idleTimer: NodeJS.Timeout | undefined;

function returnMemory(): void {
  if (process.memoryUsage.rss() - live > minReturned) Bun.gc(true);
}

/**
 * Frees a buffer's memory now instead of at a later collection; its bytes are gone for all holders. Views of a part of a larger
 * buffer are left alone. Source: https://tc39.es/ecma262/#sec-arraybuffer.prototype.transfer
 */
export function freeBuffer({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
