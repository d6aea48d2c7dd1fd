/** A TCP proxy between a client and a server, whose connections a test holds up, delays, orphans and cuts while they are in use. */
import type { Socket, TCPSocketListener } from "bun";

/** `due`: when the bytes may pass; a reading of `performance.now`. */
type Waiting = { readonly due: number; bytes: Uint8Array };
type Link = { other: Socket<Link> | undefined; waiting: Waiting[]; isClient: boolean; isOrphan: boolean };

export class SwitchedProxy implements Disposable {
  readonly #listener: TCPSocketListener<Link>;
  readonly #clients = new Set<Socket<Link>>();
  #isHeld = false;
  /** How many pieces pass between two cuts. */
  #cutEvery = Number.POSITIVE_INFINITY;
  #passed = 0;
  #lastWasClient = false;
  /** Where new connections lead to. */
  target: number;
  /** How long bytes are on their way, each direction for itself; in milliseconds. */
  delayMs = 0;
  /** Connections that were made. */
  connections = 0;
  /** How often clients spoke after the server had: round trips, of one connection in use. */
  exchanges = 0;

  constructor(target: number) {
    this.target = target;
    const server = {
      data: (socket: Socket<Link>, bytes: Uint8Array) => this.#pass(socket, bytes),
      close: ({ data }: Socket<Link>) => this.#closed(data),
      error: () => {},
    };
    this.#listener = Bun.listen<Link>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open: (client) => {
          this.connections += 1;
          client.data = { other: undefined, waiting: [], isClient: true, isOrphan: false };
          this.#clients.add(client);
          const data: Link = { other: client, waiting: [], isClient: false, isOrphan: false };
          Bun.connect<Link>({ hostname: "127.0.0.1", port: this.target, data, socket: server }).then(
            (socket) => {
              client.data.other = socket;
              if (!this.#isHeld) flush(client.data);
            },
            () => client.terminate(),
          );
        },
        data: (socket, bytes) => this.#pass(socket, bytes),
        close: (client) => {
          this.#clients.delete(client);
          this.#closed(client.data);
        },
        error: () => {},
      },
    });
  }

  get port(): number {
    return this.#listener.port;
  }

  /** From now on nothing passes, in either direction, and nobody is told. */
  hold(): void {
    this.#isHeld = true;
  }

  /** What was held passes. */
  release(): void {
    this.#isHeld = false;
    for (const { data } of this.#clients) {
      flush(data);
      if (data.other !== undefined) flush(data.other.data);
    }
  }

  /** The server's side of every connection goes; the client's stays, and never hears again. New ones work. */
  orphan(): void {
    for (const { data } of this.#clients) {
      data.isOrphan = true;
      data.other?.terminate();
      data.other = undefined;
    }
  }

  /** Clients are told that the server has said all that it will say. */
  halfClose(): void {
    for (const client of this.#clients) client.shutdown();
  }

  /** Resets every connection. */
  cut(): void {
    for (const client of this.#clients) client.terminate();
  }

  /**
   * Resets every connection again and again until `stopCutting`, each time when so many pieces have passed: by a clock a slow machine
   * would never get anything through.
   */
  cutEvery(pieces: number): void {
    this.#cutEvery = pieces;
    this.#passed = 0;
  }

  stopCutting(): void {
    this.#cutEvery = Number.POSITIVE_INFINITY;
  }

  #pass({ data }: Socket<Link>, bytes: Uint8Array): void {
    if (data.isOrphan) return;
    this.#passed += 1;
    if (this.#passed >= this.#cutEvery) {
      this.#passed = 0;
      setImmediate(() => this.cut());
    }
    if (data.isClient && !this.#lastWasClient) this.exchanges += 1;
    this.#lastWasClient = data.isClient;
    data.waiting.push({ due: performance.now() + this.delayMs, bytes: bytes.slice() });
    if (!this.#isHeld) flush(data);
  }

  #closed(data: Link): void {
    if (!data.isOrphan && !data.other?.data.isOrphan) data.other?.terminate();
  }

  [Symbol.dispose](): void {
    this.#listener.stop(true);
  }
}

/** Enough for what tests send: what a socket does not take at once is given to it again. */
function flush(link: Link): void {
  while (link.other !== undefined && link.waiting.length > 0) {
    const first = link.waiting[0]!;
    const early = first.due - performance.now();
    const written = early > 0 ? 0 : link.other.write(first.bytes);
    if (written < first.bytes.length) {
      first.bytes = first.bytes.subarray(Math.max(0, written));
      setTimeout(() => flush(link), Math.max(early, 5));
      return;
    }
    link.waiting.shift();
  }
}
