/** Calls the targets of a planned call in turn, with what is recorded of each attempt. */
import type { Caller } from "../../auth/keys.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { restoreLarge } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import { arrivedOf } from "../../providers/builtin/probe.ts";
import type { Call } from "../../providers/provider.ts";
import { type Answer, type EventSource, isUpstreamError, type UpstreamError } from "../../upstream/answer.ts";
import type { Attempts, CallOptions } from "../../upstream/call.ts";
import { callWithFallback } from "../../upstream/fallback.ts";
import type { Pooling } from "../../upstream/pool/walk.ts";
import type { Target } from "../../upstream/target.ts";
import { requestMeter } from "../../usage/tokens/text-meter.ts";
import type { RequestContext } from "../context.ts";
import { chatBounds } from "../plan/bounds.ts";
import type { Conversation } from "../plan/conversation.ts";
import { sourcesOf } from "../plan/knowledge.ts";
import type { GrantedTools, Planned } from "../plan/plan.ts";
import { describeFailure, inOwnPlaces, ownPlaces } from "../relay/errors.ts";
import { type CallScope, nothingAsked } from "../scope.ts";
import type { Services } from "../services.ts";
import { attemptAt, CallRecorder, type Remember } from "../settle/settle.ts";
import { SecondAsking } from "./again.ts";
import { nativeCall, refuseNativeOnly } from "./native.ts";
import { poolingOf } from "./pooling.ts";
import { answerWithTools, type ToolTurn } from "./tools/loop.ts";

/**
 * Calls the planned targets in turn. What was asked and planned is emptied once it was sent, so that this waits for the answer as any other.
 * @returns the answer, or the upstream's error as this surface's callers get it @throws ApiError
 */
export async function sendCall(scope: CallScope, planned: Planned, signal: AbortSignal): Promise<Answer<EventSource>> {
  const { services, context, surface, writer } = scope;
  if (planned.plan.store || planned.tools !== undefined)
    await restoreLarge(scope.asked.source, [scope.asked.source.parsed, planned.conversation.whole]);
  const calling = new PlannedCall(scope, planned, signal).make();
  let called: Answer<EventSource>;
  try {
    called = await calling;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    Object.assign(context.logFields, describeFailure(services, error));
    throw surface.failure(error);
  }
  if (!isUpstreamError(called)) return called;
  Object.assign(context.logFields, describeFailure(services, called));
  return surface.upstreamErrorAnswer(called, writer.protocol, context.id);
}

/** Frees the request once the call is over. */
async function releasing<T>(context: RequestContext, calling: Promise<T>): Promise<T> {
  try {
    return await calling;
  } finally {
    context.release();
  }
}

/** Bytes of a request that is held until the upstream's answer begins, to be asked again: thousands of calls wait at once. */
const heldForAgain = 64 * 1024;

/** A call's targets and what each attempt at one needs. Holds the request: nothing that it gives may hold it. */
class PlannedCall implements Attempts {
  readonly #scope: CallScope;
  readonly #planned: Planned;
  readonly #signal: AbortSignal;
  readonly #isPooled: boolean;
  /** True where something may have been chosen here that an upstream refuses. */
  readonly #mayAskAgain: boolean;
  /** True where the request is not needed once it is sent. */
  readonly #isSentOnce: boolean;
  readonly #isHeld: boolean;
  /** Names the caller's own places where messages or tools were added. */
  #ownPlace: ReturnType<typeof ownPlaces>;

  constructor(scope: CallScope, planned: Planned, signal: AbortSignal) {
    this.#scope = scope;
    this.#planned = planned;
    this.#signal = signal;
    const { plan, tools } = planned;
    const { services } = scope;
    const targets: Target[] = [];
    let isPooled = plan.strategy !== undefined;
    for (const one of plan.targets) {
      if (one.pool !== undefined) isPooled = true;
      const made = this.#asSent(one);
      const sent = services.learned.size === 0 ? made : services.learned.fit(made, scope.asked.call.request);
      if (targets.length === 0) this.#ownPlace = ownPlaces(scope.asked.call.request, sent.call.request);
      targets.push(services.replayMemory.isEmpty ? sent : restoreThinkingState(services, scope.caller, sent));
    }
    planned.targets = targets;
    this.#isPooled = isPooled;
    const { call, source } = scope.asked;
    const { request } = call;
    // A persona's own fields, the road of tools, and fields that a call goes up with. What is large is not held for it.
    this.#mayAskAgain =
      source.body.length <= heldForAgain &&
      source.large === undefined &&
      (plan.persona !== undefined ||
        request.tools !== undefined ||
        (request.stream === true && request.stream_options === undefined) ||
        (request.max_tokens ?? request.max_completion_tokens) !== undefined);
    // A fallback target, another key, or storing the exchange, needs the request for longer.
    this.#isSentOnce = targets.length === 1 && !isPooled && !plan.store && tools === undefined && !this.#mayAskAgain;
    this.#isHeld = services.budgets.holds(scope.caller, scope.context.tags);
  }

  /** Makes the call. @throws ApiError before anything is called */
  make(): Promise<Answer<EventSource>> {
    const { context } = this.#scope;
    const { plan, tools } = this.#planned;
    if (tools !== undefined) return this.#makeWithTools(tools);
    const pooling = this.#isPooled ? this.#pooling() : undefined;
    const calling = this.#call(this.#planned.targets, this, pooling);
    return this.#isSentOnce || plan.store ? calling : releasing(context, calling);
  }

  #call(targets: readonly Target[], attempts: Attempts, pooling?: Pooling): Promise<Answer<EventSource>> {
    const calling = callWithFallback(this.#scope.services, targets, attempts, pooling);
    return this.#ownPlace === undefined ? calling : inOwnPlaces(this.#ownPlace, calling);
  }

  /** @param isSecond of a call that the upstream refused before */
  optionsFor(target: Target, mayFallBack: boolean, turn?: ToolTurn, isSecond = false): CallOptions {
    const { services, context, surface, caller, writer } = this.#scope;
    const { call: asked, source } = this.#scope.asked;
    const { plan, conversation, kept, tools } = this.#planned;
    const { request } = asked;
    const { provider, call } = target;
    const form = {
      thinkingRequested: provider.kind === "remote" && provider.wantsThoughts(call),
      choices: call.request.n ?? 1,
      showsCost: request.usage?.include === true,
      hidesUpstream: context.persona?.hidesUpstream === true,
      metadata: plan.additions && sourcesOf(plan.additions),
    };
    const native = turn === undefined ? nativeCall(this.#scope, this.#planned, target) : undefined;
    if (native === undefined)
      refuseNativeOnly(tools === undefined ? asked : { ...asked, nativeTools: tools.nativeTools }, target);
    const memories: Remember[] = [];
    // Thinking state matters only where tools may be called.
    if (call.request.tools !== undefined) memories.push(thinkingMemory(services, caller, target, writer));
    if (plan.store && turn === undefined)
      memories.push(conversation.remember(target, form, writer.envelope, native && { isHeld: native.mayHold }));
    if (services.live.config.log.content) memories.push(contentMemory(context));
    const translated = provider.kind === "local" ? undefined : (provider.formatOf?.(call) ?? provider.format);
    const upstreamFormat = native?.reading.format ?? translated;
    const bounds = this.#isHeld
      ? chatBounds(source, request, {
          call: whollySaid(call, conversation),
          isNative: native !== undefined,
          format: upstreamFormat,
          kept,
          heldTokens: conversation.heldTokens,
        })
      : undefined;
    const attempt = attemptAt(this.#scope, request.model, target, bounds, upstreamFormat);
    const accounts = { input: requestMeter(call.request, source), mayFallBack };
    writer.envelope.input = accounts.input;
    if (turn !== undefined) memories.push(turnMemory(turn, target, () => observer));
    const observer: CallRecorder = new CallRecorder(services, context, attempt, accounts, memories);
    return {
      form,
      native,
      answerId: writer.envelope.id,
      writer: turn?.writer ?? writer,
      signal: this.#signal,
      observer,
      onSent: this.#isSentOnce ? forgetting(this.#scope, this.#planned) : undefined,
      again:
        this.#mayAskAgain && !isSecond
          ? new SecondAsking({
              ...{ services, requestId: context.id, asked: request, target, isNative: native !== undefined },
              optionsFor: (next) => this.optionsFor(next, mayFallBack, turn, true),
            })
          : undefined,
      renderFault: surface.fault,
    };
  }

  failed(target: Target, failure: UpstreamError | ApiError): void {
    const { services, context, asked } = this.#scope;
    services.httpMetrics.fallbacks.series(target.account.name).add();
    services.log.warn("a persona's model failed; trying the next one", {
      request_id: context.id,
      persona: truncate(asked.call.request.model),
      provider: target.account.name,
      upstream_model: target.call.model,
      ...describeFailure(services, failure),
    });
  }

  /** The target with the request as it goes there. */
  #asSent(planned: Target): Target {
    const { writer } = this.#scope;
    const { plan, conversation } = this.#planned;
    // Chat completions are the inner form, in which a provider may pass on what it does not know.
    const { name: clientFormat } = writer.protocol;
    const { provider, call } = planned;
    if (provider.kind === "local" && provider.probe === call.model)
      return { ...planned, call: { ...call, arrived: arrivedOf(this.#scope.context.request.headers) } };
    const target = clientFormat === "chat" ? planned : { ...planned, call: { ...call, clientFormat } };
    return plan.upstreamMayHold ? conversation.heldUpstream(target) : target;
  }

  #pooling(): Pooling {
    const { plan, conversation, kept } = this.#planned;
    return poolingOf(this.#scope, plan, conversation, this.#planned.targets, kept.bytes + kept.tokens > 0);
  }

  #makeWithTools(tools: GrantedTools): Promise<Answer<EventSource>> {
    const { writer, effects } = this.#scope;
    const { plan, conversation } = this.#planned;
    const [first] = this.#planned.targets;
    const form = { thinkingRequested: false, choices: 1 };
    const pooling = this.#isPooled ? this.#pooling() : undefined;
    return answerWithTools({
      scope: this.#scope,
      targets: this.#planned.targets,
      isGroup: plan.strategy !== undefined,
      tools: tools.granted,
      bounds: tools.bounds,
      signal: this.#signal,
      call: (turn) => {
        const attempts: Attempts = {
          optionsFor: (target, mayFallBack) => this.optionsFor(target, mayFallBack, turn),
          failed: (target, failure) => this.failed(target, failure),
        };
        return this.#call(turn.targets, attempts, pooling);
      },
      remember: plan.store ? conversation.remember(first!, form, writer.envelope) : undefined,
      onFirstCall: effects && (() => effects.record()),
    });
  }
}

const noTargets: Planned["targets"] = [];

/** Empties the cells of a request. Holds no more than that, as it lives until the request is sent. */
const forgetting =
  ({ context, asked }: CallScope, planned: Planned) =>
  () => {
    asked.call = nothingAsked;
    asked.source = nothingAsked;
    planned.plan = nothingAsked;
    planned.conversation = nothingAsked;
    planned.targets = noTargets;
    context.forgetBody();
  };

const contentMemory =
  (context: RequestContext): Remember =>
  async ({ choices }) =>
    logContent(context, "choices", choices);

/** Reports a turn's answer with its cost, which the recorder of its attempt knows. */
const turnMemory =
  (turn: ToolTurn, target: Target, recorder: () => CallRecorder): Remember =>
  async (answer) => {
    const cost = answer.usage && recorder().costOf(answer.usage, answer.service_tier);
    turn.onAnswer(answer, target, cost);
  };

/** With the turns that the upstream holds, which it bills as it does what is sent. */
function whollySaid(call: Call, { whole: { messages } }: Conversation): Call {
  return call.upstreamResponseId === undefined ? call : { ...call, request: { ...call.request, messages } };
}

const scopeOf = (caller: Caller, target: Target) => `${caller.keyId} ${target.account.name} ${target.call.model}`;

/** Restores the thinking state that a client's library stripped from the history. */
function restoreThinkingState(services: Services, caller: Caller, target: Target): Target {
  const request = services.replayMemory.restore(scopeOf(caller, target), target.call.request);
  return request === target.call.request ? target : { ...target, call: { ...target.call, request } };
}

/** Stores the thinking state of the whole answer. */
function thinkingMemory(
  { replayMemory }: Services,
  caller: Caller,
  target: Target,
  { protocol, envelope }: CallScope["writer"],
): Remember {
  const scope = scopeOf(caller, target);
  const answer = protocol.namesAnswer === true ? envelope.id : undefined;
  return async ({ choices }) => {
    const messages = choices.map(({ message }) => message);
    replayMemory.remember(scope, messages, answer);
  };
}

/** Logs content where `log.content` is set, as text, so that the log redacts keys in it. */
export function logContent({ logFields }: RequestContext, name: "messages" | "choices", content: unknown): void {
  logFields[name] = JSON.stringify(content);
}
