/** Plans and runs a call: once for a service-request-id, on its targets in turn, with what is recorded of each attempt. */
import type { Caller } from "../../auth/keys.ts";
import type { McpBounds } from "../../config/mcp.ts";
import { withEndCallback } from "../../lib/flow.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { truncate } from "../../lib/truncate.ts";
import { type GrantedTool, grantedTools } from "../../mcp/grants.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Protocol, StoredForm } from "../../protocols/protocol.ts";
import { parsedBytes } from "../../protocols/source.ts";
import type { Call } from "../../providers/provider.ts";
import { type Answer, type EventSource, isUpstreamError, type WholeAnswer } from "../../upstream/answer.ts";
import type { CallOptions } from "../../upstream/call.ts";
import { callWithFallback, type FallbackReport } from "../../upstream/fallback.ts";
import type { Target } from "../../upstream/target.ts";
import { refusedBy } from "../../usage/error-note.ts";
import { requestMeter } from "../../usage/text-meter.ts";
import { chatBounds, isHeldToBudgets } from "../bounds.ts";
import { attemptAt, CallRecorder, nextAttempt, type Remember } from "../call-observer.ts";
import type { RequestContext } from "../context.ts";
import { type Conversation, openConversation, type Shown } from "../conversation.ts";
import { loggedAdditions, sourcesOf } from "../knowledge.ts";
import { checkNamedModels, namedUpstream } from "../named.ts";
import type { Services } from "../services.ts";
import { describeFailure, inOwnPlaces, ownPlaces } from "./errors.ts";
import { callHeader, idempotentAnswer, serviceRequestId } from "./identified.ts";
import { nativeCall, refuseNativeOnly } from "./native.ts";
import { noteVersion, versionHeaders } from "./persona-version.ts";
import { poolingOf } from "./pooling.ts";
import type { CallScope } from "./scope.ts";
import type { Plan, Surface } from "./surface.ts";
import { standInsFor } from "./tools/hosted.ts";
import { answerWithTools, type Turn } from "./tools/loop.ts";
import { upstreamHeaders } from "./upstream-headers.ts";
import { noteVariant, variantHeaders } from "./variant.ts";

/** Runs the call, or joins or replays the one with its service-request-id. @param signal aborts it @throws ApiError */
export function runCall(scope: CallScope, signal: AbortSignal): Promise<Answer> {
  const { services, context, caller } = scope;
  const requestId = serviceRequestId(context);
  if (requestId === undefined) return planAndCall(scope, signal);
  const produce = async (until: AbortSignal) => {
    const identified = {
      ...scope,
      effects: services.idempotency.effectsOf({ scope: `${caller.keyId} ${context.area}`, requestId }),
    };
    const calling = whileRetained(context, until, () => planAndCall(identified, until));
    const made = await calling.catch((error) => {
      throw error instanceof ApiError ? error.withHeaders(upstreamHeaders(context)) : error;
    });
    const headers = { ...upstreamHeaders(context), ...versionHeaders(context), ...variantHeaders(context) };
    return { ...made, headers: { ...made.headers, ...headers, [callHeader]: context.id } };
  };
  return idempotentAnswer(scope, requestId, signal, produce);
}

/** Counts the request's body as in memory until the call ends, as it may outlive its client. @param until aborts on cancel */
export async function whileRetained(
  context: RequestContext,
  until: AbortSignal,
  call: () => Promise<Answer<EventSource>>,
): Promise<Answer<EventSource>> {
  const release = context.retain();
  until.addEventListener("abort", release, { once: true });
  try {
    const answered = await call();
    if (answered.kind === "stream") return { ...answered, events: withEndCallback(answered.events, release) };
    release();
    return answered;
  } catch (error) {
    release();
    throw error;
  }
}

async function planAndCall(scope: CallScope, signal: AbortSignal): Promise<Answer<EventSource>> {
  let planned: Planned;
  try {
    planned = await planCall(scope);
  } catch (error) {
    recordRefusal(scope, error);
    throw error;
  }
  return callPlanned(scope, planned, signal);
}

/** Writes the line of a request that was refused before any upstream was asked. */
function recordRefusal({ services, context, caller, call }: CallScope, error: unknown): void {
  services.usage.record(nextAttempt(context, caller, call.request.model), refusedBy(error));
}

/** Calls the planned targets. @returns the answer, or the upstream's error as this surface's callers get it @throws ApiError */
export function callPlanned(scope: CallScope, planned: Planned, signal: AbortSignal): Promise<Answer<EventSource>> {
  const { services, context, surface, writer } = scope;
  return answerOf(services, context, surface, writer.protocol, callUpstream(scope, planned, signal));
}

/** Does not take the request, as an asynchronous function holds its arguments until it settles. */
async function answerOf(
  services: Services,
  context: RequestContext,
  surface: Surface,
  protocol: Protocol,
  calling: Promise<Answer<EventSource>>,
): Promise<Answer<EventSource>> {
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
  return surface.upstreamErrorAnswer(called, protocol, context.id);
}

/** @throws ApiError before anything is called */
function callUpstream(
  scope: CallScope,
  { plan, conversation, namedBytes, tools }: Planned,
  signal: AbortSignal,
): Promise<Answer<EventSource>> {
  const { services, context, surface, caller, call: asked, source, writer } = scope;
  const { request } = asked;
  let ownPlace: ReturnType<typeof ownPlaces>;
  const targets: Target[] = [];
  let isPooled = plan.strategy !== undefined;
  for (const planned of plan.targets) {
    if (planned.pool !== undefined) isPooled = true;
    // Chat completions are the inner form, in which a provider may pass on what it does not know.
    const { name: clientFormat } = writer.protocol;
    const target = clientFormat === "chat" ? planned : { ...planned, call: { ...planned.call, clientFormat } };
    const held = plan.upstreamMayHold ? conversation.heldUpstream(target) : target;
    if (targets.length === 0) ownPlace = ownPlaces(request, held.call.request);
    targets.push(restoreThinkingState(services, caller, held));
  }
  // A fallback target, another key, or storing the exchange, needs the request for longer.
  const isSentOnce = targets.length === 1 && !isPooled && !plan.store && tools === undefined;
  // Bound, as a closure from here would hold the request until the answer is there.
  const onSent = isSentOnce ? context.forgetBody.bind(context) : undefined;
  const inputBytes = parsedBytes(source);
  const metadata = plan.additions && sourcesOf(plan.additions);
  const isHeld = isHeldToBudgets(services, context, caller);
  const optionsFor = (target: Target, mayFallBack: boolean, turn?: Turn): CallOptions => {
    const { provider, call } = target;
    const thinkingRequested = provider.kind === "remote" && provider.wantsThoughts(call);
    const showsCost = request.usage?.include === true;
    const form = { thinkingRequested, choices: call.request.n ?? 1, showsCost, metadata };
    const native = turn === undefined ? nativeCall(scope, plan, conversation, target) : undefined;
    if (native === undefined)
      refuseNativeOnly(tools === undefined ? asked : { ...asked, nativeTools: tools.nativeTools }, target);
    const passing = native && { isHeld: native.mayHold };
    // Thinking state matters only where tools may be called.
    const memories: Remember[] = call.request.tools === undefined ? [] : [thinkingMemory(services, caller, target)];
    if (plan.store && turn === undefined) memories.push(conversation.remember(target, form, writer.envelope, passing));
    if (services.live.config.log.content) memories.push(({ choices }) => logContent(context, "choices", choices));
    const bounds = isHeld
      ? chatBounds(source, request, whollySaid(call, conversation), native !== undefined, namedBytes)
      : undefined;
    const translated = provider.kind === "local" ? undefined : (provider.formatOf?.(call) ?? provider.format);
    const upstreamFormat = native?.reading.format ?? translated;
    const attempt = attemptAt(context, caller, request.model, target, bounds, upstreamFormat);
    const input = requestMeter(call.request, inputBytes);
    if (turn !== undefined)
      memories.push((answer) => {
        const cost = answer.usage && observer.costOf(answer.usage, answer.service_tier);
        turn.onAnswer(answer, target, cost);
      });
    const observer: CallRecorder = new CallRecorder(services, context, attempt, { input, mayFallBack }, memories);
    return {
      form,
      native,
      answerId: writer.envelope.id,
      encoder: turn?.encoder ?? writer.encoder,
      completion: turn?.completion ?? writer.completion,
      signal,
      observer,
      onSent,
      renderFault: surface.fault,
    };
  };
  const report: FallbackReport = (target, failure) => {
    services.httpMetrics.fallbacks.series(target.account.name).add();
    services.log.warn("a persona's model failed; trying the next one", {
      request_id: context.id,
      persona: truncate(request.model),
      provider: target.account.name,
      upstream_model: target.call.model,
      ...describeFailure(services, failure),
    });
  };
  const pooling = isPooled ? poolingOf(scope, plan, conversation, targets, namedBytes > 0) : undefined;
  const call = () => {
    if (tools !== undefined) {
      const [first] = targets;
      const form = { thinkingRequested: false, choices: 1 };
      return answerWithTools({
        scope,
        targets,
        isGroup: plan.strategy !== undefined,
        tools: tools.granted,
        bounds: tools.bounds,
        signal,
        call: (turn) =>
          inOwnPlaces(
            ownPlace,
            callWithFallback(
              services,
              turn.targets,
              (target, mayFallBack) => optionsFor(target, mayFallBack, turn),
              report,
              pooling,
            ),
          ),
        remember: plan.store ? conversation.remember(first!, form, writer.envelope) : undefined,
        onFirstCall: scope.effects && (() => scope.effects!.record()),
      });
    }
    const calling = inOwnPlaces(ownPlace, callWithFallback(services, targets, optionsFor, report, pooling));
    return isSentOnce || plan.store ? calling : calling.finally(() => context.release());
  };
  const { large } = source;
  if (large === undefined || (!plan.store && tools === undefined)) return call();
  return large.restore([source.parsed, conversation.whole]).then(call);
}

/** With the turns that the upstream holds, which it bills as it does what is sent. */
function whollySaid(call: Call, { whole: { messages } }: Conversation): Call {
  return call.upstreamResponseId === undefined ? call : { ...call, request: { ...call.request, messages } };
}

export function wholeOf(answered: Answer): WholeAnswer {
  if (answered.kind === "whole") return answered;
  throw new Error("a stream in place of a plain answer");
}

type Planned = {
  readonly plan: Plan;
  readonly conversation: Conversation;
  /** The size of what the call names in a provider's own store. */
  readonly namedBytes: number;
  /** Absent: none are called here. */
  readonly tools: CallTools | undefined;
};

/** Tools that are called here while the model answers. */
type CallTools = {
  readonly granted: readonly GrantedTool[];
  readonly bounds: McpBounds;
  /** The error for a tool of the request that none of them stands in for. */
  readonly nativeTools: ApiError | undefined;
};

/** @throws ApiError before anything is called */
export async function planCall(scope: CallScope): Promise<Planned> {
  const { services, context, surface, caller, call, source, writer } = scope;
  const { stored } = writer.protocol;
  const shown = stored && shownBy(scope, stored);
  const conversation = await openConversation(services, context, caller, surface.name, call.request, shown);
  const planning = surface.plan(services, caller, conversation.whole, source);
  const plan = planning instanceof Promise ? await planning : planning;
  if (plan.additions !== undefined) Object.assign(context.logFields, loggedAdditions(plan.additions));
  if (plan.persona !== undefined) noteVersion(context, plan.persona);
  if (plan.variant !== undefined) noteVariant(context, plan.variant);
  for (const { account } of plan.targets) checkNamedModels(caller, account.name, "gateway", source);
  const naming = namedUpstream(services, caller, surface.name, writer.protocol, plan.targets, source);
  const namedBytes = typeof naming === "number" ? naming : await naming;
  if (plan.store) await conversation.checkStorage();
  const isPlain = plan.mcp === undefined && call.hosted === undefined;
  const tools = isPlain ? undefined : await toolsOf(scope, plan, conversation);
  return { plan, conversation, namedBytes, tools };
}

/** @returns undefined where none are granted @throws ApiError upstream_unavailable; tools_called; for a server that the caller names */
async function toolsOf(scope: CallScope, plan: Plan, conversation: Conversation): Promise<CallTools | undefined> {
  const { services, caller, call, effects } = scope;
  const [first] = plan.targets;
  const standIns =
    call.hosted &&
    standInsFor(services, caller, call.hosted, {
      isNative: plan.mcp === undefined && nativeCall(scope, plan, conversation, first!) !== undefined,
      drops: first!.account.unsupportedTools === "drop",
    });
  const grants = [...(plan.mcp?.grants ?? []), ...(standIns?.grants ?? [])];
  if (grants.length === 0) return undefined;
  const others = first?.call.request.tools ?? [];
  const names = others.flatMap((tool) => (tool.type === "function" ? tool.function.name : []));
  const granted = await grantedTools(services.mcp, grants, caller, names);
  if (granted.length === 0) return undefined;
  await effects?.check();
  return {
    granted,
    bounds: plan.mcp?.bounds ?? services.live.config.mcp,
    nativeTools: standIns === undefined ? call.nativeTools : standIns.refusal,
  };
}

/** Writes the exchange as it is kept where the client's format has stored answers of its own. */
function shownBy({ writer, call: { options }, source }: CallScope, stored: StoredForm<unknown>): Shown {
  const { protocol, envelope, whole } = writer;
  const unique = envelope.id.slice(protocol.answerIdPrefix.length);
  return {
    format: protocol.name,
    leading: stored.leading(options),
    isBegun: stored.isBackground(options),
    items: () => stored.items(source.parsed, unique),
    answer: (completion, passed) =>
      (passed === undefined ? undefined : stored.answerIn(passed)) ?? (whole(completion) as JsonObject),
  };
}

const scopeOf = (caller: Caller, target: Target) => `${caller.keyId} ${target.account.name} ${target.call.model}`;

/** Restores the thinking state that a client's library stripped from the history. */
function restoreThinkingState(services: Services, caller: Caller, target: Target): Target {
  const request = services.replayMemory.restore(scopeOf(caller, target), target.call.request);
  return request === target.call.request ? target : { ...target, call: { ...target.call, request } };
}

/** Stores the thinking state of the whole answer. */
function thinkingMemory({ replayMemory }: Services, caller: Caller, target: Target): Remember {
  const scope = scopeOf(caller, target);
  return ({ choices }) => {
    const messages = choices.map(({ message }) => message);
    replayMemory.remember(scope, messages);
  };
}

/** Logs content where `log.content` is set, as text, so that the log redacts keys in it. */
export function logContent({ logFields }: RequestContext, name: "messages" | "choices", content: unknown): void {
  logFields[name] = JSON.stringify(content);
}
