/**
 * Windows of requests that several nodes share: in any 60 s no caller has more than its limit, whichever nodes it calls. A node
 * holds a few slots of a caller ahead, so that it may admit requests without asking; slots that are held count as used. Times go by
 * the server's clock alone: a node says how long ago its hits were, never when.
 *
 * A node's slots are good for as long as its lease, which it renews. Those of a node whose lease lapsed count as used at that
 * moment, as nobody knows how many were.
 *
 * Each exchange may be sent twice, and may come late: a node numbers them, and an older one than the latest changes nothing. What was
 * used is numbered too, so that it counts once however often it is told.
 */

/** The slots of one caller on one node, as the node wants them. */
export type WindowAsk = {
  readonly caller: string;
  /** Grows with each exchange of the node: one that is overtaken by a later one does nothing. */
  readonly number: number;
  /** Grows with each report of uses; after an exchange without an answer the same report comes again. */
  readonly report: number;
  /** Requests in a window. */
  readonly limit: number;
  /** Hits since the exchange before: their age in milliseconds when this is sent, and how many they are. */
  readonly uses: readonly (readonly [ageMs: number, hits: number])[];
  /** How many unused slots the node wants to hold afterwards; others are given back. */
  readonly want: number;
  /** How many of those are for requests that wait; only these take the last slots, and have others give theirs back. */
  readonly waiting: number;
};

export type WindowState = {
  readonly caller: string;
  /** Unused slots that the node holds now. */
  readonly held: number;
  /** Hits in the window, of all nodes; slots of lapsed nodes are among them. */
  readonly used: number;
  /** Unused slots of other nodes. */
  readonly others: number;
  /** Milliseconds until `used` next falls; null where nothing is used. */
  readonly growsMs: number | null;
};

/** The nodes whose lease holds. */
export type Group = {
  /** This one included. */
  readonly nodes: number;
  /** How many come before this one: a number that each has alone. */
  readonly rank: number;
};

export type Beat = {
  /** For how long the lease holds, counted from when the beat was sent. */
  readonly leaseMs: number;
  /** Where it was asked for. */
  readonly group?: Group;
  /** Callers for whom other nodes need the slots that this one holds; not always all. */
  readonly wanted: readonly string[];
  /** Another one than before: the server has lost its windows since. */
  readonly epoch: string;
};

export interface SharedWindows {
  /**
   * Renews the node's lease where a good part of it is over.
   * @param isNew whether the node begins to live; else one that lapsed stays so
   * @param counts whether nodes are counted: the more there are, the longer it takes
   * @returns undefined where the node's lease has lapsed. Rejects where the server can't be asked in time
   */
  beat(node: string, isNew: boolean, counts: boolean): Promise<Beat | undefined>;
  /** @returns undefined where the node's lease has lapsed: nothing was done. Rejects as `beat` does; it may have been done */
  exchange(node: string, asks: readonly WindowAsk[]): Promise<readonly WindowState[] | undefined>;
  /** Ends the node's lease. Slots that it has not given back are free at once. */
  leave(node: string): Promise<void>;
  /** Removes what counts no more. */
  tidy(): Promise<void>;
  close(): Promise<void>;
}

export type WindowTimes = {
  /** The length of every window. */
  readonly windowMs: number;
  /** How long a node's lease lasts. */
  readonly leaseMs: number;
};

export const windowTimes: WindowTimes = { windowMs: 60_000, leaseMs: 10_000 };

/** Hits are gathered by this many parts of a window, and count as of the end of theirs. */
export const windowParts = 600;
/** Callers of one answer to a beat. */
export const maxWanted = 200;
