/**
 * TCP keep-alive of accepted connections: the kernel asks a silent peer whether it is still there, so that a connection whose other
 * end is gone without a word ends also while a model thinks, when no idle timeout of ours runs, and firewalls between see traffic.
 * Accepted sockets inherit these options from the one that listens. Linux only. Source: tcp(7), socket(7)
 */
import { openLibc, ptr } from "./libc.ts";
import { listeningSockets } from "./reuse-port.ts";

const socketLevel = 1;
const keepAlive = 9;
const tcpLevel = 6;
/** Seconds of silence before the first probe, seconds between probes, and how many are lost before the connection ends. */
const probes = [
  [4, 60],
  [5, 15],
  [6, 4],
] as const;

/** Sets them on every TCP socket of this process that listens. */
export function probeSilentPeers(): void {
  const libc = openLibc();
  if (libc === undefined) return;
  for (const fd of listeningSockets(libc)) {
    libc.setsockopt(fd, socketLevel, keepAlive, ptr(new Int32Array([1])), 4);
    for (const [name, value] of probes) libc.setsockopt(fd, tcpLevel, name, ptr(new Int32Array([value])), 4);
  }
}
