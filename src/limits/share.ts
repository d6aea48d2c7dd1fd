/**
 * A node's share of a limit, for when nothing counts for all nodes: all shares together are the limit. What a node admitted is kept
 * here for a window's length, whoever decided it, so that the share holds from the first moment.
 */
import { Window } from "./limiter.ts";

/** The nodes that share the limits, and this one's number among them, which each has alone. */
export type Group = { readonly nodes: number; readonly rank: number };

export const shareOf = (limit: number, { nodes, rank }: Group): number =>
  Math.floor(limit / nodes) + (rank < limit % nodes ? 1 : 0);

/** A request that was admitted by a share, whether or not it was counted as well. `at`: a monotonic reading. */
type Unreported = { readonly id: string; readonly at: number };

/** One node's admissions of one caller, and its knowledge of the caller's window. */
export class NodeWindow {
  readonly #windowMs: number;
  /** What it admitted. */
  readonly own = new Window();
  #unreported: Unreported[] = [];
  /** Until then it is known that there is no room for that limit. */
  closed = { until: Number.NEGATIVE_INFINITY, limit: 0 };

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** To be called before anything else. @returns whether nothing is left that counts */
  expire(now: number): boolean {
    this.own.expire(now - this.#windowMs);
    if (this.#unreported.length > 0) this.#unreported = this.#unreported.filter(({ at }) => at > now - this.#windowMs);
    return this.own.count === 0 && now >= this.closed.until;
  }

  get unreported(): readonly Unreported[] {
    return this.#unreported;
  }

  admitted(at: number): void {
    this.own.push(at);
  }

  /** @param id under which it is reported */
  admittedByShare(at: number, id: string): void {
    this.own.push(at);
    this.#unreported.push({ id, at });
  }

  reported(hits: readonly Unreported[]): void {
    const reported = new Set(hits);
    this.#unreported = this.#unreported.filter((hit) => !reported.has(hit));
  }
}
