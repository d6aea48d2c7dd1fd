/**
 * Ends this side of a server's connection behind what was sent (FIN), which Bun can't: it either ends an answer in its framing, or
 * resets the connection, which throws away what the kernel has not sent yet. Linux only.
 * Source: https://man7.org/linux/man-pages/man2/shutdown.2.html
 */
import { readdirSync } from "node:fs";
import { withoutMapping } from "../http/addresses.ts";
import { type Libc, openLibc, ptr } from "./libc.ts";

/** The other end of a connection. @property localPort where this side listens; undefined: not known */
type Peer = { readonly address: string; readonly port: number; readonly localPort: number | undefined };

const sending = 1;
const inet = 2;
const inet6 = 10;
/** `struct sockaddr_in6`, the larger of both. */
const endpoint = new Uint8Array(28);
const endpointLength = new Uint32Array(1);
const text = new Uint8Array(46);

let asked = new Map<string, (isDone: boolean) => void>();

const keyOf = ({ address, port, localPort }: Peer) => `${withoutMapping(address)} ${port} ${localPort}`;

/**
 * All that are asked for in one turn of the event loop are found by one look at the process's sockets.
 * @returns true once it is done; false where the connection is not found, or this is no Linux
 */
export function endSending(peer: Peer): Promise<boolean> {
  const libc = openLibc();
  if (libc === undefined) return Promise.resolve(false);
  if (asked.size === 0) setImmediate(() => endAsked(libc));
  return new Promise((resolve) => asked.set(keyOf(peer), resolve));
}

function endAsked(libc: Libc): void {
  const waiting = asked;
  asked = new Map();
  for (const name of readdirSync("/proc/self/fd")) {
    if (waiting.size === 0) return;
    const fd = Number(name);
    const remote = endpointOf(libc, libc.getpeername, fd);
    const local = remote && endpointOf(libc, libc.getsockname, fd);
    if (remote === undefined || local === undefined) continue;
    for (const localPort of [local.port, undefined]) {
      const key = keyOf({ ...remote, localPort });
      const resolve = waiting.get(key);
      if (resolve === undefined) continue;
      waiting.delete(key);
      resolve(libc.shutdown(fd, sending) === 0);
    }
  }
  for (const resolve of waiting.values()) resolve(false);
}

/** @returns undefined where the descriptor is no connection by TCP */
function endpointOf(
  libc: Libc,
  name: Libc["getpeername"],
  fd: number,
): { readonly address: string; readonly port: number } | undefined {
  endpointLength[0] = endpoint.length;
  if (name(fd, ptr(endpoint), ptr(endpointLength)) !== 0) return undefined;
  const family = new DataView(endpoint.buffer).getUint16(0, true);
  if (family !== inet && family !== inet6) return undefined;
  if (libc.inet_ntop(family, ptr(endpoint, family === inet ? 4 : 8), ptr(text), text.length) === null) return undefined;
  const address = new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
  return { address, port: (endpoint[2]! << 8) | endpoint[3]! };
}
