/** What is known of a key at an endpoint. It outlives the reloads of a configuration that leave both as they are. */

import type { CooldownReason, CooldownScope, FailureVerdict, Known } from "./cooldowns.ts";
import { Gate, type Passage } from "./gate.ts";
import { seedOf } from "./rendezvous.ts";

/** The most models of a key whose cooldowns are remembered: the latest. */
const maxModels = 256;
/** How often one call tries what is in cooldown without a stated end, while nothing else is left. */
const probeEveryMs = 60_000;
/** Share of the latest time in the moving average. */
const latestShare = 0.2;
/** An average says nothing about now after that. */
const averageLastsMs = 5 * 60_000;

/** A moving average of times. */
class Average {
  #latest: { readonly ms: number; readonly at: number } | undefined;

  add(ms: number, now: number): void {
    const before = this.at(now);
    this.#latest = { ms: before === undefined ? ms : before + latestShare * (ms - before), at: now };
  }

  at(now: number): number | undefined {
    return this.#latest !== undefined && now - this.#latest.at < averageLastsMs ? this.#latest.ms : undefined;
  }
}

/** An address of an account. */
export class Endpoint {
  readonly url: string;
  readonly gate = new Gate(true);

  constructor(url: string) {
    this.url = url;
  }
}

/** A key at an endpoint. */
export class Member {
  /** Stays the same over reloads and restarts. */
  readonly id: string;
  readonly seed: number;
  /** Short hash of the key; "" where there is none. */
  readonly fingerprint: string;
  readonly endpoint: Endpoint;
  /** Calls under way, open streams included. */
  underWay = 0;
  /** How often something went into cooldown, by reason. */
  readonly cooldownsByReason = new Map<CooldownReason, number>();
  readonly #key = new Gate();
  readonly #models = new Map<string, Gate>();
  readonly #firstTokens = new Average();
  readonly #wholeAnswers = new Average();

  constructor(id: string, fingerprint: string, endpoint: Endpoint) {
    this.id = id;
    this.seed = seedOf(id);
    this.fingerprint = fingerprint;
    this.endpoint = endpoint;
  }

  /** @param heedsEndpoint false where there is no other endpoint to go to */
  isInCooldown(model: string, now: number, heedsEndpoint: boolean): boolean {
    return this.#gates(model, heedsEndpoint).some((gate) => gate.isOpen(now));
  }

  /** True if one call may try it though it is in cooldown. */
  mayProbe(model: string, now: number): boolean {
    return this.#gates(model, true).every((gate) => !gate.isOpen(now) || gate.mayProbe(now, probeEveryMs));
  }

  /** When the last of its cooldowns ends, as a monotonic reading; undefined: it is not in cooldown. */
  coolsUntil(model: string): number | undefined {
    const ends = this.#gates(model, true).flatMap(({ until }) => until ?? []);
    return ends.length === 0 ? undefined : Math.max(...ends);
  }

  /** Begins a call. */
  begin(model: string, now: number): MemberAttempt {
    this.underWay += 1;
    return new MemberAttempt(this, model, now);
  }

  /** @returns the gate of what may be in cooldown; of a model that never was in cooldown only where it is wanted */
  gate(scope: CooldownScope, model: string): Gate | undefined {
    if (scope === "key") return this.#key;
    return scope === "endpoint" ? this.endpoint.gate : this.#models.get(model);
  }

  /** @returns the gate of what is in cooldown from now on */
  coolingGate(scope: CooldownScope, model: string): Gate {
    return this.gate(scope, model) ?? this.#newGate(model);
  }

  firstToken(ms: number, now: number): void {
    this.#firstTokens.add(ms, now);
  }

  wholeAnswer(ms: number, now: number): void {
    this.#wholeAnswers.add(ms, now);
  }

  /** The moving average of the time to a stream's first fragment; undefined: there was none of late. */
  firstTokenMs(now: number): number | undefined {
    return this.#firstTokens.at(now);
  }

  /** The same of the time to a whole answer, for calls that do not stream. */
  wholeAnswerMs(now: number): number | undefined {
    return this.#wholeAnswers.at(now);
  }

  /** What of it is in cooldown. */
  view(now: number): readonly { readonly model?: string; readonly reason: CooldownReason; readonly until: number }[] {
    const cooldowns = [...this.#models, ["", this.#key] as const].flatMap(([model, { until, reason }]) =>
      until === undefined || reason === undefined || until <= now ? [] : { ...(model && { model }), reason, until },
    );
    return cooldowns.toSorted((one, other) => other.until - one.until);
  }

  #gates(model: string, heedsEndpoint: boolean): Gate[] {
    const ofModel = this.#models.get(model);
    return [this.#key, ...(ofModel === undefined ? [] : [ofModel]), ...(heedsEndpoint ? [this.endpoint.gate] : [])];
  }

  #newGate(model: string): Gate {
    const gate = new Gate();
    this.#models.set(model, gate);
    if (this.#models.size > maxModels) this.#models.delete(this.#models.keys().next().value!);
    return gate;
  }
}

const all: readonly CooldownScope[] = ["key", "model", "endpoint"];

/** A call of a member. */
export class MemberAttempt {
  readonly member: Member;
  /** Of its failure; undefined: it has not failed. */
  verdict: FailureVerdict | undefined;
  /** Called where it failed by its endpoint in a way in which the same can't be asked again: the next try is to go elsewhere. */
  onBroken: (() => void) | undefined;
  readonly #model: string;
  /** A failure counts where nothing changed since. */
  #begunAt: number;
  readonly #passages: Readonly<Record<CooldownScope, Passage>>;
  /** What it tried has been answered, or has failed. */
  #isDecided = false;
  #isOver = false;

  constructor(member: Member, model: string, now: number) {
    this.member = member;
    this.#model = model;
    this.#begunAt = now;
    const pass = (scope: CooldownScope) => member.gate(scope, model)?.pass(now) ?? "usual";
    this.#passages = { key: pass("key"), model: pass("model"), endpoint: pass("endpoint") };
  }

  /** The upstream answers, of which the head is proof: the others may follow. */
  answered(now: number): void {
    if (this.#isDecided) return;
    this.#isDecided = true;
    for (const scope of all) this.#gate(scope)?.answered(this.#passages[scope], now);
    // What it tried is open by this very answer, whose own failure counts again from here on.
    if (all.some((scope) => this.#passages[scope] === "trial")) this.#begunAt = now;
  }

  /** It was answered to its end. */
  completed(now: number): void {
    this.answered(now);
    for (const scope of all) this.#gate(scope)?.completed();
    this.over();
  }

  /** It failed. @param judge decides what is in cooldown @param isAnswered true where it failed within its answer, and nobody else is asked */
  failed(judge: (failures: Known["failures"]) => FailureVerdict, now: number, isAnswered = false): void {
    const verdict = judge({
      key: this.#failures("key"),
      model: this.#failures("model"),
      endpoint: this.#failures("endpoint"),
    });
    this.verdict = verdict;
    for (const scope of all) {
      const passage = this.#isDecided ? "usual" : this.#passages[scope];
      if (scope === verdict.cools) this.#cool(scope, passage, verdict, now);
      // A server that answers with an error about the key or the request is in order.
      else if (scope === "endpoint") this.#gate(scope)?.answered(passage, now);
      else this.#gate(scope)?.released(passage);
    }
    this.#isDecided = true;
    if (verdict.cools === "endpoint" && (isAnswered || !verdict.mayRepeat)) this.onBroken?.();
    this.over();
  }

  /** It could not be signed, as there are no credentials for now: the upstream knows nothing of it. */
  unsigned(): void {
    this.verdict = { ms: 0, isStated: false, mayRepeat: true };
    this.over();
  }

  /** Ends it, in whatever way; only the first time counts. */
  over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.member.underWay -= 1;
    if (this.#isDecided) return;
    this.#isDecided = true;
    for (const scope of all) this.#gate(scope)?.released(this.#passages[scope]);
  }

  #cool(scope: CooldownScope, passage: Passage, verdict: FailureVerdict, now: number): void {
    const gate = this.member.coolingGate(scope, this.#model);
    const before = gate.until;
    gate.failed(passage, this.#begunAt, verdict, now);
    if (gate.until === before || gate.until === undefined) return;
    const { cooldownsByReason } = this.member;
    cooldownsByReason.set(verdict.reason!, (cooldownsByReason.get(verdict.reason!) ?? 0) + 1);
  }

  /** Failures in a row, with this one. */
  #failures(scope: CooldownScope): number {
    const gate = this.#gate(scope);
    if (gate === undefined) return 1;
    const passage = this.#isDecided ? "usual" : this.#passages[scope];
    return gate.failures + (gate.counts(passage, this.#begunAt) ? 1 : 0);
  }

  #gate(scope: CooldownScope): Gate | undefined {
    return this.member.gate(scope, this.#model);
  }
}
