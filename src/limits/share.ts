/**
 * A node's share of a limit, for when nothing counts for all nodes: all shares together are the limit. What a node admitted is kept
 * here for a window's length, whoever decided it, so that the share holds from the first moment.
 */
import { type Times, Window } from "./limiter.ts";

/** The nodes that share the limits, and this one's number among them, which each has alone. */
export type Group = { readonly nodes: number; readonly rank: number };

export const shareOf = (limit: number, { nodes, rank }: Group): number =>
  Math.floor(limit / nodes) + (rank < limit % nodes ? 1 : 0);

/** A request that was admitted by a share, whether or not it was counted as well. `at`: a monotonic reading. */
export type Untold = { readonly id: string; readonly at: number };

/** What one node admitted of one caller, and what it knows of its window. */
export class NodeWindow {
  readonly #windowMs: number;
  readonly #own = new Window();
  #untold: Untold[] = [];
  /** Until then it is known that there is no room for that limit. */
  closed = { until: Number.NEGATIVE_INFINITY, limit: 0 };

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** To be called before anything else. @returns whether nothing is left that counts */
  expire(now: number): boolean {
    this.#own.expire(now - this.#windowMs);
    if (this.#untold.length > 0) this.#untold = this.#untold.filter(({ at }) => at > now - this.#windowMs);
    return this.#own.count === 0 && now >= this.closed.until;
  }

  get own(): Times {
    return this.#own;
  }

  get untold(): readonly Untold[] {
    return this.#untold;
  }

  admitted(at: number): void {
    this.#own.push(at);
  }

  /** @param id under which it is told */
  admittedByShare(at: number, id: string): void {
    this.#own.push(at);
    this.#untold.push({ id, at });
  }

  told(hits: readonly Untold[]): void {
    const told = new Set(hits);
    this.#untold = this.#untold.filter((hit) => !told.has(hit));
  }
}
