import { availableMemory } from "../../lib/process/available-memory.ts";
import { ApiError } from "../../protocols/errors.ts";

const maxByDefault = 1024 ** 3;
const shareByDefault = 1 / 8;

/** Bounds the memory that request bodies take together: any caller may send large ones, and few of them fill a small machine. */
export class BodyMemory {
  readonly #limitBytes: () => number;
  #heldBytes = 0;

  /** @param limitBytes asked for each body */
  constructor(limitBytes: () => number) {
    this.#limitBytes = limitBytes;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Asked before more of a body is taken. A body has always room beside no other: its size has a limit of its own.
   * @param ownBytes what is held of the same body already
   * @throws ApiError overloaded
   */
  check(bytes: number, ownBytes: number): void {
    if (this.#heldBytes === ownBytes || this.#heldBytes + bytes <= this.#limitBytes()) return;
    throw ApiError.unavailable("overloaded", "Too many large requests are under way. Retry in a moment.", {
      retryAfterSeconds: 1,
    });
  }

  add(bytes: number): void {
    this.#heldBytes += bytes;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }
}

/** @returns bytes for one of so many workers, where the configuration says nothing */
export function defaultBodyMemory(workers: number, memoryBytes = availableMemory()): number {
  return Math.floor(Math.min(maxByDefault, memoryBytes * shareByDefault) / Math.max(1, workers));
}
