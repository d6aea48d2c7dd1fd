/** Notes for a pool what becomes of a call, beside the call's own observer. */
import type { Clock } from "../../lib/time/clock.ts";
import type { ChunkBody, Usage } from "../../protocols/chat/schema.ts";
import { type ApiError, UpstreamFault } from "../../protocols/errors.ts";
import type { UpstreamError } from "../answer.ts";
import { wasUnsent } from "../client.ts";
import type { CallObserver, CompletedCall } from "../observer.ts";
import { cooldownAfterAnswer, cooldownAfterFault, type Failure, isUpstreamFault, type Known } from "./cooldowns.ts";
import type { MemberAttempt } from "./member.ts";

/** Bytes of an error that are looked at. */
const maxText = 16_384;

export class PooledObserver implements CallObserver {
  readonly #inner: CallObserver;
  readonly #start: () => MemberAttempt;
  readonly #clock: Clock;
  #begun: MemberAttempt | undefined;
  #sentAt = 0;
  #isStream = false;

  /** @param start begins the call, when it does */
  constructor(inner: CallObserver, start: () => MemberAttempt, clock: Clock) {
    this.#inner = inner;
    this.#start = start;
    this.#clock = clock;
  }

  get #attempt(): MemberAttempt {
    this.#begun ??= this.#start();
    return this.#begun;
  }

  async begin(signal?: AbortSignal): Promise<void> {
    const attempt = this.#attempt;
    try {
      await this.#inner.begin(signal);
    } catch (error) {
      // Refused before anything was sent, such as by a budget, it says nothing of the member.
      attempt.over();
      throw error;
    }
  }

  sent(provider: string): void {
    this.#sentAt = this.#clock.monotonic();
    this.#inner.sent(provider);
  }

  answered(status?: number): void {
    if (status !== undefined && status >= 200 && status < 300) this.#attempt.answered(this.#clock.monotonic());
    this.#inner.answered(status);
  }

  firstFragment(): void {
    this.#streams();
    this.#inner.firstFragment();
  }

  body(body: ChunkBody): void {
    this.#streams();
    this.#inner.body(body);
  }

  /** A short stream ends in the turn in which it begins, before `firstFragment`: its first chunk says that it is one. */
  #streams(): void {
    if (this.#isStream) return;
    this.#isStream = true;
    const now = this.#clock.monotonic();
    this.#attempt.member.firstToken(now - this.#sentAt, now);
  }

  costOf(usage: Usage, serviceTier?: string): number | undefined {
    return this.#inner.costOf(usage, serviceTier);
  }

  async completed(result: CompletedCall): Promise<void> {
    const now = this.#clock.monotonic();
    if (!this.#isStream) this.#attempt.member.wholeAnswer(now - this.#sentAt, now);
    this.#attempt.completed(now);
    await this.#inner.completed(result);
  }

  tierTold(serviceTier: string): void {
    this.#inner.tierTold(serviceTier);
  }

  servedBy(model: string): void {
    this.#inner.servedBy(model);
  }

  upstreamFailed(provider: string, status: number, error?: UpstreamError, counted?: Usage): void {
    if (error !== undefined) this.#answeredError(error);
    this.#inner.upstreamFailed(provider, status, error, counted);
  }

  get wantsText(): boolean {
    return this.#inner.wantsText;
  }

  passedText(text: string): void {
    this.#inner.passedText(text);
  }

  faulted(fault: UpstreamFault | ApiError, counted: Usage | undefined): void {
    if (fault instanceof UpstreamFault) this.#judge({ status: fault.status, headers: {}, text: fault.payload }, true);
    else this.#broke(fault);
    this.#inner.faulted(fault, counted);
  }

  abandoned(counted?: Usage): void {
    this.#attempt.over();
    this.#inner.abandoned(counted);
  }

  failed(error: unknown, counted?: Usage): void {
    this.#broke(error);
    this.#inner.failed(error, counted);
  }

  #answeredError({ status, headers, limits, body }: UpstreamError): void {
    this.#judge({
      status,
      headers: { ...limits, ...headers },
      text: new TextDecoder().decode(body.subarray(0, maxText)),
    });
  }

  #judge(failure: Failure, isAnswered = false): void {
    const now = this.#clock.now();
    const attempt = this.#attempt;
    const isKeyless = attempt.member.fingerprint === "";
    const judge = (failures: Known["failures"]) => cooldownAfterAnswer(failure, { now, failures, isKeyless });
    attempt.failed(judge, this.#clock.monotonic(), isAnswered);
  }

  #broke(error: unknown): void {
    if (!isUpstreamFault(error)) {
      this.#attempt.over();
      return;
    }
    if (error.code === "upstream_unavailable") {
      this.#attempt.unsigned();
      return;
    }
    const now = this.#clock.now();
    this.#attempt.failed(
      (failures) => cooldownAfterFault(error, !wasUnsent(error), { now, failures }),
      this.#clock.monotonic(),
    );
  }
}
