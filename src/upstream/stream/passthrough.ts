/**
 * Copies plain text fragments from upstream events into ours without parsing: the bytes that all events of a stream share are
 * compared and replaced by our frame, and the text between them is copied unchanged.
 */
import { SseParser } from "../../lib/sse.ts";
import type { ChunkBody } from "../../protocols/chat/schema.ts";
import type { TextFrame } from "../../protocols/protocol.ts";
import type { TextPlace } from "../../providers/provider.ts";
import { type RawEvent, TextTemplate } from "./text-template.ts";

/** Maximum templates learnt; a stream whose events vary more is parsed. */
const maxLessons = 20;
const nothing: Buffer = Buffer.alloc(0);

/** Chunks that equal the latest one except for their texts. */
export class RepeatedText {
  /** The upstream's events, as they came. */
  readonly raw: Buffer;
  /** Alternating start and end offsets of the texts, each as `JSON.stringify` writes it. */
  readonly #places: readonly number[];
  readonly #like: ChunkBody;

  constructor(raw: Buffer, places: readonly number[], like: ChunkBody) {
    this.raw = raw;
    this.#places = places;
    this.#like = like;
  }

  /** The bytes of all texts, as JSON strings without their quotes. */
  get size(): number {
    let size = -this.#places.length;
    for (let at = 0; at < this.#places.length; at += 2) size += this.#places[at + 1]! - this.#places[at]!;
    return size;
  }

  /** How many events they were. */
  get count(): number {
    return this.#places.length / 2;
  }

  /** All texts, one behind the other. */
  get text(): string {
    if (this.#places.length === 2) return this.first;
    let json = "";
    for (let at = 0; at < this.#places.length; at += 2) {
      json += this.raw.toString("utf8", this.#places[at]! + 1, this.#places[at + 1]! - 1);
    }
    return JSON.parse(`"${json}"`) as string;
  }

  /** The first text. */
  get first(): string {
    return JSON.parse(this.raw.toString("utf8", this.#places[0], this.#places[1])) as string;
  }

  /** The data of the last event. */
  get last(): string {
    return new SseParser().push(this.raw).at(-1)!.data;
  }

  chunks(): ChunkBody[] {
    const [choice] = this.#like.choices;
    const chunks: ChunkBody[] = [];
    for (let at = 0; at < this.#places.length; at += 2) {
      const content = JSON.parse(this.raw.toString("utf8", this.#places[at], this.#places[at + 1])) as string;
      chunks.push({ ...this.#like, choices: [{ ...choice!, delta: { content } }] });
    }
    return chunks;
  }

  /** The chunks as events, concatenated. */
  events({ bytes, head, tail }: FrameBytes): Buffer {
    const { raw } = this;
    const places = this.#places;
    let size = (places.length / 2) * (head + tail);
    for (let at = 0; at < places.length; at += 2) size += places[at + 1]! - places[at]!;
    const events = Buffer.allocUnsafe(size);
    let end = bytes.copy(events, 0, 0, head);
    for (let at = 0; at < places.length; at += 2) {
      const from = places[at]!;
      const to = places[at + 1]!;
      if (to - from > shortText) end += raw.copy(events, end, from, to);
      else for (let next = from; next < to; next += 1) events[end++] = raw[next]!;
      // With the head of the event that follows, if one does.
      const isLast = at + 2 === places.length;
      end += bytes.copy(events, end, head, isLast ? head + tail : bytes.length);
    }
    return events;
  }
}

/** Bytes that are copied sooner one by one than by a call. */
const shortText = 32;

/** What stands around a text. */
export class FrameBytes {
  readonly frame: TextFrame;
  /** The head, the tail, and once more the head. */
  readonly bytes: Buffer;
  /** Their lengths. */
  readonly head: number;
  readonly tail: number;

  constructor(frame: TextFrame) {
    this.frame = frame;
    this.bytes = Buffer.from(frame.head + frame.tail + frame.head);
    this.head = Buffer.byteLength(frame.head);
    this.tail = this.bytes.length - 2 * this.head;
  }
}

/** Chunks, parsed or as repeated text. */
export type Chunks = readonly ChunkBody[] | RepeatedText;

export function readChunks(chunks: Chunks): readonly ChunkBody[] {
  return chunks instanceof RepeatedText ? chunks.chunks() : chunks;
}

/** Filters a stream's bytes before the parser: learns from decoded events which ones need no parsing. */
export class Passthrough {
  #template: TextTemplate | undefined;
  /** The latest chunk, if the template fits its event. */
  #like: ChunkBody | undefined;
  #lessons = 0;
  /** The beginning of an event that the next bytes continue. */
  #cut = nothing;

  /**
   * @param bytes the next ones; the parser must be between two events
   * @param repeat receives the texts of the leading events that match
   * @returns the bytes that have to be parsed; undefined if none
   */
  take(bytes: Buffer, repeat: (texts: RepeatedText) => void): Buffer | undefined {
    const piece = this.#cut.length === 0 ? bytes : Buffer.concat([this.#cut, bytes]);
    this.#cut = nothing;
    if (this.#like === undefined) return piece;
    const places: number[] = [];
    const end = this.#template!.find(piece, places);
    if (end === 0) return piece;
    repeat(new RepeatedText(end === piece.length ? piece : piece.subarray(0, end), places, this.#like));
    if (end === piece.length) return undefined;
    const rest = piece.subarray(end);
    if (!isCut(rest)) return rest;
    this.#cut = rest;
    return undefined;
  }

  /** The bytes still to be parsed at the stream's end. */
  rest(): Buffer {
    return this.#cut;
  }

  /**
   * Learns a template from an event, for later events that differ in their text only.
   * @param event the last parsed event; undefined where its beginning is not known
   * @param like its last chunk
   * @param place where its text is, according to the decoder
   */
  learn(event: RawEvent | undefined, like: ChunkBody | undefined, place: TextPlace | undefined): void {
    this.#like = undefined;
    if (event === undefined || place === undefined) return;
    if (this.#template?.fits(event.bytes) !== true) {
      if (this.#lessons === maxLessons) return;
      this.#lessons += 1;
      this.#template = TextTemplate.learn(event, place);
    }
    if (this.#template !== undefined) this.#like = like;
  }
}

/** In one of them each whole event ends, whatever its line ends. */
const blankLines = ["\n\n", "\n\r", "\r\r"];

/** Whether it may be an incomplete event: complete ones end with a line ending. */
function isCut(rest: Buffer): boolean {
  const last = rest.at(-1);
  return last !== 10 && last !== 13 && !blankLines.some((line) => rest.includes(line));
}
