/** Chooses the key and the endpoint of each call of an account that has several, and of several accounts that stand for one model. */

import type { Strategy } from "../../lib/http/strategies.ts";
import type { Clock } from "../../lib/time/clock.ts";
import type { Accounts, BoundAccount } from "../accounts.ts";
import type { CallObserver } from "../observer.ts";
import type { Target } from "../target.ts";
import type { CooldownReason } from "./cooldowns.ts";
import type { MemberAttempt } from "./member.ts";
import { Members } from "./members.ts";
import { type Candidate, ordered } from "./order.ts";
import { PooledObserver } from "./pooled-observer.ts";
import { seedOf } from "./rendezvous.ts";

/** How long a conversation stays where a failure moved it, after its last call; as long as the longest prompt cache lasts. */
const movedMs = 60 * 60_000;
/** How long a conversation keeps away from an endpoint that broke its call: while its caller may try again. */
const brokenMs = 5 * 60_000;
/** The most conversations that are remembered to have moved; beyond it the one that was called longest ago goes back. */
const maxMoved = 10_000;

/** A target at one of its keys and endpoints. */
export type PooledTarget = Candidate & { readonly target: Target };

type Choice = {
  /** In the order in which they are to be tried. */
  readonly candidates: readonly PooledTarget[];
  /** False where all are at one endpoint, which is called whether it is in cooldown or not. */
  readonly heedsEndpoints: boolean;
  /** The member that has the conversation; undefined: the call is of none. */
  readonly home: PooledTarget | undefined;
  /** The conversation, among these targets. */
  readonly key: string;
};

/** How a call of several members is routed. */
export type Routing = {
  /** Of the conversation; undefined: of none that is known. */
  readonly key: string | undefined;
  /** Absent: the targets in their order, each by its account's own strategy. */
  readonly strategy?: Strategy | undefined;
  /** Shares of the targets, in their order; absent: equal ones. */
  readonly weights?: readonly number[] | undefined;
  /** Id of the only member that may be called, where the call names what is stored under its key. */
  readonly pinned?: string | undefined;
};

/** A cooldown of a key, or of a key for one model. */
export type CooldownView = {
  readonly model?: string;
  readonly reason: CooldownReason;
  readonly until: number;
  /** In how many processes it is in cooldown; 1 where one is asked. */
  readonly workers: number;
};

/** A key at an endpoint, for who shows them. Times are Unix times in milliseconds. */
export type MemberView = {
  /** Short hash of the key; "" where there is none. */
  readonly fingerprint: string;
  /** The key's name in the configuration. */
  readonly name: string | undefined;
  readonly endpoint: string;
  readonly weight: number;
  readonly callsUnderWay: number;
  /** Moving average of the time to a stream's first fragment, in milliseconds. */
  readonly firstTokenMs: number | undefined;
  /** In cooldown: the key, or the key for one model. The longest first. */
  readonly cooldowns: readonly CooldownView[];
  readonly breaker: {
    /** In how many processes it is in this state; 1 where one is asked. */
    readonly workers: number;
    readonly state: "closed" | "open" | "half_open";
    readonly reason: CooldownReason | undefined;
    readonly until: number | undefined;
    /** Failures in a row. */
    readonly failures: number;
  };
  /** How often something of it went into cooldown, since the start. */
  readonly cooldownsByReason: Readonly<Partial<Record<CooldownReason, number>>>;
};

export type PoolView = {
  /** The account's name. */
  readonly provider: string;
  readonly strategy: Strategy;
  /** One where the account has a single key and endpoint, of which nothing is counted unless it is called in turn with other accounts. */
  readonly members: readonly MemberView[];
};

/** Conversations since the start: those that were answered where they were before, and those that had to move. */
export type StickyCounts = { readonly hits: number; readonly misses: number };

export class Pools {
  readonly members = new Members();
  readonly #clock: Clock;
  readonly #random: () => number;
  /** By conversation: the endpoint that broke its last call, which is asked last for a while. */
  readonly #broken = new Map<string, { readonly url: string; readonly until: number }>();
  /** By conversation: the id of the member that it moved to. */
  readonly #moved = new Map<string, { readonly id: string; readonly until: number }>();
  #hits = 0;
  #misses = 0;

  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock;
    this.#random = random;
  }

  get clock(): Clock {
    return this.#clock;
  }

  get sticky(): StickyCounts {
    return { hits: this.#hits, misses: this.#misses };
  }

  /** @param targets that stand for one model, or one of them */
  choose(targets: readonly Target[], { key, strategy, weights, pinned }: Routing): Choice {
    const now = this.#clock.monotonic();
    const all = targets.flatMap((target, at) => candidatesOf(target, weights?.[at] ?? 1, targets.length > 1));
    const stored = pinned === undefined ? [] : all.filter(({ member }) => member.id === pinned);
    const candidates = stored.length > 0 ? stored : all;
    const by = strategy ?? targets[0]?.pool?.strategy ?? "sticky";
    const isWhole = targets[0]?.call.request.stream !== true;
    const inOrder = ordered(candidates, by, { key, now, isWhole, random: this.#random });
    const heedsEndpoints = areSeveral(inOrder);
    const isSticky = by === "sticky" && key !== undefined;
    const placed = isSticky
      ? [key, ...targets.map(({ account, call }) => `${account.name}/${call.model}`)].join(" ")
      : "";
    const moved = isSticky ? this.#movedTo(placed, inOrder, now) : undefined;
    const first = moved === undefined ? inOrder : [moved, ...inOrder.filter((one) => one !== moved)];
    const home = isSticky ? first[0] : undefined;
    return { candidates: this.#awayFromBroken(placed, first, now), heedsEndpoints, home, key: placed };
  }

  /** @returns the same with those of an endpoint that broke the conversation's last call behind the others */
  #awayFromBroken(key: string, candidates: readonly PooledTarget[], now: number): readonly PooledTarget[] {
    const broken = this.#broken.get(key);
    if (broken === undefined) return candidates;
    if (now >= broken.until) {
      this.#broken.delete(key);
      return candidates;
    }
    const isBroken = ({ member }: PooledTarget) => member.endpoint.url === broken.url;
    return [...candidates.filter((one) => !isBroken(one)), ...candidates.filter(isBroken)];
  }

  /**
   * Chooses for a call that is made once, whatever becomes of it.
   * @param key of the conversation; undefined: of none that is known
   * @returns one that is not in cooldown; where all are the one whose cooldown ends first
   */
  pick(bound: BoundAccount, model: string, key: string | undefined): BoundAccount {
    if (bound.pool === undefined) return bound;
    const { members, strategy } = bound.pool;
    const now = this.#clock.monotonic();
    const having = members.filter(({ has }) => has === undefined || has.includes(model));
    const candidates = (having.length > 0 ? having : members).map((one) => ({
      bound: one,
      ...candidateOf(one, model),
    }));
    const inOrder = ordered(candidates, strategy, { key, now, isWhole: true, random: this.#random });
    const isFit = ({ member }: Candidate) => !member.isInCooldown(model, now, areSeveral(inOrder));
    return { ...(inOrder.find(isFit) ?? soonest(inOrder))!.bound, pool: bound.pool };
  }

  /** Notes what becomes of a call of a member, beside the call's own observer. */
  observed(inner: CallObserver, { member }: BoundAccount, model: string): CallObserver {
    return new PooledObserver(inner, () => member.begin(model, this.#clock.monotonic()), this.#clock);
  }

  /** @returns undefined where it is in cooldown */
  begin({ member, model }: PooledTarget, { heedsEndpoints, home, key }: Choice): MemberAttempt | undefined {
    const now = this.#clock.monotonic();
    if (member.isInCooldown(model, now, heedsEndpoints)) return undefined;
    const attempt = member.begin(model, now);
    if (heedsEndpoints && home !== undefined) attempt.onBroken = () => this.#broke(key, member.endpoint.url);
    return attempt;
  }

  #broke(key: string, url: string): void {
    this.#broken.delete(key);
    this.#broken.set(key, { url, until: this.#clock.monotonic() + brokenMs });
    if (this.#broken.size > maxMoved) this.#broken.delete(this.#broken.keys().next().value!);
  }

  /** Tries one though all are in cooldown. @returns undefined where none may be tried by now */
  probe({ candidates }: Choice): { readonly candidate: PooledTarget; readonly attempt: MemberAttempt } | undefined {
    const now = this.#clock.monotonic();
    const candidate = soonest(candidates.filter(({ member, model }) => member.mayProbe(model, now)));
    return candidate && { candidate, attempt: candidate.member.begin(candidate.model, now) };
  }

  /** Milliseconds until the first of them may be called. */
  cooldownMs({ candidates }: Choice): number {
    const first = soonest(candidates);
    const until = first?.member.coolsUntil(first.model) ?? 0;
    return Math.max(0, until - this.#clock.monotonic());
  }

  /** A call was answered by a member: its conversation stays there. */
  answeredBy(candidate: PooledTarget, { home, key }: Choice): void {
    if (home === undefined) return;
    if (candidate === home) {
      this.#hits += 1;
      return;
    }
    this.#misses += 1;
    this.#remember(key, idOf(candidate));
  }

  /** Lets nothing but the accounts' own members be remembered. */
  keep(accounts: Accounts): void {
    this.members.keep(new Set(accounts.list().flatMap((bound) => membersOf(bound).map(({ member }) => member))));
  }

  /** What is known of each account's keys and endpoints in this process. */
  view(accounts: Accounts): PoolView[] {
    return accounts.list().flatMap((bound) => {
      if (bound.provider.kind === "local") return [];
      const strategy = bound.pool?.strategy ?? "sticky";
      return { provider: bound.account.name, strategy, members: membersOf(bound).map((one) => this.#view(one)) };
    });
  }

  #view({ member, weight, keyName }: BoundAccount): MemberView {
    const now = this.#clock.monotonic();
    const { gate } = member.endpoint;
    const unixTime = (at: number) => Math.round(this.#clock.now() + at - now);
    return {
      fingerprint: member.fingerprint,
      name: keyName,
      endpoint: member.endpoint.url,
      weight,
      callsUnderWay: member.underWay,
      firstTokenMs: member.firstTokenMs(now),
      cooldowns: member.view(now).map((cooldown) => ({ ...cooldown, until: unixTime(cooldown.until), workers: 1 })),
      breaker: {
        workers: 1,
        state: gate.state(now),
        reason: gate.reason,
        until: gate.until === undefined ? undefined : unixTime(gate.until),
        failures: gate.failures,
      },
      cooldownsByReason: Object.fromEntries(member.cooldownsByReason),
    };
  }

  #movedTo(key: string, candidates: readonly PooledTarget[], now: number): PooledTarget | undefined {
    const moved = this.#moved.get(key);
    if (moved === undefined) return undefined;
    this.#moved.delete(key);
    const found = now < moved.until ? candidates.find((one) => idOf(one) === moved.id) : undefined;
    if (found !== undefined) this.#remember(key, moved.id);
    return found;
  }

  #remember(key: string, id: string): void {
    this.#moved.delete(key);
    this.#moved.set(key, { id, until: this.#clock.monotonic() + movedMs });
    if (this.#moved.size > maxMoved) this.#moved.delete(this.#moved.keys().next().value!);
  }
}

/** An account's keys at its endpoints: itself, where it has one of both. */
export const membersOf = (bound: BoundAccount): readonly BoundAccount[] => bound.pool?.members ?? [bound];

const idOf = ({ member, model }: PooledTarget) => `${member.id} ${model}`;

const areSeveral = (candidates: readonly Candidate[]) =>
  candidates.some(({ member }) => member.endpoint !== candidates[0]!.member.endpoint);

const candidateOf = ({ member, weight }: BoundAccount, model: string): Candidate => ({
  member,
  model,
  weight,
  seed: member.seed,
});

function soonest<C extends Candidate>(candidates: readonly C[]): C | undefined {
  const ends = candidates.map((candidate) => candidate.member.coolsUntil(candidate.model) ?? 0);
  return candidates[ends.indexOf(Math.min(...ends))];
}

/** @param isGroup other targets stand beside it, which may be other models of the same account */
function candidatesOf(target: Target, share: number, isGroup: boolean): PooledTarget[] {
  const { model } = target.call;
  const all = membersOf(target);
  const having = all.filter(({ has }) => has === undefined || has.includes(model));
  const members = having.length > 0 ? having : all;
  const sum = members.reduce((total, { weight }) => total + weight, 0);
  return members.map((bound) => {
    const usual = { target: atMember(target, bound), ...candidateOf(bound, model) };
    if (!isGroup) return usual;
    return { ...usual, weight: (share * bound.weight) / sum, seed: seedOf(`${bound.member.id} ${model}`) };
  });
}

/** The target at one key and endpoint. */
export function atMember(target: Target, bound: BoundAccount): Target {
  if (bound === target) return target;
  const { account, credentials, member } = bound;
  return { ...target, account, credentials, member, call: { ...target.call, account } };
}
