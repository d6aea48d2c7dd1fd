/** Checks the machine: open files, memory, clock, user. */
import { readFileSync } from "node:fs";
import { freemem } from "node:os";
import { buildInfo } from "../../build-info.ts";
import { type Check, failure, ok, warning } from "./check.ts";

const mebibyte = 1024 ** 2;
const lowFiles = 4096;
const lowMemory = 256 * mebibyte;

export function examineMachine(): Check[] {
  return [
    ok("executable", `troupe ${buildInfo.version} (${buildInfo.commit}), ${buildInfo.runtime}`),
    files(),
    memory(),
    time(),
    user(),
  ];
}

function files(): Check {
  const limit = openFileLimit();
  if (limit === undefined) return ok("open files", "no limit is known here");
  if (limit >= lowFiles) return ok("open files", `up to ${limit}`);
  const advice = "Raise it: LimitNOFILE=65536 in the unit, or 'ulimit -n 65536' before the start.";
  return warning("open files", `at most ${limit}, and each connection is one`, advice);
}

/** The soft limit. Source: proc(5), /proc/pid/limits */
function openFileLimit(): number | undefined {
  try {
    const limit = Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1]);
    return Number.isNaN(limit) ? undefined : limit;
  } catch {
    return undefined;
  }
}

function memory(): Check {
  const free = Math.min(freemem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const found = `${Math.round(free / mebibyte)} MiB free`;
  const advice = "An idle server takes about 60 MiB, and each open stream about 26 KiB. See docs/tuning.md.";
  return free >= lowMemory ? ok("memory", found) : warning("memory", found, advice);
}

function time(): Check {
  const built = Date.parse(buildInfo.builtAt);
  const now = new Date();
  if (!(now.getTime() < built)) return ok("clock", now.toISOString());
  return failure(
    "clock",
    `${now.toISOString()} is before this program was built`,
    "Set it (timedatectl set-ntp true).",
  );
}

function user(): Check {
  if (process.getuid?.() !== 0) return ok("user", "not root");
  return warning("user", "root", "Nothing here needs root to serve: run it as a user of its own. See docs/systemd.md.");
}
