import { describe, expect, test } from "bun:test";
import { canShare, listenBeside, steerTo } from "../../../src/lib/linux/reuse-port.ts";

/** Servers on one port that answer with their names. */
class Group implements Disposable {
  readonly #servers: Bun.Server<undefined>[] = [];
  #port = 0;

  listen(name: string): void {
    const port = this.#port;
    const fetch = () => new Response(name);
    this.#servers.push(Bun.serve({ hostname: "127.0.0.1", port, reusePort: true, development: false, fetch }));
    this.#port = this.#servers[0]!.port!;
  }

  async stop(at: number): Promise<void> {
    await this.#servers[at]!.stop(true);
  }

  /** Who answers new connections, in order of their names. */
  async answering(): Promise<string[]> {
    const names = new Set<string>();
    for (let time = 0; time < 100; time += 1) {
      const answer = await fetch(`http://127.0.0.1:${this.#port}`, { keepalive: false });
      names.add(await answer.text());
    }
    return [...names].sort();
  }

  [Symbol.dispose](): void {
    for (const server of this.#servers) void server.stop(true);
  }
}

describe.skipIf(!canShare())("sockets on one port", () => {
  test("share the connections, until a newcomer gets them all", async () => {
    using group = new Group();
    group.listen("a");
    group.listen("b");
    expect(await group.answering()).toEqual(["a", "b"]);
    expect(listenBeside(() => group.listen("c"), 1)).toHaveLength(1);
    expect(await group.answering()).toEqual(["c"]);
    listenBeside(() => group.listen("d"), 1);
    expect(await group.answering()).toEqual(["d"]);
  });

  test("that stand again where another left are named by their place", async () => {
    using group = new Group();
    group.listen("a");
    listenBeside(() => group.listen("b"), 1);
    const sockets = listenBeside(() => group.listen("c"), 1);
    await group.stop(0);
    // The last took the first one's place.
    steerTo(sockets, 0);
    expect(await group.answering()).toEqual(["c"]);
  });

  test("in rounds of several processes: all newcomers of a round share", async () => {
    using group = new Group();
    for (const name of ["a1", "a2"]) group.listen(name);
    listenBeside(() => group.listen("b1"), 2);
    expect(await group.answering()).toEqual(["b1"]);
    listenBeside(() => group.listen("b2"), 2);
    expect(await group.answering()).toEqual(["b1", "b2"]);
    listenBeside(() => group.listen("c1"), 2);
    listenBeside(() => group.listen("c2"), 2);
    expect(await group.answering()).toEqual(["c1", "c2"]);
  });
});
