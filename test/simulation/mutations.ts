/** Bugs that the simulator must see: each breaks one promise in the model of a store, or in what a node does. */
export const mutations = [
  /** An answer is stored whoever holds the call. */
  "finish-without-fence",
  /** Who stores an answer anew is told that it is not its own. */
  "own-answers-are-unknown",
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
  /** Each node takes itself for the only one. */
  "nodes-are-unknown",
  /** What a node admitted by its share is not counted. */
  "shares-are-not-told",
  /** A request is counted as two. */
  "hits-count-twice",
  /** What calls under way reserved is taken for free. */
  "reserved-is-free",
  /** A line that is there already is spent once more. */
  "known-lines-count",
  /** Calls that were under way on dead nodes are never ended. */
  "calls-of-the-dead-stay",
  /** What was reserved for a call of unknown cost is free again. */
  "unknown-costs-are-nothing",
  /** What was reserved after its caller gave up stays reserved. */
  "orphans-stay",
] as const;
export type Mutation = (typeof mutations)[number];
