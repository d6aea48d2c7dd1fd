/** A real Valkey or Redis server in a temporary folder, from Debian's package or one found in the PATH. */
import { RedisClient } from "bun";
import { freePort } from "./free-port.ts";
import { TempFolder } from "./temp-folder.ts";

const program = Bun.which("valkey-server") ?? Bun.which("redis-server");

/** Whether tests can have a server; without one they are skipped by name. */
export const hasRedis = program !== null;

export class RedisServer implements AsyncDisposable {
  readonly folder = new TempFolder();
  readonly port = freePort();
  #child!: Bun.Subprocess<"ignore", "pipe", "ignore">;

  #settings: readonly string[] = [];

  /** Resolves once it takes connections. @param settings flags of its command, beside those of all tests */
  static async start(settings: readonly string[] = []): Promise<RedisServer> {
    const server = new RedisServer();
    server.#settings = settings;
    await server.run();
    return server;
  }

  /** Starts it, the first time or again; nothing is kept on disk. */
  async run(): Promise<void> {
    const child = Bun.spawn(
      [
        program!,
        "--port",
        String(this.port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        ...this.#settings,
      ],
      {
        cwd: this.folder.path,
        env: { PATH: process.env["PATH"] ?? "" },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "ignore",
      },
    );
    this.#child = child;
    const isReady = Promise.withResolvers<void>();
    void (async () => {
      let log = "";
      for await (const part of child.stdout) {
        if (log.length < 100_000) log += new TextDecoder().decode(part);
        if (/ready to accept connections/i.test(log)) isReady.resolve();
      }
      isReady.reject(new Error(`redis: ${log}`));
    })();
    await isReady.promise;
  }

  url(database = 0, port = this.port): string {
    return `redis://127.0.0.1:${port}/${database}`;
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Sends a command on a connection of its own. */
  async ask(command: string, ...args: string[]): Promise<unknown> {
    const client = new RedisClient(this.url());
    try {
      return await client.send(command, args);
    } finally {
      client.close();
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** As a crash does. */
  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.folder[Symbol.dispose]();
  }
}
