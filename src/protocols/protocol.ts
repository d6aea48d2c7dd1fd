/**
 * Declares a client format. A protocol is pure: it never fetches, logs, reads the clock or makes an id. Between the floors every
 * call has one inner form, that of chat completions; a protocol turns a request into it, and its answer back.
 */
import type { JsonObject } from "../lib/json/json.ts";
import type { SseEvent } from "../lib/streams/sse.ts";
import type { Insertion } from "./body/insertion.ts";
import type { OmittableTexts } from "./body/omittable-texts.ts";
import type { Source } from "./body/source.ts";
import type { ChatRequest, ChunkBody, CompletionBody, Envelope, Message, Metadata } from "./chat/schema.ts";
import type { ApiError } from "./errors.ts";
import type { HostedTool } from "./native-only.ts";

/** An error as clients see it. An upstream's own may hold more than this. */
export type ErrorFields = Readonly<Record<string, unknown>>;

/**
 * Writes one stream. Event texts are whole: name, data and the blank line behind them, but no id, which is added where a stream
 * can be resumed.
 */
export interface EventEncoder {
  /** Its last event has the whole answer, which is kept as it was streamed. Absent: false. */
  readonly isKept?: boolean;
  /** @param chunk the next one of a normalised stream @param events what it amounts to is added here */
  push(chunk: ChunkBody, events: string[]): void;
  /** Adds what closes a complete stream, the format's terminal event last. */
  end(events: string[]): void;
  /** Adds the report of an error to a stream that has begun, the format's terminal event last. */
  fault(error: ErrorFields, events: string[]): void;
}

/** The parts of a request that a format may read beside its body: some name the model in the path, or the key in the query. */
export type ClientRequest = {
  readonly request: { readonly headers: Headers };
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
};

export type ParsedCall<Options> = {
  /** The request in the inner form. */
  readonly request: ChatRequest;
  /** Options that its answer depends on and only this format knows. They are held for as long as the answer: nothing large. */
  readonly options: Options;
  /** Repeated by a retry under the same `service-request-id`: as JSON another one for every other call, of any format. */
  readonly identity: unknown;
  /** The error of a call that has to be translated, where it says what only upstreams of this format know. */
  readonly nativeOnly?: ApiError | undefined;
  /** The same of a request in the inner form, which upstreams of chat completions get untranslated: they judge it. */
  readonly outOfRange?: ApiError | undefined;
  /** The same of tools, which the inner form does not hold: upstreams may be set up to have them left out. */
  readonly nativeTools?: ApiError | undefined;
  /** Of these, those that something else may stand in for, where the upstream has none. Absent: there are none. */
  readonly hosted?: readonly HostedTool[] | undefined;
};

/** Changes to the client's body in a call to an upstream of its own format. */
export type NativeChange = {
  /** The upstream's name of the model. */
  readonly model: string;
  /** A persona's system text and examples, in the inner form: they go before the caller's turns, the system text first of all. */
  readonly before: readonly Message[];
  /** Texts that stand first in messages of the user. Absent: none. */
  readonly within?: readonly Insertion[];
  /**
   * Turns that the request continues and the upstream does not hold, in the format's own form: they go between these and the
   * caller's, and in place of what names them. Absent: there are none.
   */
  readonly earlier?: readonly JsonObject[] | undefined;
  /**
   * Fields of the inner form that a persona set to another value; undefined: it removed them (`variables`). `store` is false
   * where the upstream must keep nothing: formats without such a field have nothing to say.
   */
  readonly fields: Readonly<Record<string, unknown>>;
  /** The upstream takes thinking back as it came, whoever made it and be it unsigned; only what was sealed here it can't read. */
  readonly anyThinking?: true | undefined;
  /** The model refuses calls of the current turn without the signature of whoever made them. Default: true. */
  readonly needsSignatures?: boolean | undefined;
  /** Those that the provider has already said as members of the format's own body; undefined: removed. */
  readonly members?: JsonObject | undefined;
};

/** Follows a stream of the client's own format, whose events pass as they come. */
export interface NativeEncoder {
  /**
   * Adds the report of an error behind events that passed, the format's terminal event last.
   * @param last the latest event that the client got, for formats that number theirs; undefined: it got none
   */
  fault(error: ErrorFields, last: SseEvent | undefined, events: string[]): void;
  /**
   * The event as clients of this format find it, behind what was left out before it; none: it says nothing, and they can't read it.
   * Absent: they find any.
   * @throws InvalidAnswer where they would pass over what it says
   */
  shown?(event: SseEvent): readonly SseEvent[];
  /** True if clients of this format see an error in the upstream's own event: if not, `fault` writes one. Absent: they always do. */
  knowsFault?(event: SseEvent): boolean;
  /** The upstream's own error event, with what clients of this format look for in one. Nothing: as it came. */
  passedFault?(event: SseEvent): string | undefined;
  /** Clients of this format read lines, and know `data` alone: comments, names and ids of the upstream's do not reach them. */
  readonly readsLines?: boolean;
  /** The other framing in which the client gets the events' data (`Protocol.streamType`), which `fault` writes too. */
  readonly framing?: NativeFraming;
}

/** Frames a stream whose events are passed on as something else than events. */
interface NativeFraming {
  /** @param data of the next event, as it came */
  event(data: string): string;
  /** Adds what stands behind the last one. */
  end(events: string[]): void;
}

/** Changes to an answer of the client's own format, where there are any. */
export type NativeRewriting = {
  /** @param data of an event, or a plain answer, as it came: JSON that was read already */
  readonly ownEcho?: ((data: string) => string) | undefined;
};

/** The part of a format for upstreams that speak it too. */
export interface NativeForm<Options> {
  /**
   * @param body the client's, parsed and checked; never changed
   * @returns a body whose unchanged fields hold the very values of `body`, so that they are copied as they were written, and which
   *   has no seals of other makers; undefined where the change can't be said in this format, so that the call is translated
   */
  patch(body: JsonObject, change: NativeChange): JsonObject | undefined;
  /** For one stream. */
  encoder(envelope: Envelope, options: Options): NativeEncoder;
  /**
   * Its answers repeat the request: in those of a persona they say what the caller asked, and hold no text of the persona's.
   * @param asked the caller's body @param sent the same as it went out @param before the persona's messages
   * @param added what joins their `metadata`, where they have one
   * @returns what rewrites a plain answer or the data of an event; it must not hold the request
   */
  ownEcho?(
    options: Options,
    asked: JsonObject,
    sent: JsonObject,
    before: readonly Message[],
    added?: Metadata,
  ): NonNullable<NativeRewriting["ownEcho"]>;
  /** A plain answer as clients of this format find it. Absent: they find any. @returns the text itself where there is nothing to change */
  shownWhole?(text: string): string;
  /** The format has no terminal event: a stream is whole when its answer is, and its connection ends. */
  readonly endsWithStream?: boolean;
}

/** The part of a format whose answers can be read again, and be made in the background, by routes of its own. */
export interface StoredForm<Options> {
  /** True where the caller asked not to wait for the answer. */
  isBackground(options: Options): boolean;
  /** The number of the request's first messages that are not kept for later turns: its instructions. */
  leading(options: Options): number;
  /** The input as it is listed, each item with an id. @param body as it was sent @param unique part of the ids that are made */
  items(body: JsonObject, unique: string): JsonObject[];
  /** An answer without content, in the background. @param error of one that failed */
  pending(status: "queued" | "failed", envelope: Envelope, options: Options, error?: ErrorFields): JsonObject;
  /** The whole answer in what an upstream of this format sent: a plain body, or a stream's terminal event. */
  answerIn(passed: string): JsonObject | undefined;
  /** The same event of an answer in the background, which has an id of its own. */
  renamed(event: string, id: string): string;
  /** The error that the last events of a broken stream report. */
  errorIn(events: readonly string[]): ErrorFields;
}

/** @param answer the id of the answer of ours that the item is of, where its own id names one @param path of its id */
export type UpstreamItem = { readonly id: string; readonly answer: string | undefined; readonly path: string };

/** Bodies of earlier answers, as they were given. */
export type EarlierAnswers = ReadonlyMap<string, JsonObject>;

/** A prompt that a request names beside, or in place of, its model. */
export type Prompt = { readonly id: string; readonly version: unknown };

export interface Protocol<Options = unknown> {
  readonly name: string;
  /** The beginning of the ids of its answers. */
  readonly answerIdPrefix: string;
  /** Sent into a stream that is silent, also before its first event: a comment, or an event that clients pass over. */
  readonly keepAlive: string;
  /** Its envelopes name their answer: state that comes too late for its place in a stream is looked up by that id. */
  readonly namesAnswer?: boolean;
  /**
   * Some of its clients read lines and know `data` alone: events have no ids, unless the caller asks for them. Then an id is an event of
   * its own, right behind the one that it names, as others pass over an event that holds more than data.
   */
  readonly readsLines?: boolean;
  /**
   * Reads the caller's key; absent: it stands in any of the headers that `callerKey` reads.
   * @returns as it was given; undefined where there is none
   */
  credentials?(client: ClientRequest): string | undefined;
  /**
   * Strings of a body, not checked yet, that are sent on without a look at more than their beginning, and that nothing of an answer is made of.
   * Absent: none.
   */
  omittableTexts?(body: JsonObject): OmittableTexts;
  /** Ids of earlier answers that a body, not checked yet, refers to instead of repeating them. Absent: none. */
  references?(body: JsonObject): readonly string[];
  /** Items that upstreams keep and a body, not checked yet, names by their ids in place of saying them. Absent: none. */
  upstreamItems?(body: JsonObject): readonly UpstreamItem[];
  /**
   * @param earlier the answers of `references` that are kept here and are the caller's, by their ids
   * @throws ApiError with the path of the value in this format's own body
   */
  parse(source: Source, client: ClientRequest, earlier?: EarlierAnswers): ParsedCall<Options>;
  /** Absent: every call is translated. */
  readonly native?: NativeForm<Options>;
  /** Lower-case names of request headers that go to upstreams which speak this format; with `*` at the end, all that begin so. */
  readonly passedRequestHeaders?: readonly string[];
  /** Headers of every answer of this format, errors too. @param requestId as in `x-request-id` */
  responseHeaders?(requestId: string): Readonly<Record<string, string>>;
  /**
   * The media type of a stream that is no event stream (a JSON list that grows): all in it is the encoder's words, so that nothing
   * is sent into its silence, and its parts have no ids. Undefined, or absent: it is one.
   */
  streamType?(options: Options): string | undefined;
  /**
   * The path in this format's own body of what a check behind `parse` found, by its path in the inner form (`messages[0].content`).
   * Absent: it is the same.
   */
  param?(inner: string, options: Options): string;
  /** The body of a plain answer. @param answer normalised */
  completion(answer: CompletionBody, envelope: Envelope, options: Options): object;
  /** For one stream. */
  encoder(envelope: Envelope, options: Options): EventEncoder;
  /**
   * The body of an error, whose `param` is a path of this format.
   * @param requestId as in `x-request-id`
   */
  error(error: ApiError, requestId: string): object;
  /** Absent: the format has no such field. */
  prompt?(options: Options): Prompt | undefined;
  /** Absent: stored completions stand for it. */
  readonly stored?: StoredForm<Options>;
  /** Other formats with errors of this one's form: theirs are passed on as they come. */
  readonly sharesErrors?: readonly string[];
  /** The body of an error that the gateway passes on from an upstream. Absent: what the upstream sent, byte for byte. */
  upstreamError?(error: ErrorFields, status: number, requestId: string): object;
}
