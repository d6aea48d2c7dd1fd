/** The process as a command sees it: the only door to the outside, so that a test can stand in for it. */

export type Output = {
  write(text: string): unknown;
  /** Awaited, everything written has left the process. */
  flush(): unknown;
  readonly isTerminal: boolean;
};

export type Signal = "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR1" | "SIGUSR2";

/** Another process. */
export type Child = {
  readonly id: number;
  /** Resolves with its exit code. */
  readonly ended: Promise<number>;
};

/** This process among others. */
export type Processes = {
  /** This one's own. */
  readonly id: number;
  /** Runs this program once more, as it lies on the disk now, with the same arguments. @param env what differs */
  startAgain(env: Readonly<Record<string, string>>): Child;
  signal(id: number, name: Signal): void;
};

export type Io = {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute; relative paths given to the functions here are from it. */
  readonly cwd: string;
  /** @returns undefined when there is no such file. @throws when there is one that can't be read */
  readFile(path: string): string | undefined;
  isFolder(path: string): boolean;
  /** @returns a function that stops listening */
  onSignal(signal: Signal, run: () => void): () => void;
  readonly processes: Processes;
};
