/** Official clients of other languages that read one answer at a time, installed at the versions of `versions.json`. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { installed, pythonWith, runProgram } from "../../helpers/installed-folder.ts";
import { isLongForm } from "../../helpers/long-form.ts";
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

const { npm: packages, python: wheels, go: modules } = versions.sdks;
const source = (name: string) => join(import.meta.dir, name);
/** JavaScript's users have Node; the suite's short form stays within this project's own runtime. */
const runtime = isLongForm ? (Bun.which("node") ?? process.execPath) : process.execPath;

type Program = { readonly command: readonly string[]; readonly env?: Readonly<Record<string, string>> };
/** The readers of each language (`npm`: clients that are no dependencies here), or why there are none. */
export const programs: Readonly<Record<"javascript" | "npm" | "python" | "go" | "java" | "spring", Program | string>> =
  {
    javascript: { command: [runtime, source("readers.mjs")] },
    npm: npmProgram() ?? lackOf("npm"),
    python: pythonProgram() ?? lackOf("python3"),
    go: goProgram() ?? lackOf("go"),
    java: javaProgram("Readers", versions.sdks.java) ?? lackOf("mvn"),
    spring: javaProgram("Spring", versions.sdks.spring) ?? lackOf("mvn"),
  };
export type Language = keyof typeof programs;

function lackOf(installer: string): string {
  if (!isLongForm) return "the long form asks them";
  return Bun.which(installer) === null
    ? `there is no ${installer}`
    : `${installer} could not install them within five minutes`;
}

function npmProgram(): Program | undefined {
  const folder = installed(`sdks-npm-${hashOf(packages)}`, (cwd) => {
    writeFileSync(join(cwd, "package.json"), "{}");
    return runProgram(["npm", "install", "--ignore-scripts", ...packages], { cwd });
  });
  return folder === undefined ? undefined : { command: [runtime, source("readers.mjs")], env: { TROUPE_SDKS: folder } };
}

function pythonProgram(): Program | undefined {
  const python = pythonWith("sdks", wheels);
  return python === undefined ? undefined : { command: [python, source("readers.py")] };
}

function goProgram(): Program | undefined {
  // The program is made anew where it, too, is another one.
  const text = readFileSync(source("readers.go"), "utf8");
  const folder = installed(`sdks-go-${hashOf([...modules, text])}`, (cwd) => {
    writeFileSync(join(cwd, "main.go"), text);
    if (runProgram(["go", "mod", "init", "program"], { cwd }) === undefined) return undefined;
    if (runProgram(["go", "get", ...modules], { cwd }) === undefined) return undefined;
    // Plain code, without what a debugger needs: the clients' packages are large, and this is half the work.
    const plain = ["-gcflags=all=-N -l", "-ldflags=-s -w"];
    return runProgram(["go", "build", ...plain, "-mod=mod", "-o", "program", "."], { cwd });
  });
  return folder === undefined ? undefined : { command: [join(folder, "program")] };
}

/** @param main its class @param artifacts as `group:name:version` */
function javaProgram(main: string, artifacts: readonly string[]): Program | undefined {
  const files = ["Loop.java", `${main}.java`];
  const texts = files.map((file) => readFileSync(source(join("java", file)), "utf8"));
  const folder = installed(`sdks-java-${hashOf([...artifacts, ...texts])}`, (cwd) => {
    for (const [at, file] of files.entries()) writeFileSync(join(cwd, file), texts[at]!);
    const dependencies = artifacts.map((artifact) => {
      const [group, name, version] = artifact.split(":");
      return `<dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version></dependency>`;
    });
    const own = "<modelVersion>4.0.0</modelVersion><groupId>readers</groupId><artifactId>readers</artifactId>";
    const all = `<dependencies>${dependencies.join("")}</dependencies>`;
    writeFileSync(join(cwd, "pom.xml"), `<project>${own}<version>1</version>${all}</project>`);
    const copied = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libraries"];
    if (runProgram(copied, { cwd }) === undefined) return undefined;
    return runProgram(["javac", "-nowarn", "-cp", "libraries/*", "-d", "classes", ...files], { cwd });
  });
  if (folder === undefined) return undefined;
  return { command: ["java", "-cp", ["classes", "libraries/*"].map((part) => join(folder, part)).join(":"), main] };
}

function hashOf(texts: readonly string[]): string {
  return Bun.hash(JSON.stringify(texts)).toString(36);
}

/** A running program of readers. */
export class Reader implements Disposable {
  readonly #process: Subprocess<"pipe", "pipe", "inherit">;
  readonly #lines: AsyncIterator<string>;

  constructor({ command, env }: Program, server: { readonly url: string; readonly key: string }) {
    this.#process = Bun.spawn([...command], {
      env: { ...process.env, ...env, TROUPE_URL: server.url, TROUPE_KEY: server.key },
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
