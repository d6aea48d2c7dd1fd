/**
 * A node's share of a limit, for when nothing counts for all nodes: all shares together are the limit. What a node admitted is kept
 * here for a window's length, whoever decided it, so that the share holds from the first moment.
 */
import { Window } from "./limiter.ts";

/** The nodes that share the limits, and this one's number among them, which each has alone. */
export type NodeGroup = { readonly nodes: number; readonly rank: number };

export const shareOf = (limit: number, { nodes, rank }: NodeGroup): number =>
  Math.floor(limit / nodes) + (rank < limit % nodes ? 1 : 0);

/**
 * Requests that were admitted by a share. `at`: a monotonic reading, of the last of them.
 * @property id under which they are reported; absent: they were not yet, nor was the counter asked for them, and others may join
 */
type Unreported = { id?: string; at: number; hits: number };

/** Requests of one caller that keep the ids under which the counter was asked; of more than that it may have counted some already. */
const maxAsked = 500;
/** Others are gathered by this many parts of a window, whatever the limit. */
const gatheredParts = 500;

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

  get unreported(): readonly Readonly<Unreported>[] {
    return this.#unreported;
  }

  admitted(at: number): void {
    this.own.push(at);
  }

  /** @param id under which the counter was asked, which may have counted it */
  admittedByShare(at: number, id?: string): void {
    this.own.push(at);
    if (id !== undefined && this.#unreported.length < maxAsked) {
      this.#unreported.push({ id, at, hits: 1 });
      return;
    }
    const partMs = this.#windowMs / gatheredParts;
    const last = this.#unreported.findLast((one) => one.id === undefined);
    if (last === undefined || Math.floor(last.at / partMs) !== Math.floor(at / partMs)) {
      this.#unreported.push({ at, hits: 1 });
      return;
    }
    last.at = at;
    last.hits += 1;
  }

  /** @returns the earliest of them, each with an id from now on. @param newId makes one */
  toReport(most: number, newId: () => string): readonly (Readonly<Unreported> & { readonly id: string })[] {
    return this.#unreported.slice(0, most).map((one) => Object.assign(one, { id: one.id ?? newId() }));
  }

  reported(hits: readonly Readonly<Unreported>[]): void {
    const reported = new Set(hits);
    this.#unreported = this.#unreported.filter((hit) => !reported.has(hit));
  }
}
