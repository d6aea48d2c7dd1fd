/** What large values leave behind, collected before more of it comes. */
import { fullGC } from "bun:jsc";

/** Collecting costs some tenths of a millisecond and more: many values of some 100 KB share one. */
const worthCollecting = 4 * 1024 * 1024;
/** A collection looks at all that lives. So that this costs no more than making it did, garbage may come to a share of it. */
const shareOfHeap = 1 / 4;

let dropped = 0;
let isDue = false;
/** Bytes that lived after the latest collection, those outside the heap that its objects hold too. */
let living = 0;

/**
 * Says that so many bytes are not needed once this turn of the event loop has ended. Left alone, the collector lets garbage
 * grow to the size of all that lives and more, and each new value takes memory that the kernel has to find first. Two callers
 * with bodies of 10 MB take 350 MB where only the young are collected, as a body has often grown old when it is dropped, and
 * 100 MB where all are.
 */
export function dropLarge(bytes: number): void {
  dropped += bytes;
  if (isDue || dropped < Math.max(worthCollecting, living * shareOfHeap)) return;
  isDue = true;
  setImmediate(() => {
    isDue = false;
    dropped = 0;
    living = fullGC();
    quiet ??= setTimeout(giveBack, quietMs).unref();
    quiet.refresh();
  });
}

/** Giving memory back to the system costs more than collecting did, as it has to be found anew: it waits for the end of a burst. */
const quietMs = 1000;
const worthGivingBack = 128 * 1024 * 1024;
let quiet: NodeJS.Timeout | undefined;

function giveBack(): void {
  if (process.memoryUsage.rss() - living > worthGivingBack) Bun.gc(true);
}

/**
 * Gives the memory back now, where the collector would some time later. Who still has these bytes has none from now on; bytes
 * that are a part of others stay. Source: https://tc39.es/ecma262/#sec-arraybuffer.prototype.transfer
 */
export function freeNow({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
