/** One connection to a real server: its deadline, what is said of one that can't be had, and a server that is no primary any more. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { RedisConnection } from "../../../src/store/redis/connection.ts";
import { answerIn } from "../../../src/store/redis/refusal.ts";
import { openRedisWindows } from "../../../src/store/redis/windows.ts";
import { freePort } from "../../helpers/free-port.ts";
import { hasRedis, RedisServer } from "../../helpers/redis.ts";
import { untilAnswered } from "../../helpers/stored-windows.ts";
import { SwitchedProxy } from "../../helpers/switched-proxy.ts";

/** Sends one command on a connection of its own. */
async function ask(url: string, command = "PING", ...args: string[]): Promise<unknown> {
  const connection = new RedisConnection(url, 20_000, systemClock);
  try {
    return await connection.run(command, args);
  } finally {
    await connection.close();
  }
}

describe.skipIf(!hasRedis)("a connection to Redis", () => {
  test("takes the answer that came while the process stood still, and gives up a server that does", async () => {
    await using server = await RedisServer.start();
    const connection = new RedisConnection(server.url(), 200, systemClock);
    let pong = await connection.run("PING", []).catch(() => undefined);
    while (pong !== "PONG") pong = await connection.run("PING", []).catch(() => undefined);
    for (let at = 0; at < 5; at += 1) {
      const asked = connection.run("PING", []);
      Bun.sleepSync(300);
      expect(await asked).toBe("PONG");
    }
    server.signal("SIGSTOP");
    await expect(connection.run("PING", [])).rejects.toMatchObject({ kind: "away" });
    server.signal("SIGCONT");
    await connection.close();
  });

  describe("that can't be had, or has not every right", () => {
    let server: RedisServer;
    const password = "p@ss/w:rd#é %?&+";
    const encoded = encodeURIComponent(password);
    beforeAll(async () => {
      server = await RedisServer.start();
      await server.ask("ACL", "SETUSER", "node", "on", `>${password}`, "~troupe:*", "+@all", "-info");
    });
    afterAll(() => server[Symbol.asyncDispose]());
    const url = (credentials: string, database = "") => `redis://${credentials}127.0.0.1:${server.port}${database}`;

    test("works with a password of any characters", async () => {
      expect(await ask(url(`node:${encoded}@`, "/1"))).toBe("PONG");
    });

    test("says what is wrong, without the password", async () => {
      await using other = Bun.listen({
        hostname: "127.0.0.1",
        port: 0,
        socket: { data: (socket) => void socket.end("HTTP/1.1 400 Bad Request\r\n\r\n") },
      }) as Bun.TCPSocketListener & AsyncDisposable;
      const cases: [url: string, command: string[], told: string][] = [
        [url("node:secret@"), ["PING"], "can't be reached (user or password are refused; check 'coordination')"],
        [url(`node:${encoded}@`, "/99"), ["PING"], "DB index is out of range"],
        [url(`node:${encoded}@`), ["INFO"], "failed (NOPERM): its user lacks a right"],
        [url(`node:${encoded}@`), ["SET", "another", "1"], "failed (NOPERM): its user lacks a right"],
        [`redis://127.0.0.1:${freePort()}`, ["PING"], "can't be reached (nothing listens on that port)"],
        ["redis://no-such-host.invalid", ["PING"], "can't be reached (there is no host of that name now)"],
        [`redis://127.0.0.1:${other.port}`, ["PING"], "can't be reached (what answers there is no Valkey or Redis)"],
      ];
      for (const [address, command, told] of cases) {
        const error = (await ask(address, command[0], ...command.slice(1)).catch((one: Error) => one)) as Error;
        expect(error.message).toStartWith("The coordination ");
        expect(error.message).toContain(told);
        expect(error.message).not.toMatch(/secret|p@ss|p%40ss/);
      }
    });

    test("needs no more rights than docs/postgres.md lists", async () => {
      const [line] = /ACL SETUSER troupe .*/.exec(await Bun.file("docs/postgres.md").text())!;
      await server.ask(
        "ACL",
        ...line
          .split(" ")
          .slice(1)
          .map((word) => word.replace(">…", ">secret").replaceAll("'", "")),
      );
      await server.ask("ACL", "LOG", "RESET");
      const own = url("troupe:secret@");
      const windows = openRedisWindows(own, systemClock);
      // Each may be sent twice.
      try {
        const id = systemClock.newId();
        expect(await untilAnswered(() => windows.hit("k", 9, id))).toMatchObject({ allowed: true, used: 1 });
        await untilAnswered(() => windows.add("k", [[id, 5]]));
      } finally {
        await windows.close();
      }
      expect(await server.ask("ACL", "LOG")).toEqual([]);
    });
  });

  test("leaves a server that was made a replica for the one that the address leads to now", async () => {
    await using old = await RedisServer.start();
    await using next = await RedisServer.start();
    using proxy = new SwitchedProxy(old.port);
    const connection = new RedisConnection(old.url(0, proxy.port), 20_000, systemClock);
    expect(await connection.run("SET", ["troupe:a", "1"])).toBe("OK");
    await old.ask("REPLICAOF", "127.0.0.1", String(next.port));
    const isReplica = { kind: "readonly", message: expect.stringContaining("(READONLY): it is a replica") };
    await expect(connection.run("SET", ["troupe:a", "2"])).rejects.toMatchObject(isReplica);
    proxy.target = next.port;
    expect(await connection.run("SET", ["troupe:a", "3"])).toBe("OK");
    expect(await next.ask("GET", "troupe:a")).toBe("3");
    await connection.close();
  });

  test("says of a server in cluster mode that it is one", async () => {
    // Its own choice of a second port, 10,000 above the first, is among those that connections take.
    const busPort = String(freePort());
    await using server = await RedisServer.start(["--cluster-enabled", "yes", "--cluster-port", busPort]);
    const inCluster = { kind: "unusable", message: expect.stringContaining("it is in cluster mode") };
    await expect(ask(server.url(), "SET", "troupe:a", "1")).rejects.toMatchObject(inCluster);
    await expect(ask(server.url(1), "GET", "troupe:a")).rejects.toThrow("it is in cluster mode");
  });
});

test("a greeting is read as it comes", () => {
  expect(answerIn("%1\r\n+server\r\n+valkey", false)).toBeUndefined();
  expect(answerIn("%1\r\n+server\r\n+valkey\r\n", false)).toEqual({ refusal: undefined });
  expect(answerIn("%1\r\n+server\r\n+valkey\r\n", true)).toBeUndefined();
  expect(answerIn("%1\r\n+server\r\n+valkey\r\n+OK\r\n", true)).toEqual({ refusal: undefined });
  expect(answerIn("-NOAUTH HELLO must", false)).toBeUndefined();
  expect(answerIn("-NOAUTH HELLO must be called\r\n", false)?.refusal).toStartWith("it asks for a password");
  expect(answerIn("-DENIED Redis is running in protected mode\r\n", false)?.refusal).toContain("protected mode");
  expect(answerIn("-ERR of another kind\r\n", false)).toEqual({ refusal: "it said ERR of another kind" });
});
