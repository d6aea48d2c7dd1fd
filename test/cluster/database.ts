/** The database of a cluster: the server that it is on just now, what stands in front of it, and the ways that lead there. */
import { PgBouncer } from "../helpers/pgbouncer.ts";
import { PostgresServer } from "../helpers/postgres.ts";
import { SwitchedProxy } from "../helpers/switched-proxy.ts";
import { SmallDisk } from "./small-disk.ts";

export type DatabaseOptions = {
  /** Whether another server has all that is confirmed, and can take over. */
  readonly hasStandby?: boolean;
  /** Whether PgBouncer stands in front of it, in transaction mode. */
  readonly hasPooler?: boolean;
  /** Whether it lives on a disk that can be filled, where this user can have one. */
  readonly isOnSmallDisk?: boolean;
  /** A file for what its servers log from their second start on. */
  readonly logFile?: string;
};

export class Database implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly #ways = new Set<SwitchedProxy>();
  readonly #name: string;
  readonly disk: SmallDisk | undefined;
  readonly #own: SwitchedProxy;
  #server: PostgresServer;
  #standby: PostgresServer | undefined;
  /** The way from the pooler to the server. */
  behindPooler: SwitchedProxy | undefined;
  pooler: PgBouncer | undefined;

  private constructor(server: PostgresServer, name: string, disk: SmallDisk | undefined) {
    this.#server = server;
    this.#name = name;
    this.disk = disk;
    this.#own = this.#wayTo(server.port);
  }

  /** On a server of its own. */
  static async start(options: DatabaseOptions = {}): Promise<Database> {
    const server = await PostgresServer.start();
    server.logFile = options.logFile;
    const disk = options.isOnSmallDisk ? SmallDisk.make(server) : undefined;
    const database = await Database.on(server, disk);
    database.#stack.defer(() => database.#server[Symbol.asyncDispose]());
    if (disk !== undefined) database.#stack.use(disk);
    if (options.hasStandby) await database.follow();
    if (options.hasPooler) {
      database.behindPooler = database.#wayTo(server.port);
      const pooler = await PgBouncer.start(server, { port: database.behindPooler.port, poolSize: 20 });
      database.pooler = database.#stack.use(pooler);
    }
    return database;
  }

  /** A new one on a server that others use too. */
  static async on(server: PostgresServer, disk?: SmallDisk): Promise<Database> {
    const url = await server.createDatabase(disk?.tablespace);
    return new Database(server, new URL(url).pathname.slice(1), disk);
  }

  get hasStandby(): boolean {
    return this.#standby !== undefined;
  }

  /** A way of a node's own. */
  way(): SwitchedProxy {
    return this.#wayTo(this.pooler?.port ?? this.#server.port);
  }

  /** Its address, by that way. Default: by one that no fault touches. */
  url(way = this.#own): string {
    return this.#server.url(this.#name, way.port);
  }

  /** Runs a statement beside all others. */
  ask<R>(text: string): Promise<R[]> {
    return this.#server.ask<R>(this.url(), text);
  }

  /** Resolves once nodes whose ways are well are answered. */
  async answers(): Promise<void> {
    for (let isAnswered = false; !isAnswered; ) {
      // A pooler waits for a silent connection for ever.
      using way = new SwitchedProxy(this.pooler?.port ?? this.#server.port);
      const asked = this.#server.ask(this.url(way), "select 1").then(
        () => true,
        () => false,
      );
      isAnswered = await Promise.race([asked, Bun.sleep(1_000).then(() => false)]);
    }
  }

  async restart(): Promise<void> {
    await this.#server.stop("SIGINT");
    await this.#server.run();
  }

  /** @returns how to start it again */
  async crash(): Promise<() => Promise<void>> {
    await this.#server.stop("SIGQUIT");
    return () => this.#server.run();
  }

  /** Nothing is confirmed without the standby. @returns how to start it again */
  async loseStandby(): Promise<() => Promise<void>> {
    const standby = this.#standby!;
    await standby.stop();
    return () => standby.run();
  }

  /**
   * The server is gone for good, and its standby takes its place. Afterwards there is none.
   * @param isSilent whether connections are not told, as where the machine is gone, or the network between
   */
  async failOver(isSilent: boolean): Promise<void> {
    const old = this.#server;
    const standby = this.#standby!;
    await this.#isCaughtUp();
    if (isSilent) for (const way of this.#ways) if (way !== this.#own) way.orphan();
    await old.stop();
    await standby.promote();
    this.#server = standby;
    this.#standby = undefined;
    for (const way of this.#ways) if (way.target === old.port) way.target = standby.port;
    await old[Symbol.asyncDispose]();
  }

  /**
   * Resolves once the standby has all that can be read. After a crash the server shows what it had committed without the standby's
   * word, which nobody was told: who reads that, before the standby follows again, reads what a fail-over would lose.
   */
  async #isCaughtUp(): Promise<void> {
    const [{ lsn }] = (await this.ask<{ lsn: string }>("select pg_current_wal_lsn()::text as lsn")) as [
      { lsn: string },
    ];
    const isThere = `select 1 from pg_stat_replication where sync_state = 'sync' and flush_lsn >= '${lsn}'`;
    while ((await this.ask(isThere)).length === 0) await Bun.sleep(10);
  }

  /** Gives it a standby anew. @param onWait see `PostgresServer` */
  async follow(onWait?: () => () => void): Promise<void> {
    this.#standby = await this.#server.startStandby(onWait);
    const standby = this.#standby;
    this.#stack.defer(() => standby[Symbol.asyncDispose]());
  }

  #wayTo(port: number): SwitchedProxy {
    const way = this.#stack.use(new SwitchedProxy(port));
    this.#ways.add(way);
    return way;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}
