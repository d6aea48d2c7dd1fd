/** Bugs that the simulator must see: each breaks one promise in the model of a store, or in what a node does. */
export const mutations = [
  /** An answer is stored whoever holds the call. */
  "finish-without-fence",
  /** A claim is granted though the id is held. */
  "claim-of-a-held-id",
  /** The store takes leases to have lapsed before they do. */
  "early-lapse",
  /** What a dead node left is never taken over. */
  "abandoned-calls-stay",
  /** A node does not look for rows that it owns and does not know. */
  "unknown-calls-stay",
  /** A coordination that comes back with an old copy of its data is taken for the one that it was. */
  "old-copies-are-believed",
  /** A batch of events is said to be stored, and is not. */
  "events-get-lost",
  /** What a dead node held of a window counts no more. */
  "slots-of-lapsed-nodes-are-free",
  /** All nodes have the same place among them. */
  "equal-ranks",
  /** What a node used is not counted. */
  "reports-are-lost",
  /** What calls under way reserved is taken for free. */
  "reserved-is-free",
  /** What a call cost is spent twice. */
  "settled-again-counts",
  /** What dead nodes reserved stays reserved. */
  "reservations-of-the-dead-stay",
  /** What calls cost is free again in the pool that they were reserved from. */
  "pools-are-never-spent",
  /** What was told to the database of a pool before is spent once more. */
  "sums-of-pools-add-up",
  /** Tokens of calls that are reserved from pools are not counted. */
  "tokens-of-pools-are-free",
  /** What a call used less than was reserved for it is given back to its window twice. */
  "corrections-count-twice",
  /** Tokens that nodes admitted by their shares are not counted when the counter is back. */
  "shares-of-tokens-are-not-told",
  /** A pool that is closed gives back what its calls hold, too. */
  "held-money-is-returned",
  /** What living nodes hold of a pool is given back as if they were gone. */
  "living-nodes-lapse",
  /** What is granted to a pool is not reserved in the database. */
  "grants-are-free",
  /** A pool of which nobody tells is never ended. */
  "pools-never-end",
  /** What was reserved after its caller gave up stays reserved. */
  "strays-stay",
] as const;
export type Mutation = (typeof mutations)[number];
