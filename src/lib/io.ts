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

/** A process that this one looks after, with a line between them. What is sent must be JSON. */
export type Worker = Child & {
  send(message: unknown): void;
  kill(): void;
};

/** The process that looks after this one. */
export type Parent = {
  send(message: unknown): void;
  onMessage(run: (message: unknown) => void): void;
  /** Calls back when it has ended, however. */
  onGone(run: () => void): void;
};

/** This process among others. */
export type Processes = {
  /** This one's own. */
  readonly id: number;
  /** What runs this program, without its arguments; the first is an absolute path. */
  readonly program: readonly string[];
  /** Runs this program once more, as it lies on the disk now, with the same arguments. @param env what differs */
  startAgain(env: Readonly<Record<string, string>>): Child;
  /** The same, and hears what it sends. */
  startWorker(env: Readonly<Record<string, string>>, hear: (message: unknown) => void): Worker;
  /** Absent: nobody looks after this one. */
  readonly parent?: Parent;
  signal(id: number, name: Signal): void;
};

/** What the machine allows. */
export type Machine = {
  /** How many threads can run at once. */
  readonly cores: number;
  /** Whether several processes can share a port evenly. */
  readonly sharesPorts: boolean;
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
  /** Asks the person at the terminal a question of yes and no; absent: nobody sits there. */
  confirm?(question: string): Promise<boolean>;
  /** @returns a function that stops listening */
  onSignal(signal: Signal, run: () => void): () => void;
  readonly processes: Processes;
  readonly machine: Machine;
};
