/** Passes a call on to a provider that speaks the client's format, and its answer back as the bytes that come. */
import type { Caller } from "../auth/keys.ts";
import { mayUseProvider } from "../auth/keys.ts";
import type { Sink } from "../lib/flow.ts";
import { truncate } from "../lib/truncate.ts";
import { ApiError } from "../protocols/errors.ts";
import { patchBody } from "../protocols/patched-body.ts";
import { respell, type Source } from "../protocols/source.ts";
import type { Operation, RemoteProvider } from "../providers/provider.ts";
import type { BoundAccount } from "../upstream/accounts.ts";
import { isUpstreamError, type WholeAnswer } from "../upstream/answer.ts";
import { UsageFinder } from "../upstream/answer-usage.ts";
import { readUpstreamError, visibleHeaders } from "../upstream/call.ts";
import type { PassedRequest, UpstreamAnswer } from "../upstream/client.ts";
import { ClientDisconnected } from "../upstream/client.ts";
import type { CallObserver } from "../upstream/observer.ts";
import { resolveModel, type Target } from "../upstream/target.ts";
import type { AttemptBounds } from "../usage/attempt.ts";
import { mayUseNamed, standsFor } from "./aliases.ts";
import { attemptTarget, nextAttempt } from "./attempts.ts";
import { CallRecorder } from "./call-observer.ts";
import { errorObjectIn } from "./completion.ts";
import type { RequestContext } from "./context.ts";
import { describeError, describeUpstreamError } from "./error-fields.ts";
import { type Finish, respondWhole } from "./respond.ts";
import type { Services } from "./services.ts";

/** The upstream of a call that is passed on. */
export type Relay = {
  readonly caller: Caller;
  /** The model, or what stands for it, as the caller named it. */
  readonly asked: string;
  readonly bound: BoundAccount;
  readonly provider: RemoteProvider;
  /** The upstream's own name of the model; empty where the call names none. */
  readonly model: string;
  readonly observer: CallObserver;
};

/** @throws ApiError unknown_provider, model_not_allowed, or invalid_value for a model that is compiled in */
export function relayTo(
  services: Services,
  context: RequestContext,
  caller: Caller,
  modelId: string,
  bounds: AttemptBounds,
): Relay {
  context.logFields["model"] = truncate(modelId);
  const mayName = (provider: string) => mayUseProvider(caller, provider);
  const meant = standsFor(services, modelId);
  const { bound, name } = resolveModel(services.live.accounts, meant, mayName);
  if (!mayUseNamed(caller, modelId, meant)) throw ApiError.modelNotAllowed(modelId);
  return relayVia(services, context, caller, modelId, bound, name, bounds);
}

/**
 * @param asked the model, or what stands for it, as the caller named it
 * @param model the upstream's own name of it
 * @param bounds undefined where no budget applies
 * @param isFree whether nobody bills such a call
 * @throws ApiError invalid_value for a provider that is compiled in
 */
export function relayVia(
  services: Services,
  context: RequestContext,
  caller: Caller,
  asked: string,
  bound: BoundAccount,
  model: string,
  bounds: AttemptBounds | undefined,
  isFree = false,
): Relay {
  const { provider, account } = bound;
  if (provider.kind === "local") {
    throw ApiError.invalidValue("model", `${account.name} is compiled in: it answers chat completions only.`);
  }
  const call = { model, request: { model, messages: [] }, extras: {}, account, media: new Map() };
  const target: Target = { ...bound, call, legacyFunctions: false };
  const attempt = nextAttempt(context, caller, asked, attemptTarget(context, target), bounds);
  return {
    caller,
    asked,
    bound,
    provider,
    model,
    observer: new CallRecorder(services, context, target, { attempt, isFree }, []),
  };
}

/** @throws ApiError invalid_value where the provider has no such operation */
export function endpointOf({ provider, bound: { account }, model }: Relay, operation: Operation): string {
  const url = provider.endpoint?.(operation, model, account);
  if (url === undefined) throw ApiError.unsupported("model", `${account.name} has no ${operation}.`);
  return url;
}

/** The body as it came, but for the model's name and the fields that have another name there. */
export function jsonRequest(relay: Relay, operation: Operation, source: Source): PassedRequest {
  const { provider, bound, model } = relay;
  const url = endpointOf(relay, operation);
  const next: Record<string, unknown> = { ...source.parsed, model };
  const renamed = provider.operationFields?.(operation) ?? {};
  const names = new Map<string, string>();
  for (const [name, theirs] of Object.entries(renamed)) {
    if (!Object.hasOwn(next, name)) continue;
    if (theirs !== null && next[name] != null) {
      next[theirs] = next[name];
      names.set(theirs, name);
    }
    delete next[name];
  }
  const written =
    respell(source, next) ?? patchBody(source, next, (name) => (names.has(name) ? [name, names.get(name)!] : [name]));
  const { large } = source;
  const body = large === undefined ? written : large.fill(written);
  return {
    url,
    headers: provider.authorization(bound.account),
    // A string that was looked into is there as text.
    body: body ?? JSON.stringify(next),
  };
}

/**
 * Sends the request and waits for the answer's head.
 * @throws ApiError where the upstream can't be reached or is too slow; ClientDisconnected
 */
export async function sendVia(
  services: Services,
  context: RequestContext,
  { bound: { account, timeouts }, observer }: Relay,
  request: PassedRequest,
  signal: AbortSignal,
  onSent?: () => void,
): Promise<UpstreamAnswer> {
  await observer.begin();
  observer.sent(account.name);
  try {
    const answer = await services.upstream.send(request, account, timeouts, signal, onSent);
    observer.answered();
    return answer;
  } catch (error) {
    throw failedWith(context, account.name, observer, error);
  }
}

function failedWith(context: RequestContext, name: string, observer: CallObserver, error: unknown): unknown {
  if (error instanceof ApiError) {
    if (error.status >= 500) observer.upstreamFailed(name, 0);
    observer.failed(error);
    Object.assign(context.logFields, describeError(error, "failure"));
  } else if (error instanceof ClientDisconnected) observer.abandoned();
  else observer.failed(error);
  return error;
}

/** Of an answer of one of OpenAI's operations: what its body is. */
const describing = ["content-type", "content-disposition"];

function headersOf(answer: UpstreamAnswer): Record<string, string> {
  const { "content-type": _, ...headers } = visibleHeaders(answer.headers);
  for (const name of describing) {
    const value = answer.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  return headers;
}

/**
 * Reads an answer to its end.
 * @returns an error of the upstream as it came, and marked as such
 * @throws ApiError for a redirect, which is never followed, and for an answer that breaks
 */
export async function wholeVia(
  services: Services,
  context: RequestContext,
  relay: Relay,
  answer: UpstreamAnswer,
): Promise<WholeAnswer & { readonly body: Uint8Array }> {
  const { account } = relay.bound;
  try {
    if (answer.status < 200 || answer.status >= 300) {
      const error = await readUpstreamError(answer, relay.provider, account.name, relay.observer);
      const fields = describeUpstreamError(error, errorObjectIn(error.body), services.live.config.log.content);
      if (isUpstreamError(error)) Object.assign(context.logFields, fields);
      return { ...error, headers: { ...error.headers, "x-troupe-error-source": "upstream" } };
    }
    const body = await answer.bytes();
    const finder = new UsageFinder(answer.headers.get("content-type"));
    finder.push(Buffer.from(body.buffer, body.byteOffset, body.length));
    await relay.observer.completed({ usage: finder.found(), model: finder.model, upstreamResponseId: undefined });
    return { kind: "whole", status: answer.status, headers: headersOf(answer), body };
  } catch (error) {
    answer.cancel();
    throw failedWith(context, account.name, relay.observer, error);
  }
}

/** Answers that say to be no longer are read whole, so that one that breaks is an error; others stream. */
const maxWhole = 256 * 1024;

/** Answers with what the upstream answers: streamed, unless it is short or an error. @throws as `wholeVia` does */
export async function respondVia(
  services: Services,
  context: RequestContext,
  relay: Relay,
  answer: UpstreamAnswer,
  finish: Finish,
): Promise<Response> {
  const isError = answer.status < 200 || answer.status >= 300;
  const length = Number(answer.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
  if (isError || length <= maxWhole) {
    return respondWhole(context, await wholeVia(services, context, relay, answer), finish);
  }
  return respondBytes(services, context, relay.observer, answer, headersOf(answer), finish);
}

/** Answers with the bytes as they come, whatever the status. A slow reader slows the upstream; one that leaves ends it. */
export function respondBytes(
  services: Services,
  context: RequestContext,
  observer: CallObserver,
  answer: UpstreamAnswer,
  headers: Readonly<Record<string, string>>,
  finish: Finish,
): Response {
  const isBodiless = answer.status === 204 || answer.status === 304 || context.request.method === "HEAD";
  if (isBodiless) {
    answer.drain();
    void observer.completed({ usage: undefined, upstreamResponseId: undefined });
    finish(answer.status);
    return new Response(null, { status: answer.status, headers: { ...headers, ...context.headers } });
  }
  context.logFields["stream"] = true;
  const body = new ByteBody(services, context, observer, answer, finish);
  return new Response(new ReadableStream(body), {
    status: answer.status,
    headers: { ...headers, ...context.headers },
  });
}

/** The body of an answer that is passed on. */
class ByteBody implements Sink<Buffer> {
  readonly #services: Services;
  readonly #context: RequestContext;
  readonly #observer: CallObserver;
  readonly #source: UpstreamAnswer;
  readonly #status: number;
  readonly #usage: UsageFinder;
  readonly #finish: Finish;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #isBegun = false;
  #isClosed = false;
  /** Settles the client's latest wish for more. */
  #wish: (() => void) | undefined;

  constructor(
    services: Services,
    context: RequestContext,
    observer: CallObserver,
    answer: UpstreamAnswer,
    finish: Finish,
  ) {
    this.#services = services;
    this.#context = context;
    this.#observer = observer;
    this.#source = answer;
    this.#status = answer.status;
    this.#usage = new UsageFinder(answer.headers.get("content-type"));
    this.#finish = finish;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.#services.metrics.streamOpened(this.#context.area);
    this.#source.flow(this);
  }

  pull(): Promise<void> | undefined {
    if (this.#isClosed) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wish = resolve;
    this.#source.resume();
    return promise;
  }

  cancel(): void {
    if (this.#isClosed) return;
    this.#observer.abandoned(this.#usage.found());
    this.#source.cancel();
    this.#close("cancelled");
  }

  push(bytes: Buffer): void {
    if (this.#isClosed) return;
    if (!this.#isBegun) this.#observer.firstFragment();
    this.#isBegun = true;
    this.#usage.push(bytes);
    this.#controller.enqueue(bytes);
    if ((this.#controller.desiredSize ?? 0) > 0) return;
    this.#source.pause();
    this.#grant();
  }

  end(): void {
    if (this.#isClosed) return;
    if (!this.#source.isProven) {
      this.fail(ApiError.upstreamUnreachable(`${this.#source.name} broke the connection, or ended it without a word.`));
      return;
    }
    if (this.#status < 400) {
      const [usage, model] = [this.#usage.found(), this.#usage.model];
      void this.#observer.completed({ usage, model, upstreamResponseId: undefined });
    }
    this.#close("finished");
    this.#controller.close();
  }

  /** Nothing can be said behind the bytes that went out, but that they are not all: the connection breaks. */
  fail(error: unknown): void {
    if (this.#isClosed) return;
    const isGone = this.#context.request.signal.aborted;
    if (isGone) this.#observer.abandoned(this.#usage.found());
    else this.#observer.faulted(error instanceof ApiError ? error : ApiError.internal(error), this.#usage.found());
    this.#close(isGone ? "cancelled" : "faulted");
    this.#controller.error(error);
  }

  #close(end: "finished" | "faulted" | "cancelled"): void {
    this.#isClosed = true;
    this.#grant();
    this.#services.metrics.streamClosed(this.#context.area);
    this.#finish(this.#status, end);
  }

  #grant(): void {
    this.#wish?.();
    this.#wish = undefined;
  }
}
