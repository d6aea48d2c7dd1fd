/** One connection to one address, and the call that it carries. */
import type { Socket, SocketHandler, TLSOptions } from "bun";
import { hasUnread, minRoundTripMs } from "../linux/tcp-info.ts";
import type { Flow, Sink } from "../streams/flow.ts";
import { atTurnEnd, type Continued } from "../time/turn-end.ts";
import { isIP } from "./ip.ts";
import { AnswerParser, type AnswerReceiver, HttpFault } from "./parser.ts";
import { checkAlternativeNames, prepareCheck } from "./tls-identity.ts";
import { type BodyPieces, type StreamedBody, Upload } from "./upload.ts";

/** Receives one call's response. Fails if the connection breaks or the response is not valid HTTP. */
export interface CallReceiver extends AnswerReceiver, Sink<Buffer, boolean> {
  /** A new connection is established, TLS included. */
  connected(): void;
  /** The kernel took the whole request and nothing of it is held here: at the response's head at the latest. */
  sent?(): void;
  /** @param wasSent false if the kernel did not take the whole request, which the server then can't have answered. Default: true */
  fail(error: Error, wasSent?: boolean): void;
}

export type Address = { readonly hostname: string; readonly port: number; readonly tls: boolean };

/** Notified of a connection's state. */
export interface ConnectionOwner {
  /** Its call ended and it may carry another. */
  freed(connection: Connection): void;
  closed(connection: Connection): void;
}

/**
 * The only ALPN protocol offered, with its length prefix.
 * Source: https://www.rfc-editor.org/rfc/rfc7301#section-3.1
 */
const onlyHttp1 = "\x08http/1.1";

export class Connection implements Pick<Flow, "pause" | "resume">, Continued {
  readonly #owner: ConnectionOwner;
  readonly #address: Address;
  #socket: Socket<Connection> | undefined;
  /** Of the socket; -1 where there is none. */
  #descriptor = -1;
  #isOpen = false;
  #isClosed = false;
  #receiver: CallReceiver | undefined;
  #parser: AnswerParser | undefined;
  /** More of an answer, which arrived in this turn of the event loop: read at its end, or as soon as more arrives or the connection ends. */
  #arrived: Buffer | undefined;
  #unsent: (string | Uint8Array)[] = [];
  /** The kernel took all of the call. */
  #isSent = true;
  #upload: Upload | undefined;
  /** True if the kernel took, or may have taken, a byte of the call. */
  #isBegun = false;
  #reactionMs = 0;
  #isPaused = false;
  #answers = 0;
  /** The server's idle timeout in seconds, where it sent one. Set by the connection alone. */
  idleSeconds: number | undefined;
  /** Set by its owner: a monotonic reading from which on the other side may have closed it. */
  staleAt = 0;

  /** Starts to connect. `send` may be called at once. */
  constructor(address: Address, owner: ConnectionOwner) {
    const { hostname, port, tls } = address;
    this.#owner = owner;
    this.#address = address;
    Bun.connect<Connection>({
      hostname,
      port,
      data: this,
      socket: tls ? Connection.#securely : Connection.#plainly,
      ...(tls && { tls: { serverName: serverNameOf(hostname), ALPNProtocols: onlyHttp1 } as TLSOptions }),
    }).catch((error: Error) => this.#fail(error));
    if (tls) prepareCheck();
  }

  /** True if it has carried a call before this one. */
  get isUsed(): boolean {
    return this.#answers > 0;
  }

  /** True if any byte of its call's answer came. */
  get isAnswering(): boolean {
    return this.#parser?.begun ?? false;
  }

  /**
   * True if it can carry another call: the other side has neither ended it nor sent bytes that no call asked for, which the
   * next call would take for its response. Asks the kernel, which may know before the event loop reports it.
   */
  get isReusable(): boolean {
    return !this.#isClosed && this.#arrived === undefined && !hasUnread(this.#descriptor);
  }

  /**
   * Milliseconds after the call was written from which on its end could be an answer to it: one that came sooner was on
   * its way before. 0 where that is not known, infinite where nothing of the call went out.
   */
  get reactionMs(): number {
    return this.#isBegun ? this.#reactionMs : Number.POSITIVE_INFINITY;
  }

  /**
   * Sends a request. One call at a time.
   * @param streamed sent behind the pieces, as it comes
   */
  send(pieces: BodyPieces, receiver: CallReceiver, hasAnswerBody: boolean, streamed?: StreamedBody): void {
    this.#receiver = receiver;
    this.#parser = new AnswerParser(receiver, hasAnswerBody);
    this.#unsent = [...pieces];
    this.#isSent = false;
    this.#upload =
      streamed &&
      new Upload(
        streamed,
        (framed) => this.#take(framed),
        (error) => this.#fail(error),
      );
    this.#isBegun = false;
    this.#reactionMs = 0;
    this.#write();
  }

  /** Stops reading, which applies back-pressure to the server. */
  pause(): void {
    if (this.#isPaused || this.#isClosed) return;
    this.#isPaused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#isPaused || this.#isClosed) return;
    this.#isPaused = false;
    this.#socket?.resume();
  }

  /** Closes it at once, without notifying its receiver. */
  destroy(): void {
    this.#arrived = undefined;
    this.#receiver = undefined;
    this.#parser?.stop();
    this.#upload?.stop();
    this.#close();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#socket?.terminate();
    this.#owner.closed(this);
  }

  #fail(error: Error): void {
    const receiver = this.#receiver;
    // Drop the receiver first: closing the socket must not count as the response's end.
    this.destroy();
    receiver?.fail(error);
  }

  #open(socket: Socket<Connection>): void {
    this.#socket = socket;
    // Bun has it, and its types do not.
    this.#descriptor = (socket as { readonly fd?: number }).fd ?? -1;
    if (this.#isClosed) {
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
    // Nothing is sent before the handshake has verified the server.
    if (!this.#isOpen || this.#isSent) return;
    const unsent = this.#unsent;
    while (unsent.length > 0 && !this.#isClosed) {
      const piece = unsent[0]!;
      const sent = this.#socket!.write(piece);
      // Closed: the close event follows.
      if (sent < 0) return;
      this.#isBegun = true;
      const size = typeof piece === "string" ? Buffer.byteLength(piece) : piece.byteLength;
      if (sent < size) {
        unsent[0] = (typeof piece === "string" ? Buffer.from(piece) : piece).subarray(sent);
        return;
      }
      unsent.shift();
    }
    if (this.#isClosed) return;
    if (this.#upload?.isOver === false) {
      this.#upload.more();
      return;
    }
    this.#isSent = true;
    this.#receiver?.sent?.();
  }

  /** Writes more of a streamed body. @returns whether the kernel took all of it */
  #take(pieces: BodyPieces): boolean {
    this.#unsent.push(...pieces);
    this.#write();
    return this.#unsent.length === 0;
  }

  /** Reads what has arrived, if that is not done yet. */
  continue(): void {
    const bytes = this.#arrived;
    if (bytes === undefined) return;
    this.#arrived = undefined;
    this.#read(bytes);
  }

  #read(bytes: Buffer): void {
    const parser = this.#parser;
    // Unsolicited bytes: the connection can't be trusted with another call.
    if (parser === undefined) {
      this.#close();
      return;
    }
    try {
      parser.push(bytes);
      if (!parser.ended) return;
      this.#receiver = undefined;
      this.#parser = undefined;
      this.#answers += 1;
      this.idleSeconds = parser.idleSeconds;
      // An answer that came before its request was read to the end leaves bytes that the next call would run into.
      if (!parser.lasts || !this.#isSent) {
        this.#upload?.stop();
        this.#close();
        return;
      }
      if (this.#isPaused) this.resume();
      if (!this.#isClosed) this.#owner.freed(this);
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  /**
   * The other side ends the connection in order. An end that is a reaction to the call acknowledges it, and so the least
   * round trip, read now, counts the time that this took. A reset acknowledges nothing, so none is looked for there.
   */
  #ended(): void {
    this.#reactionMs = minRoundTripMs(this.#descriptor);
    this.#closed();
  }

  #closed(error?: Error): void {
    this.continue();
    try {
      if (error === undefined) this.#parser?.close(!this.#address.tls);
      if (this.#parser?.ended === true) this.#receiver = undefined;
      this.#fail(error ?? new HttpFault("the connection was closed"));
    } catch (fault) {
      this.#fail(fault as Error);
    }
  }

  static readonly #handlers: SocketHandler<Connection> = {
    /** Reads what begins an answer at once, as its call waits for the turn's end itself. */
    data({ data: connection }, bytes) {
      if (connection.#parser?.begun !== true) connection.#read(bytes);
      else {
        if (connection.#arrived === undefined) atTurnEnd(connection);
        else connection.continue();
        connection.#arrived = bytes;
      }
    },
    drain: (socket) => socket.data.#write(),
    end: (socket) => socket.data.#ended(),
    close: (socket, error) => socket.data.#closed(error),
    error: (socket, error) => socket.data.#closed(error),
    connectError: (socket, error) => socket.data.#fail(error),
  };

  static readonly #plainly: SocketHandler<Connection> = {
    ...Connection.#handlers,
    open: (socket) => socket.data.#open(socket),
  };

  static readonly #securely: SocketHandler<Connection> = {
    ...Connection.#handlers,
    open: (socket) => {
      // Set before the handshake, so that the connection can be closed during it.
      socket.data.#socket = socket;
      if (socket.data.#isClosed) socket.terminate();
    },
    handshake: (socket, trusted, error) => {
      const { data: connection } = socket;
      const fault = trusted
        ? checkAlternativeNames(connection.#address.hostname, socket.getPeerCertificate())
        : (error ?? new HttpFault("the certificate can't be trusted"));
      if (fault === undefined) connection.#open(socket);
      else connection.#fail(fault);
    },
  };
}

/** The TLS server name indication; never an IP address: https://www.rfc-editor.org/rfc/rfc6066#section-3 */
function serverNameOf(hostname: string): string {
  return isIP(hostname) === 0 ? hostname : "";
}
