/** The process's environment as commands use it; tests substitute their own. */

export type Output = {
  write(text: string): unknown;
  /** Resolves once everything written has left the process. */
  flush(): unknown;
  readonly isTerminal: boolean;
};

export type Signal = "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR1" | "SIGUSR2";

/** A child process. */
export type Child = {
  readonly id: number;
  /** Resolves with its exit code. */
  readonly ended: Promise<number>;
};

/** A child process with an IPC channel, whose messages are JSON. */
export type Worker = Child & {
  send(message: unknown): void;
  kill(): void;
};

/** The IPC channel to the process that started this one. */
export type Parent = {
  send(message: unknown): void;
  onMessage(run: (message: unknown) => void): void;
  /** Called when the channel closes, because the parent exited. */
  onDisconnect(run: () => void): void;
};

/** This process, and how to start others. */
export type Processes = {
  /** The process id. */
  readonly id: number;
  /** The command line of this program without its arguments; the first part is an absolute path. */
  readonly program: readonly string[];
  /** Starts this program as it is on disk now, with the same arguments. @param env variables that differ */
  startAgain(env: Readonly<Record<string, string>>): Child;
  startWorker(env: Readonly<Record<string, string>>, onMessage: (message: unknown) => void): Worker;
  /** Absent: started without an IPC channel. */
  readonly parent?: Parent;
  signal(id: number, name: Signal): void;
};

/** The machine's means. */
export type Machine = {
  /** Number of threads that can run at once. */
  readonly cores: number;
  /** True if several processes can share a port evenly. */
  readonly sharesPorts: boolean;
};

/** The standard input. */
export type Input = {
  readonly isTerminal: boolean;
  /** All of it. */
  text(): Promise<string>;
};

/** Where a person sits. */
export type Terminal = {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream & { readonly columns: number; readonly rows: number };
};

export type Io = {
  readonly stdin: Input;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute; relative paths given to the functions here are from it. */
  readonly cwd: string;
  /** @returns undefined when there is no such file. @throws when there is one that can't be read */
  readFile(path: string): string | undefined;
  isFolder(path: string): boolean;
  /** Opens the terminal; absent where the output is none. */
  terminal?(): Terminal;
  /** Asks the person at the terminal a question of yes and no; absent where there is no terminal. */
  confirm?(question: string): Promise<boolean>;
  /** @returns a function that stops listening */
  onSignal(signal: Signal, run: () => void): () => void;
  readonly processes: Processes;
  readonly machine: Machine;
};
