/** Troupe as a process of its own, so that a test can kill it. */
import { appendFileSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { testExecutable } from "./executable.ts";

/** The program's source. */
const main = resolve(import.meta.dir, "../../src/main.ts");

export type ProcessOptions = {
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the first key of the data folder. */
  readonly key?: string;
  /** Default: a free one. */
  readonly port?: number;
  /** Default: what this source builds. */
  readonly executable?: string;
  /** Modules that run before the source. */
  readonly preload?: readonly string[];
  /** A file to which all that it logs is added. */
  readonly logFile?: string;
};

export class TroupeProcess implements AsyncDisposable {
  /** Without a trailing slash. */
  readonly url: string;
  /** The first key of the data folder. */
  readonly key: string;
  readonly #child: Bun.Subprocess<"ignore", "ignore", "pipe">;

  private constructor(url: string, key: string, child: Bun.Subprocess<"ignore", "ignore", "pipe">) {
    this.url = url;
    this.key = key;
    this.#child = child;
  }

  /** Resolves once it listens. @param upstream the address that `openai/…` stands for */
  static async start(data: string, upstream: string, options: ProcessOptions = {}): Promise<TroupeProcess> {
    const before = (options.preload ?? []).flatMap((module) => ["--preload", module]);
    const program =
      before.length > 0 ? [process.execPath, ...before, main] : [options.executable ?? (await testExecutable())];
    const child = Bun.spawn([...program, "serve", "--port", String(options.port ?? 0), "--data", data], {
      cwd: data,
      env: { PATH: process.env["PATH"] ?? "", OPENAI_API_KEY: "key", OPENAI_BASE_URL: upstream, ...options.env },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    let log = "";
    const listening = Promise.withResolvers<string>();
    void (async () => {
      for await (const part of child.stderr) {
        if (log.length < 100_000) log += new TextDecoder().decode(part);
        if (options.logFile !== undefined) appendFileSync(options.logFile, part);
        const url = /"addresses":"(http:[^" ]+)/.exec(log)?.[1];
        if (url !== undefined) listening.resolve(url);
      }
      listening.reject(new Error(`it did not start: ${log}`));
    })();
    const url = await listening.promise;
    return new TroupeProcess(url, options.key ?? readFileSync(join(data, "first-key"), "utf8").trim(), child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** `kill -9`, and what the operating system does about it. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Resolves with its exit code. */
  get ended(): Promise<number> {
    return this.#child.exited;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
