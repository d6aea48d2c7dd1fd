/** A TCP proxy that breaks connections as a test plans it. */
import type { Socket, TCPSocketListener } from "bun";

/** What becomes of one connection once that many bytes of answers went through. */
export type ConnectionFault =
  | { readonly kind: "none" }
  | { readonly kind: "reset"; readonly afterBytes: number }
  /** It stays open and nothing more comes. */
  | { readonly kind: "stall"; readonly afterBytes: number };

type Link = { other: Socket<Link> | undefined; waiting: Uint8Array[]; passed: number; fault: ConnectionFault };

export class FaultyProxy implements Disposable {
  readonly #listener: TCPSocketListener<Link>;
  /** Connections that were broken. */
  broken = 0;

  /** @param plan called for each connection */
  constructor(target: URL, plan: () => ConnectionFault) {
    const upstream = {
      data: (socket: Socket<Link>, bytes: Uint8Array) => this.#answer(socket, bytes),
      close: (socket: Socket<Link>) => void socket.data.other?.end(),
    };
    this.#listener = Bun.listen<Link>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open: (client) => {
          client.data = { other: undefined, waiting: [], passed: 0, fault: plan() };
          const link: Link = { other: client, waiting: [], passed: 0, fault: client.data.fault };
          void Bun.connect<Link>({
            hostname: target.hostname,
            port: Number(target.port),
            data: link,
            socket: upstream,
          }).then((server) => {
            client.data.other = server;
            for (const bytes of client.data.waiting.splice(0)) server.write(bytes);
          });
        },
        data: ({ data }, bytes) => {
          if (data.other === undefined) data.waiting.push(bytes.slice());
          else data.other.write(bytes);
        },
        close: ({ data }) => void data.other?.end(),
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.port}`;
  }

  #answer({ data }: Socket<Link>, bytes: Uint8Array): void {
    const client = data.other!;
    const { fault } = data;
    const room = fault.kind === "none" ? bytes.length : Math.max(0, fault.afterBytes - data.passed);
    data.passed += Math.min(room, bytes.length);
    if (room > 0) client.write(bytes.subarray(0, room));
    if (room >= bytes.length) return;
    this.broken += 1;
    if (fault.kind === "reset") client.terminate();
  }

  [Symbol.dispose](): void {
    this.#listener.stop(true);
  }
}
