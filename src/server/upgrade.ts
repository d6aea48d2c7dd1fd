/** Zero-downtime upgrade: starts the executable as it is on disk now beside this process, which then hands off its port. */
import { parentVariable } from "../config/settings.ts";
import type { Child, Io } from "../lib/io.ts";
import type { Logger } from "../lib/log.ts";

type UpgradeOptions = {
  /** Whether an upgrade may begin now. */
  readonly mayStart: boolean;
  /** Whether this process is stopping or has handed off, so that the new process' exit needs no log line. */
  isStopping(): boolean;
  /** Called when the new process exited before the handoff. */
  onExit(): void;
};

/** @returns undefined where no process was started */
export function startNewProcess(
  processes: Io["processes"],
  log: Logger,
  { mayStart, isStopping, onExit }: UpgradeOptions,
): Child | undefined {
  if (processes.id === 1) {
    log.error("no upgrade in place: when the first process of a container exits, the container stops");
    return undefined;
  }
  if (!mayStart) return undefined;
  // WATCHDOG_PID names this process; without it the new process sends keep-alive pings too.
  const newProcess = processes.startAgain({ [parentVariable]: String(processes.id), WATCHDOG_PID: "" });
  log.info("upgrade: new process started", { process: newProcess.id });
  void newProcess.ended.then((code) => {
    if (isStopping()) return;
    onExit();
    log.error("upgrade: the new process exited before the handoff; this process goes on", { code });
  });
  return newProcess;
}
