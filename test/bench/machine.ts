/** What a number must be read with: the machine, and how the processes were spread over it. */
import { readFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { pinning } from "./processes.ts";

export type Machine = Readonly<Record<"cpu" | "memory" | "kernel" | "bun" | "cores" | "load", string>>;

export function describeMachine(): Machine {
  const all = cpus();
  return {
    cpu: `${all[0]?.model ?? "unknown"}, ${all.length} cores`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    kernel: `Linux ${release()}`,
    bun: Bun.version,
    cores:
      pinning === undefined
        ? "nothing pinned: no taskset, or one core"
        : `server on core ${pinning.server}, load on core ${pinning.load}, mock on core ${pinning.mock}`,
    load: `${readFileSync("/proc/loadavg", "utf8").split(" ").slice(0, 3).join(" ")} at the start`,
  };
}
