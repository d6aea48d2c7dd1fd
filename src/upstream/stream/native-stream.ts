/**
 * A stream whose upstream speaks the client's format: its events pass byte for byte, in the turn of the event loop in which they
 * arrive. They are decoded beside, for the usage, the answer that is stored, and the proof that the answer came to its end.
 */
import type { Sink } from "../../lib/streams/flow.ts";
import { type EventParser, formatSseEvent, type SseEvent } from "../../lib/streams/sse.ts";
import type { ChunkBody, Usage } from "../../protocols/chat/schema.ts";
import { ApiError, readingError, UpstreamFault } from "../../protocols/errors.ts";
import type { NativeEncoder, NativeRewriting } from "../../protocols/protocol.ts";
import type { StreamDecoder } from "../../providers/provider.ts";
import type { UpstreamAnswer } from "../client.ts";
import { AnswerEvents, mayBreakOff } from "./answer-events.ts";
import type { EncodingOptions } from "./encoded-stream.ts";
import { Normaliser } from "./normaliser.ts";

export type NativeStreamOptions = Pick<EncodingOptions, "form" | "observer" | "renderFault"> &
  NativeRewriting & {
    readonly encoder: NativeEncoder;
    /** True if the client sees an upstream's own error event; else one that the encoder writes. */
    readonly passesFaults: boolean;
    /** The format has no terminal event: its streams end with their connection. */
    readonly endsWithStream: boolean;
  };

/** Events that are held back until something follows them: what opens an answer may still be followed by its refusal. */
const maxOpeningEvents = 2;
const none: Buffer = Buffer.alloc(0);
const blankLine = "\n\n";
const carriageReturn = 13;
const colon = 58;

export class NativeStream extends AnswerEvents implements Sink<Buffer> {
  readonly #answer: UpstreamAnswer;
  readonly #decoder: StreamDecoder;
  readonly #options: NativeStreamOptions;
  readonly #normaliser: Normaliser;
  readonly #parser: EventParser;
  /** Bytes of an event that is not whole yet, as they came. */
  #begun: Buffer[] = [];
  /** Whole events that are held back. */
  #held: Buffer = none;
  #isHolding = true;
  #events = 0;
  /**
   * Events are written anew: their bytes can't be separated by line feeds alone, they have ids that are not ours, or another framing,
   * or some of them are changed.
   */
  #isRewriting: boolean;
  /** Events in another framing that are held back. */
  readonly #framed: string[] = [];
  #last: SseEvent | undefined;
  /** The upstream's word that it ended, which waits until its answer is known to be whole. */
  #closing = "";
  /** The upstream's own error event, which ends the stream. */
  #faultEvent: SseEvent | undefined;

  constructor(answer: UpstreamAnswer, decoder: StreamDecoder, options: NativeStreamOptions) {
    super(answer, options.observer);
    this.#answer = answer;
    this.#decoder = decoder;
    this.#parser = decoder.framing.parser();
    this.#options = options;
    this.#normaliser = new Normaliser(options.form);
    this.#isRewriting = options.encoder.framing !== undefined || options.ownEcho !== undefined;
  }

  push(bytes: Buffer): void {
    if (!this.isOver) this.#take(bytes, (parser) => parser.push(bytes));
  }

  end(): void {
    if (this.isOver) return;
    // The last event may lack its blank line.
    this.#isRewriting = true;
    this.#take(none, (parser) => parser.end());
    if (this.isOver) return;
    try {
      this.#observe(this.#decoder.end());
    } catch (error) {
      this.#fault(error);
      return;
    }
    const isClosed = this.#decoder.closing === true && this.#normaliser.complete;
    if (isClosed || this.#isComplete) this.#close(this.#closing);
    else this.#fault(this.#cutOff());
  }

  fail(error: unknown): void {
    if (this.isOver) return;
    if (this.#isComplete && mayBreakOff(error)) this.#close("");
    else this.break(error, []);
  }

  protected get counted(): Usage | undefined {
    return this.#normaliser.usage ?? this.#decoder.counted;
  }

  protected begin(): void {
    this.#answer.flow(this);
  }

  protected report(fault: UpstreamFault | ApiError, events: string[]): void {
    const { encoder, passesFaults, renderFault } = this.#options;
    const event = this.#faultEvent;
    const isUpstreams = passesFaults && fault instanceof UpstreamFault && event !== undefined;
    if (isUpstreams && encoder.knowsFault?.(event) !== false) {
      events.push(encoder.passedFault?.(event) ?? this.#textOf(event));
      encoder.framing?.end(events);
    } else encoder.fault(renderFault(fault), this.#last, events);
  }

  /** @param bytes the next ones that have to be parsed */
  #take(bytes: Buffer, parse: (parser: EventParser) => SseEvent[]): void {
    let events: readonly SseEvent[];
    try {
      events = parse(this.#parser);
    } catch (error) {
      this.#fault(error);
      return;
    }
    const { encoder } = this.#options;
    let chunk: ChunkBody | undefined;
    for (let at = 0; at < events.length; at += 1) {
      const event = events[at]!;
      let shown: readonly SseEvent[];
      try {
        chunk = this.#observe(this.#decoder.push(event)) ?? chunk;
        if (this.#decoder.finished) this.#observe(this.#decoder.end());
        shown = event.data === "" || encoder.shown === undefined ? nonEmpty(event) : encoder.shown(event);
      } catch (error) {
        this.#faultEvent = event;
        this.#count(at, chunk);
        this.#passTexts(events.slice(0, at));
        this.#fault(error);
        return;
      }
      if (this.#decoder.isRepetition === true) shown = [];
      if (this.#decoder.closing === true) {
        // Clients end there, and would miss the error that may follow.
        this.#closing ||= this.#textOf(event);
        shown = [];
      }
      if (shown.length !== 1 || shown[0] !== event) {
        this.#rewrite();
        events = events.toSpliced(at, 1, ...shown);
        at += shown.length - 1;
        if (shown.length === 0) continue;
      }
      this.#last = event;
      if (this.#decoder.finished) {
        this.#finish(bytes, events.slice(0, at + 1), at === events.length - 1);
        return;
      }
    }
    this.#count(events.length, chunk);
    this.#passWhole(bytes, events);
    if (this.#decoder.closing === true) this.#answer.endSoon();
  }

  /** Notes whether the answer has begun. @param chunk of the answer, where there was one */
  #count(events: number, chunk: ChunkBody | undefined): void {
    this.#events += events;
    if (chunk !== undefined || this.#events > maxOpeningEvents) this.#isHolding = false;
  }

  /** @returns the last of the chunks */
  #observe(chunks: readonly ChunkBody[]): ChunkBody | undefined {
    for (const chunk of chunks) {
      this.observer.body(chunk);
      this.#normaliser.push(chunk);
    }
    return chunks.at(-1);
  }

  /** Passes on the events that ended with these bytes. */
  #passWhole(bytes: Buffer, events: readonly SseEvent[]): void {
    const whole = this.#wholeEvents(bytes, events);
    if (whole === undefined) this.#passTexts(events);
    else this.#pass(whole);
  }

  /**
   * @param events those that ended with these bytes
   * @returns all bytes up to the end of the last event; undefined where the events have to be written anew
   */
  #wholeEvents(bytes: Buffer, events: readonly SseEvent[]): Buffer | undefined {
    if (this.#isRewriting || bytes.includes(carriageReturn) || events.some(hasId)) return this.#rewrite();
    if (this.#options.encoder.readsLines === true && (hasComment(bytes) || events.some(hasName)))
      return this.#rewrite();
    this.#begun.push(bytes);
    const isWhole = this.#parser.isBetweenEvents;
    if (!isWhole && events.length === 0) return none;
    const piece = this.#begun.length === 1 ? bytes : Buffer.concat(this.#begun);
    const blank = isWhole ? piece.length - blankLine.length : piece.lastIndexOf(blankLine);
    if (blank < 0) return this.#rewrite();
    const end = blank + blankLine.length;
    this.#begun = end === piece.length ? [] : [piece.subarray(end)];
    return piece.subarray(0, end);
  }

  /** From now on events are written anew. */
  #rewrite(): undefined {
    this.#isRewriting = true;
    this.#begun = [];
  }

  /** The terminal event waits until the answer is stored. @param isLast whether it is the last one of the bytes */
  #finish(bytes: Buffer, events: readonly SseEvent[], isLast: boolean): void {
    this.#isHolding = false;
    const whole = isLast && this.#parser.isBetweenEvents ? this.#wholeEvents(bytes, events) : undefined;
    const start = whole === undefined ? -1 : startOfLast(whole);
    if (whole === undefined || start < 0) {
      this.#passTexts(events.slice(0, -1));
      this.#close(this.#textOf(events.at(-1)!));
      return;
    }
    this.#pass(whole.subarray(0, start));
    this.#close(whole.toString("utf8", start));
  }

  #passTexts(events: readonly SseEvent[]): void {
    if (events.length === 0) return;
    const texts = events.map((event) => this.#textOf(event));
    if (this.#options.encoder.framing === undefined) this.#pass(Buffer.from(texts.join("")));
    else {
      this.#framed.push(...texts);
      this.#release();
    }
  }

  #textOf(event: SseEvent): string {
    const { encoder, ownEcho } = this.#options;
    const said = ownEcho === undefined ? event : { ...event, data: ownEcho(event.data) };
    return encoder.framing?.event(said.data) ?? textOf(encoder.readsLines === true ? { ...said, event: "" } : said);
  }

  /** Gives what is held back in another framing, once the answer has begun. */
  #release(): void {
    if (!this.#isHolding && this.#framed.length > 0) this.give(this.#framed.splice(0));
  }

  #pass(events: Buffer): void {
    if (this.#isHolding) {
      this.#held = this.#held.length === 0 ? events : Buffer.concat([this.#held, events]);
      return;
    }
    const all = this.#held.length === 0 ? events : Buffer.concat([this.#held, events]);
    this.#held = none;
    if (all.length > 0) this.give(all);
  }

  get #isComplete(): boolean {
    return (this.#decoder.finished || this.#options.endsWithStream) && this.#normaliser.complete;
  }

  #cutOff(): ApiError {
    const message = `${this.#answer.name} ended its stream before the answer was finished.`;
    return ApiError.unavailable("upstream_invalid_response", message);
  }

  #close(terminal: string): void {
    if (!this.#normaliser.complete) {
      this.#fault(this.#cutOff());
      return;
    }
    this.#isHolding = false;
    this.#pass(none);
    this.#release();
    this.#answer.drain();
    const { upstreamResponseId } = this.#decoder;
    const answer = { usage: this.#normaliser.usage, upstreamResponseId, passed: terminal };
    this.complete(answer, [], (last) => {
      if (terminal !== "") last.push(terminal);
      this.#options.encoder.framing?.end(last);
    });
  }

  /** Ends the stream by an error, which is the answer where nothing went out yet. */
  #fault(error: unknown): void {
    this.break(readingError(error, this.#answer.name), []);
  }
}

/** Clients can't read one without data, which is no event: https://html.spec.whatwg.org/multipage/server-sent-events.html */
const nonEmpty = (event: SseEvent): readonly SseEvent[] => (event.data === "" ? [] : [event]);

/** @param bytes that may begin within a line: then one may be found where there is none */
const hasComment = (bytes: Buffer): boolean => bytes[0] === colon || bytes.includes("\n:");
const hasName = ({ event }: SseEvent): boolean => event !== "";
const hasId = ({ id }: SseEvent): boolean => id !== "";

/** Finds the beginning of the last one of whole events. @returns -1 where that is not certain */
function startOfLast(events: Buffer): number {
  if (events.lastIndexOf(blankLine) !== events.length - blankLine.length) return -1;
  const before = events.lastIndexOf(blankLine, -blankLine.length - 1);
  return before < 0 ? 0 : before + blankLine.length;
}

/** The event as text, in lines as it came. */
function textOf({ event, data }: SseEvent): string {
  return formatSseEvent(data.replaceAll("\n", "\ndata: "), event === "" ? undefined : event);
}
