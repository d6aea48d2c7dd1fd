/** A real PgBouncer in transaction mode, in front of a test's PostgreSQL server. */
import { writeFileSync } from "node:fs";
import { freePort } from "./free-port.ts";
import { asUser, type PostgresServer } from "./postgres.ts";

const program = Bun.which("pgbouncer", { PATH: `${process.env["PATH"]}:/usr/sbin` });

/** Whether tests can have one; without it they are skipped by name. */
export const hasPgBouncer = program !== null;

export class PgBouncer implements AsyncDisposable {
  readonly port = freePort();
  readonly #file: string;
  #child!: Bun.Subprocess<"ignore", "ignore", "pipe">;

  private constructor(file: string) {
    this.#file = file;
  }

  /**
   * Resolves once it takes connections.
   * @param options by which port it reaches the server, and with how many connections
   */
  static async start(
    server: PostgresServer,
    { port = server.port, poolSize = 3 }: { readonly port?: number; readonly poolSize?: number } = {},
  ): Promise<PgBouncer> {
    const file = server.folder.file("pgbouncer.ini");
    const bouncer = new PgBouncer(file);
    writeFileSync(
      file,
      `[databases]
* = host=127.0.0.1 port=${port} user=troupe
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${bouncer.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${poolSize}
server_login_retry = 1
`,
    );
    server.own(file);
    await bouncer.run();
    return bouncer;
  }

  /** Starts it, the first time or again. */
  async run(): Promise<void> {
    const child = Bun.spawn([...asUser, program!, this.#file], { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    this.#child = child;
    let log = "";
    const isReady = Promise.withResolvers<void>();
    void (async () => {
      for await (const part of child.stderr) {
        if (log.length < 100_000) log += new TextDecoder().decode(part);
        if (log.includes("process up")) isReady.resolve();
      }
      isReady.reject(new Error(`pgbouncer: ${log}`));
    })();
    await isReady.promise;
  }

  /** As a crash does. */
  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
