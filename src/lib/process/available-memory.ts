import { totalmem } from "node:os";

/** @returns bytes: what a container's limit allows, or else the machine's */
export function availableMemory(): number {
  const constrained = process.constrainedMemory();
  const total = totalmem();
  return constrained > 0 ? Math.min(constrained, total) : total;
}
