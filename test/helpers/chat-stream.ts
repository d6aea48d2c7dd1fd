/** A stream's bodies as their client sees them: normalised, then written as chunks. */
import type { ChunkBody, Envelope } from "../../src/protocols/chat/schema.ts";
import { ChatEncoder } from "../../src/protocols/chat/stream.ts";
import { type NormalForm, Normaliser } from "../../src/upstream/stream/normaliser.ts";

export type Written = NormalForm & { readonly envelope: Envelope; readonly includeUsage: boolean };

/** The data of whole event texts. */
export const dataOf = (events: readonly string[]): string[] =>
  events.map((event) => event.slice("data: ".length, -"\n\n".length));

/** The data of a stream's events, in a text of whole ones; `[DONE]` is the last. */
export const dataIn = (text: string): string[] =>
  text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [line.slice("data: ".length)] : []));

export class ChatStreamWriter {
  readonly normaliser: Normaliser;
  readonly encoder: ChatEncoder;

  constructor(written: Written) {
    this.normaliser = new Normaliser(written);
    this.encoder = new ChatEncoder(written.envelope, written.includeUsage);
  }

  /** @returns the data of the chunks */
  push(bodies: readonly ChunkBody[]): string[] {
    const events: string[] = [];
    for (const body of bodies) for (const chunk of this.normaliser.push(body)) this.encoder.push(chunk, events);
    return dataOf(events);
  }

  /** @returns the data of what closes a complete stream */
  end(): string[] {
    const events: string[] = [];
    this.encoder.push(this.normaliser.end(), events);
    this.encoder.end(events);
    return dataOf(events);
  }
}
