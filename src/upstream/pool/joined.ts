/** What several processes of one server know of the same keys and endpoints, as one view. Pure. */
import type { CooldownView, MemberView, PoolView } from "./pools.ts";

/** The worst first. */
const breakerOrder = ["open", "half_open", "closed"] as const;

/**
 * @param own of the process that answers: what is set up, and in which order
 * @param views of all processes, its own among them
 */
export const joinPools = (own: readonly PoolView[], views: readonly (readonly PoolView[])[]): PoolView[] =>
  own.map((pool) => {
    const others = views.flatMap((view) => view.filter(({ provider }) => provider === pool.provider));
    const alike = ({ fingerprint, endpoint }: MemberView) =>
      others.flatMap(({ members }) =>
        members.filter((one) => one.fingerprint === fingerprint && one.endpoint === endpoint),
      );
    return { ...pool, members: pool.members.map((member) => joinMember(member, alike(member))) };
  });

function joinMember(own: MemberView, all: readonly MemberView[]): MemberView {
  if (all.length === 0) return own;
  const times = all.flatMap(({ firstTokenMs }) => firstTokenMs ?? []);
  const average = times.length === 0 ? undefined : times.reduce((sum, ms) => sum + ms, 0) / times.length;
  return {
    ...own,
    callsUnderWay: all.reduce((sum, { callsUnderWay }) => sum + callsUnderWay, 0),
    firstTokenMs: average,
    cooldowns: joinCooldowns(all.flatMap(({ cooldowns }) => cooldowns)),
    breaker: joinBreakers(all.map(({ breaker }) => breaker)),
  };
}

/** Those of one model and reason are one, which ends with the last. */
function joinCooldowns(cooldowns: readonly CooldownView[]): CooldownView[] {
  const joined = new Map<string, CooldownView>();
  for (const cooldown of cooldowns) {
    const id = JSON.stringify([cooldown.model, cooldown.reason]);
    const known = joined.get(id) ?? { ...cooldown, workers: 0 };
    joined.set(id, {
      ...known,
      until: Math.max(known.until, cooldown.until),
      workers: known.workers + cooldown.workers,
    });
  }
  return [...joined.values()].toSorted((a, b) => b.until - a.until);
}

/** The worst state that one of them is in, and the last of those to end. */
function joinBreakers(breakers: readonly MemberView["breaker"][]): MemberView["breaker"] {
  const state = breakerOrder.find((one) => breakers.some((breaker) => breaker.state === one))!;
  const alike = breakers.filter((breaker) => breaker.state === state);
  const last = alike.reduce((a, b) => ((b.until ?? 0) > (a.until ?? 0) ? b : a));
  return {
    ...last,
    failures: Math.max(...alike.map(({ failures }) => failures)),
    workers: alike.reduce((sum, { workers }) => sum + workers, 0),
  };
}
