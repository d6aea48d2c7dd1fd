/**
 * What a client format is. A protocol is pure: it never fetches, logs, reads the clock or makes an id. Between the floors every
 * call has one inner form, that of chat completions; a protocol turns a request into it, and its answer back.
 */
import type { ChunkBody } from "./chat/schema.ts";

/** An error as clients see it. An upstream's own may hold more than this. */
export type ErrorFields = Readonly<Record<string, unknown>>;

/** What stands around the text in an event of plain text, the text being written as `JSON.stringify` writes it. */
export type TextFrame = { readonly head: string; readonly tail: string };

/**
 * Writes one stream. Event texts are whole: name, data and the blank line behind them, but no id, which is added where a stream
 * can be resumed.
 */
export interface EventEncoder {
  /** @param chunk the next one of a normalised stream @param events what it amounts to is added here */
  push(chunk: ChunkBody, events: string[]): void;
  /**
   * Around the text of the latest chunk, where it was text of the first choice alone, and another text in its place would change
   * nothing else, neither in its own event nor in later ones. Then such texts may be written without `push`. Absent or undefined:
   * each chunk has to be pushed.
   */
  readonly textFrame?: TextFrame | undefined;
  /** Adds what closes a complete stream, the format's terminal event last. */
  end(events: string[]): void;
  /** Adds what tells of an error in a stream that has begun, the format's terminal event last. */
  fault(error: ErrorFields, events: string[]): void;
}
