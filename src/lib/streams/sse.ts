/**
 * Server-Sent Events: bytes in, events out, whatever the chunking.
 * Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
 */
import { parseJson } from "../json/json.ts";

export type SseEvent = {
  /** The `event:` field; "" when there was none. */
  readonly event: string;
  /** The `data:` lines, joined by line feeds; "" for a named event without one, which the standard passes over: its data may be lost. */
  readonly data: string;
  /** The `id:` field; "" when there was none. */
  readonly id: string;
};

/** The framing of a stream's events in its bytes. */
export type Framing = {
  /** Its content type. */
  readonly type: string;
  /** The first bytes of such a stream, by which it is known where a server or proxy names another type. */
  readonly begins: ReadonlySet<number | undefined>;
  parser(): EventParser;
};

export type EventParser = Pick<SseParser, "push" | "end" | "isBetweenEvents">;

/** An event larger than the limit: the upstream is broken or hostile. */
export class SseOverflow extends Error {
  constructor(limit: number) {
    super(`an event is larger than ${limit} characters`);
    this.name = "SseOverflow";
  }
}

/** The most characters of JSON outside of any field that are looked at. */
const maxBare = 64 * 1024;

/** The name of a `data` field behind something else. */
const damagedData = /[^\w-]data$/;

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/** One stream's parser. Accepts LF, CRLF and CR, a byte-order mark, comments, and fields without a space. */
export class SseParser {
  readonly #decoder = new TextDecoder("utf-8");
  readonly #limit: number;
  #rest = "";
  #scanned = 0;
  #skipLineFeed = false;
  /** The last bytes begin a character that is still to come. */
  #splitsCharacter = false;
  #event = "";
  #id = "";
  #data: string | undefined;
  #dataLength = 0;
  /** Lines of a JSON text that stands in no field, as far as they have come. */
  #bare = "";

  /** @param limit the most characters one event may hold */
  constructor(limit = 64 * 1024 * 1024) {
    this.#limit = limit;
  }

  /** True if the next bytes begin an event. */
  get isBetweenEvents(): boolean {
    const isOpen = this.#rest !== "" || this.#data !== undefined || this.#event !== "";
    return !isOpen && !this.#skipLineFeed && !this.#splitsCharacter;
  }

  /** @throws SseOverflow */
  push(bytes: Uint8Array): SseEvent[] {
    if (bytes.length > 0) this.#splitsCharacter = bytes[bytes.length - 1]! > 127;
    return this.#lines(this.#decoder.decode(bytes, { stream: true }));
  }

  /**
   * The stream closed: an event without its closing blank line still counts, since some upstreams end so; one that was
   * cut within its last line does not.
   */
  end(): SseEvent[] {
    const isOpen = this.#rest !== "";
    const events = this.#lines(`${this.#decoder.decode()}\n\n`);
    this.#rest = "";
    const last = events.at(-1);
    if (isOpen && last !== undefined && !isWhole(last)) events.pop();
    return events;
  }

  #lines(text: string): SseEvent[] {
    const events: SseEvent[] = [];
    let buffer = this.#rest === "" ? text : this.#rest + text;
    let start = 0;
    let at = this.#rest === "" ? 0 : this.#scanned;
    if (this.#skipLineFeed && buffer.length > 0) {
      if (buffer.charCodeAt(0) === LINE_FEED) {
        start = 1;
        at = Math.max(at, 1);
      }
      this.#skipLineFeed = false;
    }
    // Most streams hold no carriage return at all: then the faster search for line feeds alone will do.
    const hasReturns = buffer.includes("\r", at);
    for (;;) {
      const end = hasReturns ? nextLineEnd(buffer, at) : buffer.indexOf("\n", at);
      if (end < 0) break;
      this.#line(buffer, start, end, events);
      start = end + 1;
      if (buffer.charCodeAt(end) === CARRIAGE_RETURN) {
        if (start === buffer.length) this.#skipLineFeed = true;
        else if (buffer.charCodeAt(start) === LINE_FEED) start += 1;
      }
      at = start;
    }
    buffer = start === 0 ? buffer : buffer.slice(start);
    if (buffer.length + this.#dataLength > this.#limit) throw new SseOverflow(this.#limit);
    this.#rest = buffer;
    this.#scanned = buffer.length;
    return events;
  }

  #line(buffer: string, start: number, end: number, events: SseEvent[]): void {
    if (start === end) {
      if (this.#data !== undefined || this.#event !== "")
        events.push({ event: this.#event, data: this.#data ?? "", id: this.#id });
      this.#event = "";
      this.#id = "";
      this.#data = undefined;
      this.#dataLength = 0;
      return;
    }
    const colon = buffer.indexOf(":", start);
    if (colon === start) return; // a comment
    const nameEnd = colon < 0 || colon > end ? end : colon;
    const valueStart = nameEnd === end ? end : buffer.charCodeAt(nameEnd + 1) === 32 ? nameEnd + 2 : nameEnd + 1;
    const value = buffer.slice(valueStart, end);
    switch (buffer.slice(start, nameEnd)) {
      case "data":
        this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
        this.#dataLength += value.length + 1;
        if (this.#dataLength > this.#limit) throw new SseOverflow(this.#limit);
        return;
      case "event":
        this.#event = value;
        return;
      case "id":
        this.#id = value;
        return;
      case "error":
        // Older llama.cpp servers wrote their errors as a field of its own name.
        this.#event = "error";
        this.#data = value;
        return;
      default:
        // Bytes that got before a field's name took its words away: as the data of an event it can't be read, which breaks the stream.
        if (damagedData.test(buffer.slice(start, nameEnd)))
          events.push({ event: "", data: buffer.slice(start, end), id: "" });
        else this.#bareLine(buffer.slice(start, end), events);
    }
  }

  /**
   * Some upstreams break off with an error as bare JSON, over several lines: that counts as an event too.
   * Source: https://github.com/googleapis/python-genai/blob/main/google/genai/_api_client.py ("it comes line by line")
   */
  #bareLine(line: string, events: SseEvent[]): void {
    if (this.#bare === "" && !/^[{[]/.test(line)) return;
    const text = this.#bare === "" ? line : `${this.#bare}\n${line}`;
    this.#bare = text.length > maxBare ? "" : text;
    if (!/^[{[}\]]/.test(line) || parseJson(this.#bare) === undefined) return;
    events.push({ event: "", data: text, id: "" });
    this.#bare = "";
  }
}

/** Begins with `data`, `event`, `id`, `retry`, or a comment. */
export const sseFraming: Framing = {
  type: "text/event-stream",
  begins: new Set([..."deir:"].map((letter) => letter.charCodeAt(0))),
  parser: () => new SseParser(),
};

/** True if an event that began its last line may have come to the line's end. */
function isWhole({ data }: SseEvent): boolean {
  return data !== "" && (!/^[{[]/.test(data) || /^\[[A-Z]+\]$/.test(data) || parseJson(data) !== undefined);
}

function nextLineEnd(text: string, from: number): number {
  const feed = text.indexOf("\n", from);
  const carriage = text.indexOf("\r", from);
  if (feed < 0) return carriage;
  if (carriage < 0) return feed;
  return Math.min(feed, carriage);
}

/** One event as text. `data` must hold no line break (JSON never does). */
export function formatSseEvent(data: string, name?: string): string {
  return name === undefined ? `data: ${data}\n\n` : `event: ${name}\ndata: ${data}\n\n`;
}

/** A comment: clients ignore it, proxies see life. */
export const keepAliveComment = ": keep-alive\n\n";
