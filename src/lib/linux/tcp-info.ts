/**
 * The kernel's facts of a TCP connection. Linux only: elsewhere nothing is known, and the answers say so.
 * Source: https://man7.org/linux/man-pages/man7/tcp.7.html (TCP_INFO) and `struct tcp_info` in
 * https://github.com/torvalds/linux/blob/master/include/uapi/linux/tcp.h, and
 * https://man7.org/linux/man-pages/man2/poll.2.html
 */
import { type Libc, openLibc, ptr } from "./libc.ts";

const tcpLevel = 6;
const tcpInfo = 11;
/** In 32-bit words. */
const minRttPlace = 148 / 4;
const unknownRtt = 0xffff_ffff;

/** One for all: each reading is used before the next one is made. */
const info = new Uint32Array(64);
const length = new Uint32Array(1);
/** `struct pollfd`: the descriptor, then what is asked for and what is so, in 16 bits each. */
const polled = new Int32Array(2);
let libc: Libc | undefined;
/** POLLIN and POLLRDHUP; errors and hang-ups are reported in any case. */
const readable = 0x2001;

/**
 * True if something of the other side waits to be read, which the event loop has not reported yet: bytes, or the end of the
 * connection, in order or by a reset.
 * @returns false where that is not known
 */
export function hasUnread(fd: number): boolean {
  libc ??= openLibc();
  if (libc === undefined || fd < 0) return false;
  polled[0] = fd;
  polled[1] = readable;
  return libc.poll(ptr(polled), 1, 0) > 0;
}

/** @returns how many bytes were read; 0 where there is nothing to read */
function read(fd: number, bytes: number): number {
  libc ??= openLibc();
  if (libc === undefined || fd < 0) return 0;
  length[0] = bytes;
  return libc.getsockopt(fd, tcpLevel, tcpInfo, ptr(info), ptr(length)) === 0 ? length[0] : 0;
}

/**
 * The shortest time that anything sent over a connection took to be acknowledged.
 * @returns milliseconds; 0 where that is not known
 */
export function minRoundTripMs(fd: number): number {
  if (read(fd, info.byteLength) < (minRttPlace + 1) * 4) return 0;
  const microseconds = info[minRttPlace]!;
  return microseconds === unknownRtt ? 0 : microseconds / 1000;
}
