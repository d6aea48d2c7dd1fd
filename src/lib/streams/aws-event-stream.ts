/**
 * The binary framing of AWS's event streams, `application/vnd.amazon.eventstream`: bytes in, events out, whatever the chunking.
 * A message is a prelude (total length, length of its headers, CRC32 of both), headers, a payload, and the CRC32 of all before it.
 * Source: https://smithy.io/2.0/aws/amazon-eventstream.html
 */
import type { Framing, SseEvent } from "./sse.ts";

/** A message that is damaged, cut off, or larger than the format allows. */
export class EventStreamFault extends Error {
  constructor(what: string) {
    super(`an event stream with ${what}`);
    this.name = "EventStreamFault";
  }
}

/** https://github.com/awslabs/aws-c-event-stream: `AWS_EVENT_STREAM_MAX_MESSAGE_SIZE` and `AWS_EVENT_STREAM_MAX_HEADERS_SIZE`. */
const maxMessage = 24 * 1024 * 1024;
const maxHeaders = 128 * 1024;

const preludeLength = 12;
const checksumLength = 4;

/** Bytes of header values of a fixed length, by their type: true, false, byte, short, integer, long, timestamp, UUID. */
const fixedLengths: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 };
const bytesType = 6;
const stringType = 7;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * One stream's parser. An event has the type that its message names, the payload as its data, and as its id the kind of the message:
 * `event`; `exception`, modelled by the service; or `error`, whose code is the type and whose words are the data.
 */
export class EventStreamParser {
  /** The bytes of a message that is still to come whole. */
  #parts: Uint8Array[] = [];
  #held = 0;
  /** Bytes that have to be there before more can be read. */
  #wanted = preludeLength;

  /** True if the next bytes begin a message. */
  get isBetweenEvents(): boolean {
    return this.#held === 0;
  }

  /** @throws EventStreamFault */
  push(bytes: Uint8Array): SseEvent[] {
    if (bytes.length === 0) return [];
    this.#parts.push(bytes);
    this.#held += bytes.length;
    if (this.#held < this.#wanted) return [];
    const buffer = this.#parts.length === 1 ? bytes : new Uint8Array(Buffer.concat(this.#parts, this.#held));
    const events: SseEvent[] = [];
    let at = 0;
    this.#wanted = preludeLength;
    while (buffer.length - at >= preludeLength) {
      const total = messageLength(buffer, at);
      if (buffer.length - at < total) {
        this.#wanted = total;
        break;
      }
      events.push(eventOf(buffer.subarray(at, at + total)));
      at += total;
    }
    this.#held = buffer.length - at;
    // A copy, as the bytes are the transport's to use again.
    this.#parts = this.#held === 0 ? [] : [buffer.slice(at)];
    return events;
  }

  /** @throws EventStreamFault where the stream ended within a message */
  end(): SseEvent[] {
    if (this.#held > 0) throw new EventStreamFault("a message that was cut off");
    return [];
  }
}

/** The total length begins with a zero, as no message is as long as 16 MiB but those with the largest payloads. */
export const eventStreamFraming: Framing = {
  type: "application/vnd.amazon.eventstream",
  begins: new Set([0, 1]),
  parser: () => new EventStreamParser(),
};

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array) => new DataView(buffer, byteOffset, byteLength);

function messageLength(bytes: Uint8Array, at: number): number {
  const prelude = viewOf(bytes.subarray(at, at + preludeLength));
  if (Bun.hash.crc32(bytes.subarray(at, at + 8)) !== prelude.getUint32(8)) {
    throw new EventStreamFault("a damaged prelude");
  }
  const total = prelude.getUint32(0);
  const headers = prelude.getUint32(4);
  if (total > maxMessage || headers > maxHeaders) throw new EventStreamFault("a message that is too large");
  if (total < preludeLength + headers + checksumLength) throw new EventStreamFault("lengths that do not fit");
  return total;
}

function eventOf(message: Uint8Array): SseEvent {
  const view = viewOf(message);
  const end = message.length - checksumLength;
  if (Bun.hash.crc32(message.subarray(0, end)) !== view.getUint32(end)) {
    throw new EventStreamFault("a damaged message");
  }
  const payload = preludeLength + view.getUint32(4);
  const headers = headersIn(message, view, payload);
  const kind = headers.get(":message-type") ?? "event";
  const data = textOf(message.subarray(payload, end));
  switch (kind) {
    case "event":
      return { event: headers.get(":event-type") ?? "", data, id: kind };
    case "exception":
      return { event: headers.get(":exception-type") ?? "", data, id: kind };
    case "error":
      return { event: headers.get(":error-code") ?? "", data: headers.get(":error-message") ?? data, id: kind };
    default:
      throw new EventStreamFault("a message of an unknown kind");
  }
}

/** The headers that are texts; the others are checked and left out. */
function headersIn(message: Uint8Array, view: DataView, end: number): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  let at = preludeLength;
  const take = (length: number): number => {
    const from = at;
    at += length;
    if (at > end) throw new EventStreamFault("a header that does not fit");
    return from;
  };
  while (at < end) {
    const length = message[take(1)]!;
    const nameAt = take(length);
    const type = message[take(1)]!;
    const isSized = type === bytesType || type === stringType;
    const size = isSized ? view.getUint16(take(2)) : fixedLengths[type];
    if (size === undefined) throw new EventStreamFault("a header of an unknown type");
    const valueAt = take(size);
    if (type !== stringType) continue;
    const name = textOf(message.subarray(nameAt, nameAt + length));
    headers.set(name, textOf(message.subarray(valueAt, valueAt + size)));
  }
  return headers;
}

function textOf(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new EventStreamFault("a text that is no UTF-8");
  }
}
