/** Commands run in this process, with files and variables that a test gives and everything they write caught. */
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { PassThrough } from "node:stream";
import { run } from "../../src/cli/program.ts";
import type { Io, Signal, Terminal } from "../../src/lib/process/io.ts";

export type Ran = { readonly code: number; readonly out: string; readonly err: string };

export class Console {
  readonly cwd: string;
  readonly env: Record<string, string>;
  readonly #isTerminal: boolean;
  out = "";
  err = "";
  /** What its standard input holds. */
  input = "";
  /** What whoever sits there answers, one after the other; absent: nobody does. */
  answers: boolean[] | undefined;
  /** Lines that someone types at the terminal; absent: there is none. */
  typed: string[] | undefined;
  /** The command line of this program. */
  program = ["/opt/troupe/bin/troupe"];
  /** The last question. */
  asked = "";
  readonly #signals = new Map<Signal, Set<() => void>>();
  #wake: () => void = () => {};

  /** @param cwd a folder that is really there @param isTerminal whether a person reads what is written */
  constructor(cwd: string, env: Record<string, string> = {}, isTerminal = false) {
    this.cwd = cwd;
    this.env = env;
    this.#isTerminal = isTerminal;
  }

  /** @param line words separated by spaces, or the words */
  async run(line: string | readonly string[]): Promise<Ran> {
    this.out = "";
    this.err = "";
    const code = await run(typeof line === "string" ? line.split(" ").filter((word) => word !== "") : line, this.io());
    return { code, out: this.out, err: this.err };
  }

  signal(name: Signal): void {
    for (const listener of this.#signals.get(name) ?? []) listener();
  }

  /** Resolves once somebody listens for the signal. */
  async listens(name: Signal): Promise<void> {
    while ((this.#signals.get(name)?.size ?? 0) === 0) {
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  /** Resolves with the match once it has been written to stderr. */
  async seen(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.err);
      if (match !== null) return match;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  /** Each line is typed once a question has been written; behind the last one the input ends. */
  #terminal(typed: readonly string[]): Terminal {
    const lines = [...typed];
    const input = new PassThrough();
    const output = Object.assign(new PassThrough(), { columns: 80, rows: 24 });
    output.on("data", (bytes: Buffer) => {
      this.out += bytes;
      const line = lines.shift();
      if (line === undefined) input.end();
      else input.write(`${line}\n`);
    });
    return { input, output };
  }

  io(): Io {
    const output = (write: (text: string) => void) => ({ write, flush: () => {}, isTerminal: this.#isTerminal });
    return {
      stdin: { isTerminal: this.#isTerminal, text: async () => this.input },
      stdout: output((text) => {
        this.out += text;
      }),
      stderr: output((text) => {
        this.err += text;
        this.#wake();
      }),
      env: this.env,
      cwd: this.cwd,
      readFile: (path) => {
        const file = resolve(this.cwd, path);
        return statSync(file, { throwIfNoEntry: false })?.isFile() ? readFileSync(file, "utf8") : undefined;
      },
      ...(this.answers && {
        confirm: async (question: string) => {
          this.asked = question;
          return this.answers!.shift()!;
        },
      }),
      ...(this.typed && { terminal: () => this.#terminal(this.typed!) }),
      isFolder: (path) => statSync(resolve(this.cwd, path), { throwIfNoEntry: false })?.isDirectory() ?? false,
      onSignal: (signal, listener) => {
        const listeners = this.#signals.get(signal) ?? new Set();
        this.#signals.set(signal, listeners.add(listener));
        this.#wake();
        return () => void listeners.delete(listener);
      },
      processes: {
        id: 4711,
        program: this.program,
        startAgain: () => ({ id: 4712, ended: new Promise(() => {}) }),
        startWorker: () => {
          throw new Error("a test's console starts no workers");
        },
        signal: () => {},
      },
      machine: { cores: 2, sharesPorts: true },
    };
  }
}
