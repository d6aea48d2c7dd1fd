/**
 * Plain fragments from an upstream's bytes straight into ours: what all of a stream's events have in common is compared once
 * per event and written anew, the text between is copied as it stands.
 */
import type { ChunkBody } from "../../protocols/chat/schema.ts";
import type { TextFrame } from "../../protocols/protocol.ts";
import type { TextPlace } from "../../providers/provider.ts";
import { type RawEvent, TextTemplate } from "./text-template.ts";

/** An upstream that writes each event in another way is read as it comes. */
const maxLessons = 20;
const nothing: Buffer = Buffer.alloc(0);

/** Chunks that are each like the latest one but for their texts. */
export class RepeatedText {
  readonly #piece: Buffer;
  /** Where the texts begin and end, in turns, each as `JSON.stringify` writes it. */
  readonly #places: readonly number[];
  readonly #like: ChunkBody;

  constructor(piece: Buffer, places: readonly number[], like: ChunkBody) {
    this.#piece = piece;
    this.#places = places;
    this.#like = like;
  }

  chunks(): ChunkBody[] {
    const [choice] = this.#like.choices;
    const chunks: ChunkBody[] = [];
    for (let at = 0; at < this.#places.length; at += 2) {
      const content = JSON.parse(this.#piece.toString("utf8", this.#places[at], this.#places[at + 1])) as string;
      chunks.push({ ...this.#like, choices: [{ ...choice!, delta: { content } }] });
    }
    return chunks;
  }

  /** The same as events, one behind the other. */
  events({ bytes, tail }: FrameBytes): Buffer {
    const places = this.#places;
    let size = (places.length / 2) * bytes.length;
    for (let at = 0; at < places.length; at += 2) size += places[at + 1]! - places[at]!;
    const events = Buffer.allocUnsafe(size);
    let end = 0;
    for (let at = 0; at < places.length; at += 2) {
      end += bytes.copy(events, end, 0, tail);
      end += this.#piece.copy(events, end, places[at], places[at + 1]);
      end += bytes.copy(events, end, tail);
    }
    return events;
  }
}

/** A frame's head and tail, one behind the other. */
export class FrameBytes {
  readonly frame: TextFrame;
  readonly bytes: Buffer;
  /** Where the tail begins. */
  readonly tail: number;

  constructor(frame: TextFrame) {
    this.frame = frame;
    this.bytes = Buffer.from(frame.head + frame.tail);
    this.tail = Buffer.byteLength(frame.head);
  }
}

/** Chunks, as read or as repeated. */
export type Chunks = readonly ChunkBody[] | RepeatedText;

export function readChunks(chunks: Chunks): readonly ChunkBody[] {
  return chunks instanceof RepeatedText ? chunks.chunks() : chunks;
}

/** Stands between a stream's bytes and its parser: learns from what was decoded which events can do without. */
export class Passthrough {
  #template: TextTemplate | undefined;
  /** The latest chunk, if the template fits its event. */
  #like: ChunkBody | undefined;
  #lessons = 0;
  /** The beginning of an event that the next bytes go on with. */
  #cut = nothing;

  /**
   * @param bytes the next ones, the parser being between two events
   * @param repeat takes the texts of the events that they begin with
   * @returns what has to be parsed; undefined where nothing has
   */
  take(bytes: Buffer, repeat: (texts: RepeatedText) => void): Buffer | undefined {
    const piece = this.#cut.length === 0 ? bytes : Buffer.concat([this.#cut, bytes]);
    this.#cut = nothing;
    if (this.#like === undefined) return piece;
    const places: number[] = [];
    const end = this.#template!.find(piece, places);
    if (end === 0) return piece;
    repeat(new RepeatedText(piece, places, this.#like));
    if (end === piece.length) return undefined;
    const rest = piece.subarray(end);
    if (!isCut(rest)) return rest;
    this.#cut = rest;
    return undefined;
  }

  /** At the stream's end: what has still to be parsed. */
  rest(): Buffer {
    return this.#cut;
  }

  /**
   * Looks whether others may follow that differ from an event in their text alone.
   * @param event the last one that was parsed; undefined where its beginning is not known
   * @param like the last chunk that came of it
   * @param place what the decoder says of it
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

/** Whether it may be the beginning of an event alone: whole ones end with a line. */
function isCut(rest: Buffer): boolean {
  const last = rest.at(-1);
  return last !== 10 && last !== 13 && !rest.includes("\n\n");
}
