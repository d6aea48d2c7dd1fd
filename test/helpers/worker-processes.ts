/** Troupe as several processes, whose log says which of them answered. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { KeySpec } from "../../src/auth/key-spec.ts";
import { Keys } from "../../src/auth/keys.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { testExecutable } from "./executable.ts";

const executable = await testExecutable();

type Line = { readonly message: string; readonly worker?: number; readonly [field: string]: unknown };
export type Answered = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly id: string;
};

const allListen = ({ message, worker }: Line) => message === "listening" && worker === undefined;

export class WorkerProcesses implements AsyncDisposable {
  readonly data: string;
  readonly lines: Line[] = [];
  /** Resolves when no process holds the log any more. */
  readonly allEnded: Promise<void>;
  readonly #child: Bun.Subprocess<"ignore", "ignore", "pipe">;
  #waiting: (() => void)[] = [];
  #rest = "";

  private constructor(data: string, child: Bun.Subprocess<"ignore", "ignore", "pipe">) {
    this.data = data;
    this.#child = child;
    this.allEnded = this.#read();
  }

  /** @param upstream the address that `openai/…` stands for */
  static run(data: string, options: { upstream?: string; args?: readonly string[] } = {}): WorkerProcesses {
    const { upstream = "http://127.0.0.1:1", args = ["--port", "0", "--workers", "2"] } = options;
    const child = Bun.spawn([executable, "serve", "--data", data, ...args], {
      cwd: data,
      env: {
        PATH: process.env["PATH"] ?? "",
        TROUPE_LOG_LEVEL: "debug",
        OPENAI_API_KEY: "key",
        OPENAI_BASE_URL: upstream,
      },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    return new WorkerProcesses(data, child);
  }

  /** Resolves once all workers listen. */
  static async start(data: string, upstream?: string): Promise<WorkerProcesses> {
    const workerChannel = WorkerProcesses.run(data, upstream === undefined ? {} : { upstream });
    await workerChannel.ready;
    return workerChannel;
  }

  /** Resolves once all workers listen. */
  get ready(): Promise<unknown> {
    return this.line(allListen);
  }

  get id(): number {
    return this.#child.pid;
  }

  get url(): string {
    return String(this.lines.find(allListen)!["addresses"]);
  }

  get firstKey(): string {
    return readFileSync(join(this.data, "first-key"), "utf8").trim();
  }

  get exited(): Promise<number> {
    return this.#child.exited;
  }

  /** The first that fits, of those from `from` on, once it has been written. @throws when it never will be */
  async line(fits: (line: Line) => boolean, from = 0): Promise<Line> {
    for (;;) {
      const found = this.lines.slice(from).find(fits);
      if (found !== undefined) return found;
      const isOver = await Promise.race([
        new Promise<boolean>((resolve) => {
          this.#waiting.push(() => resolve(false));
        }),
        this.allEnded.then(() => true),
      ]);
      if (isOver && !this.lines.slice(from).some(fits)) throw new Error(`never logged: ${JSON.stringify(this.lines)}`);
    }
  }

  /** Which worker gave that answer. */
  async workerOf({ id }: Pick<Answered, "id">): Promise<number> {
    return (await this.line((line) => line["request_id"] === id)).worker!;
  }

  /** The workers' process ids. */
  get workers(): number[] {
    return readFileSync(`/proc/${this.id}/task/${this.id}/children`, "utf8").trim().split(" ").map(Number);
  }

  signal(name: NodeJS.Signals, id = this.id): void {
    process.kill(id, name);
  }

  /** Every call comes on a connection of its own, so that the kernel chooses a worker anew. */
  async call(
    path: string,
    body?: unknown,
    options: { key?: string; headers?: Record<string, string> } = {},
  ): Promise<Answered> {
    const response = await this.open(path, body, options);
    return answeredBy(response, await response.text());
  }

  open(
    path: string,
    body?: unknown,
    options: { key?: string; headers?: Record<string, string> } = {},
  ): Promise<Response> {
    const { key = this.firstKey, headers = {} } = options;
    return fetch(this.url + path, {
      keepalive: false,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
    });
  }

  /** Works with the keys beside the running processes. */
  async withKeys<T>(work: (keys: Keys) => Promise<T>): Promise<T> {
    const store = openStore(this.data);
    try {
      return await work(new Keys(store.keys, systemClock, { free: 10, pro: 100 }));
    } finally {
      await store.close();
    }
  }

  async createKey(spec: Partial<KeySpec> = {}): Promise<string> {
    const made = { name: "t", tier: "enterprise", perMinute: 100_000, ...spec } as const;
    return (await this.withKeys((keys) => keys.create(made))).secret;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.allEnded;
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const part of this.#child.stderr) {
      const lines = (this.#rest + decoder.decode(part, { stream: true })).split("\n");
      this.#rest = lines.pop()!;
      this.lines.push(...lines.map((line) => JSON.parse(line) as Line));
      for (const wake of this.#waiting.splice(0)) wake();
    }
  }
}

export function answeredBy(response: Response, text: string): Answered {
  return { status: response.status, headers: response.headers, text, id: response.headers.get("x-request-id")! };
}
