/** Handles a completion from request to response, for both surfaces and every client format. */

import type { Caller } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import type { Holder } from "../conversations/conversations.ts";
import { fingerprint, fingerprintInSlices } from "../idempotency/fingerprint.ts";
import { withEndCallback } from "../lib/flow.ts";
import { type JsonObject, parseJson } from "../lib/json/json.ts";
import { truncate } from "../lib/truncate.ts";
import { hugeBody } from "../protocols/body.ts";
import type { ChatRequest, CompletionBody, Envelope } from "../protocols/chat/schema.ts";
import { ApiError, type UpstreamFault } from "../protocols/errors.ts";
import { patchBody } from "../protocols/patched-body.ts";
import type {
  EarlierAnswers,
  ErrorFields,
  EventEncoder,
  NativeChange,
  NativeEncoder,
  ParsedCall,
  Protocol,
  StoredForm,
} from "../protocols/protocol.ts";
import { parsedBytes, respell, type Source } from "../protocols/source.ts";
import type { Call, NativeBody, NativeRoute } from "../providers/provider.ts";
import {
  type Answer,
  type EventSource,
  isUpstreamError,
  type Producer,
  type UpstreamError,
  type WholeAnswer,
} from "../upstream/answer.ts";
import type { CallOptions, NativeCall } from "../upstream/call.ts";
import { callWithFallback, type FallbackReport } from "../upstream/fallback.ts";
import type { Target } from "../upstream/target.ts";
import { requestMeter } from "../usage/text-meter.ts";
import { attemptTarget, nextAttempt } from "./attempts.ts";
import { admit } from "./authenticate.ts";
import { chatBounds, isHeldToBudgets } from "./bounds.ts";
import { CallRecorder, type Remember } from "./call-observer.ts";
import type { RequestContext } from "./context.ts";
import { type Conversation, holderOf, openConversation, type Shown } from "./conversation.ts";
import { describeError, describeUpstreamError } from "./error-fields.ts";
import { ownPlaces } from "./own-places.ts";
import { withPrompt } from "./prompt.ts";
import { readJson } from "./request-body.ts";
import { type Finish, jsonAnswer, respondStream, respondWhole, type StreamRules } from "./respond.ts";
import type { Services } from "./services.ts";
import { followEvents } from "./stored-events.ts";

export type Plan = {
  /** The targets to call, in order of preference. */
  readonly targets: readonly Target[];
  /** Whether to store the exchange. */
  readonly store: boolean;
  /** Whether the upstream may store the conversation too. */
  readonly upstreamMayHold: boolean;
  /** What a persona changes in the request, for upstreams that get the client's own body. Absent: nothing. */
  readonly change?: () => PersonaChange;
};

type PersonaChange = Pick<NativeChange, "before" | "fields">;

/** The differences between the two surfaces. */
export interface Surface {
  readonly name: SurfaceName;
  /** Whether callers see an upstream's errors in its own words. */
  readonly showsUpstream: boolean;
  /**
   * @param request with the messages of the conversation it continues
   * @param source the request as it was sent
   * @throws ApiError
   */
  plan(services: Services, caller: Caller, request: ChatRequest, source: Source): Plan;
  /** Maps an upstream's error to the answer for this surface's callers. @throws ApiError in its place */
  upstreamErrorAnswer(error: UpstreamError, protocol: Protocol, requestId: string): WholeAnswer;
  /** Maps an error of the call itself, such as a timeout, for this surface's callers. */
  failure(error: ApiError): ApiError;
  /** Maps an error within a stream. */
  fault(fault: UpstreamFault | ApiError): ErrorFields;
}

export async function createCompletion(
  services: Services,
  context: RequestContext,
  surface: Surface,
  protocol: Protocol,
  finish: Finish,
): Promise<Response> {
  const admitting = admit(services, context, surface.name);
  const caller = admitting instanceof Promise ? await admitting : admitting;
  const { limits, streams, log } = services.live.config;
  const source = await readJson(context, limits);
  if (source.large !== undefined && (log.content || isIdentified(context))) await source.large.restore([source.parsed]);
  const parsing = parseCall(services, context, caller, surface, protocol, source);
  const call = parsing instanceof Promise ? await parsing : parsing;
  const { request } = call;
  context.logFields["model"] = truncate(request.model);
  if (log.content) logContent(context, "messages", request.messages);
  const writer = writerFor(protocol, call, newEnvelope(services, context, protocol, request.model));
  context.setIdleTimeout(idleTimeoutOf(request, writer.streamType === undefined ? streams.keepAliveSeconds : 0));
  const asked = { caller, call, source, writer };
  if (protocol.stored?.isBackground(call.options)) {
    return createInBackground(services, context, surface, asked, protocol.stored, finish);
  }
  if (request.stream !== true) {
    const { signal } = context.request;
    const answering = inOwnNames(writer, start(services, context, surface, asked, signal));
    return respondWhole(context, wholeOf(await answering), finish);
  }
  context.logFields["stream"] = true;
  const disconnected = abortedWith(context.request.signal);
  const answering = inOwnNames(writer, start(services, context, surface, asked, disconnected.signal));
  return respondStream(services, context, answering, streamRules(services, surface, writer, disconnected), finish);
}

/** Returns a promise only where the store is read. @throws ApiError with the path of the value in the format's own body */
export function parseCall(
  services: Services,
  context: RequestContext,
  caller: Caller,
  { name }: Surface,
  protocol: Protocol,
  source: Source,
): ParsedCall<unknown> | Promise<ParsedCall<unknown>> {
  const parse = (earlier?: EarlierAnswers) => {
    const parsed = protocol.parse(source, context, earlier);
    return withPrompt(name, parsed, protocol.prompt?.(parsed.options));
  };
  const ids = protocol.references?.(source.parsed) ?? [];
  return ids.length === 0 ? parse() : earlierAnswers(services, holderOf(caller, name), protocol, ids).then(parse);
}

/** The most earlier answers that one request may refer to: each is read from the store. */
const maxReferences = 1000;

/** @returns those that are kept, and are the holder's */
async function earlierAnswers(
  { conversations }: Services,
  holder: Holder,
  { name }: Protocol,
  ids: readonly string[],
): Promise<EarlierAnswers> {
  const found = new Map<string, JsonObject>();
  for (const id of ids.slice(0, maxReferences)) {
    try {
      found.set(id, (await conversations.getShown(holder, id, name)).answer);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }
  return found;
}

/** Answers at once, or with the stream of what is made in the background, which runs on without this client. */
async function createInBackground(
  services: Services,
  context: RequestContext,
  surface: Surface,
  asked: Asked,
  stored: StoredForm<unknown>,
  finish: Finish,
): Promise<Response> {
  const { caller, call, writer } = asked;
  const { signal } = context.request;
  const begin = async () => {
    const answer = await inOwnNames(writer, beginInBackground(services, context, surface, asked, stored));
    return jsonAnswer(answer);
  };
  const requestId = serviceRequestId(context);
  const begun =
    requestId === undefined
      ? await begin()
      : wholeOf(await idempotentAnswer(services, context, asked, requestId, signal, begin));
  if (call.request.stream !== true) return respondWhole(context, begun, finish);
  context.logFields["stream"] = true;
  // A retry under the same service-request-id reads what the first call began.
  const { id } = parseJson(textOfBody(begun.body)) as { id: string };
  const disconnected = abortedWith(signal);
  const following = followEvents(
    services,
    holderOf(caller, surface.name),
    id,
    writer.protocol.name,
    disconnected.signal,
  );
  return respondStream(services, context, following, streamRules(services, surface, writer, disconnected), finish);
}

const textOfBody = (body: string | Uint8Array) => (typeof body === "string" ? body : new TextDecoder().decode(body));

/** Plans the call, stores its turn and starts it. @returns the answer as it stands. @throws ApiError before anything is called */
async function beginInBackground(
  services: Services,
  context: RequestContext,
  surface: Surface,
  { caller, call, source, writer }: Asked,
  stored: StoredForm<unknown>,
): Promise<JsonObject> {
  checkRoomForBackground(services);
  // Its events are kept whether they are asked for or not.
  const request = { ...call.request, stream: true, stream_options: { include_usage: true } };
  const streamed: Asked = { caller, call: { ...call, request }, source, writer };
  const planned = await planCall(services, context, surface, streamed);
  if (!planned.plan.store)
    throw ApiError.invalidValue("store", "background needs store: true, as its answer is read later.");
  const { envelope, protocol } = writer;
  const { conversation, plan } = planned;
  for (const target of plan.targets) {
    if (nativeCall(context, surface, streamed, plan, conversation, target) === undefined)
      refuseNativeOnly(call, target);
  }
  await source.large?.restore([source.parsed, conversation.whole]);
  context.logFields["background"] = true;
  const pending = stored.pending("queued", envelope, call.options);
  await services.background.begin(holderOf(caller, surface.name), {
    id: envelope.id,
    model: envelope.model,
    begin: () => conversation.begin(envelope, pending),
    call: (until) =>
      whileRetained(context, until, () => {
        const calling = callUpstream(services, context, surface, streamed, planned, until);
        return answerOf(services, context, surface, writer, calling);
      }),
    failed: (error) => stored.pending("failed", envelope, call.options, error),
    failedEvents(error) {
      const events: string[] = [];
      const encoder = protocol.encoder(envelope, call.options);
      encoder.push({ choices: [] }, events);
      encoder.fault(error, events);
      return events;
    },
    errorIn: stored.errorIn,
    renamed: (event) => stored.renamed(event, envelope.id),
  });
  return pending;
}

/** @throws ApiError overloaded */
function checkRoomForBackground({ background, running, live }: Services): void {
  if (background.size + running <= live.config.limits.concurrentRequests) return;
  throw ApiError.unavailable("overloaded", "Too many responses are made in the background. Retry in a moment.", {
    retryAfterSeconds: 1,
  });
}

/** `AbortSignal.any` does the same, at several times the cost. */
function abortedWith(signal: AbortSignal): AbortController {
  const controller = new AbortController();
  if (signal.aborted) controller.abort();
  else signal.addEventListener("abort", () => controller.abort());
  return controller;
}

/** Writes a call's answer in the client's format, plain or streamed. */
type Writer = {
  readonly protocol: Protocol;
  readonly envelope: Envelope;
  readonly whole: (answer: CompletionBody) => object;
  readonly encoder: () => EventEncoder;
  /** Present where the format can be passed on as it comes. */
  readonly nativeEncoder: (() => NativeEncoder) | undefined;
  /** Of a stream that is no event stream. */
  readonly streamType: string | undefined;
  /** Of a path in the inner form; absent where the format has the same ones. */
  readonly ownPath: ((inner: string) => string) | undefined;
};

/** Does not take the request, and neither does `streamRules`: their closures live as long as the stream. */
function writerFor(protocol: Protocol, { options }: ParsedCall<unknown>, envelope: Envelope): Writer {
  return {
    protocol,
    envelope,
    whole: (answer) => protocol.completion(answer, envelope, options),
    encoder: () => protocol.encoder(envelope, options),
    nativeEncoder: protocol.native && (() => protocol.native!.encoder(envelope, options)),
    streamType: protocol.streamType?.(options),
    ownPath: protocol.param && ((inner) => protocol.param!(inner, options)),
  };
}

/** Errors that a parser found and that are thrown later: they name the place as the client knows it. */
const foundByParser = new WeakSet<ApiError>();

/** What is refused behind `parse` names the place as the client knows it. */
function inOwnNames<T>({ ownPath }: Writer, answering: Promise<T>): Promise<T> {
  if (ownPath === undefined) return answering;
  return answering.catch((error) => {
    const isInner = error instanceof ApiError && error.param !== "" && !foundByParser.has(error);
    throw isInner ? error.at(ownPath(error.param)) : error;
  });
}

/** What a provider refuses names the place in the caller's own messages and tools, in the inner form. */
function inOwnPlaces<T>(ownPlace: ReturnType<typeof ownPlaces>, calling: Promise<T>): Promise<T> {
  if (ownPlace === undefined) return calling;
  return calling.catch((error) => {
    if (!(error instanceof ApiError) || foundByParser.has(error)) throw error;
    const place = ownPlace(error.param);
    throw place === error.param ? error : error.at(place);
  });
}

function streamRules({ live }: Services, surface: Surface, writer: Writer, disconnected: AbortController): StreamRules {
  return {
    keepAliveMs: writer.streamType === undefined ? live.config.streams.keepAliveSeconds * 1000 : 0,
    keepAlive: writer.protocol.keepAlive,
    type: writer.streamType,
    idsApart: writer.protocol.idsApart,
    lateFault(failure) {
      const error =
        failure instanceof ApiError ? surface.fault(failure) : (failure.error ?? errorObjectIn(failure.body));
      const events: string[] = [];
      writer.encoder().fault(error, events);
      return events;
    },
    onDisconnect: () => disconnected.abort(),
  };
}

/** A request, told from others of the same `service-request-id`. */
type Identified = {
  readonly caller: Caller;
  readonly call: Pick<ParsedCall<unknown>, "identity"> & { readonly request: Pick<ChatRequest, "model"> };
  /** The request as it was sent. */
  readonly source: Source;
};

type Asked = Identified & { readonly call: ParsedCall<unknown>; readonly writer: Writer };

function start(
  services: Services,
  context: RequestContext,
  surface: Surface,
  asked: Asked,
  signal: AbortSignal,
): Promise<Answer> {
  const requestId = serviceRequestId(context);
  if (requestId === undefined) return answer(services, context, surface, asked, signal);
  const produce = async (until: AbortSignal) => {
    const made = await whileRetained(context, until, () => answer(services, context, surface, asked, until));
    return { ...made, headers: { ...made.headers, [callHeader]: context.id } };
  };
  return idempotentAnswer(services, context, asked, requestId, signal, produce);
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

/** Plans and makes the call. */
function answer(
  services: Services,
  context: RequestContext,
  surface: Surface,
  asked: Asked,
  signal: AbortSignal,
): Promise<Answer<EventSource>> {
  const { writer } = asked;
  const call = (planned: Planned) =>
    answerOf(services, context, surface, writer, callUpstream(services, context, surface, asked, planned, signal));
  const refuse = (error: unknown): never => {
    noteRefusal(services, context, asked, error);
    throw error;
  };
  let planned: Planned | Promise<Planned>;
  try {
    planned = planCall(services, context, surface, asked);
  } catch (error) {
    noteRefusal(services, context, asked, error);
    return Promise.reject(error);
  }
  if (planned instanceof Promise) return planned.then(call, refuse);
  try {
    return call(planned);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Writes the line of a request that was refused before any upstream was asked. */
function noteRefusal({ usage }: Services, context: RequestContext, { caller, call }: Asked, error: unknown): void {
  const status = error instanceof ApiError ? error.status : 500;
  usage.record(nextAttempt(context, caller, call.request.model), { ended: "refused", status });
}

type Planned = { readonly plan: Plan; readonly conversation: Conversation };

/** Returns a promise only where the store is read. @throws ApiError; rejects with the same */
function planCall(
  services: Services,
  context: RequestContext,
  surface: Surface,
  { caller, call, source, writer }: Asked,
): Planned | Promise<Planned> {
  const planned = (conversation: Conversation) => {
    const plan = surface.plan(services, caller, conversation.whole, source);
    return plan.store ? conversation.checkStorage().then(() => ({ plan, conversation })) : { plan, conversation };
  };
  const shown = shownBy(writer, call, source);
  const conversation = openConversation(services, context, caller, surface.name, call.request, shown);
  return conversation instanceof Promise ? conversation.then(planned) : planned(conversation);
}

/** How the exchange is kept where the client's format has stored answers of its own. */
function shownBy({ protocol, envelope, whole }: Writer, { options }: ParsedCall<unknown>, source: Source) {
  const { stored, name: format } = protocol;
  if (stored === undefined) return undefined;
  const unique = envelope.id.slice(protocol.answerIdPrefix.length);
  const shown: Shown = {
    format,
    leading: stored.leading(options),
    isBegun: stored.isBackground(options),
    items: () => stored.items(source.parsed, unique),
    answer: (completion, passed) =>
      (passed === undefined ? undefined : stored.answerIn(passed)) ?? (whole(completion) as JsonObject),
  };
  return shown;
}

/** Does not take the request, as an asynchronous function holds its arguments until it settles. */
async function answerOf(
  services: Services,
  context: RequestContext,
  surface: Surface,
  { protocol }: Writer,
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
  services: Services,
  context: RequestContext,
  surface: Surface,
  asked: Asked,
  { plan, conversation }: Planned,
  signal: AbortSignal,
): Promise<Answer<EventSource>> {
  const {
    caller,
    call: { request },
    source,
    writer,
  } = asked;
  const held = plan.targets.map((planned) => {
    const target = withFormat(planned, writer.protocol.name);
    return plan.upstreamMayHold ? conversation.heldUpstream(target) : target;
  });
  const ownPlace = ownPlaces(request, held[0]?.call.request ?? request);
  const targets = held.map((target) => restoreThinkingState(services, caller, target));
  // A fallback target, or storing the exchange, needs the request for longer.
  const isSentOnce = targets.length === 1 && !plan.store;
  const onSent = isSentOnce ? releaseOf(context) : undefined;
  const completion = completionOf(writer);
  const inputBytes = parsedBytes(source);
  const isHeld = isHeldToBudgets(services, context, caller);
  const optionsFor = (target: Target): CallOptions => {
    const { provider, call } = target;
    const thinkingRequested = provider.kind === "remote" && provider.wantsThoughts(call);
    const showsCost = request.usage?.include === true;
    const form = { thinkingRequested, choices: call.request.n ?? 1, showsCost };
    const native = nativeCall(context, surface, asked, plan, conversation, target);
    if (native === undefined) refuseNativeOnly(asked.call, target);
    const passing = native && { isHeld: plan.upstreamMayHold };
    const memories = memoriesOf(services, caller, target);
    if (plan.store) memories.push(conversation.remember(target, form, writer.envelope, passing));
    if (services.live.config.log.content) memories.push(({ choices }) => logContent(context, "choices", choices));
    const bounds = chatBounds(isHeld, source, request, call, native !== undefined);
    const attempt = nextAttempt(context, caller, request.model, attemptTarget(context, target), bounds);
    const accounts = { attempt, input: requestMeter(call.request, inputBytes) };
    const observer = new CallRecorder(services, context, target, accounts, memories);
    return {
      form,
      native,
      answerId: writer.envelope.id,
      encoder: writer.encoder,
      completion,
      signal,
      observer,
      onSent,
      renderFault: surface.fault,
    };
  };
  const report: FallbackReport = (target, failure) => {
    services.metrics.fallback(target.account.name);
    services.log.warn("a persona's model failed; trying the next one", {
      request_id: context.id,
      persona: truncate(request.model),
      provider: target.account.name,
      upstream_model: target.call.model,
      ...describeFailure(services, failure),
    });
  };
  const call = () => {
    const calling = inOwnPlaces(ownPlace, callWithFallback(services, targets, optionsFor, report));
    return isSentOnce || plan.store ? calling : calling.finally(() => context.release());
  };
  const { large } = source;
  if (large === undefined || !plan.store) return call();
  return large.restore([source.parsed, conversation.whole]).then(call);
}

/** Chat completions are the inner form, in which a provider may pass on what it does not know. */
function withFormat(target: Target, clientFormat: string): Target {
  return clientFormat === "chat" ? target : { ...target, call: { ...target.call, clientFormat } };
}

/** @throws ApiError for what the client's format has and no other */
export function refuseNativeOnly({ nativeOnly, nativeTools }: ParsedCall<unknown>, { account }: Target): void {
  const refusal = nativeOnly ?? (account.unsupportedTools === "drop" ? undefined : nativeTools);
  if (refusal === undefined) return;
  foundByParser.add(refusal);
  throw refusal;
}

const noChange: PersonaChange = { before: [], fields: {} };

/** @returns undefined where the call has to be translated: the upstream does not speak the client's format, or not about this */
function nativeCall(
  { request }: RequestContext,
  { showsUpstream }: Surface,
  { call, source, writer }: Asked,
  plan: Plan,
  conversation: Conversation,
  { provider, account, call: upstreamCall }: Target,
): NativeCall | undefined {
  const { protocol } = writer;
  const { native } = protocol;
  if (native === undefined || provider.kind !== "remote") return undefined;
  const route = provider.native?.(protocol.name, upstreamCall);
  if (route === undefined) return undefined;
  const isHeld = plan.upstreamMayHold && conversation.isHeldBy(account.name);
  const earlier = isHeld ? undefined : conversation.earlier;
  // The earlier messages of a conversation that is kept here are in the inner form alone: it is translated, where it can be.
  const said = earlier && (isNativeByTools(call) ? route.earlier?.(earlier) : undefined);
  if (earlier !== undefined && said === undefined) return undefined;
  const planned = nativeChange(plan, route, upstreamCall);
  if (planned === undefined) return undefined;
  // What is made in the background is followed here: the upstream's connection is the call.
  const isBackground = protocol.stored?.isBackground(call.options) === true;
  const fields = isBackground ? { ...planned.fields, background: undefined, stream: true } : planned.fields;
  const change: NativeChange = { ...planned, fields, earlier: said };
  let patched = native.patch(source.parsed, change);
  if (patched === undefined) return undefined;
  return {
    reading: {
      format: protocol.name,
      route,
      passesFaults: showsUpstream,
      endsWithStream: native.endsWithStream === true,
      ownEcho: (plan.change ?? said) && native.ownEcho?.(call.options, source.parsed, patched, planned.before),
      encoder: writer.nativeEncoder!,
    },
    encode(encoded) {
      // Once more, where large strings had to be restored in between.
      const body = patched ?? native.patch(source.parsed, change)!;
      patched = undefined;
      return route.encode(writtenAs(source, body), encoded, passedHeaders(protocol, request.headers));
    },
  };
}

/** Whether its tools alone keep it from being translated. */
const isNativeByTools = ({ nativeOnly, nativeTools }: ParsedCall<unknown>): boolean =>
  nativeOnly === undefined && nativeTools !== undefined;

/** @returns undefined where the provider would have to read its answer in another way than it comes */
export function nativeChange(plan: Plan, { members: membersOf }: NativeRoute, call: Call): NativeChange | undefined {
  const persona = plan.change?.() ?? noChange;
  const members = persona === noChange || membersOf === undefined ? {} : membersOf(persona.fields, call);
  return members && { model: call.model, ...persona, members };
}

/** A patched body, copied from its source as far as it did not change. */
export function writtenAs(source: Source, body: JsonObject): NativeBody {
  if (body === source.parsed) return source.body;
  return respell(source, body) ?? patchBody(source, body, (name) => [name]);
}

export function passedHeaders({ passedRequestHeaders = [] }: Protocol, headers: Headers): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of passedRequestHeaders) {
    const value = headers.get(name);
    if (value !== null) passed[name] = value;
  }
  return passed;
}

/** Its closure does not hold the request, as it lives until the answer is there. */
const releaseOf = (context: RequestContext) => () => context.forgetBody();

/** Its closure does not hold the request either. */
const completionOf = (writer: Writer) => (body: CompletionBody) => jsonAnswer(writer.whole(body));

/** Answers a request with a service-request-id: calls once, joins a running call, or replays the stored answer. */
export function idempotentAnswer(
  services: Services,
  context: RequestContext,
  { caller, call, source }: Identified,
  requestId: string,
  signal: AbortSignal,
  produce: Producer,
): Promise<Answer> {
  const { identity } = call;
  const asked = call.request.model;
  const area = context.area;
  const lastEventId = context.request.headers.get("last-event-id") ?? undefined;
  const run = (print: string) =>
    services.idempotency.run({ scope: `${caller.keyId} ${area}`, requestId, fingerprint: print }, signal, produce, {
      lastEventId,
    });
  const running =
    parsedBytes(source) < hugeBody
      ? run(fingerprint(identity, source.body))
      : fingerprintInSlices(identity, source.body).then(run);
  return running.then(
    ({ answer: recorded, replayed, joined }) => {
      const { [callHeader]: callOf, ...headers } = recorded.headers;
      const shared = { ...recorded, headers };
      if (replayed || joined) {
        const attempt = nextAttempt(context, caller, asked);
        services.usage.record(attempt, { ended: replayed ? "replayed" : "joined", status: statusOf(shared), callOf });
      }
      if (replayed) context.headers["idempotent-replayed"] = "true";
      services.metrics.idempotentRequest(area, replayed ? "replayed" : joined ? "joined" : "fresh");
      return shared;
    },
    (error) => {
      if (error instanceof ApiError && error.status === 422) services.metrics.idempotentRequest(area, "conflict");
      throw error;
    },
  );
}

/** Recorded with an answer, and never sent: the id of the request that made the call. */
const callHeader = "x-troupe-call";

const statusOf = (answer: Answer) => (answer.kind === "whole" ? answer.status : 200);

/** The header's names, in order of precedence. */
const requestIdNames = ["service-request-id", "idempotency-key"];

export const isIdentified = ({ request }: RequestContext) => requestIdNames.some((name) => request.headers.has(name));

/** Reads the service-request-id and echoes it on the response. @throws ApiError invalid_value */
export function serviceRequestId({ request, headers }: RequestContext): string | undefined {
  let found: string | undefined;
  for (const name of requestIdNames) {
    const id = request.headers.get(name);
    if (id === null) continue;
    if (!/^[\x21-\x7e]{1,255}$/.test(id)) {
      throw ApiError.invalidValue(name, `${name} must be 1 to 255 visible ASCII characters.`);
    }
    found ??= id;
  }
  if (found !== undefined) headers["service-request-id"] = found;
  return found;
}

function wholeOf(answered: Answer): WholeAnswer {
  if (answered.kind === "whole") return answered;
  throw new Error("a stream in place of a plain answer");
}

const scopeOf = (caller: Caller, target: Target) => `${caller.keyId} ${target.account.name} ${target.call.model}`;

/** Restores the thinking state that a client's library stripped from the history. */
function restoreThinkingState(services: Services, caller: Caller, target: Target): Target {
  const request = services.replayMemory.restore(scopeOf(caller, target), target.call.request);
  return request === target.call.request ? target : { ...target, call: { ...target.call, request } };
}

/** Stores thinking state of the whole answer. It matters only where tools may be called. */
function memoriesOf(services: Services, caller: Caller, target: Target): Remember[] {
  if (target.call.request.tools === undefined) return [];
  const scope = scopeOf(caller, target);
  return [
    (whole) =>
      services.replayMemory.remember(
        scope,
        whole.choices.map((choice) => choice.message),
      ),
  ];
}

/** Logs content where `log.content` is set, as text, so that the log redacts keys in it. */
function logContent({ logFields }: RequestContext, name: "messages" | "choices", content: unknown): void {
  logFields[name] = JSON.stringify(content);
}

function newEnvelope(
  { clock }: Services,
  { uniqueId }: RequestContext,
  { answerIdPrefix }: Protocol,
  model: string,
): Envelope {
  let completed: number | undefined;
  const now = () => Math.floor(clock.now() / 1000);
  return {
    id: `${answerIdPrefix}${uniqueId}`,
    created: now(),
    model,
    completed() {
      completed ??= now();
      return completed;
    },
  };
}

/**
 * The connection's idle timeout in seconds; 0: none. A stream with keep-alive comments that makes no progress has lost its client;
 * without comments, and for plain answers, silence is normal.
 */
function idleTimeoutOf(request: ChatRequest, keepAliveSeconds: number): number {
  return request.stream === true && keepAliveSeconds > 0 ? Math.min(255, Math.max(60, 4 * keepAliveSeconds)) : 0;
}

function describeFailure({ live }: Services, failure: UpstreamError | ApiError): Record<string, unknown> {
  return failure instanceof ApiError
    ? describeError(failure, "failure")
    : describeUpstreamError(failure, errorObjectIn(failure.body), live.config.log.content);
}

/** Extracts the error object from an upstream's error body, in any of the usual forms. */
export function errorObjectIn(body: string | Uint8Array): Record<string, unknown> {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const known = { message: text.slice(0, 2000), type: "server_error", param: "", code: "" };
  try {
    const parsed: unknown = JSON.parse(text);
    const outer = (Array.isArray(parsed) ? parsed[0] : parsed) as Record<string, unknown> | null;
    const inner = outer?.["error"];
    if (typeof inner === "object" && inner !== null) {
      const { message } = inner as { message?: unknown };
      // Clients can't show an error whose message is not text.
      return { ...known, ...inner, message: typeof message === "string" ? message : known.message };
    }
    if (typeof inner === "string") return { ...known, message: inner, code: String(outer?.["code"] ?? "") };
    if (typeof outer?.["message"] === "string") return { ...known, ...outer };
    return known;
  } catch {
    return known;
  }
}
