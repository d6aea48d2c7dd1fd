/** A real PgBouncer in transaction mode, in front of a test's PostgreSQL server. */
import { writeFileSync } from "node:fs";
import { freePort } from "./free-port.ts";
import { asUser, type PostgresServer } from "./postgres.ts";

const program = Bun.which("pgbouncer", { PATH: `${process.env["PATH"]}:/usr/sbin` });

/** Whether tests can have one; without it they are skipped by name. */
export const hasPgBouncer = program !== null;

export class PgBouncer implements AsyncDisposable {
  readonly port = freePort();
  #child!: Bun.Subprocess<"ignore", "ignore", "pipe">;

  /** Resolves once it takes connections. */
  static async start(server: PostgresServer): Promise<PgBouncer> {
    const bouncer = new PgBouncer();
    const file = server.folder.file("pgbouncer.ini");
    writeFileSync(
      file,
      `[databases]
* = host=127.0.0.1 port=${server.port} user=troupe
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${bouncer.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
`,
    );
    server.own(file);
    const child = Bun.spawn([...asUser, program!, file], { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    bouncer.#child = child;
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
    return bouncer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }
}
