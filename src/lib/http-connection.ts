/** One connection to one address, and the call that it carries. */
import type { Socket, SocketHandler, TLSOptions } from "bun";
import { AnswerParser, type AnswerReceiver, HttpFault } from "./http-parser.ts";

/** Bytes to send, in order. Strings go as UTF-8. */
export type Pieces = readonly (string | Uint8Array)[];

export interface CallReceiver extends AnswerReceiver {
  /** A new connection is there, TLS included. */
  connected(): void;
  /** The connection broke, or what came is no HTTP. Nothing follows. */
  fail(error: Error): void;
}

export type Address = { readonly hostname: string; readonly port: number; readonly tls: boolean };

/** Who hears how a connection fares. */
export interface ConnectionOwner {
  /** Its call is over, and another one may follow. */
  freed(connection: Connection): void;
  /** It can't be used any more. */
  gone(connection: Connection): void;
}

/**
 * The one protocol that is offered, behind its length.
 * Source: https://www.rfc-editor.org/rfc/rfc7301#section-3.1
 */
const onlyHttp1 = "\x08http/1.1";

export class Connection {
  readonly #owner: ConnectionOwner;
  #socket: Socket<Connection> | undefined;
  #isOpen = false;
  #isGone = false;
  #receiver: CallReceiver | undefined;
  #parser: AnswerParser | undefined;
  #unsent: (string | Uint8Array)[] = [];
  #isPaused = false;
  #answers = 0;
  #idleSeconds: number | undefined;
  /** For its owner's use: a monotonic reading. */
  idleSince = 0;

  /** Begins to connect. A call may be given to it at once. */
  constructor({ hostname, port, tls }: Address, owner: ConnectionOwner) {
    this.#owner = owner;
    Bun.connect<Connection>({
      hostname,
      port,
      data: this,
      socket: tls ? Connection.#securely : Connection.#plainly,
      ...(tls && { tls: { serverName: hostname, ALPNProtocols: onlyHttp1 } as TLSOptions }),
    }).catch((error: Error) => this.#fail(error));
  }

  /** Whether it has carried a call before this one. */
  get isUsed(): boolean {
    return this.#answers > 0;
  }

  /** Whether any byte of its call's answer came. */
  get isAnswering(): boolean {
    return this.#parser?.begun ?? false;
  }

  /** For how many seconds the other side said that it keeps an idle connection. */
  get idleSeconds(): number | undefined {
    return this.#idleSeconds;
  }

  /** One call at a time. */
  send(pieces: Pieces, receiver: CallReceiver): void {
    this.#receiver = receiver;
    this.#parser = new AnswerParser(receiver);
    this.#unsent = [...pieces];
    this.#write();
  }

  /** Stops reading, so that the other side has to wait. */
  pause(): void {
    if (this.#isPaused || this.#isGone) return;
    this.#isPaused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#isPaused || this.#isGone) return;
    this.#isPaused = false;
    this.#socket?.resume();
  }

  /** Ends it at once; its call hears nothing more. */
  destroy(): void {
    this.#receiver = undefined;
    this.#parser?.stop();
    this.#leave();
  }

  #leave(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#socket?.terminate();
    this.#owner.gone(this);
  }

  #fail(error: Error): void {
    const receiver = this.#receiver;
    // Leaving closes the socket, and that is no end of the answer.
    this.destroy();
    receiver?.fail(error);
  }

  #open(socket: Socket<Connection>): void {
    this.#socket = socket;
    if (this.#isGone) {
      socket.terminate();
      return;
    }
    this.#isOpen = true;
    // A request is written whole: there is nothing to wait for to fill a packet.
    socket.setNoDelay(true);
    if (this.#isPaused) socket.pause();
    this.#receiver?.connected();
    this.#write();
  }

  #write(): void {
    // Nothing goes out before it is known who is there.
    if (!this.#isOpen) return;
    const unsent = this.#unsent;
    while (unsent.length > 0 && !this.#isGone) {
      const piece = unsent[0]!;
      const sent = this.#socket!.write(piece);
      // Closed: that is told of by itself.
      if (sent < 0) return;
      const size = typeof piece === "string" ? Buffer.byteLength(piece) : piece.byteLength;
      if (sent < size) {
        unsent[0] = (typeof piece === "string" ? Buffer.from(piece) : piece).subarray(sent);
        return;
      }
      unsent.shift();
    }
  }

  #read(bytes: Buffer): void {
    const parser = this.#parser;
    // Nobody asked: whoever sends this can't be trusted with a call.
    if (parser === undefined) {
      this.#leave();
      return;
    }
    try {
      parser.push(bytes);
      if (parser.ended) this.#free(parser);
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #free(parser: AnswerParser): void {
    this.#receiver = undefined;
    this.#parser = undefined;
    this.#answers += 1;
    this.#idleSeconds = parser.idleSeconds;
    // An answer that came before its request was read to the end leaves bytes that the next call would run into.
    if (!parser.lasts || this.#unsent.length > 0) {
      this.#leave();
      return;
    }
    this.resume();
    if (!this.#isGone) this.#owner.freed(this);
  }

  #closed(error?: Error): void {
    try {
      if (error === undefined) this.#parser?.close();
      if (this.#parser?.ended === true) this.#receiver = undefined;
      this.#fail(error ?? new HttpFault("the connection was closed"));
    } catch (fault) {
      this.#fail(fault as Error);
    }
  }

  static readonly #handlers: SocketHandler<Connection> = {
    data: (socket, bytes) => socket.data.#read(bytes),
    drain: (socket) => socket.data.#write(),
    end: (socket) => socket.data.#closed(),
    close: (socket, error) => socket.data.#closed(error),
    error: (socket, error) => socket.data.#fail(error),
    connectError: (socket, error) => socket.data.#fail(error),
  };

  static readonly #plainly: SocketHandler<Connection> = {
    ...Connection.#handlers,
    open: (socket) => socket.data.#open(socket),
  };

  static readonly #securely: SocketHandler<Connection> = {
    ...Connection.#handlers,
    open: (socket) => {
      // Known now already, so that it can be ended while the handshake goes on.
      socket.data.#socket = socket;
      if (socket.data.#isGone) socket.terminate();
    },
    handshake: (socket, trusted, error) => {
      if (trusted) socket.data.#open(socket);
      else socket.data.#fail(error ?? new HttpFault("the certificate can't be trusted"));
    },
  };
}
