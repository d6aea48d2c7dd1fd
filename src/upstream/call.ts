/** Makes one upstream call: encodes, sends, decodes and normalises. Gives an `Answer`, which `call/relay/relay.ts` turns into HTTP. */

import { keepNumbers } from "../lib/json/exact.ts";
import { isTooDeep, parseJson } from "../lib/json/json.ts";
import { folded } from "../lib/streams/flow.ts";
import type { Framing } from "../lib/streams/sse.ts";
import type { Clock } from "../lib/time/clock.ts";
import { nextSlice } from "../lib/time/cooperative-scheduling.ts";
import { turnEnd } from "../lib/time/turn-end.ts";
import { hugeBody } from "../protocols/body/body.ts";
import {
  type Source as BodySource,
  bodyBytes,
  fillLarge,
  restoreLarge,
  restoreTranslated,
} from "../protocols/body/source.ts";
import { StreamFold } from "../protocols/chat/fold.ts";
import { downgradeCompletion } from "../protocols/chat/legacy-functions.ts";
import type { ChunkBody, CompletionBody, Delta } from "../protocols/chat/schema.ts";
import { ApiError, InvalidAnswer, readingError, UpstreamFault } from "../protocols/errors.ts";
import type { NativeEncoder } from "../protocols/protocol.ts";
import type {
  AnsweredCall,
  Call,
  LocalProvider,
  NativeRoute,
  RemoteProvider,
  UpstreamRequest,
} from "../providers/provider.ts";
import type { Answer, EventSource, StreamAnswer, UpstreamError, WholeAnswer } from "./answer.ts";
import { ClientDisconnected, type Upstream, type UpstreamAnswer } from "./client.ts";
import type { MediaFetcher } from "./media.ts";
import type { CallObserver } from "./observer.ts";
import { type AnswerEvents, mayBreakOff } from "./stream/answer-events.ts";
import { withCost } from "./stream/cost.ts";
import { ChunkList, type ChunkSource, DecodedStream } from "./stream/decode.ts";
import { EncodedStream, type EncodingOptions, type StreamWriter } from "./stream/encoded-stream.ts";
import { NativeStream, type NativeStreamOptions } from "./stream/native-stream.ts";
import { normaliseCompletion } from "./stream/normaliser.ts";
import { lasting, PacedChunks } from "./stream/paced.ts";
import { type Target, targetAt } from "./target.ts";
import { errorHeaders, readUpstreamError, typeOf } from "./upstream-error.ts";

/** Writes an answer in the client's format, plain or streamed. */
export type AnswerWriter = StreamWriter & {
  completion(body: CompletionBody): WholeAnswer;
};

export type CallOptions = EncodingOptions & {
  readonly writer: AnswerWriter;
  /** The id of the answer that the caller gets. */
  readonly answerId: string;
  readonly signal: AbortSignal;
  /** Present where the upstream speaks the client's format. */
  readonly native?: NativeCall | undefined;
  /** Called once the request is sent and its body is no longer held here. Not called where it is held for longer. */
  readonly onSent?: (() => void) | undefined;
  /** Present where something was chosen here that the upstream may refuse. */
  readonly again?: Again | undefined;
};

/** Asks once more where an upstream refuses what was chosen here. Holds the request until the upstream answers. */
export type Again = {
  /** @returns the answer to a call without it, which has an observer of its own; undefined where the refusal is the caller's to hear */
  refused(failure: UpstreamError): Promise<Answer<EventSource>> | undefined;
  /** The upstream does not refuse. */
  over(): void;
};

/** Prepares the attempts of a call. */
export type Attempts = {
  /** @param mayFallBack true where another call may follow if this one fails */
  optionsFor(target: Target, mayFallBack: boolean): CallOptions;
  /** Called with the error of a target before the next one is tried. */
  failed(target: Target, failure: UpstreamError | ApiError): void;
};

/** The reading of an answer in the client's own format. It holds nothing of the request. */
type NativeReading = Pick<NativeStreamOptions, "passesFaults" | "endsWithStream" | "ownEcho"> & {
  /** The client's and the upstream's. */
  readonly format: string;
  readonly route: NativeRoute;
  /** What clients of the format find of a plain answer. */
  readonly shownWhole?: ((text: string) => string) | undefined;
  /** For one stream. */
  readonly encoder: () => NativeEncoder;
};

/** A call that is not translated. */
export type NativeCall = {
  /** True if the upstream may keep the answer. */
  readonly mayHold: boolean;
  readonly reading: NativeReading;
  /** Encodes the client's own body, patched. */
  readonly encode: (call: Call) => UpstreamRequest;
};

export type CallTools = {
  readonly upstream: Upstream;
  readonly media: Pick<MediaFetcher, "fetch">;
  readonly clock: Clock;
};

/**
 * Makes the call. A stream is held back until its first fragment is there, so that an error before it is still an error.
 * @throws ApiError when the upstream can't be reached or is too slow; ClientDisconnected when `options.signal` aborts
 */
export async function callUpstream(
  tools: CallTools,
  target: Target,
  options: CallOptions,
): Promise<Answer<EventSource>> {
  const { provider } = target;
  const { native, observer, signal, onSent } = options;
  await observer.begin(signal);
  if (provider.kind === "local") return callLocal(tools.clock, provider, target, options);
  let request: UpstreamRequest;
  try {
    request = await encode(tools.media, provider, target.call, options);
  } catch (error) {
    notifyFailed(observer, error);
    throw error;
  }
  // Without the body, which `native` holds.
  const reading = native && { ...options, native: undefined, reading: native.reading };
  const answered = withoutInput(target, options.answerId);
  observer.sent(target.account.name);
  // Not awaited: that would hold the request, which is to be free once it is sent.
  return answerOf(tools.upstream.send(request, answered, signal, onSent), provider, answered, reading ?? options);
}

/** Fetches what the provider does not fetch itself, and encodes the call: a large body in pieces of work. */
async function encode(
  media: CallTools["media"],
  provider: RemoteProvider,
  call: Call,
  options: CallOptions,
): Promise<UpstreamRequest> {
  const { native, signal } = options;
  const encoder = native ?? provider;
  const wanted = native === undefined ? provider.remoteMedia?.(call) : undefined;
  const fetched = wanted?.length ? { ...call, media: await media.fetch(wanted, signal) } : call;
  const { source, request } = call;
  if (source === undefined) return encoder.encode(fetched);
  const isLarge = source.large !== undefined;
  if (isLarge && !speaksClientFormat(provider, call, options)) await restoreTranslated(source, request);
  if (bodyBytes(source) >= hugeBody) await nextSlice();
  return isLarge ? encodeAround(source, encoder, fetched) : encoder.encode(fetched);
}

/** True where what the client said is not said in other words. */
const speaksClientFormat = (provider: RemoteProvider, call: Call, { native }: CallOptions): boolean =>
  native !== undefined ||
  (call.clientFormat === undefined && (provider.formatOf?.(call) ?? provider.format) === "chat");

type ReadingOptions = CallOptions & { readonly reading?: NativeReading };

/** Encodes a call around its large strings; with all of its text where that can't be done. */
async function encodeAround(
  source: BodySource,
  encoder: Pick<NativeCall, "encode">,
  call: Call,
): Promise<UpstreamRequest> {
  const around = fillRequest(source, () => encoder.encode(call));
  if (around !== undefined) return around;
  await restoreLarge(source, [source.parsed, call.request]);
  await nextSlice();
  const request = encoder.encode(call);
  return { ...request, body: fillLarge(source, request.body)! };
}

/** @returns undefined where the encoder, or an error message, needs the text of a large string */
function fillRequest(source: BodySource, encode: () => UpstreamRequest): UpstreamRequest | undefined {
  try {
    const request = encode();
    const body = fillLarge(source, request.body);
    return body === undefined ? undefined : { ...request, body };
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/**
 * The part of the target that decoding the answer needs, so that a large request is not held in memory while the upstream thinks.
 * A final assistant message stays, as some upstreams begin their answer with it.
 */
function withoutInput(target: Target, answerId: string): AnsweredTarget {
  const { call } = target;
  const last = call.request.messages.at(-1);
  const messages = last?.role === "assistant" ? [last] : noMessages;
  const answered = { ...call, source: undefined, media: noMedia, request: { ...call.request, messages }, answerId };
  return targetAt(target, answered, target.legacyFunctions);
}

type AnsweredTarget = Target & { readonly call: AnsweredCall };

const noMessages: Call["request"]["messages"] = [];
const noMedia: Call["media"] = new Map();

/** Does not take the request, as an asynchronous function holds its arguments until it settles. */
async function answerOf(
  sending: Promise<UpstreamAnswer>,
  provider: RemoteProvider,
  target: AnsweredTarget,
  options: ReadingOptions,
): Promise<Answer<EventSource>> {
  const { account, call: answered } = target;
  const { observer, reading } = options;
  const reader: Reader = reading?.route ?? provider;
  const format = reading?.format ?? provider.format;
  let answer: UpstreamAnswer | undefined;
  let isAskedAgain = false;
  try {
    try {
      answer = await sending;
    } finally {
      observer.answered(answer?.status);
    }
    await turnEnd();
    if (provider.servedTier !== undefined) tellTier(provider, answer, observer);
    if (answer.status < 200 || answer.status >= 300) {
      const failure = await readUpstreamError(answer, provider, account.name, observer, format);
      const again = options.again?.refused(failure);
      isAskedAgain = again !== undefined;
      return again === undefined ? failure : await again;
    }
    options.again?.over();
    const streamed = answered.request.stream === true;
    const isJson = answer.headers.get("content-type")?.includes("json") === true;
    const decoder = streamed || !isJson ? reader.streamDecoder(answered) : undefined;
    if (decoder !== undefined && (await isStream(answer, decoder.framing, streamed))) {
      if (streamed && reading !== undefined)
        return await opened(
          new NativeStream(answer, decoder, { ...options, ...reading, encoder: reading.encoder() }),
          observer,
        );
      const chunks = new DecodedStream(answer, decoder);
      if (streamed) return await openStream(chunks, target, options);
      return await completion(await collect(chunks, account.name), chunks.upstreamResponseId, target, options);
    }
    if (!streamed && reading !== undefined) return await passWhole(answer, reader, answered, observer, reading);
    const { whole, upstreamResponseId } = decodePlain(await answer.text(), reader, answered);
    // Some upstreams ignore `stream: true`.
    if (streamed) return await openStream(new ChunkList([chunkOf(whole)], upstreamResponseId), target, options);
    return await completion(whole, upstreamResponseId, target, options);
  } catch (error) {
    if (isAskedAgain) throw error;
    answer?.cancel();
    if (error instanceof ApiError && error.status >= 500) {
      // An unreadable answer had a status; without an answer it is 0.
      const isAnswered = answer !== undefined && error.code === "upstream_invalid_response";
      observer.upstreamFailed(account.name, isAnswered ? answer!.status : 0);
    }
    if (!(error instanceof UpstreamFault) || answer === undefined) {
      notifyFailed(observer, error);
      throw error;
    }
    const failure: UpstreamError = {
      kind: "whole",
      provider: account.name,
      format,
      status: error.status,
      headers: { ...errorHeaders(answer.headers, provider, error.payload), "content-type": typeOf(error.payload) },
      body: new TextEncoder().encode(error.payload),
    };
    observer.upstreamFailed(account.name, error.status, failure, error.counted);
    return failure;
  }
}

/** Tells the service tier that an answer's head names, if it does. */
export function tellTier(
  provider: RemoteProvider,
  { headers }: UpstreamAnswer,
  observer: Pick<CallObserver, "tierTold">,
): void {
  const tier = provider.servedTier?.((name) => headers.get(name));
  if (tier !== undefined) observer.tierTold(tier);
}

function notifyFailed(observer: CallObserver, error: unknown): void {
  if (error instanceof ClientDisconnected) observer.abandoned();
  else observer.failed(error);
}

async function callLocal(
  clock: Clock,
  provider: LocalProvider,
  target: Target,
  options: CallOptions,
): Promise<Answer<EventSource>> {
  options.observer.sent(provider.name);
  options.observer.answered();
  const { call } = target;
  if (call.source !== undefined) await restoreLarge(call.source, [call.request]);
  const pauses = call.model === provider.probe ? provider.pauses(call) : undefined;
  if (call.request.stream === true) {
    const chunks = provider.stream(call);
    return openStream(
      pauses === undefined ? new ChunkList(chunks) : new PacedChunks(chunks, pauses, clock),
      target,
      options,
    );
  }
  if (pauses !== undefined)
    await lasting(clock, pauses, options.signal).catch((error) => {
      notifyFailed(options.observer, error);
      throw error;
    });
  return completion(provider.answer(call), undefined, target, options);
}

/** @throws ApiError upstream_invalid_response where the client's format has no place for what was answered */
async function completion(
  body: CompletionBody,
  upstreamResponseId: string | undefined,
  target: Target,
  { form, observer, writer }: CallOptions,
): Promise<WholeAnswer> {
  const normal = normaliseCompletion(target.legacyFunctions ? downgradeCompletion(body) : body, form);
  let answer: WholeAnswer;
  try {
    answer = writer.completion(form.showsCost === true ? withCost(normal, observer, body) : normal);
  } catch (error) {
    const fault = readingError(error, target.account.name);
    observer.failed(fault, body.usage);
    throw fault;
  }
  await observer.completed({ usage: body.usage, completion: body, upstreamResponseId });
  return answer;
}

/** Reads answers. */
type Reader = Pick<RemoteProvider, "decode" | "streamDecoder" | "upstreamResponseId">;

/** A plain answer in the client's own format, byte for byte but for what it repeats of a persona. */
async function passWhole(
  answer: UpstreamAnswer,
  reader: Reader,
  call: AnsweredCall,
  observer: CallObserver,
  { ownEcho, shownWhole }: Pick<NativeReading, "ownEcho" | "shownWhole">,
): Promise<WholeAnswer> {
  const bytes = await answer.bytes();
  const text = new TextDecoder().decode(bytes);
  const { whole, upstreamResponseId } = decodePlain(text, reader, call);
  const said = ownEcho?.(text) ?? text;
  const passed = shownWhole?.(said) ?? said;
  const body = passed === text ? bytes : new TextEncoder().encode(passed);
  await observer.completed({ usage: whole.usage, completion: whole, upstreamResponseId, passed });
  const headers = { "content-type": answer.headers.get("content-type") ?? "application/json" };
  return { kind: "whole", status: 200, headers, body };
}

type Plain = { readonly whole: CompletionBody; readonly upstreamResponseId: string | undefined };

/** The error of an answer that is no JSON does not quote it, as it may hold conversation text. @throws UpstreamFault, ApiError */
function decodePlain(text: string, reader: Reader, call: AnsweredCall): Plain {
  try {
    const json = isTooDeep(text) ? undefined : parseJson(text);
    if (json === undefined) throw new InvalidAnswer("something else than JSON, or JSON that nests too deep");
    keepNumbers(json, text);
    const whole = reader.decode(json, text, call);
    return { whole, upstreamResponseId: reader.upstreamResponseId?.(json) };
  } catch (error) {
    throw readingError(error, call.account.name);
  }
}

const jsonBegins = new Set<number | undefined>([..."{["].map((letter) => letter.charCodeAt(0)));

/** Decides by the first byte too, as some servers and proxies send a wrong content type. */
async function isStream(answer: UpstreamAnswer, { type, begins }: Framing, streamed: boolean): Promise<boolean> {
  const isNamed = answer.headers.get("content-type")?.includes(type) === true;
  if (isNamed) return !jsonBegins.has(await answer.firstByte());
  return streamed && begins.has(await answer.firstByte());
}

/** A whole answer as a stream's only chunk. */
function chunkOf({ choices, ...rest }: CompletionBody): ChunkBody {
  return {
    ...rest,
    choices: choices.map(({ message, ...choice }) => ({
      ...choice,
      delta: {
        ...message,
        ...(message.tool_calls && { tool_calls: message.tool_calls.map((call, index) => ({ index, ...call })) }),
      } as Delta,
    })),
  };
}

/** @throws what the stream fails with */
export function collect(chunks: ChunkSource, name: string): Promise<CompletionBody> {
  const fold = new StreamFold();
  return folded(chunks, {
    push: (given) => fold.push(given),
    end(last) {
      fold.push(last);
      if (fold.complete) return fold.result();
      throw readingError(new InvalidAnswer("a stream that ended before the answer was finished"), name);
    },
    fail(error) {
      if (fold.complete && mayBreakOff(error)) return fold.result();
      throw error;
    },
  });
}

async function openStream(
  chunks: ChunkSource,
  target: Target,
  options: CallOptions,
): Promise<StreamAnswer<EventSource>> {
  return opened(new EncodedStream(chunks, target, options), options.observer);
}

async function opened(events: AnswerEvents, observer: CallObserver): Promise<StreamAnswer<EventSource>> {
  await events.open();
  if (events.servedBy !== undefined) observer.servedBy(events.servedBy);
  observer.firstFragment();
  return { kind: "stream", headers: {}, events };
}
