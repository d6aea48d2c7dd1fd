/** A real PostgreSQL server in a temporary folder, from Debian's package or one found in the PATH. */
import { appendFileSync, chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { SQL } from "bun";
import { freePort } from "./free-port.ts";
import { TempFolder } from "./temp-folder.ts";

const versions = "/usr/lib/postgresql";
const folders = [
  ...(process.env["TROUPE_TEST_POSTGRES"] ?? "").split(":").filter((folder) => folder !== ""),
  ...(existsSync(versions) ? readdirSync(versions).map((version) => join(versions, version, "bin")) : []),
  ...(process.env["PATH"] ?? "").split(":"),
];
const programs = folders.find((folder) => ["initdb", "postgres"].every((name) => existsSync(join(folder, name))));

/** The server refuses to run as root; Debian's package comes with a user. */
const isRoot = process.getuid?.() === 0;
const passwd = isRoot ? await Bun.file("/etc/passwd").text() : "";
const [, uid, gid] = /^postgres:[^:]*:(\d+):(\d+):/m.exec(passwd) ?? /^nobody:[^:]*:(\d+):(\d+):/m.exec(passwd) ?? [];
export const asUser = isRoot ? ["setpriv", "--reuid", uid!, "--regid", gid!, "--clear-groups"] : [];

/** Whether tests can have a server; without one they are skipped by name. */
export const hasPostgres = programs !== undefined && (!isRoot || Bun.which("setpriv") !== null);

/** A new cluster of these programs, as nobody has used it. */
function keptCluster(): string {
  const { size, mtimeMs } = statSync(join(programs!, "postgres"));
  const name = Bun.hash(`${programs} ${size} ${mtimeMs} ${uid}`).toString(36);
  return resolve(import.meta.dir, "../../node_modules/.cache/troupe-test-postgres", name);
}

/** With its owners and permissions. */
function copyTree(from: string, to: string): void {
  const { success, stderr } = Bun.spawnSync(["cp", "-a", from, to], { stdout: "ignore", stderr: "pipe" });
  if (!success) throw new Error(`${stderr}`);
}

export class PostgresServer implements AsyncDisposable {
  readonly folder = new TempFolder();
  readonly port = freePort();
  #child!: Bun.Subprocess<"ignore", "ignore", "pipe">;
  #databases = 0;
  #settings: Readonly<Record<string, string>> = {};
  /** A file to which all that it logs from its next start on is added. */
  logFile: string | undefined;

  /** Resolves once it takes connections. @param settings of its configuration, beside those of all tests */
  static async start(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
    const server = new PostgresServer();
    server.#settings = settings;
    server.own(server.folder.path);
    await server.#begin();
    await server.run();
    return server;
  }

  /**
   * A standby that has all that this server has. From now on nothing is confirmed here that is not there too.
   * @param onWait called when commits begin to wait for it; what it returns, when they go on
   */
  async startStandby(onWait: () => () => void = () => () => {}): Promise<PostgresServer> {
    const standby = new PostgresServer();
    standby.own(standby.folder.path);
    const from = ["-d", this.url("postgres"), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"];
    await standby.#make("pg_basebackup", from);
    await standby.run();
    const goesOn = onWait();
    await this.ask("postgres", "alter system set synchronous_standby_names = '*'");
    await this.ask("postgres", "select pg_reload_conf()");
    const isFollowed = "select 1 from pg_stat_replication where sync_state = 'sync' and state = 'streaming'";
    while ((await this.ask("postgres", isFollowed)).length === 0) await Bun.sleep(10);
    goesOn();
    return standby;
  }

  /** Makes this standby a primary. Resolves once it takes writes. */
  async promote(): Promise<void> {
    await this.ask("postgres", "select pg_promote(true, 60)");
  }

  /** To make a cluster takes a second of a core, and to copy one a tenth of that. */
  async #begin(): Promise<void> {
    const kept = keptCluster();
    if (existsSync(kept)) return copyTree(kept, this.folder.file("data"));
    await this.#make("initdb", ["-U", "troupe", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]);
    mkdirSync(dirname(kept), { recursive: true });
    copyTree(this.folder.file("data"), `${kept}-${process.pid}`);
    try {
      renameSync(`${kept}-${process.pid}`, kept);
    } catch {
      // Another process was first.
      rmSync(`${kept}-${process.pid}`, { recursive: true });
    }
  }

  async #make(program: string, flags: readonly string[]): Promise<void> {
    const command = [...asUser, join(programs!, program), "-D", this.folder.file("data"), ...flags];
    const child = Bun.spawn(command, { cwd: "/", stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    const told = await new Response(child.stderr).text();
    if ((await child.exited) !== 0) throw new Error(`${program}: ${told}`);
  }

  /** Of its first process; the others are its children. */
  get pid(): number {
    return this.#child.pid;
  }

  /** Gives a file to the user that the server runs as. */
  own(path: string): void {
    if (isRoot) chownSync(path, Number(uid), Number(gid));
  }

  /** Starts it, the first time or again. */
  async run(): Promise<void> {
    const settings = {
      listen_addresses: "127.0.0.1",
      port: this.port,
      unix_socket_directories: "",
      fsync: "off",
      // Compiling a question costs more than to answer it where tables are as small as those of tests.
      jit: "off",
      max_connections: 200,
      // A standby comes back as soon as it can.
      wal_retrieve_retry_interval: "100ms",
      ...this.#settings,
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const child = Bun.spawn([...asUser, join(programs!, "postgres"), "-D", this.folder.file("data"), ...flags], {
      cwd: "/",
      env: { PATH: process.env["PATH"] ?? "", TZ: "UTC" },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    this.#child = child;
    let log = "";
    const isReady = Promise.withResolvers<void>();
    void (async () => {
      for await (const part of child.stderr) {
        if (log.length < 100_000) log += new TextDecoder().decode(part);
        if (this.logFile !== undefined) appendFileSync(this.logFile, part);
        if (/ready to accept (read-only )?connections/.test(log)) isReady.resolve();
      }
      isReady.reject(new Error(`postgres: ${log}`));
    })();
    await isReady.promise;
  }

  /** A new and empty one. @param folder where it lives, if not with the others */
  async createDatabase(folder?: string): Promise<string> {
    this.#databases += 1;
    const name = `test_${this.#databases}`;
    if (folder !== undefined) await this.ask("postgres", `create tablespace in_${name} location '${folder}'`);
    await this.ask("postgres", `create database ${name} ${folder === undefined ? "" : `tablespace in_${name}`}`);
    return this.url(name);
  }

  /** One that has all that the other has, which nobody may use meanwhile: quicker than to make it again. */
  async copyDatabase(url: string): Promise<string> {
    this.#databases += 1;
    const name = `test_${this.#databases}`;
    await this.ask("postgres", `create database ${name} template ${new URL(url).pathname.slice(1)}`);
    return this.url(name);
  }

  url(database: string, port = this.port): string {
    return `postgres://troupe:secret@127.0.0.1:${port}/${database}`;
  }

  /** Runs statements on a connection of their own. @param target a database's name, or its address */
  async ask<R = Record<string, unknown>>(target: string, text: string, parameters: unknown[] = []): Promise<R[]> {
    await using sql = new SQL(target.includes(":") ? target : this.url(target), { max: 1, connectionTimeout: 3 });
    return [...(await sql.unsafe<R[]>(text, parameters))];
  }

  /** SIGQUIT ends it at once, as a crash would; SIGINT tidies up first. */
  async stop(signal: "SIGQUIT" | "SIGINT" = "SIGQUIT"): Promise<void> {
    this.#child.kill(signal);
    await this.#child.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.folder[Symbol.dispose]();
  }
}
