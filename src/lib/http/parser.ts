/**
 * The answering side of HTTP/1.1: bytes in, one answer out, whatever the packets.
 * Source: https://www.rfc-editor.org/rfc/rfc9112
 */
import type { Sink } from "../flow.ts";

/** What the other side sent is no HTTP, or not all of it. */
export class HttpFault extends Error {
  override readonly name = "HttpFault";
}

/** An answer's header fields. Several of one name are joined by commas. */
export interface HeaderFields {
  /** @param name in lower case */
  get(name: string): string | null;
}

/**
 * Takes one answer: its head, then its body in pieces that are never empty and the receiver's to keep. The body's end tells
 * whether it `isProven`: false where only the body's own form can tell whether it is whole, as anybody could have ended it.
 */
export interface AnswerReceiver extends Pick<Sink<Buffer, boolean>, "push" | "end"> {
  head(status: number, headers: HeaderFields): void;
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
  /** The answer is whole. */
  | "ended"
  /** What comes does not matter. */
  | "stopped";

const maxHeadBytes = 64 * 1024;
const maxLineBytes = 4 * 1024;
const lineFeed = 10;
const carriageReturn = 13;
const semicolon = 59;
const nothing: Buffer = Buffer.alloc(0);

export class AnswerParser {
  readonly #receiver: AnswerReceiver;
  #state: State = "head";
  /** The beginning of a head or of a line. */
  #partial = nothing;
  /** Bytes that the body or the chunk still has. */
  #left = 0;
  #trailerBytes = 0;
  #begun = false;
  #lasts = false;
  #idleSeconds: number | undefined;

  constructor(receiver: AnswerReceiver) {
    this.#receiver = receiver;
  }

  /** Whether any byte of the answer came. */
  get begun(): boolean {
    return this.#begun;
  }

  get ended(): boolean {
    return this.#state === "ended";
  }

  /** Once it has ended: whether the connection may serve again. */
  get lasts(): boolean {
    return this.#lasts;
  }

  /** For how many seconds the other side said that it keeps an idle connection. */
  get idleSeconds(): number | undefined {
    return this.#idleSeconds;
  }

  /** Nothing more is given to the receiver. */
  stop(): void {
    this.#state = "stopped";
  }

  /** @param bytes belong to the parser from now on. @throws HttpFault */
  push(bytes: Buffer): void {
    this.#begun = true;
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
          // Bytes that nobody asked for: whoever sends them can't be trusted with another call.
          this.#lasts = false;
          return;
        case "stopped":
          return;
        default:
          at = this.#chunks(bytes, at);
      }
    }
  }

  /**
   * The other side closed the connection.
   * @param provesEnd whether a body without a length ends with it for sure
   * @throws HttpFault where the answer is not whole
   */
  close(provesEnd = true): void {
    if (this.#state === "until-close") this.#end(provesEnd);
    else if (this.#state !== "ended" && this.#state !== "stopped") {
      throw new HttpFault(this.#begun ? "the connection was closed within the answer" : "the connection was closed");
    }
  }

  #end(isProven = true): void {
    // The receiver may have had enough.
    if (this.#state === "stopped") return;
    this.#state = "ended";
    this.#receiver.end(isProven);
  }

  /** @returns where the rest begins */
  #head(bytes: Buffer, from: number): number {
    const fresh = from === 0 ? bytes : bytes.subarray(from);
    const known = this.#partial.length === 0 ? fresh : Buffer.concat([this.#partial, fresh]);
    const end = headEnd(known);
    if ((end < 0 ? known.length : end) > maxHeadBytes) throw new HttpFault("the answer's head is too large");
    if (end < 0) {
      this.#partial = known;
      return bytes.length;
    }
    const before = this.#partial.length;
    this.#partial = nothing;
    this.#open(known.toString("latin1", 0, end));
    return from + end - before;
  }

  #open(head: string): void {
    const [line, minor, digits] = statusLine.exec(head) ?? [];
    if (line === undefined) throw new HttpFault("no status line");
    const status = Number(digits);
    if (status === 101) throw new HttpFault("the other side changed the protocol");
    // "100 Continue" and "103 Early Hints" stand before the answer.
    if (status < 200) return;
    const fields = new HeadFields(head.slice(line.length));
    this.#lasts =
      minor === "1" ? !lists(fields.get("connection"), "close") : lists(fields.get("connection"), "keep-alive");
    const idle = /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(fields.get("keep-alive") ?? "")?.[1];
    this.#idleSeconds = idle === undefined ? undefined : Number(idle);
    this.#state = this.#framing(status, minor!, fields);
    this.#receiver.head(status, fields);
    if (this.#state === "length" && this.#left === 0) this.#end();
  }

  /** https://www.rfc-editor.org/rfc/rfc9112#section-6.3 */
  #framing(status: number, minor: string, fields: HeaderFields): State {
    this.#left = 0;
    if (status === 204 || status === 304) return "length";
    const coding = fields.get("transfer-encoding")?.toLowerCase() ?? "identity";
    const length = fields.get("content-length");
    if (coding !== "identity") {
      if (coding !== "chunked") throw new HttpFault(`a transfer coding that nobody asked for: ${coding.slice(0, 100)}`);
      // Both may be an attempt at smuggling a second answer, and HTTP/1.0 has no chunks: the connection ends with this one.
      if (length !== null || minor === "0") this.#lasts = false;
      return "chunk-size";
    }
    if (length === null) {
      this.#lasts = false;
      return "until-close";
    }
    // A repeated field arrives as a list; the same number twice is still that number.
    const [first, ...others] = length.split(",").map((part) => part.trim());
    if (!/^\d{1,15}$/.test(first!) || others.some((other) => other !== first))
      throw new HttpFault(`no content length: ${length.slice(0, 100)}`);
    this.#left = Number(first);
    return "length";
  }

  #body(bytes: Buffer, from: number): number {
    const end = Math.min(bytes.length, from + this.#left);
    this.#left -= end - from;
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

  /** What stands between chunks, and behind the last one. */
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

const statusLine = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?\r?\n/;
/**
 * Fields, each on one line: a line that continues another is out of use for good reasons, and so are control characters.
 * Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.5
 */
const wellFormed = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0-\x08\n-\x1f\x7f]*\r?\n)*\r?\n$/;

/** Few of them are ever looked at: they are found in the text when they are. */
class HeadFields implements HeaderFields {
  readonly #text: string;

  /** @throws HttpFault */
  constructor(text: string) {
    if (!wellFormed.test(text)) throw new HttpFault("a line of the head is no header field");
    this.#text = text;
  }

  get(name: string): string | null {
    const pattern = patternOf(name);
    pattern.lastIndex = 0;
    const first = pattern.exec(this.#text);
    if (first === null) return null;
    let value = first[1] ?? "";
    for (let more = pattern.exec(this.#text); more !== null; more = pattern.exec(this.#text)) {
      value += `, ${more[1] ?? ""}`;
    }
    return value;
  }
}

/** Names come from this program alone, so there are few. */
const patterns = new Map<string, RegExp>();

function patternOf(name: string): RegExp {
  let pattern = patterns.get(name);
  if (pattern === undefined) {
    pattern = new RegExp(`^${name}:[ \\t]*(.*[^ \\t\\r\\n])?`, "gim");
    patterns.set(name, pattern);
  }
  return pattern;
}

/** Where the body begins; -1 while the head is not whole. Lines may end without a carriage return. */
function headEnd(bytes: Buffer): number {
  const usual = bytes.indexOf("\n\r\n");
  const bare = bytes.indexOf("\n\n");
  if (bare >= 0 && (usual < 0 || bare < usual)) return bare + 2;
  return usual < 0 ? -1 : usual + 3;
}

function lists(value: string | null, option: string): boolean {
  if (value === null) return false;
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
    // What stands there instead may be of the answer's text, which is not for the log: it is not quoted, here and above.
    throw new HttpFault("no chunk size");
  }
  return size;
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
