/**
 * Plain fragments from an upstream's bytes straight into ours: what all of a stream's events have in common is compared
 * once per event and written anew, the text between is copied as it stands.
 */
import { isUtf8 } from "node:buffer";
import type { TextFrame } from "../../protocols/protocol.ts";
import { type FragmentTemplate, shortEscapes } from "../../providers/openai-compatible/fragment-template.ts";

type Part = { readonly start: number; readonly end: number; readonly length: number };

const quote = 34;
const backslash = 92;

export class FragmentCopy {
  readonly template: FragmentTemplate;
  readonly frame: TextFrame;
  /** All that is compared and written, one behind the other: a buffer of its own for each would cost more than they hold. */
  readonly #parts: Buffer;
  readonly #before: Part;
  readonly #between: Part;
  readonly #after: Part | undefined;
  readonly #head: Part;
  readonly #tail: Part;
  /** Where the texts of the piece at hand begin and end, in turns. */
  readonly #places: number[] = [];

  constructor(template: FragmentTemplate, frame: TextFrame) {
    this.template = template;
    this.frame = frame;
    const { before, between, after } = template;
    const texts = [
      `data: ${before}`,
      after === undefined ? `${between}\n\n` : between,
      `${after ?? ""}\n\n`,
      frame.head,
      frame.tail,
    ];
    this.#parts = Buffer.from(texts.join(""));
    let end = 0;
    const [first, second, third, head, tail] = texts.map((text): Part => {
      const start = end;
      end += Buffer.byteLength(text);
      return { start, end, length: end - start };
    });
    this.#before = first!;
    this.#between = second!;
    this.#after = after === undefined ? undefined : third!;
    this.#head = head!;
    this.#tail = tail!;
  }

  /**
   * Copies whole events of the template, each with some text, written as `JSON.stringify` writes it, up to the first that is
   * none of these.
   * @param piece begins with an event
   * @returns what to send, and how many bytes of the piece that is; undefined for none
   */
  copy(piece: Buffer): { readonly events: Buffer; readonly taken: number } | undefined {
    const taken = this.#find(piece);
    if (taken === 0) return undefined;
    const places = this.#places;
    const [head, tail] = [this.#head, this.#tail];
    let size = (places.length / 2) * (head.length + tail.length);
    for (let at = 0; at < places.length; at += 2) size += places[at + 1]! - places[at]!;
    const events = Buffer.allocUnsafe(size);
    let end = 0;
    for (let at = 0; at < places.length; at += 2) {
      end += this.#parts.copy(events, end, head.start, head.end);
      end += piece.copy(events, end, places[at], places[at + 1]);
      end += this.#parts.copy(events, end, tail.start, tail.end);
    }
    return { events, taken };
  }

  /** Fills `#places`. @returns where the last event ends */
  #find(piece: Buffer): number {
    const places = this.#places;
    places.length = 0;
    let taken = 0;
    let isAscii = true;
    for (;;) {
      const start = taken + this.#before.length;
      if (!this.#holds(piece, taken, this.#before) || piece[start] !== quote) break;
      let end = start + 1;
      let byte = piece[end];
      for (; byte !== undefined && byte !== quote && byte >= 32; byte = piece[++end]) {
        if (byte === backslash && !shortEscapes.has(piece[++end]!)) break;
        if (byte > 127) isAscii = false;
      }
      if (byte !== quote || end === start + 1) break;
      end += 1;
      const next = this.#endOfEvent(piece, end);
      if (next < 0) break;
      places.push(start, end);
      taken = next;
    }
    if (isAscii || isUtf8(piece.subarray(0, taken))) return taken;
    places.length = 0;
    return 0;
  }

  /** @returns -1 where it goes on in another way */
  #endOfEvent(piece: Buffer, from: number): number {
    if (!this.#holds(piece, from, this.#between)) return -1;
    let at = from + this.#between.length;
    if (this.#after === undefined) return at;
    for (let byte = piece[at]; byte !== quote; byte = piece[++at]) {
      if (byte === undefined || byte === backslash || byte < 32) return -1;
    }
    return this.#holds(piece, at, this.#after) ? at + this.#after.length : -1;
  }

  #holds(piece: Buffer, at: number, { start, end, length }: Part): boolean {
    return at + length <= piece.length && this.#parts.compare(piece, at, at + length, start, end) === 0;
  }
}
