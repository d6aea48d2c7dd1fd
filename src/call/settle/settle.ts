/** Records one upstream call: its attempt for the accounts, metrics, log fields, and the whole answer for storage. */
import type { FailureReason } from "../../api/words.ts";
import type { Caller } from "../../auth/keys.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { StreamFold } from "../../protocols/chat/fold.ts";
import { billed, type ChunkBody, type CompletionBody, type Usage } from "../../protocols/chat/schema.ts";
import { ApiError, type UpstreamFault } from "../../protocols/errors.ts";

import type { VariantOutcome } from "../../store/contract/variants.ts";
import type { UpstreamError } from "../../upstream/answer.ts";
import { answeredFailure, streamFailure, thrownFailure } from "../../upstream/failure-reason.ts";
import { classifyFailure } from "../../upstream/failures.ts";
import type { CallObserver, CompletedCall } from "../../upstream/observer.ts";
import type { Target } from "../../upstream/target.ts";
import type {
  AnswerTold,
  Attempt,
  AttemptBounds,
  AttemptTarget,
  Outcome,
  TextMeter,
  UsageEntry,
} from "../../usage/attempt.ts";
import { type ErrorNote, ownErrorNote, refusedBy } from "../../usage/ledger/error-note.ts";
import { answerMeter, OutputMeter } from "../../usage/tokens/text-meter.ts";
import type { RequestContext } from "../context.ts";
import { describeError, upstreamErrorNote } from "../relay/error-fields.ts";
import type { Admitted } from "../scope.ts";
import { encodedName, isAscii } from "../send/upstream-headers.ts";
import type { Services } from "../services.ts";
import type { ModelSeries } from "./metrics.ts";

/** Stores the complete answer. The end of the answer waits for the returned promise, which never rejects. */
export type Remember = (
  answer: CompletionBody,
  upstreamResponseId: string | undefined,
  passed: string | undefined,
) => Promise<void>;

const nothingSeen: TextMeter = { length: 0, sample: [] };
/** A header holds no other letters. */
const nameHeader = (model: string): string => (isAscii.test(model) ? model : encodedName(model));

export class CallRecorder implements CallObserver {
  readonly #services: Services;
  readonly #context: RequestContext;
  /** The model's series; set only once the upstream answered, so that unknown names add no labels. */
  #series: ModelSeries | undefined;
  readonly #fold: StreamFold | undefined;
  readonly #remember: readonly Remember[];
  readonly #attempt: Attempt & { readonly target: AttemptTarget };
  readonly #input: TextMeter | undefined;
  readonly #isFree: boolean;
  /** True where a failure before the answer's beginning leaves the call to another target. */
  readonly #mayFallBack: boolean;
  /** True if a variant of the persona may stop by what becomes of it. */
  readonly #isJudged: boolean;
  #isRefusal = false;
  #entry: UsageEntry | undefined;
  /** The text of a stream, as far as it was seen. */
  #fragments: OutputMeter | undefined;
  #serviceTier: string | undefined;
  #sentAt = 0;
  #answeredAt = 0;

  /**
   * @param attempt that was made for a target; the target itself would hold the request in memory while a stream is open
   * @param accounts what its request is estimated by, where it can be, and whether it is of a kind that nobody bills; `mayFallBack`:
   * another target follows if this one fails
   * @param remember called with the whole answer; where empty, a stream is not folded
   */
  constructor(
    services: Services,
    context: RequestContext,
    attempt: Attempt & { readonly target: AttemptTarget },
    accounts: { readonly input?: TextMeter | undefined; readonly isFree?: boolean; readonly mayFallBack?: boolean },
    remember: readonly Remember[],
  ) {
    this.#attempt = attempt;
    this.#input = accounts.input;
    this.#isFree = accounts.isFree === true;
    this.#mayFallBack = accounts.mayFallBack === true;
    this.#isJudged = attempt.variant?.calls !== undefined;
    this.#services = services;
    this.#context = context;
    this.#remember = remember;
    this.#fold = remember.length > 0 ? new StreamFold() : undefined;
    if (attempt.number > 1) {
      context.logFields["attempts"] = attempt.number;
      delete context.logFields["failure_reason"];
    }
    context.logFields["format"] = context.format;
    context.logFields["provider"] = attempt.target.provider;
    context.logFields["upstream_model"] = attempt.target.model;
    const { upstreamFormat } = attempt.target;
    if (upstreamFormat !== undefined) context.logFields["upstream_format"] = upstreamFormat;
  }

  async begin(signal?: AbortSignal): Promise<void> {
    this.#entry = await this.#services.usage.begin(this.#attempt, signal);
    Object.assign(this.#context.headers, this.#entry.headers);
  }

  sent(): void {
    this.#sentAt = this.#services.clock.monotonic();
    const { headers, persona } = this.#context;
    if (persona?.hidesUpstream === true) return;
    const { number, target } = this.#attempt;
    headers["x-troupe-provider"] = target.provider;
    // A call of a provider's own API may name none.
    if (target.model !== "")
      headers["x-troupe-upstream-model"] = isAscii.test(target.model) ? target.model : encodedName(target.model);
    if (target.upstreamFormat !== undefined) headers["x-troupe-upstream-format"] = target.upstreamFormat;
    else delete headers["x-troupe-upstream-format"];
    headers["x-troupe-attempts"] = String(number);
  }

  answered(): void {
    this.#answeredAt = this.#services.clock.monotonic();
  }

  tierTold(serviceTier: string): void {
    this.#serviceTier ??= serviceTier.slice(0, 64);
  }

  servedBy(model: string): void {
    this.#context.logFields["upstream_model"] = model;
    if (this.#context.persona?.hidesUpstream !== true)
      this.#context.headers["x-troupe-upstream-model"] = nameHeader(model);
  }

  firstFragment(): void {
    this.#entry?.firstToken();
    const now = this.#services.clock.monotonic();
    const seconds = (now - this.#context.startedAt) / 1000;
    this.#context.logFields["first_token_ms"] = Math.round(now - this.#context.startedAt);
    this.#modelSeries.firstToken(seconds);
    this.#overhead(this.#sentAt);
  }

  body(body: ChunkBody): void {
    // A short stream ends in the turn in which it begins, before `firstFragment`.
    this.#entry?.firstToken();
    this.#fold?.push([body]);
    this.#serviceTier ??= body.service_tier;
    this.#fragments ??= new OutputMeter();
    for (const { delta } of body.choices) this.#fragments.addDelta(delta);
    if (this.#attempt.trace !== undefined) this.#attempt.trace.told(toldBy(body.choices));
    if (this.#isJudged) this.#isRefusal ||= body.choices.some((choice) => isRefusal(choice, choice.delta));
  }

  get wantsText(): boolean {
    return this.#input !== undefined;
  }

  passedText(text: string): void {
    this.#fragments ??= new OutputMeter();
    this.#fragments.add(text.length, () => text);
  }

  costOf(usage: Usage, serviceTier = this.#serviceTier): number | undefined {
    return this.#entry?.price(usage, serviceTier);
  }

  async completed(result: CompletedCall): Promise<void> {
    const now = this.#services.clock.monotonic();
    const series = this.#modelSeries;
    series.operation((now - this.#context.startedAt) / 1000);
    // A call that only reads reports counts that were recorded when they were made.
    if (result.usage !== undefined && !this.#isFree) {
      const { logFields } = this.#context;
      series.usage(result.usage);
      // A call with tools of a server's takes several turns.
      logFields["prompt_tokens"] = Number(logFields["prompt_tokens"] ?? 0) + result.usage.prompt_tokens;
      logFields["completion_tokens"] = Number(logFields["completion_tokens"] ?? 0) + result.usage.completion_tokens;
    }
    if (result.completion !== undefined) this.#overhead(this.#sentAt, now);
    const answer = result.completion ?? this.#fold?.result();
    const { usage, model } = result;
    if (this.#attempt.trace !== undefined) {
      const { upstreamResponseId: id } = result;
      this.#attempt.trace.told({ ...toldBy(result.completion?.choices ?? []), ...(id !== undefined && { id }) });
    }
    const served = usage?.[billed]?.servedBy;
    if (served !== undefined) this.servedBy(served);
    const variantOutcome = this.#isJudged ? this.#answerOutcome(result.completion) : undefined;
    const serviceTier = result.completion?.service_tier;
    this.#settle({ ended: "finished", status: 200, usage, model, serviceTier, variantOutcome }, result.completion);
    if (answer === undefined || this.#remember.length === 0) return;
    const { upstreamResponseId, passed } = result;
    await Promise.all(this.#remember.map((remember) => remember(answer, upstreamResponseId, passed)));
  }

  upstreamFailed(provider: string, status: number, error?: UpstreamError, counted?: Usage): void {
    this.#context.logFields["upstream_status"] = status;
    this.#services.httpMetrics.upstreamErrors.series(provider, String(status)).add();
    // An answer that can't be read, or none at all, is settled by `failed`.
    if (status < 400) return;
    const variantOutcome = this.#isJudged ? this.#failureOutcome(error) : undefined;
    const failure = this.#leftFor(answeredFailure(error ?? { status, headers: {}, body: new Uint8Array() }));
    const note = error && this.#noteOf(error, failure);
    // An upstream that counted has billed it.
    const usage = this.#isFree || counted?.total_tokens === 0 ? undefined : counted;
    const ended = status < 500 ? "refused" : "broken";
    this.#entry?.settle({ ended, status, failure, ...note, usage, variantOutcome });
  }

  abandoned(counted?: Usage): void {
    if (this.#sentAt === 0) this.#entry?.settle({ ended: "abandoned" });
    else this.#settle({ ended: "abandoned", usage: counted });
  }

  failed(error: unknown, counted?: Usage): void {
    const variantOutcome = this.#isJudged ? this.#failureOutcome() : undefined;
    if (this.#sentAt === 0) this.#entry?.settle(refusedBy(error));
    else {
      const failure = this.#leftFor(thrownFailure(error));
      const outcome = { ...refusedBy(error), ended: "broken", failure, variantOutcome } as const;
      if (failure === "unreachable") this.#entry?.settle(outcome);
      else this.#settle({ ...outcome, usage: counted });
    }
  }

  faulted(fault: UpstreamFault | ApiError, counted: Usage | undefined): void {
    const failure = this.#leftFor(streamFailure(fault));
    const note =
      fault instanceof ApiError
        ? ownErrorNote(fault)
        : this.#noteOf({ status: fault.status, headers: {}, body: fault.payload }, failure);
    const { status } = fault;
    this.#settle({ ended: "broken", status, failure, ...note, usage: counted, variantOutcome: "failed" });
    Object.assign(
      this.#context.logFields,
      fault instanceof ApiError ? describeError(fault, "fault") : { fault: fault.message },
    );
    if (fault.name === "UpstreamFault" || fault.status >= 500)
      this.upstreamFailed(this.#attempt.target.provider, streamStatusOf(fault));
  }

  /** What the ledger keeps of an upstream's error; nothing that it says where it quotes the key. */
  #noteOf(error: Parameters<typeof upstreamErrorNote>[0], failure: FailureReason | undefined): ErrorNote {
    const { accounts, config } = this.#services.live;
    const note = upstreamErrorNote(error, failure, config.log.content);
    if (note.errorText === null) return note;
    const bound = accounts.find(this.#attempt.target.provider);
    const whole = typeof error.body === "string" ? error.body : new TextDecoder().decode(error.body);
    const isQuoted = [bound, ...(bound?.pool?.members ?? [])].some((one) => one?.credentials.isIn(whole));
    return isQuoted ? { ...note, errorText: "an error that quotes the key" } : note;
  }

  /** Logs the reason for which the attempt was left. */
  #leftFor(failure: FailureReason | undefined): FailureReason | undefined {
    if (failure !== undefined) this.#context.logFields["failure_reason"] = failure;
    return failure;
  }

  #answerOutcome(answer: CompletionBody | undefined): VariantOutcome {
    const isRefused = answer?.choices.some((choice) => isRefusal(choice, choice.message)) ?? false;
    return isRefused || this.#isRefusal ? "refused" : "answered";
  }

  /** @param error that the upstream answered @returns undefined where it is not the variant's: a wrong request, or another target follows */
  #failureOutcome(error?: UpstreamError): VariantOutcome | undefined {
    const found = error && classifyFailure(error);
    if (found?.kind === "input") return found.code === "content_filter" ? "refused" : undefined;
    return this.#mayFallBack ? undefined : "failed";
  }

  /** Settles a call that the upstream may have billed. @param answer whole, whose text counts where the upstream did not */
  #settle(outcome: Outcome, answer?: CompletionBody): void {
    if (this.#isFree) {
      this.#entry?.settle({ ...outcome, usage: undefined });
      return;
    }
    const isCounted = answer === undefined || (outcome.usage !== undefined && outcome.usage.completion_tokens > 0);
    const seen = { input: this.#input, output: this.#fragments ?? (isCounted ? nothingSeen : answerMeter(answer)) };
    this.#entry?.settle({ ...outcome, serviceTier: outcome.serviceTier ?? this.#serviceTier, seen });
  }

  get #modelSeries(): ModelSeries {
    const { provider, model, isListed } = this.#attempt.target;
    this.#series ??= this.#context.series.model(provider, this.#services.metrics.models.of(model, isListed));
    return this.#series;
  }

  /** Records the gateway's overhead: the time before the request was sent, and for a plain call after the upstream's answer. */
  #overhead(sentAt: number, endedAt = this.#answeredAt): void {
    const own = sentAt - this.#context.startedAt + Math.max(0, endedAt - this.#answeredAt);
    this.#context.series.overhead(own / 1000);
  }
}

/** True if the model, or its provider's filter, refused to answer. Source: https://platform.openai.com/docs/api-reference/chat/object */
const isRefusal = (
  choice: { readonly finish_reason?: string | null },
  said: { readonly refusal?: string | null },
): boolean => choice.finish_reason === "content_filter" || Boolean(said.refusal);

/** What a span says of an answer, or of a part of it. */
function toldBy(choices: readonly { readonly finish_reason?: string | null }[]): AnswerTold {
  const finishReasons = choices.flatMap(({ finish_reason: reason }) => (reason ? [reason] : []));
  return finishReasons.length > 0 ? { finishReasons } : {};
}

/** The metric's status of a stream's fault: its own, 200 for an invalid event, 0 for a broken connection. */
function streamStatusOf(fault: UpstreamFault | ApiError): number {
  if (!(fault instanceof ApiError)) return fault.status;
  return fault.code === "upstream_invalid_response" ? 200 : 0;
}

/**
 * The next attempt of a request.
 * @param asked the model as the caller named it, and on the orchestrator so its persona while that is not known
 * @param target absent where it asks no upstream
 */
export function nextAttempt(
  context: RequestContext,
  caller: Caller,
  asked: string,
  target?: AttemptTarget,
  bounds?: AttemptBounds,
): Attempt {
  context.attempts += 1;
  const model = truncate(asked);
  return {
    requestId: context.id,
    number: context.attempts,
    keyId: caller.keyId,
    tier: caller.tier,
    tags: context.tags,
    labels: context.labels,
    surface: context.area,
    format: context.protocol.name,
    model,
    persona: context.persona?.id ?? (context.area === "orchestrator" ? model : undefined),
    personaVersion: context.persona?.version,
    variant: context.variant,
    hidesUpstream: context.persona?.hidesUpstream,
    target,
    bounds,
    trace: context.trace?.attempt(target),
  };
}

/** The next attempt of a request, at a target. */
export function attemptAt(
  { context, caller }: Pick<Admitted, "context" | "caller">,
  asked: string,
  { account, provider, call, models, member, pool }: Target,
  bounds: AttemptBounds | undefined,
  upstreamFormat?: string,
): Attempt & { readonly target: AttemptTarget } {
  const at: AttemptTarget = {
    provider: account.name,
    dialect: provider.name,
    baseUrl: account.baseUrl,
    upstreamFormat,
    key: pool && member.fingerprint,
    endpoint: pool && member.endpoint.url,
    model: truncate(call.model),
    isLocal: provider.kind === "local",
    isListed: context.area === "orchestrator" || models.has(call.model),
  };
  return nextAttempt(context, caller, asked, at, bounds) as Attempt & { readonly target: AttemptTarget };
}
