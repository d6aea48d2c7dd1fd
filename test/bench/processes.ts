/** The processes of a run: each pinned to its core, none outliving it. */
import type { Subprocess } from "bun";

export type Role = "server" | "load" | "mock";

const cores = navigator.hardwareConcurrency;
const canPin = cores > 1 && Bun.which("taskset") !== null;
/** The server has a core for itself; load and mock share the next one, or have one each where there are three. */
export const pinning: Readonly<Record<Role, number>> | undefined = canPin
  ? { server: 0, load: 1, mock: cores > 2 ? 2 : 1 }
  : undefined;

/** More than Bun's default of concurrent fetches, which counts open streams too. */
const uncapped = { BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" };

export type Launch = {
  readonly role: Role;
  readonly command: readonly string[];
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  /** One of our own scripts: it reads its end from its input, and may have any number of fetches. */
  readonly own?: boolean;
  readonly stdin?: string;
};

export class Processes implements AsyncDisposable {
  readonly #running = new Set<Subprocess>();
  readonly #killAll = () => {
    for (const child of this.#running) child.kill("SIGKILL");
  };

  constructor() {
    process.on("exit", this.#killAll);
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
  }

  start(launch: Launch): Subprocess<"pipe", "pipe", "pipe"> {
    const prefix = pinning === undefined ? [] : ["taskset", "-c", String(pinning[launch.role])];
    const child = Bun.spawn([...prefix, ...launch.command], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
      env: { ...process.env, ...(launch.own === true ? uncapped : {}), ...launch.env },
      ...(launch.cwd === undefined ? {} : { cwd: launch.cwd }),
    });
    this.#running.add(child);
    void child.exited.then(() => this.#running.delete(child));
    return child;
  }

  /** Asks it to end, insists after five seconds. */
  async stop(child: Subprocess): Promise<void> {
    child.kill("SIGTERM");
    const insist = setTimeout(() => child.kill("SIGKILL"), 5_000);
    await child.exited;
    clearTimeout(insist);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#running].map((child) => this.stop(child)));
    process.off("exit", this.#killAll);
  }
}

/** Ends this process when whoever started it is gone. */
export function endWithInput(): void {
  process.stdin.on("end", () => process.exit(0)).resume();
}
