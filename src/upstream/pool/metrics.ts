/** The metrics of keys and endpoints: where conversations stay, what is in cooldown and why. Labels are names of accounts and words of ours. */
import type { SampledTable } from "../../lib/process/metrics.ts";
import type { MemberView, PoolView, StickyCounts } from "./pools.ts";

type State = () => { readonly sticky: StickyCounts; readonly pools: readonly PoolView[] };

const breakerStates = ["closed", "open", "half_open"] as const;

/** @returns the number of an account's members by the words that are found in each */
function counted(pools: readonly PoolView[], wordsOf: (member: MemberView) => Iterable<readonly [string, number]>) {
  return pools.flatMap(({ provider, members }) => {
    const sums = new Map<string, number>();
    for (const member of members)
      for (const [word, count] of wordsOf(member)) sums.set(word, (sums.get(word) ?? 0) + count);
    return [...sums].map(([word, value]) => ({ labels: [provider, word], value }));
  });
}

/** One of each endpoint, which several keys may share. */
const withEndpoints = (pools: readonly PoolView[]): PoolView[] =>
  pools.map((pool) => ({
    ...pool,
    members: [...new Map(pool.members.map((member) => [member.endpoint, member])).values()],
  }));

export const poolMetrics: SampledTable<State> = {
  troupe_sticky_hits_total: {
    help: "Calls of conversations that were answered by the key and endpoint that had them.",
    read: (state) => state().sticky.hits,
  },
  troupe_sticky_misses_total: {
    help: "Calls of conversations that had to move to another key or endpoint.",
    read: (state) => state().sticky.misses,
  },
  troupe_rests_total: {
    help: "How often a key or an endpoint went into cooldown, by reason.",
    labels: ["gen_ai_provider_name", "reason"],
    series: (state) => counted(state().pools, ({ cooldownsByReason }) => Object.entries(cooldownsByReason)),
  },
  troupe_keys_resting: {
    help: "Keys at endpoints that are in cooldown, for all or for some models, by reason.",
    labels: ["gen_ai_provider_name", "reason"],
    series: (state) =>
      counted(state().pools, ({ cooldowns }) => new Map(cooldowns.map(({ reason }) => [reason, 1] as const))),
  },
  troupe_breakers: {
    help: "Endpoints by the state of their circuit breaker: closed, open, half_open.",
    labels: ["gen_ai_provider_name", "state"],
    series: (state) =>
      counted(withEndpoints(state().pools), ({ breaker }) =>
        breakerStates.map((one) => [one, Number(one === breaker.state)] as const),
      ),
  },
};
