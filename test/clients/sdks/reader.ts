/** Official clients of other languages that read one answer at a time, installed at the versions of `versions.json`. */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { installed, pythonWith, runProgram } from "../../helpers/installed-folder.ts";
import versions from "../versions.json" with { type: "json" };

export type Question = {
  readonly client: string;
  readonly model: string;
  readonly stream: boolean;
  /** The server's root, where it is another one. */
  readonly url?: string;
  /** It sends its answer back, with results of its calls, and tells of the second one. */
  readonly again?: boolean;
};
/** What a client made of an answer: arguments as it has them, the type of the last block; or its error. */
export type Answer = {
  readonly text: string;
  readonly calls: readonly (readonly [name: string, args: string])[];
  readonly end: string | null;
  readonly tier?: string | null;
  readonly last?: string;
  readonly error?: string;
};

const { python: packages, go: modules } = versions.sdks;

/** The command of each language's readers; undefined where its clients can't be installed here. */
export const commands = {
  python: pythonCommand(),
  go: goCommand(),
};
export type Language = keyof typeof commands;

function pythonCommand(): string[] | undefined {
  const python = pythonWith("sdks", packages);
  return python === undefined ? undefined : [python, join(import.meta.dir, "readers.py")];
}

function goCommand(): string[] | undefined {
  const source = join(import.meta.dir, "readers.go");
  // The program is made anew where it, too, is another one.
  const text = Bun.spawnSync(["cat", source]).stdout.toString();
  const folder = installed(`sdks-go-${Bun.hash(JSON.stringify(modules) + text).toString(36)}`, (cwd) => {
    copyFileSync(source, join(cwd, "main.go"));
    if (runProgram(["go", "mod", "init", "program"], { cwd }) === undefined) return undefined;
    if (runProgram(["go", "get", ...modules], { cwd }) === undefined) return undefined;
    return runProgram(["go", "build", "-mod=mod", "-o", "program", "."], { cwd });
  });
  return folder === undefined ? undefined : [join(folder, "program")];
}

/** A running program of readers. */
export class Reader implements Disposable {
  readonly #process: Subprocess<"pipe", "pipe", "inherit">;
  readonly #lines: AsyncIterator<string>;

  constructor(language: Language, server: { readonly url: string; readonly key: string }) {
    this.#process = Bun.spawn(commands[language]!, {
      env: { ...process.env, TROUPE_URL: server.url, TROUPE_KEY: server.key },
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    });
    this.#lines = linesOf(this.#process.stdout);
  }

  async ask(question: Question): Promise<Answer> {
    this.#process.stdin.write(`${JSON.stringify(question)}\n`);
    this.#process.stdin.flush();
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`the program ended at ${JSON.stringify(question)}`);
    return JSON.parse(value) as Answer;
  }

  [Symbol.dispose](): void {
    this.#process.kill();
  }
}

async function* linesOf(bytes: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of bytes) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}
