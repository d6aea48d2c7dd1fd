/** The Valkey or Redis server of a cluster, and each node's way there. */
import { RedisClient } from "bun";
import { RedisServer } from "../helpers/redis.ts";
import { SwitchedProxy } from "../helpers/switched-proxy.ts";

export class Coordination implements AsyncDisposable {
  readonly #server: RedisServer;
  readonly #ways: SwitchedProxy[] = [];

  private constructor(server: RedisServer) {
    this.#server = server;
  }

  static async start(): Promise<Coordination> {
    return new Coordination(await RedisServer.start());
  }

  /** A way of a node's own. */
  way(): SwitchedProxy {
    const way = new SwitchedProxy(this.#server.port);
    this.#ways.push(way);
    return way;
  }

  url(way: SwitchedProxy): string {
    return this.#server.url(0, way.port);
  }

  /** As a crash does; nothing is kept. @returns how to start it again */
  async crash(): Promise<() => Promise<void>> {
    await this.#server.stop();
    return () => this.#server.run();
  }

  /** @returns how to let it go on */
  pause(): () => void {
    this.#server.signal("SIGSTOP");
    return () => this.#server.signal("SIGCONT");
  }

  /** It forgets all that it was told, and goes on. */
  async forget(): Promise<void> {
    const client = new RedisClient(this.#server.url());
    await client.send("FLUSHALL", []);
    client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const way of this.#ways) way[Symbol.dispose]();
    await this.#server[Symbol.asyncDispose]();
  }
}
