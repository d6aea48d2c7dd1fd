/** Collects garbage early where large values were garbage, requests and answers of megabytes, and where a burst of work has ended. */
import { fullGC } from "bun:jsc";
import { type Clock, repeat } from "../time/clock.ts";

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
  });
}

const lookMs = 1000;
/** CPU time of all threads between two looks up to which nothing is under way that a collection of some 50 ms would hold up. */
const quietMs = 10;
/** What has come to be resident since the latest collection, and its share of that: giving less back is not worth one. */
const minGrown = 16 * 1024 * 1024;
const minGrownShare = 1 / 4;

/** What a process takes of its machine. */
export type Taken = {
  /** CPU time of all threads since the start, milliseconds. */
  cpuMs(): number;
  /** Bytes. */
  resident(): number;
  /** Collects all garbage, and gives memory that is free back. */
  collect(): void;
};
const ofThisProcess: Taken = {
  cpuMs: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  },
  resident: () => process.memoryUsage.rss(),
  collect: () => Bun.gc(true),
};

/**
 * Gives the memory that a burst of work took back to the system, once it is quiet: a server that made 20,000 calls keeps some 15 MB less.
 * Under load it would have to be got again, which costs more than collecting.
 * @returns how to stop
 */
export function returnMemoryWhenQuiet(clock: Clock, taken = ofThisProcess): () => void {
  let cpuMs = taken.cpuMs();
  let kept = taken.resident();
  const stop = repeat(clock, lookMs, () => {
    const before = cpuMs;
    cpuMs = taken.cpuMs();
    if (cpuMs - before > quietMs) return;
    const resident = taken.resident();
    kept = Math.min(kept, resident);
    if (resident - kept < Math.max(minGrown, kept * minGrownShare)) return;
    taken.collect();
    kept = taken.resident();
    cpuMs = taken.cpuMs();
  });
  return () => void stop();
}

/**
 * Frees a buffer's memory now instead of at a later collection; its bytes are gone for all who hold it. Views of a part of a larger
 * buffer are left alone. Source: https://tc39.es/ecma262/#sec-arraybuffer.prototype.transfer
 */
export function freeBuffer({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
