/** An upgrade without a gap: the program as it lies on the disk now is started beside this process. */
import { parentVariable } from "../config/settings.ts";
import type { Child, Io } from "../lib/io.ts";
import type { Logger } from "../lib/log.ts";

export type UpgradeOptions = {
  /** Whether one may be started now. */
  readonly mayStart: boolean;
  /** Whether this process ends anyway, so that a successor's end is none of its business. */
  isEnding(): boolean;
  /** It ended before it could take over. */
  lost(): void;
};

/** @returns undefined where none was started */
export function startNewProcess(
  processes: Io["processes"],
  log: Logger,
  { mayStart, isEnding, lost }: UpgradeOptions,
): Child | undefined {
  if (processes.id === 1) {
    log.error("the first process of a container can't be succeeded: its end is the container's");
    return undefined;
  }
  if (!mayStart) return undefined;
  // The service manager's watchdog names this process; the successor is watched without a name.
  const successor = processes.startAgain({ [parentVariable]: String(processes.id), WATCHDOG_PID: "" });
  log.info("a successor was started", { process: successor.id });
  void successor.ended.then((code) => {
    if (isEnding()) return;
    lost();
    log.error("the successor ended before it could take over; this process goes on", { code });
  });
  return successor;
}
