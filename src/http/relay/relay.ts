/** Passes a call on to a provider that speaks the client's format, and its answer back as the bytes that come. */
import { mayUseProvider } from "../../auth/keys.ts";
import { checkNamedModels, mayUseNamed, standsFor } from "../../call/admit/named.ts";
import type { RequestContext } from "../../call/context.ts";
import { sessionKey } from "../../call/read/conversation-key.ts";
import { describeError, describeUpstreamError, errorObjectIn } from "../../call/relay/error-fields.ts";
import { respondWhole } from "../../call/relay/relay.ts";
import type { Admitted } from "../../call/scope.ts";
import { attemptAt, CallRecorder } from "../../call/settle/settle.ts";
import { parseJson } from "../../lib/json/json.ts";
import { JsonProof } from "../../lib/json/proof.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { turnEnd } from "../../lib/time/turn-end.ts";
import { patchBody } from "../../protocols/body/patched-body.ts";
import { filledText, respell, type Source } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Operation, RemoteProvider } from "../../providers/provider.ts";
import type { BoundAccount } from "../../upstream/accounts.ts";
import { isUpstreamError, type WholeAnswer } from "../../upstream/answer.ts";
import { tellTier } from "../../upstream/call.ts";
import type { PassedRequest, UpstreamAnswer } from "../../upstream/client.ts";
import { ClientDisconnected } from "../../upstream/client.ts";
import type { CallObserver } from "../../upstream/observer.ts";
import { resolveModel, type Target } from "../../upstream/target.ts";
import { readUpstreamError, visibleHeaders } from "../../upstream/upstream-error.ts";
import type { AttemptBounds, TextMeter } from "../../usage/attempt.ts";
import { type Ahead, finderFor, notWhole, readAhead, respondBytes } from "./byte-body.ts";

/** Who passes a call on. */
type From = Pick<Admitted, "services" | "context" | "caller">;

/** Where a call is passed on to. */
type To = {
  /** The model, or what stands for it, as the caller named it. */
  readonly asked: string;
  readonly bound: BoundAccount;
  /** The upstream's own name of the model; empty where the call names none. */
  readonly model: string;
};

/** The upstream of a call that is passed on. */
export type Relay = From &
  To & {
    readonly provider: RemoteProvider;
    readonly observer: CallObserver;
  };

/**
 * @param bounds undefined where no budget applies
 * @throws ApiError unknown_provider, model_not_allowed, or invalid_value for a model that is compiled in
 */
export function relayTo(from: From, modelId: string, bounds: AttemptBounds | undefined, input?: TextMeter): Relay {
  const { services, context, caller } = from;
  context.logFields["model"] = truncate(modelId);
  const mayName = (provider: string) => mayUseProvider(caller, provider);
  const meant = standsFor(services, modelId);
  const { bound, name } = resolveModel(services.live.accounts, meant, mayName);
  if (!mayUseNamed(caller, modelId, meant)) throw ApiError.modelNotAllowed(modelId);
  const named = { asked: modelId, model: name };
  if (bound.pool === undefined) return relayVia(from, { ...named, bound }, bounds, { input });
  const picked = services.pools.pick(bound, name, sessionKey(context.request));
  const relay = relayVia(from, { ...named, bound: picked }, bounds, { input });
  return { ...relay, observer: services.pools.observed(relay.observer, picked, name) };
}

/**
 * @param bounds undefined where no budget applies
 * @param accounts whether nobody bills such a call, and what its request is estimated by where the answer has no counts
 * @throws ApiError invalid_value for a provider that is compiled in
 */
export function relayVia(
  { services, context, caller }: From,
  { asked, bound, model }: To,
  bounds: AttemptBounds | undefined,
  accounts: { readonly isFree?: boolean; readonly input?: TextMeter | undefined } = {},
): Relay {
  const { provider, account } = bound;
  if (provider.kind === "local") {
    throw ApiError.invalidValue("model", `${account.name} is compiled in: it answers chat completions only.`);
  }
  const call = { model, request: { model, messages: [] }, extras: {}, account, media: new Map() };
  const target: Target = { ...bound, call, legacyFunctions: false };
  const attempt = attemptAt({ context, caller }, asked, target, bounds);
  return {
    services,
    context,
    caller,
    asked,
    bound,
    provider,
    model,
    observer: new CallRecorder(services, context, attempt, accounts, []),
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
  const { provider, bound, model, caller } = relay;
  checkNamedModels(caller, bound.account.name, "gateway", source);
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
  return { url, body: filledText(source, written, next) };
}

/**
 * Sends the request and waits for the answer's head.
 * @throws ApiError where the upstream can't be reached or is too slow; ClientDisconnected
 */
export async function sendVia(
  { services, context, bound, provider, observer }: Relay,
  request: PassedRequest,
  signal: AbortSignal,
  onSent?: () => void,
): Promise<UpstreamAnswer> {
  await observer.begin(signal);
  observer.sent(bound.account.name);
  try {
    const answer = await services.upstream.send(request, bound, signal, onSent);
    await turnEnd();
    observer.answered(answer.status);
    tellTier(provider, answer, observer);
    return answer;
  } catch (error) {
    throw failedWith(context, bound.account.name, observer, error);
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

/** Headers that describe the body of an answer of one of OpenAI's operations. */
const describing = ["content-type", "content-disposition"];

function headersOf(answer: UpstreamAnswer): Record<string, string> {
  const { "content-type": _, ...headers } = visibleHeaders(answer.headers);
  for (const name of describing) {
    const value = answer.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  return headers;
}

/** Those whose answers are JSON, or events where they are asked for. */
const jsonOperations: ReadonlySet<string> = new Set<Operation>([
  ...(["embeddings", "moderations", "rerank"] as const),
  ...(["images/generations", "images/edits", "images/variations"] as const),
]);

/** Reads the content type of the others: a transcription may be JSON or a text. */
function promisesJson(answer: UpstreamAnswer, operation: Operation): boolean {
  if (answer.status === 204 || answer.isEventStream) return false;
  return jsonOperations.has(operation) || /[/+]json\b/i.test(answer.headers.get("content-type") ?? "");
}

/** Answers of up to so many bytes are parsed to see that they are JSON; of longer ones the brackets are counted. */
const maxParsed = 64 * 1024;

/** An object or a list that holds something: an empty one answers nothing. */
function isWholeJson(body: Uint8Array): boolean {
  if (body.length <= maxParsed) {
    const value = parseJson(new TextDecoder().decode(body));
    return typeof value === "object" && value !== null && Object.keys(value).length > 0;
  }
  const proof = new JsonProof();
  proof.push(body);
  return proof.isWhole;
}

/**
 * Reads an answer to its end.
 * @param ahead all of it, where it was read already
 * @returns an error of the upstream as it came, and marked as such
 * @throws ApiError for a redirect, which is never followed, and for an answer that breaks, or whose JSON is not whole
 */
async function wholeVia(
  relay: Relay,
  answer: UpstreamAnswer,
  operation: Operation,
  ahead?: Ahead,
): Promise<WholeAnswer & { readonly body: Uint8Array }> {
  const { services, context, bound } = relay;
  const { account } = bound;
  try {
    if (answer.status < 200 || answer.status >= 300) {
      const error = await readUpstreamError(answer, relay.provider, account.name, relay.observer);
      const fields = describeUpstreamError(error, errorObjectIn(error.body), services.live.config.log.content);
      if (isUpstreamError(error)) Object.assign(context.logFields, fields);
      return { ...error, headers: { ...error.headers, "x-troupe-error-source": "upstream" } };
    }
    const body = ahead === undefined ? await answer.bytes() : Buffer.concat(ahead.parts);
    if (promisesJson(answer, operation) && !isWholeJson(body)) throw notWhole(account.name);
    const finder = finderFor(answer, relay.observer);
    finder.push(Buffer.from(body.buffer, body.byteOffset, body.length));
    await relay.observer.completed({ usage: finder.found(), model: finder.model, upstreamResponseId: undefined });
    return { kind: "whole", status: answer.status, headers: headersOf(answer), body };
  } catch (error) {
    answer.cancel();
    throw failedWith(context, account.name, relay.observer, error);
  }
}

/** Sends the request and reads its answer to its end. @throws as both do */
export const askVia = async (
  relay: Relay,
  request: PassedRequest,
  signal: AbortSignal,
  operation: Operation,
): Promise<WholeAnswer & { readonly body: Uint8Array }> =>
  wholeVia(relay, await sendVia(relay, request, signal), operation);

/** Answers that are no longer are read whole, so that one that breaks is an error; others stream. */
const maxWhole = 256 * 1024;

/**
 * Answers with what the upstream answers: streamed, unless it is short or an error. JSON is held until it is known to be longer
 * than is held; what streams of it breaks the connection where it ends before its end.
 * @throws as `wholeVia` does
 */
export async function respondVia(relay: Relay, answer: UpstreamAnswer, operation: Operation): Promise<Response> {
  const { context, observer } = relay;
  const isError = answer.status < 200 || answer.status >= 300;
  const length = Number(answer.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
  if (isError || length <= maxWhole) return respondWhole(context, await wholeVia(relay, answer, operation));
  if (!promisesJson(answer, operation)) return respondBytes(relay, answer, headersOf(answer));
  const ahead = await readAhead(answer, maxWhole).catch((error) => {
    answer.cancel();
    throw failedWith(context, relay.bound.account.name, observer, error);
  });
  if (ahead.isWhole) return respondWhole(context, await wholeVia(relay, answer, operation, ahead));
  const proven = { ahead, proof: new JsonProof() };
  return respondBytes(relay, answer, headersOf(answer), proven);
}
