/**
 * Parses one HTTP/1.1 response from bytes, independent of packet boundaries.
 * Source: https://www.rfc-editor.org/rfc/rfc9112
 */
import type { Sink } from "../streams/flow.ts";

/** The response is not valid HTTP, or incomplete. */
export class HttpFault extends Error {
  override readonly name = "HttpFault";
}

/** An answer's header fields. Several of one name are joined by commas. */
export interface HeaderFields {
  /** @param name in lower case */
  get(name: string): string | null;
  /** All of them: name, in lower case where the client is ours, and value. */
  entries(): Iterable<[string, string]>;
}

/**
 * Receives one response: its head, then its body in non-empty pieces that the receiver owns. `end` gives `isProven`: false where
 * the framing does not prove that the body is complete, as a third party could have closed the connection.
 */
export interface AnswerReceiver extends Pick<Sink<Buffer, boolean>, "push" | "end"> {
  head(status: number, headers: HeaderFields): void;
  /**
   * Offered a body that came whole with its head, in place of `push` and `end(true)`: as a part of bytes, as a view of it costs more
   * than to read its text.
   * @returns whether it was taken
   */
  whole?(bytes: Buffer, from: number, end: number): boolean;
}

type State =
  | "head"
  | "length"
  | "until-close"
  | "chunk-size"
  | "chunk"
  | "chunk-end"
  | "trailers"
  | "last-chunk-read"
  /** The response is complete. */
  | "ended"
  /** Further bytes are ignored. */
  | "stopped";

const maxHeadBytes = 64 * 1024;
const maxLineBytes = 4 * 1024;
const lineFeed = 10;
const carriageReturn = 13;
const space = 32;
const semicolon = 59;
const colon = 58;
const nothing: Buffer = Buffer.alloc(0);

export class AnswerParser {
  readonly #receiver: AnswerReceiver;
  readonly #hasBody: boolean;
  #state: State = "head";
  /** The beginning of a head or of a line. */
  #partial = nothing;
  /** Remaining bytes of the body or chunk. */
  #left = 0;
  #trailerBytes = 0;
  /** True if any byte of the response arrived. Set by the parser alone. */
  begun = false;
  /** True if the response is complete. Set by the parser alone. */
  ended = false;
  /** After the end: whether the connection may be reused. Set by the parser alone. */
  lasts = false;
  /** The server's idle timeout in seconds, from its `Keep-Alive` header. Set by the parser alone. */
  idleSeconds: number | undefined;

  /** @param hasBody false for the answer to HEAD, whose fields are of a body that does not come */
  constructor(receiver: AnswerReceiver, hasBody = true) {
    this.#receiver = receiver;
    this.#hasBody = hasBody;
  }

  /** Stops: the receiver gets nothing more. */
  stop(): void {
    this.#state = "stopped";
    this.ended = false;
  }

  /** @param bytes belong to the parser from now on. @throws HttpFault */
  push(bytes: Buffer): void {
    this.begun = true;
    let at = 0;
    while (at < bytes.length) {
      switch (this.#state) {
        case "head":
          at = this.#head(bytes, at);
          break;
        case "length":
          at = this.#body(bytes, at);
          break;
        case "until-close":
          this.#receiver.push(at === 0 ? bytes : bytes.subarray(at));
          return;
        case "ended":
          // Unsolicited bytes: the connection can't be trusted with another call.
          this.lasts = false;
          return;
        case "stopped":
          return;
        default:
          at = this.#chunks(bytes, at);
      }
    }
  }

  /**
   * The server closed the connection.
   * @param provesEnd whether a body without a length ends with it for sure
   * @throws HttpFault where the answer is not whole
   */
  close(provesEnd = true): void {
    if (this.#state === "until-close") this.#end(provesEnd);
    else if (this.#state !== "ended" && this.#state !== "stopped") {
      throw new HttpFault(this.begun ? "the connection was closed within the answer" : "the connection was closed");
    }
  }

  #end(isProven = true): void {
    // The receiver may have stopped the parser.
    if (this.#state === "stopped") return;
    this.#state = "ended";
    this.ended = true;
    this.#receiver.end(isProven);
  }

  /** @returns where the rest begins */
  #head(bytes: Buffer, from: number): number {
    const fresh = from === 0 ? bytes : bytes.subarray(from);
    const known = this.#partial.length === 0 ? fresh : Buffer.concat([this.#partial, fresh]);
    const lines = linesOf(known);
    const end = lines?.at(-1) ?? known.length;
    if (end > maxHeadBytes) throw new HttpFault("the answer's head is too large");
    if (lines === undefined) {
      this.#partial = known;
      return bytes.length;
    }
    const before = this.#partial.length;
    this.#partial = nothing;
    this.#open(known.toString("latin1", 0, end), lines);
    return from + end - before;
  }

  #open(head: string, lines: readonly number[]): void {
    const isWellFormed = wellFormed.test(head);
    if (!isWellFormed && !statusLine.test(head)) throw new HttpFault("no status line");
    const status = Number(head.slice(9, 12));
    if (status === 101) throw new HttpFault("the other side changed the protocol");
    // "100 Continue" and "103 Early Hints" stand before the answer.
    if (status < 200) return;
    if (!isWellFormed) throw new HttpFault("a line of the head is no header field");
    const isOld = head[7] === "0";
    const fields = new HeadFields(head, lines);
    const connection = fields.get("connection");
    if (connection === null) this.lasts = !isOld;
    else this.lasts = isOld ? lists(connection, "keep-alive") : !lists(connection, "close");
    const kept = fields.get("keep-alive");
    const idle = kept === null ? undefined : /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(kept)?.[1];
    this.idleSeconds = idle === undefined ? undefined : Number(idle);
    // https://www.rfc-editor.org/rfc/rfc9112#section-6.3
    const hasBody = this.#hasBody && status !== 204 && status !== 304;
    const coding = hasBody ? fields.get("transfer-encoding") : null;
    const length = hasBody ? fields.get("content-length") : "0";
    if (coding !== null && coding.toLowerCase() !== "identity") {
      if (coding.toLowerCase() !== "chunked")
        throw new HttpFault(`an unsupported transfer coding: ${coding.slice(0, 100)}`);
      // Both may be an attempt at smuggling a second answer, and HTTP/1.0 has no chunks: the connection ends with this one.
      if (length !== null || isOld) this.lasts = false;
      this.#state = "chunk-size";
    } else if (length === null) {
      this.lasts = false;
      this.#state = "until-close";
    } else {
      this.#left = digits.test(length) ? Number(length) : repeated(length);
      this.#state = "length";
    }
    this.#receiver.head(status, fields);
    if (this.#state === "length" && this.#left === 0) this.#end();
  }

  #body(bytes: Buffer, from: number): number {
    const end = Math.min(bytes.length, from + this.#left);
    this.#left -= end - from;
    // The head was in these bytes, so that nothing was pushed yet.
    if (from > 0 && this.#left === 0 && this.#receiver.whole?.(bytes, from, end) === true) {
      this.#state = "ended";
      this.ended = true;
      return end;
    }
    this.#receiver.push(from === 0 && end === bytes.length ? bytes : bytes.subarray(from, end));
    if (this.#left === 0 && this.#state === "length") this.#end();
    return end;
  }

  /**
   * The chunks of one packet are moved together, so that the receiver gets one piece of them: many small chunks in a packet
   * are what a fast stream looks like.
   */
  #chunks(bytes: Buffer, from: number): number {
    let at = from;
    let start = from;
    let end = from;
    try {
      while (at < bytes.length && this.#state !== "last-chunk-read") {
        if (this.#state !== "chunk") {
          at = this.#line(bytes, at);
          continue;
        }
        const next = Math.min(bytes.length, at + this.#left);
        if (start === end) start = end = at;
        else bytes.copyWithin(end, at, next);
        end += next - at;
        this.#left -= next - at;
        at = next;
        if (this.#left === 0) this.#state = "chunk-end";
      }
    } finally {
      if (end > start) this.#receiver.push(bytes.subarray(start, end));
    }
    if (this.#state === "last-chunk-read") this.#end();
    return at;
  }

  /** Reads chunk sizes, chunk ends and trailers. */
  #line(bytes: Buffer, from: number): number {
    const feed = bytes.indexOf(lineFeed, from);
    const end = feed < 0 ? bytes.length : feed;
    if (end - from + this.#partial.length > maxLineBytes) throw new HttpFault("a line between chunks is too long");
    if (feed < 0) {
      this.#partial = Buffer.concat([this.#partial, bytes.subarray(from)]);
      return bytes.length;
    }
    if (this.#partial.length === 0) this.#between(bytes, from, end);
    else {
      const line = Buffer.concat([this.#partial, bytes.subarray(from, end)]);
      this.#partial = nothing;
      this.#between(line, 0, line.length);
    }
    return feed + 1;
  }

  /** @param end where the line feed stands */
  #between(bytes: Buffer, from: number, end: number): void {
    const last = end > from && bytes[end - 1] === carriageReturn ? end - 1 : end;
    switch (this.#state) {
      case "chunk-size":
        this.#left = chunkSize(bytes, from, last);
        this.#state = this.#left === 0 ? "trailers" : "chunk";
        return;
      case "chunk-end":
        if (last > from) throw new HttpFault("a chunk is longer than it said");
        this.#state = "chunk-size";
        return;
      default:
        this.#trailerBytes += last - from;
        if (this.#trailerBytes > maxHeadBytes) throw new HttpFault("the answer's trailers are too large");
        if (last === from) this.#state = "last-chunk-read";
    }
  }
}

const statusLine = /^HTTP\/1\.[01] [1-5]\d\d(?: [^\r\n]*)?\r?\n/;
/**
 * A status line, and fields, each on one line: a line that continues another is out of use for good reasons, and so are control
 * characters. Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.5
 */
const wellFormed = new RegExp(
  `${statusLine.source}(?:[!#$%&'*+.^_\`|~0-9A-Za-z-]+:[^\\0-\\x08\\n-\\x1f\\x7f]*\\r?\\n)*\\r?\\n$`,
);

/** The fields of a well-formed head, read on demand, as few are ever read. */
class HeadFields implements HeaderFields {
  readonly #head: string;
  /** As of `linesOf`: the last two are the blank line, and the end. */
  readonly #lines: readonly number[];

  constructor(head: string, lines: readonly number[]) {
    this.#head = head;
    this.#lines = lines;
  }

  get(name: string): string | null {
    const head = this.#head;
    const lines = this.#lines;
    const { length } = name;
    let value: string | null = null;
    for (let line = 0; line < lines.length - 2; line += 1) {
      const start = lines[line]!;
      if (head.charCodeAt(start + length) !== colon) continue;
      // Letter by letter, in whatever case it is written, as a copy in lower case costs five times as much.
      let at = 0;
      for (; at < length; at += 1) {
        const code = head.charCodeAt(start + at);
        if ((code >= 65 && code <= 90 ? code + 32 : code) !== name.charCodeAt(at)) break;
      }
      if (at < length) continue;
      const found = this.#value(line, start + length + 1);
      value = value === null ? found : `${value}, ${found}`;
    }
    return value;
  }

  entries(): Iterable<[string, string]> {
    const all = new Map<string, string>();
    for (let at = 0; at < this.#lines.length - 2; at += 1) {
      const start = this.#lines[at]!;
      const end = this.#head.indexOf(":", start);
      const name = this.#head.slice(start, end).toLowerCase();
      const value = this.#value(at, end + 1);
      const known = all.get(name);
      all.set(name, known === undefined ? value : `${known}, ${value}`);
    }
    return all;
  }

  /** The rest of a line, without the white space around it: in a well-formed head no other character is as low. */
  #value(line: number, from: number): string {
    const head = this.#head;
    let start = from;
    let end = this.#lines[line + 1]!;
    while (start < end && head.charCodeAt(start) <= space) start += 1;
    while (end > start && head.charCodeAt(end - 1) <= space) end -= 1;
    return head.slice(start, end);
  }
}

/** A content length. */
const digits = /^\d{1,15}$/;

/** A repeated length arrives as a list; the same number twice is still that number. @throws HttpFault */
function repeated(value: string): number {
  const [first = "", ...others] = value.split(",").map((part) => part.trim());
  if (digits.test(first) && others.every((other) => other === first)) return Number(first);
  throw new HttpFault(`no content length: ${value.slice(0, 100)}`);
}

/**
 * Where each line behind the first begins, the blank one included, and last where the body does; undefined while the head is not
 * whole. Lines may end without a carriage return.
 */
function linesOf(bytes: Buffer): number[] | undefined {
  const lines: number[] = [];
  for (let feed = bytes.indexOf(lineFeed); feed >= 0; feed = bytes.indexOf(lineFeed, feed + 1)) {
    const next = feed + 1;
    lines.push(next);
    const blank = bytes[next] === carriageReturn ? next + 1 : next;
    if (bytes[blank] !== lineFeed) continue;
    lines.push(blank + 1);
    return lines;
  }
  return undefined;
}

function lists(value: string, option: string): boolean {
  return value.split(",").some((one) => one.trim().toLowerCase() === option);
}

/** Hexadecimal digits, then perhaps white space, then perhaps an extension, which means nothing here. */
function chunkSize(bytes: Buffer, from: number, end: number): number {
  let size = 0;
  let at = from;
  for (; at < end; at += 1) {
    const digit = hexDigit(bytes[at]!);
    if (digit < 0) break;
    size = size * 16 + digit;
  }
  const hasDigits = at > from;
  while (at < end && (bytes[at] === 32 || bytes[at] === 9)) at += 1;
  const closed = at === end || bytes[at] === semicolon;
  if (!hasDigits || !closed || size > Number.MAX_SAFE_INTEGER) {
    // The bytes may be of the answer's text, which is not for the log: they are not quoted, here and above.
    throw new HttpFault("no chunk size");
  }
  return size;
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
