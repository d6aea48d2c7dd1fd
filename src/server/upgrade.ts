/** Zero-downtime upgrade: starts the executable as it is on disk now beside this process, which then hands off its port. */
import { parentVariable } from "../config/settings.ts";
import type { Notifier } from "../lib/linux/sd-notify.ts";
import type { Child, Io } from "../lib/process/io.ts";
import type { Logger } from "../lib/process/log.ts";

type UpgradeOptions = {
  readonly processes: Io["processes"];
  readonly log: Logger;
  readonly notifier: Notifier;
  /** This process is stopping or has handed off, so that the new process' exit needs no log line. */
  readonly isStopping: () => boolean;
};

export class Upgrade {
  readonly #options: UpgradeOptions;
  #newProcess: Child | undefined;

  constructor(options: UpgradeOptions) {
    this.#options = options;
  }

  /** True from the start of the new process until it exits. */
  get isUnderWay(): boolean {
    return this.#newProcess !== undefined;
  }

  /** Starts the new process, unless there is one. @param mayStart false: nothing is started now */
  start(mayStart: boolean): void {
    const { processes, log, isStopping } = this.#options;
    if (this.#newProcess !== undefined) return;
    if (processes.id === 1) {
      log.error("no upgrade in place: when the first process of a container exits, the container stops");
      return;
    }
    if (!mayStart) return;
    // WATCHDOG_PID names this process; without it the new process sends keep-alive pings too.
    const newProcess = processes.startAgain({ [parentVariable]: String(processes.id), WATCHDOG_PID: "" });
    this.#newProcess = newProcess;
    log.info("upgrade: new process started", { process: newProcess.id });
    void newProcess.ended.then((code) => {
      if (isStopping()) return;
      this.#newProcess = undefined;
      log.error("upgrade: the new process exited before the handoff; this process goes on", { code });
    });
  }

  /** Reports the handoff to the service manager and in the log. @param pending requests under way, where they are known */
  handOff(pending?: number): void {
    const { notifier, log } = this.#options;
    if (this.#newProcess !== undefined) notifier.mainProcess(this.#newProcess.id);
    log.info("upgrade: handing off to the new process; requests under way may finish", {
      process: this.#newProcess?.id,
      ...(pending !== undefined && { pending }),
    });
  }
}
