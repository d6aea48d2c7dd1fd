/** Orders the members that a call may go to, by a strategy. */
import type { Strategy } from "../../lib/http/strategies.ts";
import type { Member } from "./member.ts";
import { score } from "./rendezvous.ts";

/** A member as a strategy sees it. */
export type Candidate = {
  readonly member: Member;
  readonly model: string;
  readonly weight: number;
  readonly seed: number;
};

type Choosing = {
  /** The conversation; undefined: of none that is known. */
  readonly key: string | undefined;
  /** A monotonic reading. */
  readonly now: number;
  /** True for a call that does not stream. */
  readonly isWhole?: boolean;
  /** In [0, 1). */
  readonly random: () => number;
};

/** Share of calls that ask any member, so that one that was slow is measured again. */
const exploring = 0.05;

/** Gives each candidate its rank; the least goes first. */
type Rank = (candidate: Candidate, choosing: Choosing) => number;

const byWeight: Rank = ({ weight }, { random }) => -Math.log(1 - random()) / weight;
const byConversation: Rank = (candidate, choosing) =>
  choosing.key === undefined ? byWeight(candidate, choosing) : -score(choosing.key, candidate);

const ranks: Readonly<Record<Strategy, Rank>> = {
  sticky: byConversation,
  first: () => 0,
  weighted: byWeight,
  least_busy: ({ member, weight }) => member.underWay / weight,
  fastest: ({ member }, { now, isWhole }) =>
    (isWhole === true ? member.wholeAnswerMs(now) : member.firstTokenMs(now)) ?? 0,
};

/** What are equally good go by conversation; `first` keeps their order. */
export function ordered<C extends Candidate>(candidates: readonly C[], strategy: Strategy, choosing: Choosing): C[] {
  const isExploring = strategy === "fastest" && choosing.random() < exploring;
  const rank = ranks[isExploring ? "weighted" : strategy];
  const ranked = candidates.map((candidate) => ({
    candidate,
    rank: rank(candidate, choosing),
    next: strategy === "first" ? 0 : byConversation(candidate, choosing),
  }));
  return ranked.sort((one, other) => one.rank - other.rank || one.next - other.next).map(({ candidate }) => candidate);
}
