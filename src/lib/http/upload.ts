/** A request's body that is sent as it comes. */
import type { Sink, Source } from "../streams/flow.ts";
import { HttpFault } from "./parser.ts";

/** Bytes to send, in order. Strings go as UTF-8. */
export type BodyPieces = readonly (string | Uint8Array)[];

export type StreamedBody = {
  readonly source: Source<Uint8Array>;
  /** In bytes. Absent: not known beforehand, and so sent in chunks. */
  readonly length?: number | undefined;
};

/**
 * Frames a body and holds its source back while the connection takes no more.
 * Source: https://www.rfc-editor.org/rfc/rfc9112#section-7.1
 */
export class Upload implements Sink<Uint8Array> {
  readonly #source: Source<Uint8Array>;
  readonly #length: number | undefined;
  readonly #write: (pieces: BodyPieces) => boolean;
  readonly #onFault: (error: Error) => void;
  #size = 0;
  #isFlowing = false;
  #isOver = false;

  /**
   * @param write takes framed bytes; returns whether more may follow at once
   * @param onFault called where the source fails, or gives another length than it said
   */
  constructor(
    { source, length }: StreamedBody,
    write: (pieces: BodyPieces) => boolean,
    onFault: (error: Error) => void,
  ) {
    this.#source = source;
    this.#length = length;
    this.#write = write;
    this.#onFault = onFault;
  }

  /** True if nothing more comes. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Asks for the next bytes, once all before them were taken. */
  more(): void {
    if (this.#isFlowing) this.#source.resume();
    else {
      this.#isFlowing = true;
      this.#source.flow(this);
    }
  }

  /** Asks for no more, for good. */
  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#source.cancel();
  }

  push(bytes: Uint8Array): void {
    if (this.#isOver || bytes.length === 0) return;
    this.#size += bytes.length;
    if (this.#length !== undefined && this.#size > this.#length) {
      this.#break(new HttpFault("the request's body is longer than it said"));
      return;
    }
    const pieces = this.#length === undefined ? chunkOf(bytes) : [bytes];
    if (!this.#write(pieces)) this.#source.pause();
  }

  end(): void {
    if (this.#isOver) return;
    if (this.#length !== undefined && this.#size < this.#length) {
      this.#break(new HttpFault("the request's body is shorter than it said"));
      return;
    }
    this.#isOver = true;
    this.#write(this.#length === undefined ? ["0\r\n\r\n"] : []);
  }

  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onFault(error as Error);
  }

  #break(fault: Error): void {
    this.stop();
    this.#onFault(fault);
  }
}

/** Bytes of a chunk that is joined with its frame: another write would cost more than the copy. */
const maxJoined = 16 * 1024;

function chunkOf(bytes: Uint8Array): BodyPieces {
  const head = `${bytes.length.toString(16)}\r\n`;
  if (bytes.length > maxJoined) return [head, bytes, "\r\n"];
  return [Buffer.concat([Buffer.from(head), bytes, Buffer.from("\r\n")])];
}
