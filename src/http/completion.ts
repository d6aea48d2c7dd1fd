/** A completion, start to end: the one path of both surfaces and of every client format. */

import type { Caller } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import { fingerprint, fingerprintInSlices } from "../idempotency/fingerprint.ts";
import { withEndCallback } from "../lib/flow.ts";
import { truncate } from "../lib/truncate.ts";
import { hugeBody } from "../protocols/body.ts";
import type { ChatRequest, CompletionBody, Envelope } from "../protocols/chat/schema.ts";
import { ApiError, type UpstreamFault } from "../protocols/errors.ts";
import type { ErrorFields, EventEncoder, ParsedCall, Protocol } from "../protocols/protocol.ts";
import { parsedBytes, type Source } from "../protocols/source.ts";
import {
  type Answer,
  type EventSource,
  isUpstreamError,
  type Producer,
  type UpstreamError,
  type WholeAnswer,
} from "../upstream/answer.ts";
import type { CallOptions } from "../upstream/call.ts";
import { callWithFallback, type FallbackReport } from "../upstream/fallback.ts";
import type { Target } from "../upstream/target.ts";
import { admit } from "./authenticate.ts";
import { CallRecorder, type Remember } from "./call-observer.ts";
import type { RequestContext } from "./context.ts";
import { type Conversation, openConversation } from "./conversation.ts";
import { describeError, describeUpstreamError } from "./error-fields.ts";
import { readJson } from "./request-body.ts";
import { type Finish, jsonAnswer, respondStream, respondWhole, type StreamRules } from "./respond.ts";
import type { Services } from "./services.ts";

type Plan = {
  /** What will be called, in order of preference. */
  readonly targets: readonly Target[];
  /** Whether the exchange is to be kept. */
  readonly store: boolean;
  /** Whether an upstream that holds conversations may hold this one. */
  readonly upstreamMayHold: boolean;
};

/** What the two surfaces do differently. */
export interface Surface {
  readonly name: SurfaceName;
  /**
   * @param request with the messages of the conversation it continues
   * @param source the request as it was sent
   * @throws ApiError
   */
  plan(services: Services, caller: Caller, request: ChatRequest, source: Source): Plan;
  /** An upstream's error as this surface's callers see it. @throws ApiError in its place */
  upstreamErrorAnswer(error: UpstreamError, protocol: Protocol): WholeAnswer;
  /** An error of the relay as this surface's callers see it. */
  failure(error: ApiError): ApiError;
  /** An error within a stream. */
  fault(fault: UpstreamFault | ApiError): ErrorFields;
}

export async function createCompletion(
  services: Services,
  context: RequestContext,
  surface: Surface,
  protocol: Protocol,
  finish: Finish,
): Promise<Response> {
  const caller = admit(services, context, surface.name);
  const { limits, streams, log } = services.live.config;
  const source = await readJson(context, limits);
  if (source.large !== undefined && (log.content || isIdentified(context))) await source.large.restore([source.parsed]);
  const call = protocol.parse(source, context);
  const { request } = call;
  context.logFields["model"] = truncate(request.model);
  if (log.content) logContent(context, "messages", request.messages);
  context.setIdleTimeout(idleTimeoutOf(request, streams.keepAliveSeconds));
  const writer = writerFor(protocol, call, newEnvelope(services, context, protocol, request.model));
  const asked = { caller, call, source, writer };
  if (request.stream !== true) {
    const { signal } = context.request;
    return respondWhole(context, wholeOf(await start(services, context, surface, asked, signal)), finish);
  }
  context.logFields["stream"] = true;
  const disconnected = abortedWith(context.request.signal);
  const answering = start(services, context, surface, asked, disconnected.signal);
  return respondStream(services, context, answering, streamRules(services, surface, writer, disconnected), finish);
}

/** `AbortSignal.any` does the same, at several times the cost. */
function abortedWith(signal: AbortSignal): AbortController {
  const controller = new AbortController();
  if (signal.aborted) controller.abort();
  else signal.addEventListener("abort", () => controller.abort(), { once: true });
  return controller;
}

/** Writes one call's answer, in whatever form it comes. */
type Writer = {
  readonly protocol: Protocol;
  readonly envelope: Envelope;
  readonly whole: (answer: CompletionBody) => object;
  readonly encoder: () => EventEncoder;
};

/** Made apart from the request, as are the rules of a stream: what is held by these stays for as long as the stream does. */
function writerFor(protocol: Protocol, { options }: ParsedCall<unknown>, envelope: Envelope): Writer {
  return {
    protocol,
    envelope,
    whole: (answer) => protocol.completion(answer, envelope, options),
    encoder: () => protocol.encoder(envelope, options),
  };
}

function streamRules({ live }: Services, surface: Surface, writer: Writer, disconnected: AbortController): StreamRules {
  return {
    keepAliveMs: live.config.streams.keepAliveSeconds * 1000,
    keepAlive: writer.protocol.keepAlive,
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

type Asked = {
  readonly caller: Caller;
  readonly call: ParsedCall<unknown>;
  /** The request as it was sent. */
  readonly source: Source;
  readonly writer: Writer;
};

function start(
  services: Services,
  context: RequestContext,
  surface: Surface,
  asked: Asked,
  signal: AbortSignal,
): Promise<Answer> {
  const requestId = serviceRequestId(context);
  if (requestId === undefined) return answer(services, context, surface, asked, signal);
  const produce = (until: AbortSignal) =>
    whileRetained(context, until, () => answer(services, context, surface, asked, until));
  return idempotentAnswer(services, context, asked, requestId, signal, produce);
}

/** The call may outlive its client: until it ends, its body counts as in memory. @param until aborts when it is cancelled */
async function whileRetained(
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

/** From the checked request to what the upstream makes of it. */
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
  try {
    const planned = planCall(services, context, surface, asked);
    return planned instanceof Promise ? planned.then(call) : call(planned);
  } catch (error) {
    return Promise.reject(error);
  }
}

type Planned = { readonly plan: Plan; readonly conversation: Conversation };

/** A promise only where the store is asked. @throws ApiError, as it may reject with */
function planCall(
  services: Services,
  context: RequestContext,
  surface: Surface,
  { caller, call: { request }, source }: Asked,
): Planned | Promise<Planned> {
  const planned = (conversation: Conversation) => {
    const plan = surface.plan(services, caller, conversation.whole, source);
    return plan.store ? conversation.checkStorage().then(() => ({ plan, conversation })) : { plan, conversation };
  };
  const conversation = openConversation(services, context, caller, surface.name, request);
  return conversation instanceof Promise ? conversation.then(planned) : planned(conversation);
}

/** Apart from the request, as are all that wait: what an asynchronous function was given is held until it is done. */
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
  return surface.upstreamErrorAnswer(called, protocol);
}

/** @throws ApiError before anything is called */
function callUpstream(
  services: Services,
  context: RequestContext,
  surface: Surface,
  { caller, call: { request }, source, writer }: Asked,
  { plan, conversation }: Planned,
  signal: AbortSignal,
): Promise<Answer<EventSource>> {
  const targets = plan.targets
    .map((target) => (plan.upstreamMayHold ? conversation.heldUpstream(target) : target))
    .map((target) => restoreThinkingState(services, caller, target));
  // Another target and what is stored need the request for longer.
  const isSentOnce = targets.length === 1 && !plan.store;
  const onSent = isSentOnce ? releaseOf(context) : undefined;
  const completion = completionOf(writer);
  const optionsFor = (target: Target): CallOptions => {
    const { provider, call } = target;
    const thinkingRequested = provider.kind === "remote" && provider.wantsThoughts(call);
    const form = { thinkingRequested, choices: call.request.n ?? 1 };
    const memories = memoriesOf(services, caller, target);
    if (plan.store) memories.push(conversation.remember(target, form, writer.envelope));
    if (services.live.config.log.content) memories.push(({ choices }) => logContent(context, "choices", choices));
    const observer = new CallRecorder(services, context, target, memories);
    return {
      form,
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
    services.log.warn("a persona's model failed; the next one is asked", {
      request_id: context.id,
      persona: truncate(request.model),
      provider: target.account.name,
      upstream_model: target.call.model,
      ...describeFailure(services, failure),
    });
  };
  const call = () => {
    const calling = callWithFallback(services, targets, optionsFor, report);
    return isSentOnce || plan.store ? calling : calling.finally(() => context.release());
  };
  const { large } = source;
  if (large === undefined || !plan.store) return call();
  return large.restore([source.parsed, conversation.whole]).then(call);
}

/** Made apart from the request, as it lives for as long as an answer is waited for. */
const releaseOf = (context: RequestContext) => () => context.forgetBody();

/** Made apart from the request, too. */
const completionOf = (writer: Writer) => (body: CompletionBody) => jsonAnswer(writer.whole(body));

/** With a service-request-id: called once, joined while it runs, and given again from what is kept. */
function idempotentAnswer(
  services: Services,
  context: RequestContext,
  { caller, call: { identity }, source }: Asked,
  requestId: string,
  signal: AbortSignal,
  produce: Producer,
): Promise<Answer> {
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
    ({ answer: shared, replayed, joined }) => {
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

/** The names of the header, the own one first. */
const requestIdNames = ["service-request-id", "idempotency-key"];

const isIdentified = ({ request }: RequestContext) => requestIdNames.some((name) => request.headers.has(name));

/** Echoed on the answer. @throws ApiError invalid_value */
function serviceRequestId({ request, headers }: RequestContext): string | undefined {
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
  throw new Error("a stream where a whole answer was asked for");
}

const scopeOf = (caller: Caller, target: Target) => `${caller.keyId} ${target.account.name} ${target.call.model}`;

/** Gives back the thinking state that a client's library stripped from the history. */
function restoreThinkingState(services: Services, caller: Caller, target: Target): Target {
  const request = services.replayMemory.restore(scopeOf(caller, target), target.call.request);
  return request === target.call.request ? target : { ...target, call: { ...target.call, request } };
}

/** Who wants the whole answer. Thinking state matters only where tools may be called. */
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

/** For an operator who chose to read along; as a text, in which the log hides keys as it does everywhere. */
function logContent({ logFields }: RequestContext, name: "messages" | "choices", content: unknown): void {
  logFields[name] = JSON.stringify(content);
}

function newEnvelope(
  { clock }: Services,
  { uniqueId }: RequestContext,
  { answerIdPrefix }: Protocol,
  model: string,
): Envelope {
  return { id: `${answerIdPrefix}${uniqueId}`, created: Math.floor(clock.now() / 1000), model };
}

/**
 * How long the connection may stay without progress. A stream writes at least its keep-alive comments, so one that makes
 * no progress has a reader that went away; without comments, and for plain answers, silence means nothing.
 */
function idleTimeoutOf(request: ChatRequest, keepAliveSeconds: number): number {
  return request.stream === true && keepAliveSeconds > 0 ? Math.min(255, Math.max(60, 4 * keepAliveSeconds)) : 0;
}

function describeFailure({ live }: Services, failure: UpstreamError | ApiError): Record<string, unknown> {
  return failure instanceof ApiError
    ? describeError(failure, "failure")
    : describeUpstreamError(failure, errorObjectIn(failure.body), live.config.log.content);
}

/** The error object inside an upstream's own body, in whatever form it is kept there. */
export function errorObjectIn(body: string | Uint8Array): Record<string, unknown> {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const known = { message: text.slice(0, 2000), type: "server_error", param: "", code: "" };
  try {
    const parsed: unknown = JSON.parse(text);
    const outer = (Array.isArray(parsed) ? parsed[0] : parsed) as Record<string, unknown> | null;
    const inner = outer?.["error"];
    if (typeof inner === "object" && inner !== null) {
      const { message } = inner as { message?: unknown };
      // Clients show nothing of an error whose message is no text.
      return { ...known, ...inner, message: typeof message === "string" ? message : known.message };
    }
    if (typeof inner === "string") return { ...known, message: inner, code: String(outer?.["code"] ?? "") };
    if (typeof outer?.["message"] === "string") return { ...known, ...outer };
    return known;
  } catch {
    return known;
  }
}
