/**
 * C library calls that Bun does not offer. Linux only; absent elsewhere and where no C library is found: callers do without.
 */
import { dlopen, ptr } from "bun:ffi";

const signatures = {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
  flock: { args: ["i32", "i32"], returns: "i32" },
  close: { args: ["i32"], returns: "i32" },
  getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  getpeername: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  inet_ntop: { args: ["i32", "ptr", "ptr", "u32"], returns: "ptr" },
  shutdown: { args: ["i32", "i32"], returns: "i32" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  isatty: { args: ["i32"], returns: "i32" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
} as const;

export type Libc = ReturnType<typeof dlopen<typeof signatures>>["symbols"];

const muslCpu = { x64: "x86_64", arm64: "aarch64" }[process.arch as string];
/** glibc's name, then musl's. */
const names = ["libc.so.6", `libc.musl-${muslCpu}.so.1`];

let opened: { readonly libc: Libc | undefined } | undefined;

/** Looked for once. */
export function openLibc(): Libc | undefined {
  opened ??= { libc: process.platform === "linux" ? firstOf(names) : undefined };
  return opened.libc;
}

function firstOf(candidates: readonly string[]): Libc | undefined {
  for (const name of candidates) {
    try {
      return dlopen(name, signatures).symbols;
    } catch {
      // The next one, then.
    }
  }
  return undefined;
}

export { ptr };
