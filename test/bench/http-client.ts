/**
 * HTTP/1.1 over a bare socket: one call at a time on a kept connection, every read handed on with its time.
 * A measuring client must cost little, see each packet, stop reading when told, and be strict about framing.
 */
import type { Socket } from "bun";

export interface Receiver {
  head(status: number, head: string): void;
  /** @param at milliseconds of `performance.now()`; `bytes` are valid only during the call */
  data(bytes: Uint8Array, at: number): void;
  /** The answer is whole. */
  end(at: number): void;
  /** The connection broke, or spoke no HTTP. */
  fail(reason: string): void;
}

type State = "idle" | "head" | "length" | "chunk-size" | "chunk" | "chunk-end" | "trailer" | "closed";
const lineFeed = 10;
/** Servers close connections that idle for long (30 s are usual): one that did so is not used again, as good clients do. */
const maxIdleMs = 15_000;

export class Connection {
  #socket!: Socket;
  #state: State = "idle";
  #receiver: Receiver | undefined;
  /** Bytes of a head or line that is not whole yet. */
  #partial: Buffer = Buffer.alloc(0);
  /** Bytes left of the body or the chunk. */
  #left = 0;
  #unsent: Uint8Array | undefined;
  #closes = false;
  #idleSince = performance.now();

  readonly #onStray: (fault: string) => void;

  private constructor(onStray: (fault: string) => void) {
    this.#onStray = onStray;
  }

  /** @param onStray is told of bytes that belong to no answer */
  static async open(port: number, onStray: (fault: string) => void): Promise<Connection> {
    const connection = new Connection(onStray);
    connection.#socket = await Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        data: (_, bytes) => connection.#read(bytes),
        drain: () => connection.#flush(),
        close: () => connection.#fail(`the connection was closed, ${connection.#place}`),
        error: (_, error) => connection.#fail(error.message),
      },
    });
    connection.#socket.setNoDelay(true);
    return connection;
  }

  get usable(): boolean {
    return this.#state === "idle" && performance.now() - this.#idleSince < maxIdleMs;
  }

  send(request: Uint8Array, receiver: Receiver): void {
    if (this.#state !== "idle") throw new Error(`the connection is ${this.#state}`);
    this.#state = "head";
    this.#receiver = receiver;
    this.#unsent = request;
    this.#flush();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#receiver = undefined;
    this.#state = "closed";
    this.#socket.end();
  }

  /** Where in an answer it is. */
  get #place(): string {
    return this.#state === "head" && this.#partial.length === 0 ? "before an answer" : "within an answer";
  }

  #flush(): void {
    if (this.#unsent === undefined) return;
    const sent = this.#socket.write(this.#unsent);
    this.#unsent = sent < this.#unsent.length ? this.#unsent.subarray(Math.max(sent, 0)) : undefined;
  }

  #fail(reason: string): void {
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.#state = "closed";
    this.#socket.end();
    receiver?.fail(reason);
  }

  #read(bytes: Buffer): void {
    const at = performance.now();
    let rest = bytes;
    while (rest.length > 0) {
      switch (this.#state) {
        case "head":
          rest = this.#readHead(rest);
          break;
        case "length":
        case "chunk":
          rest = this.#readBody(rest, at);
          break;
        case "chunk-size":
        case "chunk-end":
        case "trailer":
          rest = this.#readLine(rest, at);
          break;
        case "idle":
          this.#onStray(`${rest.length} bytes after an answer's end`);
          this.close();
          return;
        case "closed":
          return;
      }
    }
    if (this.#state === "length" && this.#left === 0) this.#end(at);
  }

  #readHead(bytes: Buffer): Buffer {
    const known = this.#partial.length === 0 ? bytes : Buffer.concat([this.#partial, bytes]);
    const end = known.indexOf("\r\n\r\n");
    if (end < 0) {
      this.#partial = known;
      return known.subarray(known.length);
    }
    this.#partial = Buffer.alloc(0);
    const head = known.toString("latin1", 0, end + 2);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
    const length = /\r\ncontent-length: *(\d+)\r/i.exec(head)?.[1];
    this.#closes = /\r\nconnection: *close\r/i.test(head);
    if (length !== undefined) {
      this.#left = Number(length);
      this.#state = "length";
    } else if (/\r\ntransfer-encoding: *chunked\r/i.test(head)) this.#state = "chunk-size";
    else {
      this.#fail(`an answer without a length: ${head}`);
      return known.subarray(known.length);
    }
    this.#receiver?.head(status, head);
    return known.subarray(end + 4);
  }

  #readBody(bytes: Buffer, at: number): Buffer {
    const mine = bytes.subarray(0, this.#left);
    this.#left -= mine.length;
    this.#receiver?.data(mine, at);
    // Whoever has enough leaves here, and what else has come is no longer anyone's.
    if (this.#state === "closed") return bytes.subarray(bytes.length);
    if (this.#left === 0) {
      if (this.#state === "chunk") this.#state = "chunk-end";
      else this.#end(at);
    }
    return bytes.subarray(mine.length);
  }

  #readLine(bytes: Buffer, at: number): Buffer {
    const feed = bytes.indexOf(lineFeed);
    if (feed < 0) {
      this.#partial = Buffer.concat([this.#partial, bytes]);
      return bytes.subarray(bytes.length);
    }
    const line = (this.#partial.toString("latin1") + bytes.toString("latin1", 0, feed)).trimEnd();
    if (this.#partial.length > 0) this.#partial = Buffer.alloc(0);
    if (this.#state === "chunk-size") this.#beginChunk(line);
    else if (line !== "" && this.#state === "chunk-end") this.#fail(`a chunk longer than it said: ${line}`);
    else if (this.#state === "chunk-end") this.#state = "chunk-size";
    else if (line === "") this.#end(at);
    return bytes.subarray(feed + 1);
  }

  #beginChunk(line: string): void {
    this.#left = Number.parseInt(line, 16);
    if (Number.isNaN(this.#left)) this.#fail(`no chunk size: ${line}`);
    else this.#state = this.#left === 0 ? "trailer" : "chunk";
  }

  #end(at: number): void {
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.#state = this.#closes ? "closed" : "idle";
    this.#idleSince = at;
    if (this.#closes) this.#socket.end();
    receiver?.end(at);
  }
}
