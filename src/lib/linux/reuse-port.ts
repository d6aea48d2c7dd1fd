/**
 * Several sockets on one port (SO_REUSEPORT), and which of them get new connections. In an upgrade the new server listens beside
 * the old one and gets all new connections, while the old one drains: none is refused or reset.
 *
 * The kernel spreads connections over all that listen (SO_REUSEPORT), unless a filter names one of them.
 * Linux only. Source: socket(7), SO_ATTACH_REUSEPORT_CBPF
 */
import { readdirSync, readFileSync } from "node:fs";
import { type Libc, openLibc, ptr } from "./libc.ts";

const socketLevel = 1;
const acceptsConnections = 30;
const attachReuseportFilter = 51;
const listening = "0A";

/** True if ports can be shared, and new connections steered, on this platform. */
export function canShare(): boolean {
  return openLibc() !== undefined;
}

/** Sockets that listen, as file descriptors. */
export type Sockets = readonly number[];

/**
 * Calls `listen`, which must use SO_REUSEPORT, and steers all new connections of its port to the new sockets.
 * @param processes how many processes serve together: so many of the group's last sockets are new
 */
export function listenBeside(listen: () => void, processes: number): Sockets {
  const libc = openLibc();
  const before = new Set(libc === undefined ? [] : listeningSockets(libc));
  listen();
  if (libc === undefined) return [];
  const sockets = listeningSockets(libc).filter((fd) => !before.has(fd));
  // New sockets join at the end of the group.
  for (const fd of sockets) {
    const size = groupSize(libc, fd);
    const first = size - 1 - ((size - 1) % processes);
    steer(libc, fd, first, size - first);
  }
  return sockets;
}

/**
 * Gives all new connections to one socket of a group again, after another one left it.
 * @param place among the group: when one leaves, the last takes its place
 */
export function steerTo(sockets: Sockets, place: number): void {
  const libc = openLibc();
  if (libc !== undefined) for (const fd of sockets) steer(libc, fd, place, 1);
}

/** This process' TCP sockets that listen. */
export function listeningSockets(libc: Libc): number[] {
  const fds = readdirSync("/proc/self/fd").map(Number);
  return fds.filter((fd) => socketOption(libc, fd, acceptsConnections) === 1 && addressOf(libc, fd) !== undefined);
}

function socketOption(libc: Libc, fd: number, name: number): number | undefined {
  const value = new Int32Array(1);
  const length = new Uint32Array([4]);
  return libc.getsockopt(fd, socketLevel, name, ptr(value), ptr(length)) === 0 ? value[0] : undefined;
}

/** Classic BPF. Source: linux/bpf_common.h and linux/filter.h */
const instructions = { loadWord: 0x20, modulo: 0x94, add: 0x04, returnResult: 0x16 };
/** The offset at which a load finds a random number instead of the packet. */
const randomNumber = 0xfffff000 + 56;

/** Lets chance choose among those at the places from `first` on. */
function steer(libc: Libc, fd: number, first: number, count: number): void {
  const code = [
    [instructions.loadWord, randomNumber],
    [instructions.modulo, count],
    [instructions.add, first],
    [instructions.returnResult, 0],
  ] as const;
  const filter = Buffer.alloc(8 * code.length);
  for (const [at, [operation, operand]] of code.entries()) {
    filter.writeUInt16LE(operation, 8 * at);
    filter.writeUInt32LE(operand, 8 * at + 4);
  }
  const program = Buffer.alloc(16);
  program.writeUInt16LE(code.length, 0);
  program.writeBigUInt64LE(BigInt(ptr(filter)), 8);
  libc.setsockopt(fd, socketLevel, attachReuseportFilter, ptr(program), program.length);
}

/** Number of sockets of all processes that listen at the same address. */
function groupSize(libc: Libc, fd: number): number {
  const address = addressOf(libc, fd)!;
  const table = readFileSync(`/proc/self/net/${address.length > 13 ? "tcp6" : "tcp"}`, "utf8");
  return table.split("\n").filter((line) => {
    const [, local, , state] = line.trim().split(/\s+/);
    return local === address && state === listening;
  }).length;
}

const internet = 2;
const internet6 = 10;

/** The address as the kernel's tables write it: 32-bit words in the machine's order, and the port. Source: proc(5), /proc/net/tcp */
function addressOf(libc: Libc, fd: number): string | undefined {
  const bytes = Buffer.alloc(128);
  const length = new Uint32Array([bytes.length]);
  if (libc.getsockname(fd, ptr(bytes), ptr(length)) !== 0) return undefined;
  const family = bytes.readUInt16LE(0);
  if (family !== internet && family !== internet6) return undefined;
  const words = family === internet ? [4] : [8, 12, 16, 20];
  const hex = (value: number, digits: number) => value.toString(16).toUpperCase().padStart(digits, "0");
  return `${words.map((at) => hex(bytes.readUInt32LE(at), 8)).join("")}:${hex(bytes.readUInt16BE(2), 4)}`;
}
